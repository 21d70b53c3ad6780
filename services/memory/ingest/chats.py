"""Exports and copies of chats, put in one form: ``2026-05-12 09:15 Jana: text``, a line a message."""

import re
from collections.abc import Iterator
from datetime import date, timedelta

import msgspec

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
_MARKS = str.maketrans(
    {"\u200e": None, "\u200f": None, "\u202a": None, "\u202c": None, "\u202f": " ", "\xa0": " "}
)
LONGEST_STAMPED = 200
"""The characters of a line in which a stamp behind the name is looked for: the name has at most 60."""
LEAST = 2
"""The messages from which a text is a chat."""


class _Message(msgspec.Struct, kw_only=True):
    parts: dict[str, str]
    lines: list[str]


def convert_chat(text: str, known: date) -> str:
    """A chat with its messages in one form; any other text as it is.

    It is a chat if most of its lines that begin with a time are messages, on days or in brackets. "Yesterday"
    is the day before ``known``, on which it was written.
    """
    lines = text.translate(_MARKS).split("\n")
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
