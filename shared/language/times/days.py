"""Days, spans and ranges as people name them: phrases become dates, or parts of a rule of RFC 5545."""

import re
from datetime import date, datetime, time, timedelta
from typing import Any

import msgspec

from shared.language.sayings import read_sayings
from shared.language.times.time_phrases import (
    EASTER,
    HOLIDAYS,
    MONTHS,
    NUMBERS,
    ORDINALS,
    WAYS,
    WEEKDAYS,
    Phrase,
    find_ago,
    find_phrases,
    name_holiday,
    spell_plainly,
)
from shared.recurrence import WEEKDAYS as CODES

_AHEAD = {"yesterday": -1, "today": 0, "tonight": 0, "this": 0}
_UNITS = {
    "s": "seconds",
    "mi": "minutes",
    "m": "minutes",
    "h": "hours",
    "d": "days",
    "w": "weeks",
    "mo": "months",
    "y": "years",
}
_MANY = {"fo": ("weeks", 2), "q": ("months", 3)}
_HALVES = {"months": timedelta(days=15), "years": timedelta(days=182)}


class UnclearTime(Exception):
    """What is missing ("time", "day", "past", "rate", "event"), and a sentence about it."""

    def __init__(self, missing: str, why: str = "") -> None:
        super().__init__(missing, why)
        self.missing = missing
        self.why = why


class Day(msgspec.Struct, frozen=True):
    """A day as it was said: a date, or parts of a rule that is searched from ``start``.

    ``every`` is the frequency if the phrase says that it repeats ("of every month"), ``vague`` whether it is
    a week, a month or a year of which a day must be named.
    """

    on: date | None = None
    rule: str = ""
    start: date | None = None
    every: str = ""
    vague: bool = False


def read_amount(text: str) -> Any:
    """The relativedelta of ``text``, such as "an hour and a half" or "2 weeks"."""
    from dateutil.relativedelta import relativedelta

    whole = relativedelta()
    for found in WAYS["amount"].finditer(text):
        words = " ".join(re.sub(r"[\s-]+", " ", found["count"].lower()).split())
        number = NUMBERS.get(words) or float(words.replace(",", "."))
        number += 0.5 if found["half"] or found["more"] else 0
        unit = found["unit"].strip().lower()
        name, size = (
            _MANY.get(unit[:2]) or _MANY.get(unit[:1]) or (_UNITS.get(unit[:2]) or _UNITS[unit[0]], 1)
        )
        number *= size
        if name in _HALVES:
            whole += relativedelta(**{name: int(number)}) + (_HALVES[name] if number % 1 else timedelta())
        else:
            whole += relativedelta(**{name: number})
        whole += timedelta(minutes=int(found["minutes"] or 0))
    return whole


def is_short(text: str) -> bool:
    """Whether a span is of hours, minutes or seconds: it runs by the clock, not by the calendar."""
    units = [found["unit"].strip().lower() for found in WAYS["amount"].finditer(text)]
    return all(unit[0] in "sh" or (unit[0] == "m" and not unit.startswith("mo")) for unit in units)


def ordinal(text: str) -> int:
    """The number that "24th", "first" or "last" (-1) stands for."""
    digits = re.match(r"\d+", text)
    return int(digits[0]) if digits else ORDINALS[text]


def read_day(phrase: Phrase, today: date) -> Day:
    """The day that a phrase of the kind "day" names; raises UnclearTime."""
    try:
        return _read_day(phrase, today)
    except ValueError:
        raise UnclearTime("day", f"{phrase.match[0].strip()!r} is no day of the calendar") from None


def _read_day(phrase: Phrase, today: date) -> Day:
    if phrase["either"]:
        raise UnclearTime("day", f"{phrase.match[0].strip()!r} names two days")
    if words := phrase["relative"]:
        return Day(on=today + timedelta(days=2 if "after" in words else _AHEAD.get(words, 1)))
    if phrase["weekday"]:
        return Day(on=_weekday(phrase, today), rule=f"BYDAY={CODES[WEEKDAYS[phrase['weekday'][:3]]]}")
    if phrase["iso"]:
        return Day(on=date.fromisoformat(phrase["iso"]))
    if month := phrase["m"] or phrase["m2"]:
        return _in_month(
            ordinal(phrase["d"] or phrase["d2"]), MONTHS[month[:3]], phrase["y"] or phrase["y2"], today
        )
    if phrase["dd"]:
        return _numeric(phrase, today)
    if phrase["holiday"]:
        return _holiday(name_holiday(phrase["holiday"]), today)
    if words := phrase["monthday"] or phrase["monthday2"]:
        period = _period(phrase["period3"], today)
        rule = _join(period.rule, _month_days(re.split(r"[\s,]+and\s+|,\s*", words)))
        return msgspec.structs.replace(period, rule=rule, vague=False)
    if count := phrase["workdays"]:
        return Day(on=_workday_after(today, int(NUMBERS.get(count) or float(count))))
    if phrase["nth"]:
        period = _period(phrase["period"], today)
        return msgspec.structs.replace(period, rule=_join(period.rule, _nth(phrase)), vague=False)
    if phrase["edge"]:
        return _edge(phrase["edge"], phrase["period2"], today)
    if "birthday" in phrase["vague"]:
        raise UnclearTime("day", f"I do not know when {phrase['vague']} is")
    return msgspec.structs.replace(_period(phrase["vague"], today), vague=True)


def month_day(number: int) -> str:
    """The rule of a day of the month; of the 29th to the 31st the last day in months that are shorter."""
    if not -1 <= number <= 31 or not number:
        raise UnclearTime("day", f"No month has a day {number}")
    if number < 29:
        return f"BYMONTHDAY={number}"
    return f"BYMONTHDAY={','.join(map(str, range(28, number + 1)))};BYSETPOS=-1"


def _month_days(words: list[str]) -> str:
    """The rule of one day of the month or of several, of which none may be missing in some months."""
    numbers = [ordinal(re.sub(r"^(?:on\s+)?(?:the\s+)?", "", word)) for word in words]
    if len(numbers) == 1:
        return month_day(numbers[0])
    if not all(0 < number < 29 or number == -1 for number in numbers):
        raise UnclearTime("day", "I can repeat on several days of the month up to the 28th, or on the last")
    return f"BYMONTHDAY={','.join(map(str, numbers))}"


def _workday_after(today: date, count: int) -> date:
    """The day that is ``count`` working days after ``today``."""
    day = today
    while count > 0:
        day += timedelta(days=1)
        count -= day.weekday() < 5
    return day


def find_day(day: Day, today: date) -> date:
    """The first date of ``day`` from its start on, or from ``today``."""
    from dateutil.rrule import rrulestr

    if day.on:
        return day.on
    frequency = "YEARLY" if "BYMONTH=" in day.rule else "MONTHLY"
    exact = re.sub(r"(BYMONTHDAY=)[\d,]*?(\d+);BYSETPOS=-1", r"\1\2", day.rule)
    start = datetime.combine(max(day.start or today, today) if not day.every else today, time())
    rule: Any = rrulestr(
        f"FREQ={frequency};{exact};COUNT=1" if day.rule else "FREQ=DAILY;COUNT=1", dtstart=start
    )
    found = next(iter(rule), None)
    if found is None:
        raise UnclearTime("day", "There is no such day in the calendar")
    return found.date()  # type: ignore[no-any-return]


def join_days(days: list[Day]) -> Day | None:
    """One day of several phrases: "Tuesday" and "next week" are one; raises UnclearTime if they are not."""
    if len(days) < 2:
        return days[0] if days else None
    vague, exact = [each for each in days if each.vague], [each for each in days if not each.vague]
    dated = [each for each in exact if each.on and not each.rule] + [
        each for each in exact if "MONTH" in each.rule
    ]
    if len(exact) == 2 and len(dated) == 1 and exact[0].rule.startswith("BYDAY"):
        return dated[0]  # Friday, 27 November
    if len(vague) != 1 or len(exact) != 1 or not exact[0].rule:
        raise UnclearTime("day", "I read more than one day in that")
    start = vague[0].start or date.min
    if (weekday := exact[0].rule.removeprefix("BYDAY=")) in CODES:
        return Day(
            on=start + timedelta(days=(CODES.index(weekday) - start.weekday()) % 7), rule=exact[0].rule
        )
    return msgspec.structs.replace(exact[0], start=start)


def _weekday(phrase: Phrase, today: date) -> date:
    ahead = (WEEKDAYS[phrase["weekday"][:3]] - today.weekday()) % 7
    which, more = phrase["which"], phrase["week"]
    if which == "last":
        return today + timedelta(days=ahead - 7)
    if which == "next" or more == "after next":
        # That of the calendar's next week, not the one that comes first.
        monday = today + timedelta(days=7 - today.weekday() + 7 * (more == "after next"))
        return monday + timedelta(days=WEEKDAYS[phrase["weekday"][:3]])
    return today + timedelta(days=ahead + 7 * (more == "week"))


def _in_month(number: int, month: int, year: str, today: date) -> Day:
    if year:
        return Day(on=date(int(year), month, number))
    date(2024, month, number)
    return Day(rule=f"BYMONTH={month};BYMONTHDAY={number}")


def _numeric(phrase: Phrase, today: date) -> Day:
    first, second, year = int(phrase["dd"]), int(phrase["mm"]), phrase["yyyy"]
    if phrase["sign"] == "/" and first <= 12 and second <= 12 and first != second:
        raise UnclearTime("day", f"{phrase.match[0].strip()!r} can have the day first or the month")
    if phrase["sign"] == "/" and second > 12:
        first, second = second, first
    return _in_month(first, second, f"20{year}" if len(year) == 2 else year, today)


def _holiday(name: str, today: date) -> Day:
    from dateutil.easter import easter

    if name in EASTER:
        years = (easter(today.year + more) + timedelta(days=EASTER[name]) for more in (0, 1))
        return Day(on=next(day for day in years if day >= today))
    month, number = HOLIDAYS[name]
    return Day(rule=f"BYMONTH={month};BYMONTHDAY={number}")


def _period(words: str, today: date) -> Day:
    """The beginning of a week, month or year that is named, and its frequency if it is "every" one."""
    named = re.match(r"([a-z]{3})[a-z]*(?:\s+(\d{4}))?$", words)
    if named and named[1] in MONTHS:
        start = date(int(named[2]), MONTHS[named[1]], 1) if named[2] else None
        return Day(rule=f"BYMONTH={MONTHS[named[1]]}", start=start, vague=True)
    ahead = words.startswith(("next", "following", "coming"))
    every = (
        {"month": "MONTHLY", "year": "YEARLY"}.get(words.rsplit(maxsplit=1)[-1], "")
        if words.startswith(("ea", "ev"))
        else ""
    )
    if "week" in words:
        monday = today + timedelta(days=7 * ahead - today.weekday())
        return Day(start=monday if ahead else today, vague=True)
    if "year" in words:
        return Day(start=date(today.year + ahead, 1, 1) if ahead else today, every=every, vague=True)
    first = (today.replace(day=1) + timedelta(days=32)).replace(day=1)
    return Day(start=first if ahead else today, every=every, vague=True)


def _nth(phrase: Phrase) -> str:
    number, what = ordinal(phrase["nth"]), phrase["what"]
    if what == "day":
        return month_day(number)
    if what.endswith("day") and what[:3] in WEEKDAYS:
        return f"BYDAY={number}{CODES[WEEKDAYS[what[:3]]]}"
    return f"BYDAY=MO,TU,WE,TH,FR;BYSETPOS={number}"


def _edge(edge: str, words: str, today: date) -> Day:
    period = _period(words, today)
    if "week" in words:
        monday = (period.start or today) - timedelta(days=(period.start or today).weekday())
        return Day(on=monday + timedelta(days={"end": 4, "start": 0, "beginning": 0}.get(edge, 2)))
    number = {"end": -1, "start": 1, "beginning": 1}.get(edge, 15)
    months = {"year": {1: "1", -1: "12", 15: "7"}[number], "quarter": {1: "1,4,7,10"}.get(number, "3,6,9,12")}
    month = next((f"BYMONTH={which}" for unit, which in months.items() if unit in words), period.rule)
    return msgspec.structs.replace(period, rule=_join(month, f"BYMONTHDAY={number}"), vague=False)


def _join(*rules: str) -> str:
    return ";".join(filter(None, rules))


RANGE_WAYS = read_sayings(__file__, "calendar_range")

MAX_RANGE_LENGTH = 1_000  # The characters of a text that are looked through for days


def find_calendar_range(text: str, today: date) -> tuple[date, int] | None:
    """The first day and the number of days that ``text`` asks about; None if it names none.

    "Next week" is from Monday to Sunday, "the next days" are a week.
    """
    if found := RANGE_WAYS["week_of"].search(text):
        return _find_week_of(found, today), 7
    if found := RANGE_WAYS["next"].search(text):
        words = (found["count"] or "0").lower()
        count = int(words) if words.isdigit() else int(NUMBERS[words])
        if found["unit"].lower() == "week" and not count:
            return today + timedelta(days=7 - today.weekday()), 7
        days = count * (7 if found["unit"].lower().startswith("week") else 1) or 7
        return today, max(1, min(days, 366))
    if found := RANGE_WAYS["past"].search(text):
        days = 7 if found["unit"].lower() == "week" else 31
        return today - timedelta(days=today.weekday() + 7 if days == 7 else days), days
    if RANGE_WAYS["weekend"].search(text):
        saturday = today + timedelta(days=max(0, 5 - today.weekday()))
        return saturday, 7 - saturday.weekday()
    if RANGE_WAYS["week"].search(text):
        return today, 7 - today.weekday()
    if RANGE_WAYS["month"].search(text):
        return today, 31
    named = read_named_days(text, today)
    return (named[0].day, 1) if named else None


def _find_week_of(found: re.Match[str], today: date) -> date:
    """The Monday of a week of a month that is not over: the first one is that with most of its days in it."""
    number, month = ordinal(found["nth"].lower()), MONTHS[found["month"][:3].lower()]
    first = date(today.year + (month < today.month), month, 1)
    if number < 0:
        last = (first + timedelta(days=32)).replace(day=1) - timedelta(days=1)
        return last - timedelta(days=last.weekday())
    return first + timedelta(days=3 - (first + timedelta(days=3)).weekday() + 7 * (number - 1))


class NamedDay(msgspec.Struct, frozen=True):
    """A day that a text names, and where."""

    day: date
    start: int
    end: int


def find_days(text: str, today: date) -> list[date]:
    """The days that ``text`` names, in its order, seen from ``today``; what is no day is left out."""
    text = RANGE_WAYS.rewrite("asked_days", spell_plainly(text))
    return [each.day for each in read_named_days(text, today)]


def names_day(text: str) -> bool:
    """Whether ``text`` names a day, also one that there is not: "31 June"."""
    return any(each.kind == "day" and not each["vague"] for each in find_phrases(text[:MAX_RANGE_LENGTH]))


def read_named_days(text: str, today: date) -> list[NamedDay]:
    """The days that the first MAX_RANGE_LENGTH characters of ``text`` name, and where, but for vague ones.

    Days of the year and weekdays are the next ones, "three weeks ago" and "last Friday" are behind.
    """
    text, offset, found = text[:MAX_RANGE_LENGTH], None, []
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
    if not found and (alone := RANGE_WAYS["month_day"].search(text)):
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
