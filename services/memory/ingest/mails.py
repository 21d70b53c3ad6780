"""Mails (eml, mbox): what each says, passage by passage, without what it quotes."""

import re
from collections.abc import Iterator
from datetime import date
from email.message import EmailMessage
from email.utils import getaddresses

import msgspec

from services.memory.ingest.fields import clean_tags, parse_date, tag_speaker
from services.memory.ingest.naming import make_piece
from services.memory.ingest.passages import read_passages
from services.memory.ingest.pieces import IngestError, Piece, hash_text, join_title
from shared.delivery.mail_text import UNREADABLE, parse_mail, read_text
from shared.delivery.reply_text import strip_quoted

_BETWEEN = re.compile(rb"(?m)(?:\A|(?<=\n\n)|(?<=\r\n\r\n))From \S+ .*\r?\n")
"""The line before each mail of an mbox."""
_GREETING = re.compile(
    r"(?i)\W*(?:hi|hello|hey|dear|good (?:morning|afternoon|evening)|hallo|liebe[rs]?|sehr geehrte[rs]?|moin"
    r"|(?:best|kind|warm) (?:regards|wishes)|(?:all the )?(?:best|yours)(?=,|\n)|regards|cheers|thanks"
    r"|viele grüße|mit freundlichen grüßen)\b"
    r"[^.!?\n]{0,40}[,!.]?(?:\n[^\n]{1,40})?$"
)
"""What a mail begins and ends with."""
MOST_NAMED = 5


def parse_mails(data: bytes, known: date) -> tuple[Piece, ...]:
    """The pieces of a mail, or of all mails of an mbox; raises IngestError if there is none.

    Each mail is a piece that says who wrote to whom, when and about what, and one for each passage. Mails
    that are made to break the parser are left out.
    """
    parts = [part for part in _BETWEEN.split(data) if part.strip()]
    pieces = tuple(piece for part in parts for piece in _read_mail(part, known))
    if not pieces:
        raise IngestError("there is no mail in it that can be read")
    return pieces


def _read_mail(data: bytes, known: date) -> Iterator[Piece]:
    try:
        mail = parse_mail(data)
        if not mail.get("From"):
            return
        text = strip_quoted(read_text(mail))
        sent = getattr(mail.get("Date"), "datetime", None)
        writer, readers = _names(mail, "From"), _names(mail, "To", "Cc")
        subject, number = str(mail.get("Subject") or "no subject"), str(mail.get("Message-ID") or "")
    except UNREADABLE:
        return
    day = parse_date(sent)
    title = join_title(f"{writer}: {' '.join(subject.split())}")
    told = f"Mail from {writer} to {readers or 'unknown'}" + (f", {day[:10]}" if day else "") + f": {subject}"
    key = hash_text("mail", number or told)
    tags = tag_speaker(writer)
    yield Piece(
        title=title, body=told, key=key, kind="episodic", tags=tags, date=day, prose=subject, whole=True
    )
    for passage in read_passages(text, title):
        if _GREETING.match(passage.text) or passage.text in writer.split():
            continue
        piece = make_piece(passage, (title,), day, known, title)
        yield msgspec.structs.replace(piece, tags=clean_tags([*tags, *piece.tags]), said=True)


def _names(mail: EmailMessage, *headers: str) -> str:
    people = getaddresses([str(value) for header in headers for value in mail.get_all(header, [])])
    return ", ".join([name or address for name, address in people if name or address][:MOST_NAMED])
