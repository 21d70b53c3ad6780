"""Calendars, mails, reStructuredText, TOML and encodings as memory reads them."""

from datetime import date
from pathlib import Path

import pytest

from services.memory.ingest.chats import cut_signature, parse_mails
from services.memory.ingest.kinds import score_piece
from services.memory.ingest.markdown import convert_rst, parse_note
from services.memory.ingest.pieces import IngestError, Piece
from services.memory.ingest.reading import read_document, read_file
from services.memory.ingest.structured import parse_calendar, parse_toml
from services.memory.retrieval.keywords import fold_words

KNOWN = date(2026, 6, 1)
MODIFIED = 1_780_000_000.0

CALENDAR = """\
BEGIN:VCALENDAR
VERSION:2.0
BEGIN:VEVENT
UID:1@x
DTSTART;TZID=Europe/Berlin:20260310T090000
DTEND;TZID=Europe/Berlin:20260310T100000
SUMMARY:Dentist with Dr. Weber
LOCATION:Main street 5
CATEGORIES:Health
DESCRIPTION:Bring the\\, old x-rays
END:VEVENT
BEGIN:VEVENT
UID:2@x
DTSTART;TZID=Europe/Berlin:20310401T093000
RRULE:FREQ=WEEKLY;BYDAY=WE
SUMMARY:Standup
END:VEVENT
BEGIN:VEVENT
UID:2@x
RECURRENCE-ID;TZID=Europe/Berlin:20310408T093000
DTSTART;TZID=Europe/Berlin:20310408T110000
SUMMARY:Standup
END:VEVENT
BEGIN:VEVENT
UID:3@x
DTSTART;VALUE=DATE:20260501
RRULE:FREQ=YEARLY
SUMMARY:Anna's birthday
END:VEVENT
BEGIN:VTODO
UID:4@x
DUE;VALUE=DATE:20260601
SUMMARY:Send the tax form
END:VTODO
END:VCALENDAR
"""


def test_each_event_is_one_piece_and_what_repeats_too() -> None:
    dentist, standup, birthday, form = parse_calendar(CALENDAR.encode()).pieces
    assert (dentist.title, dentist.kind, dentist.tags) == ("Dentist with Dr. Weber", "event", ("health",))
    assert dentist.date == "2026-03-10T08:00:00.000000+00:00"
    assert dentist.body == (
        "Dentist with Dr. Weber: Tuesday 2026-03-10 09:00 CET to Tuesday 2026-03-10 10:00 CET.\n"
        "Where: Main street 5\nBring the, old x-rays"
    )
    assert standup.body.endswith("\nRepeats every Wednesday at 09:30.")
    assert standup.date == "2031-04-01T07:30:00.000000+00:00"
    assert birthday.body == "Anna's birthday: Friday 2026-05-01.\nRepeats every year."
    assert (form.kind, form.body) == ("task", "Send the tax form: Monday 2026-06-01.")


@pytest.mark.parametrize("rule", ["FREQ=SECONDLY", "FREQ=YEARLY;BYWEEKNO=20;BYDAY=XX"])
def test_a_rule_without_words_is_told_as_it_is(rule: str) -> None:
    text = CALENDAR.replace("FREQ=YEARLY", rule)
    assert all(piece.title for piece in parse_calendar(text.encode()).pieces)


@pytest.mark.parametrize("text", ["no calendar", "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:x\n"])
def test_what_is_no_calendar_is_refused_or_empty(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.ics").write_text(text)
    with pytest.raises(IngestError):
        read_document(tmp_path, "a.ics", MODIFIED)


@pytest.mark.parametrize(
    ("event", "body"),
    [
        (
            "DTSTART;VALUE=DATE:20261129\nDTEND;VALUE=DATE:20261202",
            "Sunday 2026-11-29 to Tuesday 2026-12-01.",
        ),
        ("DTSTART;VALUE=DATE:20261129\nDTEND;VALUE=DATE:20261130", "Sunday 2026-11-29."),
        ("DTSTART;VALUE=DATE:20261129\nDTEND;VALUE=DATE:20261129", "Sunday 2026-11-29."),
        (
            "DTSTART:20261129T200000Z\nDURATION:PT5H",
            "Sunday 2026-11-29 20:00 UTC to Monday 2026-11-30 01:00 UTC.",
        ),
        (
            "DTSTART;TZID=Eastern Standard Time:20261129T080000",
            "Sunday 2026-11-29 08:00 EST.",
        ),
    ],
)
def test_an_event_tells_when_it_ends(event: str, body: str) -> None:
    text = f"BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:1\n{event}\nSUMMARY:Trip\nEND:VEVENT\nEND:VCALENDAR\n"
    (piece,) = parse_calendar(text.encode()).pieces
    assert piece.body == f"Trip: {body}"


BROKEN = [
    "DTSTART:notadate",
    "DTSTART:20261399T000000Z",
    "DTSTART",
    "DTSTART;VALUE=DATE:x",
    "RECURRENCE-ID:tomorrow\nDTSTART:20261130T160000Z",
]


@pytest.mark.parametrize("broken", BROKEN)
def test_an_event_that_cannot_be_read_is_told_and_the_others_are_taken(broken: str) -> None:
    blocks = "".join(
        f"BEGIN:VEVENT\nUID:{number}\n{lines}\nSUMMARY:Event {number}\nEND:VEVENT\n"
        for number, lines in enumerate(["DTSTART:20261130T160000Z", broken, "DTSTART:20261130T170000Z"])
    )
    document = parse_calendar(f"BEGIN:VCALENDAR\n{blocks}END:VCALENDAR\n".encode())
    titles = [piece.title for piece in document.pieces]
    assert (titles, len(document.unread)) in (
        (["Event 0", "Event 2"], 1),
        (["Event 0", "Event 1", "Event 2"], 0),
    )
    assert "cannot be read" in " ".join(document.unread) or broken == "DTSTART"


@pytest.mark.parametrize("title", ["Schlüsselübergabe", "会議の予定", "Ключ", "naïve ☕ été", "🚢🚢🚢"])
def test_lines_may_be_cut_within_a_character(title: str) -> None:
    raw = f"SUMMARY:{title}".encode()
    for at in range(9, len(raw)):
        folded = raw[:at] + b"\r\n " + raw[at:]
        lines = [b"BEGIN:VCALENDAR", b"BEGIN:VEVENT", b"DTSTART:20261130T130000Z", folded, b"END:VEVENT"]
        assert parse_calendar(b"\r\n".join([*lines, b"END:VCALENDAR"])).pieces[0].title == title


MAIL = """\
From: Ana Lind <ana@example.org>
To: Ben <ben@example.org>
Subject: The contract
Date: Tue, 10 Mar 2026 09:00:00 +0100
Message-ID: <{}@x>

Hi Ben,

we decided to sign the contract with Acme on Friday.

Best wishes,
Ana

On Mon, 9 Mar 2026 at 10:00, Ben <ben@example.org> wrote:
> Shall we sign it?

--\x20
Ana Lind, Example Inc
"""


def _texts(pieces: tuple[Piece, ...]) -> list[str]:
    return [piece.body for piece in pieces]


def test_a_mail_says_who_wrote_what_and_nothing_that_it_quotes() -> None:
    pieces = parse_mails(MAIL.format(1).encode(), KNOWN)
    assert {piece.tags for piece in pieces} == {("ana",)}
    assert "preference" not in score_piece(pieces[1])
    assert _texts(pieces) == [
        "Mail from Ana Lind to Ben, 2026-03-10: The contract",
        "we decided to sign the contract with Acme on Friday.",
    ]
    assert pieces[1].title.startswith("Ana Lind: The contract › we decided")
    assert {piece.date for piece in pieces} == {"2026-03-10T08:00:00.000000+00:00"}


@pytest.mark.parametrize("end", ["Best,\nAna", "All the best,\nAna", "Yours,\nAna", "Cheers, Ana"])
def test_the_end_of_a_mail_is_no_memory(end: str) -> None:
    pieces = parse_mails(MAIL.format(1).replace("Best wishes,\nAna", end).encode(), KNOWN)
    assert _texts(pieces)[1:] == ["we decided to sign the contract with Acme on Friday."]
    for told in ("Best of all, it is cheap.", "Yours is due on Friday."):
        mail = MAIL.format(1).replace("Best wishes,\nAna", told)
        assert told in _texts(parse_mails(mail.encode(), KNOWN))


SIGNED = """
Kind regards,/Ana Lind/Harbour Office, tel. 555 0100
Cordialement,/Ana Lind/SIGNATURE, Capitainerie
Saludos,/la oficina/tel. 555 0100
Med vennlig hilsen/Ana Lind/Havnekontoret
С уважением,/Ana Lind/Порт
此致/Ana Lind/港口办公室
Mit freundlichen Grüßen//Ana Lind/Hafenamt
Ana Lind/Harbour Office/+47 555 0100
Thanks!/Ana Lind | Harbour Office
Best,/A./Harbour Office
"""


@pytest.mark.parametrize("end", SIGNED.strip().split("\n"))
def test_a_signature_is_left_out_in_any_language(end: str) -> None:
    signed = end.replace("/", "\n")
    pieces = parse_mails(MAIL.format(1).replace("Best wishes,\nAna", signed).encode(), KNOWN)
    assert _texts(pieces)[1:] == ["we decided to sign the contract with Acme on Friday."]


@pytest.mark.parametrize(
    "text",
    [
        "Bring tools,\nhammer and saw are in the shed on the pier.",
        "Ana called.\nThe crane is booked by Ana.",
        "The pier is closed.\nAsk Ana",
        "I met Ben.\nAna Lind will paint the buoy in May.",
        "We need:\n- rope\n- Ana's key",
    ],
)
def test_what_names_the_writer_is_no_signature(text: str) -> None:
    assert cut_signature(text, "Ana Lind") == text


def test_lines_that_an_mbox_escapes_are_as_they_were_written() -> None:
    for escaped, told in ((">From now on it is closed.", "From now on it is closed."), (">>From x", "")):
        head = "From ana Tue Mar 10 09:00:00 2026\n"
        mail = MAIL.format(1).replace("we decided to sign the contract with Acme on Friday.", escaped)
        assert (_texts(parse_mails((head + mail).encode(), KNOWN))[1:] or [""]) == [told]
        assert _texts(parse_mails(mail.encode(), KNOWN))[1:] == []


def test_each_mail_of_an_mbox_is_read_and_broken_ones_are_left_out() -> None:
    box = "".join(f"From ana Tue Mar 10 09:00:00 2026\n{MAIL.format(number)}\n" for number in (1, 2))
    box += 'From x Tue Mar 10 09:00:00 2026\nContent-Type: text/plain; charset="\n\nno sender\n'
    pieces = parse_mails(box.encode(), KNOWN)
    assert len({piece.key for piece in pieces if piece.body.startswith("Mail from")}) == 2
    with pytest.raises(IngestError, match="no mail"):
        parse_mails(b"nothing", KNOWN)


RST = """\
=======
 Heron
=======

.. image:: logo.png
   :alt: a bird

.. This is a comment
   of two lines

Heron keeps :class:`~heron.Row` objects, see `the guide <https://example.org>`_.

Storage
-------

.. note::
   Rows are kept in ``Postgres``.

The server starts with::

    heron serve

    heron stop

It reads one file.

.. code-block:: python
   :linenos:

   import heron

- Backups run at night.

.. toctree::
   :maxdepth: 2

   guide
   api
"""


def test_restructured_text_is_read_as_a_note() -> None:
    note = convert_rst(RST)
    assert len(note.split("\n")) == len(RST.split("\n"))
    pieces = parse_note("heron.rst", note, KNOWN).pieces[1:]
    assert _texts(pieces) == [
        "Heron keeps `heron.Row` objects, see the guide.",
        "Rows are kept in `Postgres`.",
        "The server starts with:\n\n```\n    heron serve\n\n    heron stop\n```",
        "It reads one file.",
        "```\n   import heron\n```",
        "- Backups run at night.",
    ]
    assert pieces[1].heading == ("Storage",)


def test_the_tables_of_toml_are_records() -> None:
    pieces = parse_toml("team", '[[people]]\nname = "Ana"\nrole = "cook"\n[[people]]\nname = "Ben"\n')
    assert _texts(pieces) == ["name: Ana\nrole: cook", "name: Ben"]
    with pytest.raises(IngestError, match="TOML"):
        parse_toml("team", "a =")


@pytest.mark.parametrize("encoding", ["iso8859_7", "shift_jis", "gb18030", "cp1251", "euc-kr"])
def test_texts_of_other_scripts_are_read(encoding: str, tmp_path: Path) -> None:
    texts = {
        "iso8859_7": "Το κλειδί του μύλου είναι στον Γιώργο και η βάρκα στην όχθη.",
        "cp1251": "Ключ от мельницы лежит у Юргена, и лодка стоит на берегу.",
        "shift_jis": "水車小屋の鍵はユルゲンのところにあります。船は岸にあり、明日取りに行きます。",
        "gb18030": "磨坊的钥匙在尤尔根那里，船停在岸边，明天早上我们去拿。",
        "euc-kr": "방앗간 열쇠는 위르겐에게 있습니다. 배는 기슭에 있습니다.",
    }
    (tmp_path / "a.txt").write_bytes(texts[encoding].encode(encoding))
    assert read_file(tmp_path, "a.txt") == texts[encoding]


@pytest.mark.parametrize("mark", ["\xad", "\u200b", "\u2060", "\ufeff", "\u200d", "\u034f", "\u200e"])
def test_what_stands_unseen_in_words_is_left_out(mark: str, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(
        f"# Key\n\n- The pass{mark}word of the net{mark}work is on the tide table.\n"
    )
    (piece,) = read_document(tmp_path, "a.md", MODIFIED).pieces
    assert piece.body == "- The password of the network is on the tide table."
    assert fold_words(f"pass{mark}word") == ["password"]
    assert fold_words("می‌خواهم 👩‍💻") == "می‌خواهم 👩‍💻".replace("👩‍💻", "").replace("‌", " ").split()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"])
def test_texts_of_windows_are_read(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("Jürgen prüft die Öfen\r\nim März".encode(encoding))
    assert read_file(tmp_path, "a.txt") == "Jürgen prüft die Öfen\nim März"


@pytest.mark.parametrize("content", [b"", b" \n", b"\x00\x01\xff\xfe", bytes(range(256)), b"\xff\xfe\x00"])
def test_what_is_no_text_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(IngestError):
        read_file(tmp_path, "a.txt")
