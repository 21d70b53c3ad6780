"""The days that a message names: dates, weekdays, feasts, and what lies some days or weeks from one."""

import re
from datetime import date, timedelta

from shared.language.times.time_phrases import EASTER, HOLIDAY, HOLIDAYS, name_holiday

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_NUMBERS = dict(
    zip("a an one two three four five six seven eight nine ten".split(), (1, 1, *range(1, 11)), strict=True)
)
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_SPAN = (
    r"(?P<count>\d+|an?|one|two|three|four|five|six|seven|eight|nine|ten)\s+"
    r"(?P<unit>days?|weeks?|fortnights?|months?|years?)"
)
_AHEAD = re.compile(
    rf"\b(?:in\s+{_SPAN}|{_SPAN.replace('count', 'n').replace('unit', 'u')}\s+(?P<way>from|after|before"
    rf"|ago)(?:\s+(?P<base>now|today|tomorrow|yesterday|next\s+\w+|\w+day))?)"
)
_DATE = re.compile(
    rf"\b(?:(?P<iso>\d{{4}}-\d\d-\d\d)|(?P<day>\d{{1,2}})(?:st|nd|rd"
    rf"|th)?(?:\s+of)?\s+(?P<month>{_MONTH})\b\.?(?:,?\s+(?P<year>\d{{4}}))?"
    rf"|(?P<month2>{_MONTH})\.?\s+(?:the\s+)?(?P<day2>\d{{1,2}})(?:st|nd|rd"
    rf"|th)?\b(?:,?\s+(?P<year2>\d{{4}}))?"
    r"|(?P<relative>today|tomorrow|yesterday|day\s+after\s+tomorrow)"
    rf"|(?:(?P<which>next|last|this|coming)\s+)?(?P<weekday>{'|'.join(WEEKDAYS)})\b"
    rf"|(?P<feast>{HOLIDAY})"
    r"|(?P<end>end\s+of\s+(?:the|this)\s+(?:month|quarter|year)|left\s+(?:in\s+)?(?:this|the)\s+(?:month|quarter|year))"
    rf"|the\s+(?P<monthday>\d{{1,2}})(?:st|nd|rd|th)\b(?!\s+(?:of\s+)?{_MONTH}\b))"
)


def find_days(text: str, today: date) -> list[date]:
    """The days that ``text`` names, in its order, seen from ``today``; what is no day is left out."""
    lower = text.lower().replace("’", "'")
    if found := _AHEAD.search(lower):
        base = _read_base(found["base"] or "", today)
        count = found["count"] or found["n"]
        sign = -1 if found["way"] in ("before", "ago") else 1
        moved = _move(base, sign * (_NUMBERS.get(count) or int(count)), found["unit"] or found["u"])
        return [moved]
    days = []
    for match in _DATE.finditer(lower):
        try:
            days.append(_read(match, today))
        except (ValueError, OverflowError):
            continue
    return days


def names_day(text: str) -> bool:
    """Whether ``text`` names a day, also one that there is not: "31 June"."""
    return bool(_DATE.search(text.lower().replace("’", "'")))


def _read_base(words: str, today: date) -> date:
    match = _DATE.search(words)
    return _read(match, today) if match else today


def _move(base: date, count: int, unit: str) -> date:
    from dateutil.relativedelta import relativedelta

    sizes = {
        "d": relativedelta(days=1),
        "w": relativedelta(weeks=1),
        "f": relativedelta(weeks=2),
        "m": relativedelta(months=1),
        "y": relativedelta(years=1),
    }
    moved: date = base + sizes[unit[0]] * count
    return moved


def _read(match: re.Match[str], today: date) -> date:
    if match["iso"]:
        return date.fromisoformat(match["iso"])
    if match["relative"]:
        return today + timedelta(days={"today": 0, "tomorrow": 1, "yesterday": -1}.get(match["relative"], 2))
    if match["weekday"]:
        ahead = (WEEKDAYS.index(match["weekday"]) - today.weekday()) % 7
        if match["which"] == "next" and ahead == 0:
            ahead = 7
        return today + timedelta(days=ahead - 7 if match["which"] == "last" else ahead)
    if match["feast"]:
        return _read_feast(match["feast"], today)
    if match["end"]:
        unit = match["end"].rsplit(maxsplit=1)[-1]
        last = {"month": today.month, "quarter": (today.month + 2) // 3 * 3, "year": 12}[unit]
        return date(today.year + last // 12, last % 12 + 1, 1) - timedelta(days=1)
    if match["monthday"]:
        day = today.replace(day=int(match["monthday"]))
        return day if day >= today else _move(day, 1, "month")
    number_of_day, month = int(match["day"] or match["day2"]), (match["month"] or match["month2"])[:3]
    year = match["year"] or match["year2"]
    number = _MONTHS.index(month) + 1
    if year:
        return date(int(year), number, number_of_day)
    found = date(today.year, number, number_of_day)
    return found if found >= today else date(today.year + 1, number, number_of_day)


def _read_feast(name: str, today: date) -> date:
    from dateutil.easter import easter

    plain = name_holiday(name)
    for year in (today.year, today.year + 1):
        if plain in EASTER:
            feast: date = easter(year) + timedelta(days=EASTER[plain])
        else:
            feast = date(year, *HOLIDAYS[plain])
        if feast >= today:
            return feast
    return feast
