"""What a file is split into, and the fields of its parts: tags, importance, dates."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import Any

import msgspec

from shared.contracts import NAME
from shared.contracts.memory import KINDS
from shared.memory.ownership import GLOBAL

SEPARATOR = " › "  # Between the parts of a title: the file's name, then the headings from outside in

MAX_TITLE = 200
"""The longest title made here, in characters; memory takes 256, and a long file name is to fit beside it."""

MAX_BODY = 2_000
"""The longest body of a piece, in characters: about the 512 tokens that the embedding model reads."""

IMPORTANCE = {
    "decision": 0.65,
    "goal": 0.6,
    "preference": 0.6,
    "pattern": 0.6,
    "task": 0.5,
    "fact": 0.5,
    "event": 0.45,
    "observation": 0.4,
    "episodic": 0.25,
}
"""What a kind is worth to begin with: below .7, which is for what was marked as important."""

DEFAULT_IMPORTANCE = 0.5


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to remember.

    ``key`` identifies it within its note; an empty key means that the text itself decides. But for "note",
    the key of a note itself, it is made of the text, so that the same text anywhere is the same thing.
    ``parent`` is the key of the piece it belongs under (None: under none). ``kind``, ``date``, ``valid_to``
    and ``importance`` are what the file says itself (empty or None if it does not); ``default_kind`` is the
    kind if nothing speaks for another. ``created`` is when the file says
    that it was written, ``prose`` the text without code, to be searched for words. With ``whole``, it is
    stored even if it is thin or like another: it is a record or a note, not a passage. What is ``said``
    a person wrote to others, in a chat or a mail.
    """

    title: str
    body: str
    key: str = ""
    parent: str | None = None
    heading: tuple[str, ...] = ()
    line: int = 1
    kind: str = ""
    default_kind: str = "fact"
    tags: tuple[str, ...] = ()
    date: str = ""
    created: str = ""
    valid_to: str = ""
    importance: float | None = None
    agent: str = ""
    prose: str = ""
    whole: bool = False
    said: bool = False


class NoteLink(msgspec.Struct, frozen=True):
    """A link to another note, by its name or path, and to a heading of it."""

    target: str
    heading: str = ""

    def __str__(self) -> str:
        return f"{self.target}#{self.heading}" if self.heading else self.target


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A file parsed; ``note`` is the name it can be linked by, if so: its first piece is the note itself.

    ``unread`` says what of it cannot be read, in sentences for its owner.
    """

    pieces: tuple[Piece, ...]
    note: str = ""
    links: tuple[NoteLink, ...] = ()
    properties: dict[str, Any] = {}
    unread: tuple[str, ...] = ()


class IngestError(Exception):
    """The file cannot be imported; ``str()`` of it says why, in a sentence for its owner."""


def join_title(*parts: str) -> str:
    """The parts of a title with SEPARATOR between them; too long, the inner ones go, then the last is cut."""
    clean = [part for part in (" ".join(part.split()) for part in parts) if part]
    outer, last = clean[:-1], clean[-1] if clean else "untitled"
    while outer and len(SEPARATOR.join([*outer, last])) > MAX_TITLE:
        outer.pop()
    title = SEPARATOR.join([*outer, last])
    return title if len(title) <= MAX_TITLE else title[: MAX_TITLE - 1].rstrip() + "…"


def hash_text(*parts: str | Sequence[str]) -> str:
    """A short digest of texts."""
    data = "\0".join(part if isinstance(part, str) else "\1".join(part) for part in parts)
    return hashlib.sha256(data.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def parse_kind(value: object) -> str:
    """The kind that ``value`` names, else ""; "Decision" and "decisions" are "decision"."""
    text = value.strip().lower() if isinstance(value, str) else ""
    return next((kind for kind in (text, text.removesuffix("s")) if kind in KINDS), "")


def default_importance(kind: str) -> float:
    """The importance that a text of ``kind`` starts with."""
    return IMPORTANCE.get(kind, DEFAULT_IMPORTANCE)


_DAY = r"(?:19|20)\d\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
_TIME = r"[T ](?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:[.,]\d{1,9})?)?(?:Z|[+-](?:0\d|1[0-4]):?[0-5]\d)?"
ISO = re.compile(rf"(?<![\w-])({_DAY})({_TIME})?(?![\d-])")  # A day, and the time if there is one
NAMED_DAY = re.compile(rf"(?<!\d)({_DAY})(?!\d)")
LEADING = re.compile(rf"^[\s>*+\-\[({{\"'#`xX\]]*{ISO.pattern}")
"""A date at the start of a line, behind bullets, brackets and check boxes."""

MAX_TAGS = 30  # Of one piece; memory takes 32, and one more marks links that are still open
MAX_TAG = 100  # The longest tag, in characters; memory takes 128

OFFICE = frozenset(
    (GLOBAL, *"conductor engineer scout critic nexus cortex frontier memory user gateway admin".split())
)
"""What tags stand for besides names of people."""
TITLES = frozenset("dr mr mrs ms miss prof herr frau".split())

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")

OLD_DAY = re.compile(r"\d{4}-\d\d-\d\d")
TAG = re.compile(r"(?<![\w/#&\[!])(?<!\]\()#([^\W\d_][\w/-]*|\d[\w/-]*[^\W\d_][\w/-]*)")
"""A tag in a text: something in it is a letter, so that "#12" stays the number of an issue."""


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


def find_named_date(path: str) -> str:
    """The day in a file's name, as in ``memory/2026-01-31.md``, or ""."""
    match = NAMED_DAY.search(path.rpartition("/")[2])
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


def parse_created(fields: Mapping[str, Any]) -> str:
    """When something was written, as its fields say; "" if they do not."""
    for value in filter(None, (fields.get(name) for name in ("created_at", "created"))):
        # A day of another century, which no text means by chance in such a field
        old = OLD_DAY.match(value.strip()) if isinstance(value, str) else None
        if day := parse_date(value) or (_read(old[0], None) if old else ""):
            return day
    return ""


def parse_tags(value: Any) -> tuple[str, ...]:
    """Tags given as a list, or as a text with blanks or commas between them; in lower case, without "#"."""
    parts = (
        re.split(r"[,;\s]+", value) if isinstance(value, str) else value if isinstance(value, list) else ()
    )
    return clean_tags(str(part) for part in parts if isinstance(part, str | int))


def find_tags(text: str) -> tuple[str, ...]:
    """The ``#tags`` in a text."""
    return clean_tags(TAG.findall(text))


def clean_tags(tags: Any) -> tuple[str, ...]:
    """Each tag once, in lower case, the first MAX_TAGS of them; too long ones are left out."""
    clean = (tag.strip().lstrip("#").strip("/").lower() for tag in tags)
    return tuple(dict.fromkeys(tag for tag in clean if tag and len(tag) <= MAX_TAG))[:MAX_TAGS]


def tag_speaker(name: str) -> tuple[str, ...]:
    """The first name of a message's author as a tag, by which a question that names them finds it.

    No tag if it is a number, or a name of the office's own agents, which tags address. The first name alone:
    what has two tags in common is linked.
    """
    if any(letter.isdigit() for letter in name):
        return ()
    words = (word for word in clean_tags(_WORD.findall(name)) if word not in TITLES)
    return tuple(word for word in islice(words, 1) if word not in OFFICE)


def parse_importance(value: Any) -> float | None:
    """A number from 0 to 1, also as text; None if it is none."""
    try:
        number = (
            float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else -1.0
        )
    except ValueError:
        return None
    return number if 0 <= number <= 1 else None


def parse_agent_name(value: Any) -> str:
    """The name of an agent, or "" if it is not one."""
    text = value.strip().lower() if isinstance(value, str) else ""
    return text if NAME.fullmatch(text) else ""


_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january januar jan jänner",
            "february februar feb",
            "march märz mar mrz",
            "april apr",
            "may mai",
            "june juni jun",
            "july juli jul",
            "august aug",
            "september sept sep",
            "october oktober oct okt",
            "november nov",
            "december dezember dec dez",
        ),
        1,
    )
    for name in names.split()
}
_WEEKDAYS = {
    name: number
    for number, names in enumerate(
        (
            "monday montag mon mo",
            "tuesday dienstag tues tue di",
            "wednesday mittwoch wed mi",
            "thursday donnerstag thurs thur thu do",
            "friday freitag fri fr",
            "saturday samstag sonnabend sat sa",
            "sunday sonntag sun so",
        )
    )
    for name in names.split()
}
_MONTH = rf"(?P<month>{'|'.join(sorted(_MONTHS, key=len, reverse=True))})\b\.?"
_WEEKDAY = (
    rf"(?:(?P<weekday>{'|'.join(sorted(_WEEKDAYS, key=len, reverse=True))})\b\.?,?\s+(?:(?:the|den)\s+)?)?"
)
_WEEKDAY_NAME = re.compile(rf"\b(?:{'|'.join(sorted(_WEEKDAYS, key=len, reverse=True))})\b", re.IGNORECASE)
_YEAR = r"(?:,?\s+(?P<year>(?:19|20)\d\d)\b)?"
_FORMS = tuple(
    re.compile(rf"(?<![\w.]){_WEEKDAY}{form}", re.IGNORECASE)
    for form in (
        r"(?P<year>(?:19|20)\d\d)(?P<mark>[-/.])(?P<month>[01]?\d)(?P=mark)(?P<day>[0-3]?\d)(?!\d)",
        rf"(?P<day>[0-3]?\d)(?:st|nd|rd|th|\.)?\s+(?:of\s+)?{_MONTH}{_YEAR}",
        rf"{_MONTH}\s+(?P<day>[0-3]?\d)(?:st|nd|rd|th)?(?![\w:.]\d|\d){_YEAR}",
        r"(?P<day>[0-3]?\d)\.\s?(?P<month>[01]?\d)\.(?:\s?(?P<year>(?:19|20)?\d\d)(?![\d:]))?(?!\d)",
        r"(?P<day>1[3-9]|2\d|3[01])/(?P<month>[01]?\d)/(?P<year>(?:19|20)\d\d)\b",
        r"(?P<month>[01]?\d)/(?P<day>1[3-9]|2\d|3[01])/(?P<year>(?:19|20)\d\d)\b",
    )
)
MARKS = re.compile(r"^(?:[\s>*+\-•\[({\"'#`_\]]|[xX]\]|\d+[.)]\s)*")
"""What may stand before the first word of a line: bullets, brackets and check boxes."""
_ON = re.compile(r"(?:on|am|vom)\s+", re.IGNORECASE)
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::[0-5]\d)?(?![\d:])")
YEARS = 8  # How far back the year of a day without one is looked for, when its weekday is named


def find_day(text: str, known: date) -> str:
    """The first day that a heading names, as ISO 8601 in UTC; "" if it names none.

    A day without a year is the last one that was not after ``known``, on the weekday that stands with it.
    """
    if match := ISO.search(text):
        return parse_date(match[0])
    for form in _FORMS:
        for match in form.finditer(text):
            if day := _read_day(match, known):
                return parse_date(day)
    return ""


def is_only_day(text: str) -> bool:
    """Whether a text names a day and has no other word."""
    found = (match for form in (ISO, *_FORMS) if (match := form.search(text)))
    rests = (text[: match.start()] + text[match.end() :] for match in found)
    return any(not re.search(r"\w", _WEEKDAY_NAME.sub("", rest)) for rest in rests)


def find_leading_day(text: str, known: date) -> str:
    """The day that the first line of a text begins with, behind a bullet or "on"; "" if it does with none."""
    line = text.lstrip().partition("\n")[0][:200]
    start = MARKS.match(line)
    begin = start.end() if start else 0
    if match := ISO.match(line, begin):
        return parse_date(match[0])
    if lead := _ON.match(line, begin):
        begin = lead.end()
    for form in _FORMS:
        if (match := form.match(line, begin)) and (day := _read_day(match, known)):
            return parse_date(day)
    return ""


def find_clock(text: str) -> tuple[int, int] | None:
    """The time of day that a line begins with, as hour and minute."""
    match = _CLOCK.match(text, start.end() if (start := MARKS.match(text)) else 0)
    return (int(match[1]), int(match[2])) if match else None


def cut_lead(line: str) -> str:
    """A line without the marks, the date and the time that it begins with; the line itself if nothing else
    is there.
    """
    rest = MARKS.sub("", line, count=1)
    for form in (ISO, *_FORMS, _CLOCK):
        if match := form.match(rest):
            rest = rest[match.end() :].lstrip(" \t,;:.)]-–—|")
    return rest or line.strip()


def _read_day(match: re.Match[str], known: date) -> date | None:
    parts = match.groupdict()
    named = parts["month"].lower()
    month = int(named) if named.isdigit() else _MONTHS[named]
    day, year = int(parts["day"]), parts.get("year")
    if year:
        return _day(int(year) + (2000 if len(year) == 2 else 0), month, day)
    latest = min(known, date.max - timedelta(days=1)) + timedelta(days=1)
    days = [found for back in range(YEARS) if (found := _day(latest.year - back, month, day))]
    past = [found for found in days if found <= latest]
    weekday = _WEEKDAYS.get((parts["weekday"] or "").lower())
    return next((found for found in past if found.weekday() == weekday), past[0] if past else None)


def _day(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:  # 31 June
        return None
