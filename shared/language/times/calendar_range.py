"""The days that a question about the calendar asks about."""

from datetime import date, timedelta

import msgspec

from shared.language.sayings import read_sayings
from shared.language.times.days import (
    Day,
    UnclearTime,
    find_day,
    is_short,
    month_day,
    ordinal,
    read_amount,
    read_day,
)
from shared.language.times.spoken_times import spell_plainly
from shared.language.times.time_phrases import NUMBERS, Phrase, find_ago, find_phrases

WAYS = read_sayings(__file__, "calendar_range")

MAX_LENGTH = 1_000  # The characters of a text that are looked through for days


def parse_calendar_range(text: str, today: date) -> tuple[date, int]:
    """The first day and the number of days that ``text`` asks about; just ``today`` if it names none.

    "Next week" is from Monday to Sunday, "the next days" a week, "my next meeting" the 30 days ahead.
    """
    return find_calendar_range(text, today) or (today, 30 if WAYS["next_event"].search(text) else 1)


def find_calendar_range(text: str, today: date) -> tuple[date, int] | None:
    """As ``parse_calendar_range``; None if ``text`` names no days."""
    if found := WAYS["next"].search(text):
        words = (found["count"] or "0").lower()
        count = int(words) if words.isdigit() else int(NUMBERS[words])
        if found["unit"].lower() == "week" and not count:
            return today + timedelta(days=7 - today.weekday()), 7
        days = count * (7 if found["unit"].lower().startswith("week") else 1) or 7
        return today, max(1, min(days, 366))
    if found := WAYS["past"].search(text):
        days = 7 if found["unit"].lower() == "week" else 31
        return today - timedelta(days=today.weekday() + 7 if days == 7 else days), days
    if WAYS["weekend"].search(text):
        saturday = today + timedelta(days=max(0, 5 - today.weekday()))
        return saturday, 7 - saturday.weekday()
    if WAYS["week"].search(text):
        return today, 7 - today.weekday()
    if WAYS["month"].search(text):
        return today, 31
    named = read_named_days(text, today)
    return (named[0].day, 1) if named else None


class NamedDay(msgspec.Struct, frozen=True):
    """A day that a text names, and where."""

    day: date
    start: int
    end: int


def find_days(text: str, today: date) -> list[date]:
    """The days that ``text`` names, in its order, seen from ``today``; what is no day is left out."""
    text = WAYS.rewrite("asked_days", spell_plainly(text))
    return [each.day for each in read_named_days(text, today)]


def names_day(text: str) -> bool:
    """Whether ``text`` names a day, also one that there is not: "31 June"."""
    return any(each.kind == "day" and not each["vague"] for each in find_phrases(text[:MAX_LENGTH]))


def read_named_days(text: str, today: date) -> list[NamedDay]:
    """The days that the first MAX_LENGTH characters of ``text`` name, and where; vague ones are left out.

    Days of the year and weekdays are the next ones, "three weeks ago" and "last Friday" are behind.
    """
    text, offset, found = text[:MAX_LENGTH], None, []
    for phrase in find_phrases(text):
        if phrase.kind == "offset":
            offset = phrase
            continue
        try:
            if phrase.kind == "day":
                day = _shift(find_day(read_day(phrase, today), today), offset)
            elif phrase.kind == "span" and not is_short(amount := phrase["amount"] or phrase["later"]):
                day = today + read_amount(amount)
            else:
                continue
        except (UnclearTime, ValueError, OverflowError):
            continue
        found.append(NamedDay(day, *phrase.match.span()))
        offset = None
    past = [ago for ago in find_ago(text) if not is_short(ago["amount"])]
    found += [NamedDay(today - read_amount(ago["amount"]), *ago.span()) for ago in past]
    if not found and (alone := WAYS["month_day"].search(text)):
        day = find_day(Day(rule=month_day(ordinal(alone["number"].lower()))), today)
        found.append(NamedDay(day, *alone.span()))
    return sorted(found, key=lambda each: each.start)


def _shift(day: date, offset: Phrase | None) -> date:
    """``day``, or the one so long before or after it as ``offset`` says: "the day after Thursday"."""
    if offset is None or is_short(amount := offset["amount"] or f"1 {offset['unit']}"):
        return day
    away = read_amount(amount)
    shifted: date = day - away if offset["way"].startswith(("before", "prior")) else day + away
    return shifted
