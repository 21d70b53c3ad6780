"""What quotes a forgotten text, and what is left without it."""

import itertools
import json
from pathlib import Path

import msgspec
import pytest

from shared import settings
from shared.bus.client import Origin, find_origin, is_handled
from shared.contracts import Email, Task, decode
from shared.operations.erasure.redaction import (
    find_quoting_files,
    kind_of,
    overwrite_quotations,
    quotes,
    redact,
)
from shared.text.quotations import Quotations, find_common, find_short

TITLE = "The vault code of the Lisbon office is KESTREL-7741 and only Ines knows it"
BODY = """# Vault

- Ines keeps the spare key behind the blue café painting
- The alarm rings at Sentinela Norte
- Done"""
KNOWN = Quotations([TITLE, BODY])
ORIGIN = Origin(seq=7, time="2026-01-02T14:30:22.5Z")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"So: {TITLE}.", "So: [forgotten]."),
        (f"So: {TITLE.upper()}!", "So: [forgotten]!"),
        ("> **The vault code**\n> of the `Lisbon` office is …", "> **[forgotten] …"),
        ("Ines keeps the spare key behind the b…", "[forgotten] b…"),
        ("- *key* behind the blue cafe\u0301 painting", "- *key* behind the blue cafe\u0301 painting"),
        ("keeps the spare key behind the blue cafe\u0301 painting", "[forgotten]"),
        (json.dumps("Ines keeps the spare\nkey behind the blue café painting"), '"[forgotten]"'),
        (json.dumps(json.dumps("Ines keeps\tthe spare key behind the blue café")), '"\\"[forgotten]\\""'),
        ("The alarm rings at Sentinela Norte, doesn't it", "[forgotten], doesn't it"),
        ("Try kestrel-7741 once more", "Try [forgotten] once more"),
        ("Is it done? Yes, Done.", "Is it done? Yes, Done."),
        ("The code of the Lisbon office is not known", "The code of the Lisbon office is not known"),
        ("Ines knows the vault", "Ines knows the vault"),
    ],
)
def test_words_are_found_whatever_stands_between_them(text: str, left: str) -> None:
    assert KNOWN.are_in(text) is (text != left)
    assert KNOWN.may_be_in(text.encode()) or text == left
    assert (KNOWN.redact(text) if KNOWN.are_in(text) else text) == left


@pytest.mark.parametrize(
    ("secret", "text", "left"),
    [
        ("金庫の暗証番号はイネスだけ", "答えは金庫の暗証番号はイネスだけ。", "答えは[forgotten]。"),
        ("Код хранилища знает Инесса", "Так: КОД хранилища знает инесса", "Так: [forgotten]"),
        ("Die Tür öffnet Überall Jo", r'Die T\u00fcr \u00f6ffnet \u00fcberall Jo"', '[forgotten]"'),
        ("Call Ana: ana@example.org", "Write to ANA@example.org today", "Write to [forgotten] today"),
    ],
)
def test_other_scripts_and_codes(secret: str, text: str, left: str) -> None:
    known = Quotations([secret])
    assert known.may_be_in(text.encode())
    assert known.redact(text) == left


@pytest.mark.parametrize(
    "common",
    [
        "goal_20261128_035621_665434_3d5caa0e",
        "2026-11-28T03:56",
        "v1.2.3-beta12",
        "127.0.0.1:4222",
        "01a2204b-d643-7c25-a84a-be54282e12c1",
        "srv-01.example.org",
        "/srv/app2024/main99.py",
        "report-2026.md",
        "1024kb",
    ],
)
def test_what_many_messages_share_is_no_code(common: str) -> None:
    known = Quotations([f"See {common} about it"])
    assert not known.are_in(f"Done: {common}")


def test_short_texts_are_named_and_not_looked_for() -> None:
    known = Quotations(["yes", "Done", "We deploy"])
    assert not known
    assert not known.may_be_in(b"yes, Done, We deploy")
    assert find_short(["yes", "Done", TITLE, "see AB12-CD34"]) == ["yes", "Done"]


def test_a_long_text_is_found_by_any_seven_words_of_it() -> None:
    words = ["".join(letters) for letters in itertools.product("abcdefgh", repeat=3)]
    known = Quotations([" ".join(words)])
    assert known.redact(" ".join(("before", *words[300:309], "after"))) == "before [forgotten] after"
    assert not known.are_in(" ".join(words[300:306]))
    assert not known.may_be_in(b"nothing of it")


def test_a_message_keeps_what_is_no_quotation_and_says_what_it_replaces() -> None:
    email = Email(sender="scout", recipient="critic", subject="Answer", body=f"They say: {TITLE}. We wait.")
    left = redact(email.to_json(), KNOWN, ORIGIN)
    assert quotes(email.to_json(), KNOWN)
    assert not quotes(left, KNOWN)
    again = decode(left)
    assert isinstance(again, Email)
    assert (again.id, again.body) == (email.id, "They say: [forgotten]. We wait.")
    assert find_origin(left) == ORIGIN
    assert kind_of(left) == ("email.v1", email.id)


def test_a_message_that_would_not_be_valid_any_more_keeps_its_form_alone() -> None:
    known = Quotations(["task-number-0012-of-the-vault"])
    fields = {"requester": "conductor", "assignee": "scout", "text": "Go on, do it"}
    task = Task(task_id="task-number-0012-of-the-vault", **fields)
    left = json.loads(redact(task.to_json(), known, ORIGIN))
    assert left["task_id"] == "task-number-0012-of-the-vault"  # an id stays, or nothing fits any more
    assert left["text"] == "[forgotten]"


RAW = (f"raw: {TITLE}".encode(), f"\xff {TITLE}".encode("latin-1"), msgspec.json.encode([TITLE]))


@pytest.mark.parametrize("data", RAW)
def test_what_is_no_envelope_is_redacted_too(data: bytes) -> None:
    left = redact(data, KNOWN, ORIGIN)
    assert b"KESTREL" not in left
    assert b"[forgotten]" in left
    assert find_origin(left) is None


def test_only_a_whole_header_has_a_message_passed_over() -> None:
    assert is_handled({"Mailroom-Replaces": "7 handled"})
    assert not is_handled({"Mailroom-Replaces": "7 waiting"})
    assert not is_handled({})


def test_files_are_overwritten_in_place_and_others_named(tmp_path: Path) -> None:
    config = settings.load({"MAILROOM_STATE_DIR": str(tmp_path)})
    report, log = config.outputs / "a" / "report.md", config.logs / "nexus.log"
    work, people = config.workspaces / "g" / "note.md", config.gateway / "users.toml"
    packed, key = config.outputs / "packed.bin", config.keys / "user.nk"
    for path in (report, log, work, people, packed, key):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"é {TITLE}\nThe rest stays\n")
    packed.write_bytes(packed.read_bytes() + b"\0")
    size, inode = log.stat().st_size, log.stat().st_ino
    assert set(find_quoting_files(config, KNOWN)) == {report, log, work, people, packed}
    assert overwrite_quotations(config, KNOWN) == [log, report]
    assert (log.stat().st_size, log.stat().st_ino) == (size, inode)
    assert report.read_text() == f"é {'[forgotten]'.ljust(len(TITLE))}\nThe rest stays\n"
    assert set(find_quoting_files(config, KNOWN)) == {work, people, packed}


def test_what_many_others_have_too_is_left() -> None:
    begins = "This is what the office of the harbour wrote down in its report"
    text = f"{begins}: the cook hides the saffron in the tin of nails every night"
    others = [f"{begins}: number {number} is of no interest" for number in range(12)]
    common = find_common([text], others)
    known = Quotations([text], common)
    assert common
    assert not known.are_in(others[0])
    assert known.are_in("the cook hides the saffron in the tin")
    assert known.redact(f"So: {text}.") == "So: [forgotten]."
    assert find_common([text], others[:9]) == []


def test_what_is_cut_off_of_a_quotation_goes_too_if_it_is_long_enough() -> None:
    known = Quotations(["The harbour master keeps the spare key of the boathouse below the third bollard"])
    message = (
        "Harbour master keeps the spare key of the (cut) boathouse below the third. Below, the third is cold."
    )
    assert known.redact(message) == "[forgotten] (cut) [forgotten]. Below, the third is cold."
