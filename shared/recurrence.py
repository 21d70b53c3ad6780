"""What repeats: rules of RFC 5545 as records hold them, their next moments, and what they say in English."""

import itertools
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

import msgspec

from shared.clock import localize, read_zone
from shared.text.display import format_list

WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_NAMES = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_MONTHS = "January February March April May June July August September October November December".split()
_UNITS = {
    "MINUTELY": "minute",
    "HOURLY": "hour",
    "DAILY": "day",
    "WEEKLY": "week",
    "MONTHLY": "month",
    "YEARLY": "year",
}
_NTH = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", -1: "last"}
_SPANS = {"MINUTELY": timedelta(minutes=1), "HOURLY": timedelta(hours=1)}
HORIZON = timedelta(days=1_500)  # Within this a run is looked for: it has a 29 February
MOST_CLOCKS = 12  # The most times of one day that are named
_FORM = re.compile(
    r"DTSTART(?:;TZID=(?P<zone>[^:\s]+))?:(?P<start>\d{8}T\d{6})(?P<utc>Z?)\s+RRULE:(?P<rule>\S+)"
)


class Recurrence(msgspec.Struct, frozen=True, kw_only=True):
    """A rule of RFC 5545 and its first moment: local time of ``zone`` ("": the office's), or aware.

    Local times stay when summer time begins and ends. Spans of elapsed time, such as
    hours, need an aware start.
    """

    start: datetime
    rule: str
    zone: str = ""

    @property
    def parts(self) -> Mapping[str, str]:
        """The parts of the rule by name: FREQ, INTERVAL, BYDAY and others."""
        return dict(part.split("=", 1) for part in self.rule.split(";"))


def format_recurrence(recurrence: Recurrence) -> str:
    """As records hold it: the lines DTSTART and RRULE of RFC 5545."""
    zone = f";TZID={recurrence.zone}" if recurrence.zone else ""
    start = recurrence.start.astimezone(UTC) if recurrence.start.tzinfo else recurrence.start
    return f"DTSTART{zone}:{start:%Y%m%dT%H%M%S}{'Z' if start.tzinfo else ''}\nRRULE:{recurrence.rule}"


def parse_recurrence(written: str) -> Recurrence:
    """What ``format_recurrence`` wrote; raises ValueError."""
    if found := _FORM.fullmatch(written.strip()):
        start = datetime.strptime(found["start"], "%Y%m%dT%H%M%S")  # noqa: DTZ007 - local on purpose
        start = start.replace(tzinfo=UTC) if found["utc"] else start
        return Recurrence(start=start, rule=found["rule"], zone=found["zone"] or "")
    raise ValueError(f"{written[:60]!r} is no rule of what repeats")


def next_occurrence(recurrence: Recurrence, after: datetime, zone: tzinfo | None) -> datetime | None:
    """The first moment after ``after``, None if there is none left; ``zone`` is the office's.

    A local time that summer time skips comes an hour later; of one that comes twice the first counts.
    """
    from dateutil.rrule import rrulestr

    start, parts = recurrence.start, recurrence.parts
    if start.tzinfo is None:
        zone = read_zone(recurrence.zone) if recurrence.zone else zone
        rule: Any = rrulestr(recurrence.rule, dtstart=start)
        # The local time may be up to a day behind that of ``after`` where the clocks are put back.
        wall = after.astimezone(zone).replace(tzinfo=None) - timedelta(hours=3)
        while (wall := rule.after(wall)) is not None:
            if (moment := localize(wall, zone)) > after:
                return moment
        return None
    if "COUNT" not in parts and after > start:
        step = _SPANS[parts["FREQ"]] * int(parts.get("INTERVAL", "1"))
        start += step * ((after - start) // step)
    found: datetime | None = rrulestr(recurrence.rule, dtstart=start).after(after)
    return found


LOOKED_AT = 40  # How many runs show at what times of day a rule runs
TOLD = 3  # How many runs are told of a rule that has no short form in words


def describe_recurrence(recurrence: Recurrence, after: datetime | None = None) -> str:
    """``every weekday at 08:30``, ``on the first Monday of every month at 09:00``, ``every 2 hours``.

    The times of day are those at which it runs. A rule that has no short form in words is quoted, with its
    next runs after ``after`` if that is given.
    """
    parts, start = recurrence.parts, recurrence.start
    try:
        every = _every(parts)
        if start.tzinfo is None:
            every += " at " + format_list(_find_clocks(recurrence), 24)
        if until := parts.get("UNTIL"):
            last = datetime.strptime(until[:8], "%Y%m%d")  # noqa: DTZ007 - a day
            every += f" until {last.day} {last:%B %Y}"
    except (KeyError, ValueError, IndexError, TypeError, OverflowError):
        return f"by the rule {recurrence.rule}{_tell_next(recurrence, after) if after else ''}"
    times = f", {parts['COUNT']} times in all" if "COUNT" in parts else ""
    return every + times + (f" ({recurrence.zone})" if recurrence.zone else "")


def _list_runs(recurrence: Recurrence, after: datetime, most: int) -> list[datetime]:
    """The first runs after ``after``, a local time of the rule's zone unless the rule is aware."""
    from dateutil.rrule import rrulestr

    end = "" if {"UNTIL", "COUNT"} & recurrence.parts.keys() else f";UNTIL={after + HORIZON:%Y%m%dT%H%M%S}"
    end += "Z" if end and after.tzinfo else ""
    rule: Any = rrulestr(f"{recurrence.rule}{end}", dtstart=recurrence.start)
    return list(itertools.islice(rule.xafter(after), most))


def _find_clocks(recurrence: Recurrence) -> list[str]:
    """At what times of day it runs, as 09:00; raises ValueError if they are not the same on each day."""
    before = recurrence.start - timedelta(seconds=1)
    by_day: dict[object, list[str]] = {}
    for run in _list_runs(recurrence, before, LOOKED_AT):
        by_day.setdefault(run.date(), []).append(f"{run:%H:%M}")
    days = list(by_day.values())
    full = days[1:-1] or days[:1]  # the first day and the last one may be cut
    if not full or any(each != full[0] for each in full) or len(full[0]) > MOST_CLOCKS:
        raise ValueError("it runs at other times on other days")
    return full[0]


def _tell_next(recurrence: Recurrence, after: datetime) -> str:
    """The next runs in words; empty if there are none."""
    start = recurrence.start
    moment = after.astimezone(UTC) if start.tzinfo else after.astimezone().replace(tzinfo=None)
    try:
        runs = _list_runs(recurrence, max(moment, start - timedelta(seconds=1)), TOLD)
    except (ValueError, IndexError, TypeError, OverflowError):  # a rule of others that cannot be read
        return ""
    told = [f"{run:%A} {run.day} {run:%B %Y} at {run:%H:%M}" for run in runs]
    return f", next on {format_list(told, TOLD)}" if told else ""


def _every(parts: Mapping[str, str]) -> str:
    """The days on which it runs; raises KeyError or ValueError if no short form says all of the rule."""
    frequency = parts["FREQ"]
    unit, interval = _UNITS[frequency], int(parts.get("INTERVAL", "1"))
    every = f"every {unit}" if interval == 1 else f"every {interval} {unit}s"
    chosen = parts.keys() & {"BYDAY", "BYMONTHDAY", "BYMONTH", "BYSETPOS"}
    if not chosen or (frequency == "DAILY" and chosen == {"BYSETPOS"}):  # one of the times of a day
        return every
    days, numbers = parts.get("BYDAY", "").split(","), parts.get("BYMONTHDAY", "").split(",")
    weekly = frequency == "WEEKLY" or (frequency == "DAILY" and interval == 1)
    if weekly and chosen == {"BYDAY"}:
        ordered = sorted(set(days), key=WEEKDAYS.index)
        named = {WEEKDAYS: "day", WEEKDAYS[:5]: "weekday"}.get(tuple(ordered)) or format_list(
            _day_names(ordered), 7
        )
        return f"every {named}" if interval == 1 else f"every {interval} weeks on {named}"
    month = _MONTHS[int(parts["BYMONTH"]) - 1] if frequency == "YEARLY" else ""
    if frequency not in ("MONTHLY", "YEARLY") or ("BYMONTH" in chosen and not month):
        raise ValueError("no short form")
    once = not {"BYHOUR", "BYMINUTE"} & parts.keys() or not re.search(
        ",", parts.get("BYHOUR", "") + parts.get("BYMINUTE", "")
    )
    rest, of = chosen - {"BYMONTH"}, f"{month} {every}" if month else every
    if rest == {"BYDAY"} and all(day[:-2] for day in days):
        return f"on the {format_list(_day_names(days), 7)} of {of}"
    if rest == {"BYDAY", "BYSETPOS"} and tuple(days) == WEEKDAYS[:5] and once:
        return f"on the {_NTH[int(parts['BYSETPOS'])]} working day of {of}"
    if rest == {"BYMONTHDAY"}:
        if numbers == ["-1"]:
            return f"{every} on the last day of {month}" if month else f"{every} on the last day"
        named = format_list([str(int(number)) for number in numbers if int(number) > 0], 31)
        if any(int(number) < 0 for number in numbers):
            raise ValueError("no short form")
        days_word = "day" if len(numbers) == 1 else "days"
        return f"{every} on {named} {month}" if month else f"{every} on {days_word} {named}"
    is_last = rest == {"BYMONTHDAY", "BYSETPOS"} and parts["BYSETPOS"] == "-1" and once and not month
    if is_last and numbers == [str(number) for number in range(28, int(numbers[-1]) + 1)]:
        return f"{every} on day {numbers[-1]}, or the last day"
    raise ValueError("no short form")


def _day_names(days: list[str]) -> list[str]:
    named = [(_NTH[int(day[:-2])] if day[:-2] else "", _NAMES[WEEKDAYS.index(day[-2:])]) for day in days]
    return [f"{nth} {name}".strip() for nth, name in named]
