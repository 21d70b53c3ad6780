"""Repeating: on which days of the week a reminder goes off again, and when next."""

import re
from collections.abc import Sequence
from datetime import datetime, time, timedelta, tzinfo

import msgspec

from services.nexus.phrases import DAY_PARTS, EXAMPLE, WEEKDAYS
from shared.clock import place, read_zone
from shared.errors import ActionError

_NAMES = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_WORKING = ("weekday", "workday", "working")
_CURE = f"Name days of the week, as in 'every day at 9' or 'every Monday and Thursday at 14:00'. {EXAMPLE}"

EVERY_DAY = tuple(range(7))
_TOGETHER = {EVERY_DAY: "day", EVERY_DAY[:5]: "weekday"}


class Repeat(msgspec.Struct, frozen=True, kw_only=True):
    """At ``clock`` on each of ``weekdays`` (0 is Monday), in ``zone`` ("": the office's)."""

    weekdays: tuple[int, ...]
    clock: time
    zone: str = ""


def read_weekdays(said: re.Match[str]) -> tuple[int, ...]:
    """The days of the week a match of REPEATED names; raises ActionError where it names something else."""
    if said["range"]:
        first, *_, last = (
            WEEKDAYS[word[:3]]
            for word in re.findall(r"[a-z]+day|\b[a-z]{3,5}\b", said["range"].lower())
            if word[:3] in WEEKDAYS
        )
        return tuple(sorted((first + ahead) % 7 for ahead in range((last - first) % 7 + 1)))
    words = re.findall(r"[a-z]+", (said["what"] or said["plural"] or "").lower())
    if re.search(r"\b(?:daily|nightly)\b", said[0], re.IGNORECASE):
        words = ["day"]
    days = {day for word in words for day in _days_of(word)}
    if not days:
        raise ActionError(
            f"A reminder is repeated on days of the week, and {said[0].strip()!r} names none", _CURE
        )
    return tuple(sorted(days))


def _days_of(word: str) -> Sequence[int]:
    if word.startswith(_WORKING):
        return range(5)
    if word.startswith("weekend"):
        return (5, 6)
    if word[:3] in WEEKDAYS:
        return (WEEKDAYS[word[:3]],)
    return EVERY_DAY if word in ("day", "days") or word.rstrip("s") in DAY_PARTS else ()


def part_of(said: re.Match[str]) -> str:
    """The part of the day a match of REPEATED names, such as ``morning``; empty where it names none."""
    found = re.search(r"morning|afternoon|evening|night", said[0], re.IGNORECASE)
    return found[0].lower() if found else ""


def next_of(repeat: Repeat, after: datetime, zone: tzinfo | None) -> datetime:
    """The first moment after ``after``; ``zone`` is the office's.

    An hour that clocks leave out comes an hour later.
    """
    zone = read_zone(repeat.zone) if repeat.zone else zone
    today = after.astimezone(zone).date()
    for ahead in range(9):
        day = today + timedelta(days=ahead)
        moment = place(datetime.combine(day, repeat.clock), zone)
        if day.weekday() in repeat.weekdays and moment > after:
            return moment
    raise AssertionError("no day of the week within nine days")


def tell_repeat(repeat: Repeat) -> str:
    """``every day at 09:00``, ``every Monday and Thursday at 14:00``."""
    names = [_NAMES[day] for day in repeat.weekdays]
    days = _TOGETHER.get(repeat.weekdays) or " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    zone = f" ({repeat.zone})" if repeat.zone else ""
    return f"every {days} at {repeat.clock:%H:%M}{zone}"


def write_repeat(repeat: Repeat) -> str:
    """As a reminder's record holds it: ``mon,thu 14:00``, and a zone where it has one of its own."""
    days = ",".join(name for name, number in WEEKDAYS.items() if number in repeat.weekdays)
    return f"{days} {repeat.clock:%H:%M} {repeat.zone}".rstrip()


def read_repeat(written: str) -> Repeat:
    """What ``write_repeat`` wrote."""
    days, clock, *zone = written.split()
    return Repeat(
        weekdays=tuple(WEEKDAYS[day] for day in days.split(",")),
        clock=time.fromisoformat(clock),
        zone=zone[0] if zone else "",
    )
