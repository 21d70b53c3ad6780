"""Chats and mails, message by message: copies, exports of Slack, Telegram and Discord, eml and mbox."""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from email.message import EmailMessage
from email.utils import getaddresses
from typing import Any, NamedTuple

import msgspec

from services.memory.ingest.naming import make_piece
from services.memory.ingest.passages import BULLET, first_words, read_passages, split_text
from services.memory.ingest.pieces import (
    MAX_BODY,
    IngestError,
    Piece,
    clean_tags,
    hash_text,
    join_title,
    parse_date,
    tag_speaker,
)
from shared.delivery.mailbox import UNREADABLE, parse_mail, read_text
from shared.delivery.smtp import strip_quoted
from shared.text.display import drop_unseen

_CLOCK = r"(?P<hour>\d{1,2})[:.](?P<minute>\d\d)(?:[:.]\d\d)?(?:\s?(?P<half>[AaPp])\.?[Mm]\.?)?(?:\s?Uhr)?"
_DATE = r"(?P<first>\d{1,4})(?P<mark>[./-])(?P<second>\d{1,2})(?P=mark)(?P<third>\d{2,4})"
_NEAR = r"(?P<near>today|yesterday|heute|gestern)"
_STAMP = rf"(?:(?:{_DATE}|{_NEAR})\s*,?\s+(?:at\s+|um\s+)?)?{_CLOCK}"
_WHO = r"(?P<who>[^\s:<>\[\]\n][^:<>\[\]\n]{0,59}?)"
_FORMS = (
    # WhatsApp, Telegram and others: the stamp, the name, and the text on one line
    re.compile(rf"\[?{_STAMP}\]?\s*[-–]?\s*{_WHO}:(?:\s+(?P<text>.*))?$", re.IGNORECASE),
    # Teams: the stamp in brackets and the name, then the text
    re.compile(rf"\[{_STAMP}\]\s+{_WHO}$", re.IGNORECASE),
    # Slack and Discord: the name and the stamp, then the text
    re.compile(rf"{_WHO}\s+(?:[—–-]\s*)?\[?{_STAMP}\]?$", re.IGNORECASE),
)
_STAMPED = re.compile(rf"\[?{_STAMP}\]?\s*[-–]\s", re.IGNORECASE)
"""What begins as a message and names nobody: the chat itself tells it."""
_LEFT_OUT = re.compile(
    r"<[^<>]*>|.*\b(?:end-to-end encrypted|ende-zu-ende-verschlüsselt)\b.*"
    r"|.{0,40}\b(?:omitted|weggelassen|ausgeschlossen)\W*"
    r"|(?:you deleted )?this message(?: was deleted)?\W*|(?:du hast )?diese nachricht (?:wurde )?gelöscht\W*",
    re.IGNORECASE,
)
"""A message without a text: a picture, a voice message, one that was deleted."""
_MARKS = str.maketrans({"\u202f": " ", "\xa0": " "})
LONGEST_STAMPED = 200
"""The characters of a line in which a stamp behind the name is looked for: the name has at most 60."""
LEAST = 2  # The messages from which a text is a chat


class _Message(msgspec.Struct, kw_only=True):
    parts: dict[str, str]
    lines: list[str]


def convert_chat(text: str, known: date) -> str:
    """A chat with its messages in one form; any other text as it is.

    It is a chat if most of its lines that begin with a time are messages, on days or in brackets. "Yesterday"
    is the day before ``known``, on which it was written.
    """
    lines = drop_unseen(text).translate(_MARKS).split("\n")
    found = list(_read(lines))
    stamped = sum(bool(_STAMPED.match(line)) for line in lines)
    marked = [each for each in found if each.parts.get("first") or each.parts.get("near") or each.lines[1:]]
    if len(marked) < LEAST or 2 * len(found) < stamped:
        return text
    american = _is_american(found)
    told = (each for each in found if not _LEFT_OUT.fullmatch(" ".join(each.lines).strip()))
    today = f"{known} " if any(each.parts.get("near") for each in found) else ""
    return "\n".join(_format(each, _find_day(each.parts, known, american) or today) for each in told)


def _read(lines: list[str]) -> Iterator[_Message]:
    message: _Message | None = None
    for line in lines:
        forms = _FORMS if len(line) <= LONGEST_STAMPED else _FORMS[:1]
        match = next((match for form in forms if (match := form.match(line.strip()))), None)
        if match or _STAMPED.match(line):
            if message:
                yield message
            message = None
        if match:
            parts = {name: value for name, value in match.groupdict().items() if value}
            message = _Message(parts=parts, lines=[parts.get("text", "")])
        elif message and line.strip():
            message.lines.append(line.strip())
    if message:
        yield message


def _is_american(messages: list[_Message]) -> bool:
    """Whether days with slashes begin with the month."""
    slashed = [each.parts for each in messages if each.parts.get("mark") == "/"]
    if any(int(each["first"]) > 12 for each in slashed):
        return False
    return any(int(each["second"]) > 12 or "half" in each for each in slashed)


def _format(message: _Message, day: str) -> str:
    parts = message.parts
    hour = int(parts["hour"])
    if half := parts.get("half", "").lower():
        hour = hour % 12 + (12 if half == "p" else 0)
    who = parts["who"].strip(" ~")
    if not who[:1].isalpha():
        who = f"Number {who}"
    said = "\n".join(line for line in message.lines if line)
    return f"{day}{hour:02}:{parts['minute']} {who}: {said}"


def _find_day(parts: dict[str, str], known: date, american: bool) -> str:
    if near := parts.get("near", "").lower():
        return f"{known - timedelta(days=near in ('yesterday', 'gestern'))} "
    if "first" not in parts:
        return ""
    first, second, third = (int(parts[name]) for name in ("first", "second", "third"))
    if len(parts["first"]) == 4:
        year, month, day = first, second, third
    else:
        day, month = (second, first) if american and parts["mark"] == "/" else (first, second)
        year = third + (2_000 if third < 100 else 0)
    try:
        return f"{date(year, month, day)} "
    except ValueError:
        return ""


DATES = (
    *("date", "created_at", "created", "timestamp", "time", "datetime", "when", "valid_from", "day"),
    *("ts", "sent_at", "date_unixtime"),
)
"""Fields that date a record."""

SAID = ("text", "content", "message", "body")
SPEAKERS = ("from", "sender", "author", "actor", "user_profile", "username", "user")
"""Fields of a record that is a message: what was said, and by whom; the first that is there counts."""
NO_WORDS = ("subtype", "service", "action")
"""Fields of messages that nobody wrote: a person joined a channel, or left it."""
EPOCH = re.compile(r"(\d{10})(?:\d{3})?(?:\.\d{1,9})?")  # Seconds or milliseconds since 1970


class Said(NamedTuple):
    """A message: when, by whom, and what; without words if nobody wrote it."""

    when: str
    who: str
    text: str

    def pieces(self, line: int) -> Iterator[Piece]:
        """It as a piece, or several if it is long."""
        for number, (_, part) in enumerate(split_text(self.text, MAX_BODY) if self.text else (), 1):
            body = f"{self.who}: {part}"
            title = first_words(body)
            yield Piece(
                title=title if number == 1 else f"{title} ({number})",
                body=body,
                key=hash_text("passage", body, self.when),
                line=line,
                default_kind="episodic",
                tags=tag_speaker(self.who),
                date=self.when,
                prose=part,
                said=True,
            )


def find_said(value: Any) -> Said | None:
    """The message that a record is; None if it is something else."""
    if not isinstance(value, dict):
        return None
    fields = {str(name).strip().lower(): member for name, member in value.items()}
    texts = (fields.get(name) for name in SAID)
    text = next((_join_parts(text) for text in texts if isinstance(text, str | list)), None)
    times = (fields.get(name) for name in DATES)
    when = next((date for time in times if (date := parse_date(time) or _read_epoch(time))), "")
    who = next((name for key in SPEAKERS if (name := _name_speaker(fields.get(key)))), "")
    if text is None or not when or not who or "title" in fields or "kind" in fields:
        return None
    return Said(when, who, "" if any(fields.get(name) for name in NO_WORDS) else text.strip())


def _join_parts(text: str | list[Any]) -> str:
    """The text of a message, which may be a list of texts and of links and mentions with a text."""
    parts = text if isinstance(text, list) else [text]
    told = (part.get("text") if isinstance(part, dict) else part for part in parts)
    return "".join(part for part in told if isinstance(part, str))


def _name_speaker(value: Any) -> str:
    if isinstance(value, dict):
        names = (value.get(key) for key in ("real_name", "display_name", "nickname", "name", "username"))
        return next((name for name in names if isinstance(name, str) and name), "")
    return value if isinstance(value, str) else ""


def _read_epoch(value: Any) -> str:
    match = EPOCH.fullmatch(str(value)) if isinstance(value, str | int | float) else None
    return datetime.fromtimestamp(int(match[1]), UTC).isoformat(timespec="microseconds") if match else ""


_BETWEEN = re.compile(rb"(?m)(?:\A|(?<=\n\n)|(?<=\r\n\r\n))From \S+ .*\r?\n")
"""The line before each mail of an mbox."""
_ESCAPED = re.compile(rb"(?m)^>(>*From )")
_GREETING = re.compile(
    r"(?i)\W*(?:(?:hi|hello|hey|dear|good (?:morning|afternoon|evening)|hallo|liebe[rs]?|sehr geehrte[rs]?"
    r"|moin)\b[^.!?\n]{0,40}[,!.]?|(?:[^\W\d_][\w.'’-]*\s+){0,4}[^\W\d_][\w.'’-]*\s*[,，])$"
)
"""What a mail begins with: a word of greeting, or a few words and a comma."""
MOST_SIGNED = 12  # The most lines of a signature, from the words of parting on
_PARTING = 5  # The most words of these
_SENTENCE = re.compile(r"\w[\w'’]*[,;]?\s+(?:[\w'’(–-]+[,;]?\s+){3,}\S*[.!?。！？]['\")”]*$")
"""A line that ends a sentence, of five words or more."""
MOST_NAMED = 5


def parse_mails(data: bytes, known: date) -> tuple[Piece, ...]:
    """The pieces of a mail, or of all mails of an mbox; raises IngestError if there is none.

    Each mail is a piece that says who wrote to whom, when and about what, and one for each passage. Mails
    that are made to break the parser are left out.
    """
    parts = [part for part in _BETWEEN.split(data) if part.strip()]
    if data.startswith(b"From "):  # an mbox, in which lines that begin so are escaped
        parts = [_ESCAPED.sub(rb"\1", part) for part in parts]
    pieces = tuple(piece for part in parts for piece in _read_mail(part, known))
    if not pieces:
        raise IngestError("there is no mail in it that can be read")
    return pieces


def _read_mail(data: bytes, known: date) -> Iterator[Piece]:
    try:
        mail = parse_mail(data)
        if not mail.get("From"):
            return
        text = strip_quoted(read_text(mail), str(mail.get("Subject") or ""))
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
    for passage in read_passages(cut_signature(text, writer), title):
        if passage.line == 0 and _GREETING.match(passage.text):
            continue
        piece = make_piece(passage, (title,), day, known, title)
        yield msgspec.structs.replace(piece, tags=clean_tags([*tags, *piece.tags]), said=True)


def cut_signature(text: str, writer: str) -> str:
    """A mail's text without the words of parting, the writer's name, and what stands below it.

    The name is known by the sender's. Without it, it is a last paragraph of short lines, none of them a
    sentence, below one of a few words that ends in a comma.
    """
    lines = text.rstrip().split("\n")
    names = {name.casefold() for name in (writer, *writer.split()) if len(name) > 1}
    for number in range(len(lines) - 1, max(-1, len(lines) - MOST_SIGNED - 1), -1):
        words = lines[number].strip(" \t-–—*_/.,!").casefold()
        above = number - 1
        while above > 0 and not lines[above].strip():
            above -= 1
        parts = above >= 0 and _parts(lines[above])
        first, *others = (part.strip() for part in re.split(r"[,|]", words))
        if others and others[-1] in names and _parts(lines[number]):  # "Cheers, Ana"
            return "\n".join(lines[:number])
        if words in names or (parts and first in names):
            return "\n".join(lines[: above if parts else number])
        if _ends_sentence(lines[number]):
            break
    begin = len(lines) - next((n for n, line in enumerate(reversed(lines)) if not line.strip()), len(lines))
    is_below = 0 < begin < len(lines) and lines[begin].rstrip().endswith((",", "，")) and _parts(lines[begin])
    if is_below and len(lines) - begin <= MOST_SIGNED and not any(map(_ends_sentence, lines[begin:])):
        return "\n".join(lines[:begin])
    return text


def _ends_sentence(line: str) -> bool:
    return _SENTENCE.search(line[-200:]) is not None


def _parts(line: str) -> bool:
    """Whether a line is as short as the words with which one takes leave, and no sentence."""
    words = line.split()
    return 0 < len(words) <= _PARTING and line.rstrip()[-1] not in ".?:。？：" and not BULLET.match(line)


def _names(mail: EmailMessage, *headers: str) -> str:
    people = getaddresses([str(value) for header in headers for value in mail.get_all(header, [])])
    return ", ".join([name or address for name, address in people if name or address][:MOST_NAMED])
