"""What repeats: rules of RFC 5545 as records hold them, their next moments, and what they say in English."""

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


def describe_recurrence(recurrence: Recurrence) -> str:
    """``every weekday at 08:30``, ``on the first Monday of every month at 09:00``, ``every 2 hours``.

    A rule that has no short form in words is quoted.
    """
    parts, start = recurrence.parts, recurrence.start
    try:
        every = _every(parts)
        if start.tzinfo is None:
            hours = [int(hour) for hour in parts.get("BYHOUR", str(start.hour)).split(",")]
            every += " at " + format_list([f"{hour:02d}:{start:%M}" for hour in hours], 24)
        if until := parts.get("UNTIL"):
            last = datetime.strptime(until[:8], "%Y%m%d")  # noqa: DTZ007 - a day
            every += f" until {last.day} {last:%B %Y}"
    except (KeyError, ValueError, IndexError):
        return f"by the rule {recurrence.rule}"
    times = f", {parts['COUNT']} times in all" if "COUNT" in parts else ""
    return every + times + (f" ({recurrence.zone})" if recurrence.zone else "")


def _every(parts: Mapping[str, str]) -> str:
    unit, interval = _UNITS[parts["FREQ"]], int(parts.get("INTERVAL", "1"))
    every = f"every {unit}" if interval == 1 else f"every {interval} {unit}s"
    days = parts.get("BYDAY", "").split(",") if parts.get("BYDAY") else []
    numbers = parts.get("BYMONTHDAY", "").split(",") if parts.get("BYMONTHDAY") else []
    month = _MONTHS[int(parts["BYMONTH"]) - 1] if "BYMONTH" in parts else ""
    which = _NTH.get(int(parts.get("BYSETPOS", "0")), "")
    if parts["FREQ"] == "WEEKLY" and days:
        named = {WEEKDAYS: "day", WEEKDAYS[:5]: "weekday"}.get(tuple(days)) or format_list(
            _day_names(days), 7
        )
        return f"every {named}" if interval == 1 else f"{every} on {named}"
    if days:
        day = f"{which} working day" if which else format_list(_day_names(days), 7)
        return f"on the {day} of {month or every}" + (f" {every}" if month else "")
    if numbers:
        number = int(numbers[-1])
        if number < 0 and month:
            return f"{every} on the last day of {month}"
        day = "the last day" if number < 0 else f"{number} {month}" if month else f"day {number}"
        return f"{every} on {day}" + (", or the last day" if which and not month else "")
    return every


def _day_names(days: list[str]) -> list[str]:
    named = [(_NTH.get(int(day[:-2] or 0), ""), _NAMES[WEEKDAYS.index(day[-2:])]) for day in days]
    return [f"{nth} {name}".strip() for nth, name in named]
