"""Deliveries: settings of channels, when what is told, mails and what replies mean."""

from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from services.gateway.delivery.replies import parse_decision, parse_reminder
from services.gateway.delivery.sender import (
    CROWD,
    LONGEST_PAUSE,
    TURNS,
    choose,
    end_of_quiet,
    first_attempt,
    pause_after,
)
from shared import settings
from shared.contracts import Delivery, DeliveryKind, DeliveryStatus, Urgency
from shared.delivery.channels import Deliver, Mail, Message, Telegram, describe, parse_span, read_deliver
from shared.delivery.outlets import parse_update, refusal
from shared.delivery.smtp import compose, parse_reply, strip_quoted
from shared.errors import ConfigError

NIGHT = parse_span("22:00-07:00")
ZURICH = ZoneInfo("Europe/Zurich")
NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
MAIL = Mail(
    smtp="smtp://mail.example.org", sender="office@example.org", to="ada@example.org", imap="imaps://a@b"
)
TOKEN, CODE = "0123456789abcdef", "K7Q2MX"


def read(folder: Path, toml: str, **environ: str) -> Deliver:
    (folder / "mailroom.toml").write_text(toml)
    return read_deliver(settings.load({"MAILROOM_STATE_DIR": str(folder), **environ}))


class TestSettings:
    def test_secrets_are_in_files_or_the_environment(self, tmp_path: Path) -> None:
        secret = tmp_path / "secret"
        secret.write_text("0123456789abcdef\n")
        secret.chmod(0o600)
        toml = (
            f'[deliver]\nquiet_hours = "22:00-07:00"\nurgency = {{ goal_done = "high" }}\n'
            f'[deliver.phone]\ntype = "ntfy"\nurl = "https://ntfy.sh/topic"\ntoken_file = "{secret}"\n'
            '[deliver.telegram]\nchat = 7\nkinds = ["approval"]\nquiet_hours = ""\n'
        )
        found = read(tmp_path, toml, MAILROOM_DELIVER_TELEGRAM_TOKEN="12345:abcdef")
        phone, telegram = found.channels["phone"], found.channels["telegram"]
        assert (phone.token, telegram.token) == ("0123456789abcdef", "12345:abcdef")  # type: ignore[union-attr]
        assert found.urgency_of(DeliveryKind.GOAL_DONE) is Urgency.HIGH
        assert found.is_told(phone, DeliveryKind.GOAL_DONE)
        assert not found.is_told(phone, DeliveryKind.BRIEFING)  # low, and a telephone has normal
        assert not found.is_told(telegram, DeliveryKind.REMINDER)
        assert (found.quiet_span(phone), found.quiet_span(telegram)) == (NIGHT, None)
        assert "topic" not in describe(phone)
        loaded = settings.load({"MAILROOM_STATE_DIR": str(tmp_path), "MAILROOM_DELIVER_X_TOKEN": "hush"})
        assert "hush" not in repr(loaded)

    def test_no_process_but_the_gateway_gets_them(self) -> None:
        given = {"MAILROOM_DELIVER_MAIL_PASSWORD": "hush", "PATH": "/bin"}
        assert settings.without_secrets(given) == {"PATH": "/bin"}

    @pytest.mark.parametrize(
        ("toml", "reason"),
        [
            ('[deliver.ntfy]\nurl = "https://ntfy.sh/t"\ntoken = "tk_1"', "holds a secret: token"),
            ('[deliver.ntfy]\nurl = "https://ntfy.sh/t"\ntoken_file = "{}"', "can be read by others"),
            ('[deliver.ntfy]\nurl = "https://ntfy.sh/t"\ntoken_file = "/no/such"', "cannot be read: No such"),
            ('[deliver.ntfy]\nurl = "https://ntfy.sh/"', "no address of a topic"),
            ('[deliver.ntfy]\nurl = "https://ntfy.sh/t"\ntopic = "t"', "unknown field `topic`"),
            ("[deliver.pigeon]", "has the type 'pigeon'. Write one of mail, ntfy"),
            ("[deliver.telegram]\nchat = 7", "token is missing"),
            ('[deliver.webhook]\nurl = "http://a/b"', "secret is missing"),
            ('[deliver.mail]\nsmtp = "smtp://a"\nsender = "a@b"\nto = "x\\ny@z"', "is no mail address"),
            ('[deliver.mail]\nsmtp = "http://a"\nsender = "a@b"\nto = "y@z"', "smtp is no address"),
            ('[deliver]\nquiet_hours = "22-7"', "no hours such as"),
            ("[deliver]\nquiet = true", "unknown field `quiet`"),
            ("deliver_secrets = { a = 'b' }", "are not read from here"),
            ("deliver = 3", "deliver is (hidden)"),
        ],
    )
    def test_what_is_wrong_is_named(self, tmp_path: Path, toml: str, reason: str) -> None:
        public = tmp_path / "public"
        public.write_text("x")
        public.chmod(0o644)
        with pytest.raises(ConfigError) as caught:
            read(tmp_path, toml.replace("{}", str(public)))
        assert reason in str(caught.value)


class TestTiming:
    @pytest.mark.parametrize(
        ("clock", "until"),
        [
            ("2026-11-23T21:59", None),
            ("2026-11-23T22:00", "2026-11-24T07:00"),
            ("2026-11-24T06:59", "2026-11-24T07:00"),
            ("2026-11-24T07:00", None),
            ("2026-03-28T23:00", "2026-03-29T07:00"),  # summer time begins in that night
        ],
    )
    def test_quiet_hours_over_night_in_the_time_of_the_office(self, clock: str, until: str | None) -> None:
        now = datetime.fromisoformat(clock).replace(tzinfo=ZURICH)
        end = end_of_quiet(now.astimezone(UTC), NIGHT, ZURICH)
        assert end == (datetime.fromisoformat(until).replace(tzinfo=ZURICH) if until else None)

    def test_what_is_high_goes_through(self) -> None:
        night = datetime(2026, 11, 23, 2, 0, tzinfo=UTC)
        assert first_attempt(Urgency.HIGH, night, NIGHT, UTC) is None
        assert first_attempt(Urgency.NORMAL, night, NIGHT, UTC) == night.replace(hour=7)
        assert first_attempt(Urgency.LOW, night, None, UTC) is None

    def test_what_waited_is_told_together_but_what_one_answers_alone(self) -> None:
        later = told(4, due_at="2099-01-01T00:00:00")
        waited = [told(1), told(2), told(3, kind=DeliveryKind.APPROVAL), later]
        assert ids(choose(waited, NOW, bundles=True)) == [1, 2]
        assert ids(choose(waited[2:], NOW, bundles=True)) == [3]
        assert ids(choose(waited[:2], NOW, bundles=False)) == [1]
        assert choose(waited[3:], NOW, bundles=True) == []
        fresh = [told(number, age=1) for number in range(CROWD + 1)]
        assert len(choose(fresh, NOW, bundles=True)) == CROWD + 1
        assert len(choose(fresh[1:], NOW, bundles=True)) == 1

    def test_a_message_that_was_attempted_stays_the_same(self) -> None:
        again = [told(1, bundle="b", attempts=1), told(2, bundle="b", attempts=1), told(3), told(4)]
        assert ids(choose(again, NOW, bundles=True)) == [1, 2]
        assert ids(choose([told(1, attempts=1), told(2), told(3)], NOW, bundles=True)) == [1]
        sending = told(1, status=DeliveryStatus.SENDING, due_at="2099-01-01T00:00:00")
        assert ids(choose([sending], NOW, bundles=True)) == [1]

    def test_a_message_that_is_refused_again_and_again_lets_others_pass(self) -> None:
        waiting = [told(1, attempts=TURNS - 1), told(2)]
        assert ids(choose(waiting, NOW, bundles=True)) == [1]
        waiting = [told(1, attempts=TURNS), told(2)]
        assert ids(choose(waiting, NOW, bundles=True)) == [2]
        waiting = [told(1, attempts=TURNS), told(2, attempts=TURNS)]
        assert ids(choose(waiting, NOW, bundles=True)) == [1]

    @limits(deadline=None, max_examples=60)
    @given(st.integers(1, 10_000))
    def test_pauses_grow_and_stay_below_a_quarter_of_an_hour(self, attempts: int) -> None:
        assert timedelta(seconds=1) < pause_after(attempts) <= 1.2 * LONGEST_PAUSE


def told(number: int, *, age: int = 100, **fields: Any) -> Delivery:
    first = NOW - timedelta(seconds=age) + timedelta(milliseconds=number)
    return Delivery(
        delivery_id=f"d{number}",
        channel="phone",
        title="t",
        first_at=first.isoformat(),
        **{"kind": DeliveryKind.GOAL_DONE, **fields},
    )


def ids(deliveries: list[Delivery]) -> list[int]:
    return [int(each.delivery_id[1:]) for each in deliveries]


class TestMail:
    @limits(deadline=None, max_examples=60)
    @given(st.text(max_size=300))
    def test_no_title_begins_a_header(self, title: str) -> None:
        mail = compose(MAIL, message(title=title, text=title))
        head = bytes(mail).split(b"\r\n\r\n")[0].split(b"\r\n")
        begun = [line for line in head if line.lower().startswith((b"bcc:", b"x-"))]
        assert begun == [b"X-Auto-Response-Suppress: All"]
        assert mail["To"] == "ada@example.org"
        assert mail["Auto-Submitted"] == "auto-generated"

    def test_an_attempt_has_the_id_of_the_one_before(self) -> None:
        assert compose(MAIL, message())["Message-ID"] == compose(MAIL, message(again=True))["Message-ID"]
        thread = f"<{'x' * 200}@mail.example.org>"
        assert f"In-Reply-To: {thread}".encode() in bytes(compose(MAIL, message(thread=thread)))

    def test_a_reply_brings_back_the_id(self) -> None:
        reply = parse_reply(bytes(answer(f"approve {CODE}")), MAIL)
        assert (reply.delivery_id, reply.token, reply.ignored) == ("d1", TOKEN, "")
        assert reply.text == f"approve {CODE}"

    @pytest.mark.parametrize(
        ("headers", "reason"),
        [
            ({"From": "eve@example.org"}, "not among those allowed"),
            ({"From": "ada@example.org, eve@example.org"}, "not among those allowed"),
            ({"From": "ada@example.org <eve@example.org>"}, "not among those allowed"),
            ({"In-Reply-To": "<other@example.org>"}, "answers no mail of ours"),
            ({"Auto-Submitted": "auto-replied"}, "a program sent it"),
            ({"Precedence": "bulk"}, "mailing list"),
            ({"List-Id": "<a.example.org>"}, "mailing list"),
            ({"Return-Path": "<>"}, "notice of a mail server"),
        ],
    )
    def test_what_may_not_count_is_ignored(self, headers: dict[str, str], reason: str) -> None:
        assert reason in parse_reply(bytes(answer("approve", **headers)), MAIL).ignored

    @limits(deadline=None, max_examples=60)
    @given(st.binary(max_size=400))
    def test_whatever_comes_can_be_read(self, raw: bytes) -> None:
        for mail in (raw, b"From: ada@example.org\r\nContent-Type: text/html; charset=x\r\n\r\n" + raw):
            assert parse_reply(mail, MAIL).ignored

    def test_quoted_text_is_no_answer(self) -> None:
        quoted = f"why?\r\n\r\nOn Monday, Mailroom wrote:\r\n> approve {CODE}"
        assert strip_quoted(quoted) == "why?"
        assert strip_quoted("yes\n--\nAda") == "yes"
        assert strip_quoted(f"> approve {CODE}") == ""


def message(**fields: Any) -> Message:
    given: dict[str, Any] = {"id": "d1", "title": "engineer asks", "token": TOKEN, "code": CODE, **fields}
    return Message(kind=DeliveryKind.APPROVAL, urgency=Urgency.HIGH, acts=("approve", "refuse"), **given)


def answer(text: str, **headers: str) -> EmailMessage:
    mail = EmailMessage()
    given = {"From": "Ada <ADA@example.org>", "Message-ID": "<1@x>"}
    given["In-Reply-To"] = str(compose(MAIL, message())["Message-ID"])
    for name, value in (given | headers).items():
        mail[name] = value
    mail.set_content(text)
    return mail


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("approve K7Q2MX", ("approve", "K7Q2MX", "")),
        ("Approve: k7q2mx", ("approve", "k7q2mx", "")),
        ("refuse K7Q2MX it is too late\nBye", ("refuse", "K7Q2MX", "it is too late")),
        ("no thanks", ("refuse", "", "")),  # six letters may be a code; it is then a wrong one
        ("yes", ("approve", "", "")),
        ("why do you approve K7Q2MX?", ("", "", "")),
        ("", ("", "", "")),
        ("Approve K7Q2MX.", ("approve", "K7Q2MX", "")),
        ("ok k7q2mx", ("approve", "k7q2mx", "")),
        ("okay, go ahead", ("approve", "", "go ahead")),
        ("ok, what is it for?", ("", "", "")),
        ("ok let me look first", ("", "", "")),
        ("approve what?", ("", "", "")),
        ("no idea", ("", "", "")),
    ],
)
def test_what_decides_a_request(text: str, command: tuple[str, str, str]) -> None:
    found = parse_decision(text)
    assert (found.act, found.rest) == (command[0], command[2])
    assert found.code == command[1] or text == "no thanks"


@pytest.mark.parametrize(
    ("text", "act", "rest"),
    [
        ("done", "done", ""),
        ("Done!", "done", ""),
        ("snooze 2 hours", "snooze", "2 hours"),
        ("Snooze until tomorrow at 9\n\nAda", "snooze", "until tomorrow at 9"),
        ("doner kebab", "", ""),
        ("I am done with it", "", ""),
        ("tomorrow at 9", "snooze", "tomorrow at 9"),
        ("Please remind me again in 3 hours, please", "snooze", "in 3 hours"),
        ("later", "snooze", ""),
        ("cancel", "cancel", ""),
        ("in the end I did it", "", ""),
        ("what is it about?", "", ""),
    ],
)
def test_what_changes_a_reminder(text: str, act: str, rest: str) -> None:
    found = parse_reminder(text)
    assert (found.act, found.rest) == (act, rest)


@pytest.mark.parametrize(
    ("status", "cure", "final"),
    [(401, "token", False), (404, "url", False), (301, "url", False), (413, "", True), (503, "log", False)],
)
def test_what_a_server_answers_has_a_cure(status: int, cure: str, final: bool) -> None:
    error = refusal("ntfy.sh", status)
    assert f"ntfy.sh answered {status} (" in error.cause
    assert (cure in error.cure, error.final) == (True, final)


def test_updates_of_telegram() -> None:
    channel = Telegram(chat=7, token="12345:abcdef")
    query = {"id": "1", "from": {"id": 7}, "data": "done:d1", "message": {"message_id": 3}}
    reply = parse_update({"update_id": 1, "callback_query": query}, channel)
    assert reply
    assert (reply.act, reply.delivery_id, reply.ignored) == ("done", "d1", "")
    for sender in ({"id": 8}, {"id": 7, "is_bot": True}):
        message = {"message_id": 4, "from": sender, "chat": {"id": 7}, "text": "approve"}
        ignored = parse_update({"update_id": 2, "message": message}, channel)
        assert ignored
        assert ignored.ignored
    assert parse_update({"update_id": 3, "edited_message": {}}, channel) is None
