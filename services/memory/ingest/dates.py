"""The dates that files bear: in names, headings, fields and the first words of a line."""

import re
from datetime import UTC, date, datetime
from typing import Any

_DAY = r"(?:19|20)\d\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
_TIME = r"[T ](?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:[.,]\d{1,9})?)?(?:Z|[+-](?:0\d|1[0-4]):?[0-5]\d)?"
ISO = re.compile(rf"(?<![\w-])({_DAY})({_TIME})?(?![\d-])")
"""A day, and the time if one stands there."""
NAME = re.compile(rf"(?<!\d)({_DAY})(?!\d)")
LEADING = re.compile(rf"^[\s>*+\-\[({{\"'#`xX\]]*{ISO.pattern}")
"""A date at the start of a line, behind bullets, brackets and check boxes."""


def parse_date(value: Any) -> str:
    """A date, a time, or a text that begins with one in ISO form, as ISO 8601 in UTC; "" for anything else.

    What names no zone is taken as UTC; a day is its first moment.
    """
    if isinstance(value, datetime):
        return _stamp(value)
    if isinstance(value, date):
        return _stamp(datetime(value.year, value.month, value.day, tzinfo=UTC))
    match = ISO.match(value.strip()) if isinstance(value, str) else None
    return _read(match[1], match[2]) if match else ""


def find_leading_date(text: str) -> str:
    """The date that the first line of ``text`` begins with, or ""."""
    line = text.lstrip().partition("\n")[0][:200]
    match = LEADING.match(line)
    return _read(match[1], match[2]) if match else ""


def find_date(text: str) -> str:
    """The first date anywhere in a heading, or ""."""
    match = ISO.search(text)
    return _read(match[1], match[2]) if match else ""


def find_named_date(path: str) -> str:
    """The day in a file's name, as in ``memory/2026-01-31.md``, or ""."""
    match = NAME.search(path.rpartition("/")[2])
    return _read(match[1], None) if match else ""


def _read(day: str, time: str | None) -> str:
    text = day + (time or "").replace(",", ".").replace(" ", "T")
    try:
        return _stamp(datetime.fromisoformat(text))
    except ValueError:  # 31 June
        return ""


def _stamp(moment: datetime) -> str:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    try:
        return aware.astimezone(UTC).isoformat(timespec="microseconds")
    except OverflowError:
        return ""
