"""Reading: the phrases of a text that say when, and what of them does not come to one time."""

import re
from itertools import pairwise

import msgspec

from services.nexus.phrases import (
    DATES,
    EXAMPLE,
    LONG_UNITS,
    MONTHLY_UNITS,
    READ,
    REPEATED,
    SPAN,
    TIMES,
    UNREAD,
)
from services.nexus.zones import ZONE
from shared.errors import ActionError


class Found(msgspec.Struct, frozen=True):
    """A phrase of a text: where it stands, and what it says."""

    start: int
    end: int
    phrase: str
    said: re.Match[str]


class Phrases(msgspec.Struct, frozen=True, kw_only=True):
    """What a text says of a time, by kind; ``weekdays`` are said beside a date ("Friday, 27 November")."""

    spans: list[Found]
    weekdays: list[Found]
    days: list[Found]
    times: list[Found]
    zones: list[Found]
    repeats: list[Found]

    @property
    def every(self) -> list[Found]:
        """All of them."""
        return [*self.spans, *self.weekdays, *self.days, *self.times, *self.zones, *self.repeats]


def read_phrases(text: str) -> Phrases:
    """Every phrase of ``text`` that says when, by kind."""
    repeats, spans, times = _find(REPEATED, text), _find(SPAN, text), _find(TIMES, text)
    spans = [found for found in spans if not _within(found, repeats)]
    days = [found for found in _find(DATES, text) if not _within(found, [*spans, *repeats])]
    weekdays = [day for day, other in pairwise(days) if _belong(text, day, other)]
    days = [day for day in days if day not in weekdays]
    times = [found for found in times if not _within(found, [*days, *spans])]
    zones = [_as_found(said) for time in times if (said := ZONE.match(text, time.end))]
    times = [found for found in times if not _within(found, zones)]
    if spans and spans[0].said["unit"].strip()[:2].lower() not in {**LONG_UNITS, **MONTHLY_UNITS}:
        weekdays = days = times = zones = repeats = []
    return Phrases(spans=spans, weekdays=weekdays, days=days, times=times, zones=zones, repeats=repeats)


def _find(pattern: re.Pattern[str], text: str) -> list[Found]:
    return [_as_found(said) for said in pattern.finditer(text)]


def _as_found(said: re.Match[str]) -> Found:
    return Found(*said.span(), said[0].strip(), said)


def _belong(text: str, day: Found, date: Found) -> bool:
    """Whether ``day`` is the day of the week of the ``date`` right behind it."""
    dated = not (date.said["weekday"] or date.said["relative"])
    return (
        bool(day.said["weekday"]) and dated and not re.sub(r"[\s,]|\bthe\b", "", text[day.end : date.start])
    )


def _within(found: Found, others: list[Found]) -> bool:
    return any(other.start < found.end and found.start < other.end for other in others)


def require_one(text: str, read: Phrases) -> None:
    """Raise ActionError where the phrases do not come to one time, or say only half of it."""
    for several in (read.spans, [*read.spans, *read.days], read.times, read.zones, read.repeats):
        if len(several) > 1:
            named = " and ".join(repr(found.phrase) for found in several[:3])
            raise ActionError(f"I read more than one time in that: {named}", EXAMPLE)
    if read.repeats and (one := [*read.spans, *read.days]):
        raise ActionError(
            f"I read more than one time in that: {read.repeats[0].phrase!r} and {one[0].phrase!r}", EXAMPLE
        )
    marked = text
    for found in sorted(read.every, key=lambda found: -found.start):
        marked = f"{marked[: found.start]}{READ}{marked[found.end :]}"
    if unread := UNREAD.search(marked):
        beside = next(filter(None, unread.groups())).strip()
        raise ActionError(f"I do not understand {beside!r} beside {read.every[0].phrase!r}", EXAMPLE)


def cut_out(text: str, phrases: list[Found]) -> str:
    """``text`` without ``phrases``."""
    for found in sorted(phrases, key=lambda found: -found.start):
        text = f"{text[: found.start]} {text[found.end :]}"
    return re.sub(r"\s+(?=[.,;!?])", "", " ".join(text.split())).lstrip(", ")
