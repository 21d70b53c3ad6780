"""Calendars, mails, reStructuredText, TOML and encodings as memory reads them."""

from datetime import date
from pathlib import Path

import pytest

from services.memory.ingest.chats import parse_mails
from services.memory.ingest.kinds import score_piece
from services.memory.ingest.markdown import convert_rst, parse_note
from services.memory.ingest.pieces import IngestError, Piece
from services.memory.ingest.reading import read_document, read_file
from services.memory.ingest.structured import parse_calendar, parse_toml

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
    dentist, standup, birthday, form = parse_calendar("cal", CALENDAR)
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
    assert all(piece.title for piece in parse_calendar("cal", text))


@pytest.mark.parametrize("text", ["no calendar", "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:x\n"])
def test_what_is_no_calendar_is_refused_or_empty(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.ics").write_text(text)
    with pytest.raises(IngestError):
        read_document(tmp_path, "a.ics", MODIFIED)


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


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"])
def test_texts_of_windows_are_read(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("Jürgen prüft die Öfen\r\nim März".encode(encoding))
    assert read_file(tmp_path, "a.txt") == "Jürgen prüft die Öfen\nim März"


@pytest.mark.parametrize("content", [b"", b" \n", b"\x00\x01\xff\xfe", bytes(range(256)), b"\xff\xfe\x00"])
def test_what_is_no_text_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(IngestError):
        read_file(tmp_path, "a.txt")
