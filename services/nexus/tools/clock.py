"""The time, dates, weekdays and the days between them."""

import re
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.days import find_days
from services.nexus.tools.tool import Answer, Tool, Words
from shared.clock import format_zone

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """
what time is it right now
time please
whats the time
do you have the time?
what's today's date?
what day is it today
what's the date
which day of the week is it?
what weekday was 3 May 2019?
what day of the week is the 24th of December this year?
on which day does Christmas fall?
what day will it be in 10 days?
what date is next Friday?
what's the date a week from tomorrow
what is the date three weeks from now
which calendar week are we in?
what week number is it
how many days until Christmas?
how many days are there between 3 March and 21 June?
how long until the end of the month
how many weeks till the 1st of July?
days left in this year?
is 2028 a leap year?
what time is it in Tokyo?
current time in New York please
if it's 3pm here what time is it in London
is it already past noon?
is today a weekday or the weekend
what was the date last Monday?
when is the next full hour
can you tell me the date of tomorrow
how many working days are left this month?
is it Tuesday today?
what year is it
how old is someone born on 12 August 1985?
which weekday is my birthday on, it's 9 October
how long is it from 9:15 to 17:40?
what timezone are we using
tell me the current time
do the clocks change this weekend
when does summer time begin
time?
date?
which day is the 1st of May
what day was yesterday
what date do we have in 45 days
how many weeks are left till summer holidays on 24 July
how long till 5 o'clock
how many hours until midnight
what's the time difference to Sydney
is it a weekday on 3 October
when is Easter this year
what day of the week was I born, 8 June 1991
how many days does february have this year
how much time is left until Friday noon
which week is the 20th of May in
what's tomorrow's date
is this an even week
how many sundays till christmas
current date and time
hey could you tell me what day we have today?
time pls
I lost track completely, is it already Thursday or still Wednesday
On which weekday does the 4th of July fall this year?
what's the date today, I need it for the lab sheet
how late is it in Osaka right now
My watch died. Time?
what week number are we in
which day of the week was 11 november 1989
tell me the current time in Halifax, I don't want to wake up my supplier
todays date in iso format thanks
when's Easter Sunday this year
quick one, whats the hour over in Perth
Please be so kind to say me what is the actual time
is next monday the 23rd or the 24th
what date is a week from Saturday
what time zone are you set to anyway
was the 1st of March a Sunday?
do you know if the clocks have gone forward yet
the choir director is in Boise and I never know how far behind they are so what's his time now
day of week for 31/10/2026
is it past three already?
What's the last Friday of May, date wise?
how many hours are we ahead of Chicago at the moment
which month is it, honestly
what day will it be in ten days
Could I get the exact time down to the second
when does the next quarter begin
"""

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
_HOURS = re.compile(r"(\d{1,2})[:.](\d\d)\s*(?:to|-|until|till)\s*(\d{1,2})[:.](\d\d)")


async def tell(desk: "Desk", request: Request, _: Words) -> Answer:
    """The time or date that the message asks for."""
    return Answer(text=tell_time(request.text, desk.now(request)))


def tell_time(text: str, now: datetime) -> str:
    """What ``text`` asks of clock and calendar, seen from ``now``."""
    lower, today = text.lower(), now.date()
    if found := _HOURS.search(lower):
        minutes = (int(found[3]) - int(found[1])) * 60 + int(found[4]) - int(found[2])
        return f"{minutes // 60} hours {minutes % 60} minutes."
    days = find_days(text, today)
    if re.search(r"\bclocks?\b.*\b(?:go|change|forward|back)|summer\s?time|daylight", lower):
        return _next_change(now)
    if "week" in lower and re.search(r"\bweek\s+(?:number|no)\b|calendar\s+week|which\s+week\b", lower):
        return f"It is week {(days[0] if days else today).isocalendar().week} of {today.year}."
    if found := re.search(r"\b(\d{4})\b.*leap|leap.*\b(\d{4})\b", lower):
        year = int(found[1] or found[2])
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        return f"{year} is {'a' if leap else 'no'} leap year."
    if re.search(r"\bhow\s+(?:many|long|old|far)\b|\bdays?\s+(?:left|until|till)\b", lower) and days:
        return _tell_distance(lower, days, today)
    if re.search(r"\btime\b|\bclock\b|\bo'clock\b", lower) and not days:
        return _tell_clock(lower, now)
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
    if "old" in text:
        born = min(first, last)
        age = today.year - born.year - ((today.month, today.day) < (born.month, born.day))
        return f"{age} years old."
    if "week" in text:
        return f"{count // 7} weeks and {count % 7} days, from {_name(first)} to {_name(last)}."
    if "working" in text or "work day" in text:
        begin, end = min(first, last), max(first, last)
        working = sum((begin + timedelta(days=n)).weekday() < 5 for n in range(1, (end - begin).days + 1))
        return f"{working} working days, from {_name(begin)} to {_name(end)}."
    return f"{count} day{'s' * (count != 1)}, from {_name(first)} to {_name(last)}."


def _year_before(day: date) -> date:
    return day.replace(year=day.year - 1, day=min(day.day, 28) if day.month == 2 else day.day)


def _tell_clock(text: str, now: datetime) -> str:
    from zoneinfo import ZoneInfo, available_timezones

    places = {
        zone.rpartition("/")[2].replace("_", " ").lower(): zone for zone in available_timezones()
    } | _ZONES
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


TOOL = Tool(
    name="clock",
    description="tells the time, dates, weekdays, and the days between dates",
    examples=EXAMPLES,
    run=tell,
)
