"""The time, dates, weekdays and the days between them."""

import re
from datetime import date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Answer, Tool, ToolContext, Words
from shared.clock import format_zone
from shared.language.times.clocks import Clock, cities, read_clocks
from shared.language.times.days import UnclearTime, find_days, names_day
from shared.language.times.time_phrases import WEEKDAYS, find_phrases

_ZONES = {
    "new york": "America/New_York",
    "london": "Europe/London",
    "tokyo": "Asia/Tokyo",
    "california": "America/Los_Angeles",
    "san francisco": "America/Los_Angeles",
    "los angeles": "America/Los_Angeles",
    "india": "Asia/Kolkata",
    "delhi": "Asia/Kolkata",
    "mumbai": "Asia/Kolkata",
    "beijing": "Asia/Shanghai",
    "china": "Asia/Shanghai",
    "boston": "America/New_York",
    "washington": "America/New_York",
    "uk": "Europe/London",
    "japan": "Asia/Tokyo",
    "germany": "Europe/Berlin",
    "munich": "Europe/Berlin",
    "hamburg": "Europe/Berlin",
    "utc": "UTC",
    "bern": "Europe/Zurich",
}
_HOW_LONG_UNTIL = re.compile(
    r"\bhow\s+(?:many\s+(?:hours|minutes)|long|much\s+time)\b.*\b(?:until|till|til|before|to)\b"
)
_BEHIND = re.compile(r"\b(?:in|for|to|of|from|and|with|between)\s+(?=([a-z]+(?:\s+[a-z]+){0,2}))")
NO_DAY = "I find no day or time in that. Name it, for example: how many days until 24 December?"
_HOURS = re.compile(r"(\d{1,2})[:.](\d\d)\s*(?:to|-|until|till)\s*(\d{1,2})[:.](\d\d)")


async def tell_clock(context: ToolContext, request: Request, _: Words) -> Answer:
    """The time or date that the message asks for."""
    return Answer(text=tell_time(request.text, context.now(request)))


def tell_time(text: str, now: datetime) -> str:
    """What ``text`` asks of clock and calendar, seen from ``now``."""
    lower, today = text.lower(), now.date()
    if found := _HOURS.search(lower):
        minutes = (int(found[3]) - int(found[1])) * 60 + int(found[4]) - int(found[2])
        return f"{minutes // 60} hours {minutes % 60} minutes."
    days = find_days(text, today)
    if not days and names_day(text):
        return "There is no such day in the calendar."
    if re.search(r"\bclocks?\b.*\b(?:go|change|forward|back)|summer\s?time|daylight", lower):
        return _next_change(now)
    if "week" in lower and re.search(r"\bweek\s+(?:number|no)\b|calendar\s+week|which\s+week\b", lower):
        return f"It is week {(days[0] if days else today).isocalendar().week} of {today.year}."
    if found := re.search(r"\b(\d{4})\b.*leap|leap.*\b(\d{4})\b", lower):
        year = int(found[1] or found[2])
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        return f"{year} is {'a' if leap else 'no'} leap year."
    if re.search(r"\btime\s+difference\b|\bhours?\b.*\b(?:ahead|behind)\b", lower):
        return _tell_difference(lower, now)
    if (asked := _HOW_LONG_UNTIL.search(lower)) and (clock := _find_clock(lower[asked.end() :])):
        return _tell_hours(clock, days[0] if days else None, now)
    is_distance = re.search(r"\bhow\s+(?:many|long|old|far)\b|\bdays?\s+(?:left|until|till)\b", lower)
    if is_distance and days:
        return _tell_distance(lower, days, today)
    asks_clock = re.search(r"\btime\b|\bclock\b|\bo'clock\b|\bhow\s+(?:late|early)\b", lower)
    if (asks_clock or _find_places(lower)) and not days:
        return _tell_clock(lower, now)
    if is_distance:
        return NO_DAY
    day = days[0] if days else today
    return f"{'Today' if day == today else 'That'} is {_name(day)}."


def _tell_distance(text: str, days: list[date], today: date) -> str:
    first, last = (days[0], days[1]) if len(days) > 1 else (today, days[0])
    if "since" in text or "ago" in text:
        last, first = today, min(first, last) if min(first, last) < today else _year_before(max(first, last))
    elif len(days) > 1 and first > last:
        last = (
            last.replace(year=first.year) if last.replace(year=first.year) >= first else _year_before(first)
        )
        first, last = min(first, last), max(first, last)
    count = abs((last - first).days)
    if named := re.search(r"\bhow\s+many\s+((?:mon|tues|wednes|thurs|fri|satur|sun)day)s\b", text):
        weekday = WEEKDAYS[named[1][:3]]
        passed = sum((first + timedelta(days=n)).weekday() == weekday for n in range(1, count))
        times = f"{passed} {named[1].capitalize()}{'s' * (passed != 1)}"
        return f"{times} between {_name(first)} and {_name(last)}."
    if "old" in text:
        born = min(first, last)
        age = today.year - born.year - ((today.month, today.day) < (born.month, born.day))
        return f"{age} years old."
    if "week" in text:
        return f"{count // 7} weeks and {count % 7} days, from {_name(first)} to {_name(last)}."
    if "working" in text or "work day" in text:
        begin, end = min(first, last), max(first, last)
        working = sum((begin + timedelta(days=n)).weekday() < 5 for n in range(1, (end - begin).days + 1))
        return f"{working} working day{'s' * (working != 1)}, from {_name(begin)} to {_name(end)}."
    return f"{count} day{'s' * (count != 1)}, from {_name(first)} to {_name(last)}."


def _year_before(day: date) -> date:
    return day.replace(year=day.year - 1, day=min(day.day, 28) if day.month == 2 else day.day)


def _find_clock(text: str) -> Clock | None:
    """The time of day that ``text`` names, if it is written as one: not "at 6"."""
    try:
        named = [read_clocks(each)[0] for each in find_phrases(text) if each.kind == "clock"]
    except UnclearTime:
        return None
    return next((each for each in named if each.sure or re.search(r"[:.]\d\d|o.clock", each.said)), None)


def _tell_hours(clock: Clock, day: date | None, now: datetime) -> str:
    """The time until a time of day: on ``day``, else the next such time."""
    hour, minute = clock.hour, clock.minute
    until = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
    if day:
        until = until.replace(year=day.year, month=day.month, day=day.day)
    else:
        # "until 6:30" is the next one
        steps = (timedelta(hours=24 if clock.sure else 12), timedelta(hours=24))
        until = next(each for each in (until, *(until + step for step in steps)) if each > now)
    minutes = round((until - now).total_seconds() / 60)
    if minutes < 0:
        return f"That has passed: it is {now:%H:%M} on {_name(now.date())}."
    days, hours = divmod(minutes // 60, 24)
    spans = ((days, "day"), (hours, "hour"), (minutes % 60, "minute"))
    told = " ".join(f"{count} {unit}{'s' * (count != 1)}" for count, unit in spans if count) or "0 minutes"
    return f"{told}, until {until:%H:%M} on {_name(until.date())}."


def _tell_difference(text: str, now: datetime) -> str:
    named = sorted((found.start(), zone) for found, zone in _find_places(text))
    if not named:
        return "Which place is that? I know the cities that time zones are named after, such as Sydney."
    there, here = now.astimezone(ZoneInfo(named[-1][1])), now
    if len(named) > 1:
        here = now.astimezone(ZoneInfo(named[0][1]))
    apart = ((there.utcoffset() or timedelta()) - (here.utcoffset() or timedelta())).total_seconds() / 3600
    clocks = f"it is {there:%H:%M} there ({format_zone(there)}) and {here:%H:%M} here ({format_zone(here)})."
    if len(named) > 1:
        clocks = f"it is {here:%H:%M} ({format_zone(here)}) and {there:%H:%M} ({format_zone(there)})."
    if not apart:
        return f"There is no difference: {clocks}"
    return f"{abs(apart):g} hour{'s' * (abs(apart) != 1)} {'later' if apart > 0 else 'earlier'}: {clocks}"


@cache
def _places() -> dict[str, str]:
    return cities() | _ZONES


def _find_places(text: str) -> list[tuple[re.Match[str], str]]:
    """The places with a time zone that ``text`` names behind a preposition."""
    found = []
    for match in _BEHIND.finditer(text):
        words = match[1].split()
        names = (" ".join(words[:count]) for count in range(len(words), 0, -1))
        if name := next((name for name in names if name in _places()), ""):
            found.append((match, _places()[name]))
    return found


def _tell_clock(text: str, now: datetime) -> str:
    places = _places()
    found = re.search(r"\b(?:in|for)\s+([a-z ]+?)\s*(?:[?.!,]|$|right|now|please|if|at)", text)
    name = found[1].strip() if found else ""
    there = now.astimezone(ZoneInfo(places[name])) if name in places else now
    where = f" in {name.title()}" if name in places else ""
    return f"It is {there:%H:%M}{where} on {_name(there.date())} ({format_zone(there)})."


def _next_change(now: datetime) -> str:
    for ahead in range(1, 370):
        day = now + timedelta(days=ahead)
        before = day - timedelta(days=1)
        if (new := day.utcoffset()) != (old := before.utcoffset()) and new is not None and old is not None:
            return f"The clocks go {'forward' if new > old else 'back'} in the night to {_name(day.date())}."
    return "The clocks do not change here."


def _name(day: date) -> str:
    return f"{day:%A} {day.day} {day:%B %Y}"


CLOCK = Tool(
    name="clock",
    description="tells the time, dates, weekdays, and the days between dates",
    run=tell_clock,
)
