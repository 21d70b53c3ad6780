"""How people name times and days: patterns, and times spelled out written as digits."""

import re
from collections.abc import Iterable

from shared.errors import ActionError

EXAMPLE = "Name one time, such as 'tomorrow at 9', 'in 20 minutes', 'next Friday 14:00' or '2027-01-31 08:30'"
"""What to write instead of an unclear time."""

_NUMBER_WORDS = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty"
).split()
_ONES = {word: float(number) for number, word in enumerate(_NUMBER_WORDS, start=1)}
_TENS = {"twenty": 20.0, "thirty": 30.0, "forty": 40.0, "fifty": 50.0, "sixty": 60.0, "ninety": 90.0}
NUMBERS: dict[str, float] = {
    **_ONES,
    **_TENS,
    **{
        f"{ten}{link}{one}": _TENS[ten] + _ONES[one]
        for ten in _TENS
        for one in _NUMBER_WORDS[:9]
        for link in "- "
    },
    "a couple of": 2.0,
    "a quarter of an": 0.25,
    "quarter of an": 0.25,
    "three quarters of an": 0.75,
    "half a": 0.5,
    "half an": 0.5,
    "a": 1.0,
    "an": 1.0,
}
UNITS = {"s": 1.0, "m": 60.0, "h": 3_600.0}
"""Seconds by the first letter of a unit."""
LONG_UNITS = {"d": 1, "da": 1, "w": 7, "we": 7, "fo": 14}
"""Days by the first letters of a unit."""
MONTHLY_UNITS = {"mo": 1, "ye": 12}
"""Months by the first letters of a unit."""
WEEKDAYS = {name: number for number, name in enumerate("mon tue wed thu fri sat sun".split())}
DAY_PARTS = {
    "morning": (0, 11),
    "afternoon": (12, 18),
    "evening": (16, 23),
    "night": (18, 23),
    "tonight": (16, 23),
}
"""The first and the last hour of each part of the day."""

COUNT = r"\d+(?:\.\d+)?|" + "|".join(sorted(map(re.escape, NUMBERS), key=len, reverse=True))
UNIT = (
    r"(?:seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|fortnights?|months?|years?"
    r"|(?<=\d)\s?(?:s|m|h|d|w)|(?<=\d )(?:h|m))"
)
"""A unit of time; single letters only directly after a number."""
SPAN = re.compile(
    rf"(?i)(?<![\w.-])(?P<lead>(?:with)?in\s+(?:about\s+|exactly\s+)?)?"
    rf"(?P<number>{COUNT})\s*(?P<unit>{UNIT})(?![a-z])"
    rf"(?:\s*(?:,|and)?\s*(?:(?P<half>a\s+half)\b|(?P<more>{COUNT})\s*(?P<more_unit>{UNIT})(?![a-z])))?"
    r"(?(lead)(?:\s+from\s+now\b)?|\s+from\s+(?:now|today)\b)"
)
"""``in 20 minutes``, ``in an hour and a half``, ``2 days from now``."""

_WEEKDAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_SHORT = r"(?:mon|tues?|wed|thur?s?|fri|sat|sun)"
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)"
)
_PART = r"morning|afternoon|evening|night"
_ORDINAL = r"(?:\w+(?:th|st|nd|rd))"
_DAYS = rf"(?:{_WEEKDAY}|{_SHORT}|day|weekday|workday|working\s+day|weekend|{_PART})"
_MORE_DAYS = rf"(?:\s*,\s*(?:and\s+)?|\s+and\s+(?:on\s+)?){_DAYS}"
DATES = re.compile(
    rf"(?i)(?<![\w/.-])(?:(?:on|for|by)\s+)?(?:"
    r"(?P<relative>(?:the\s+)?day\s+after\s+tomorrow|(?:tomorrow|tmrw|tmr)\b(?!['’]s)|yesterday|tonight"
    rf"|(?:later\s+)?today|(?:later\s+)?this(?=\s+(?:{_PART})))"
    r"|(?:(?P<which>this|next|coming|last)\s+)?"
    rf"(?P<weekday>{_WEEKDAY}|(?:(?<=next )|(?<=this )|(?<=last )|(?<=on )){_SHORT})\b(?!['’]s)"
    r"|(?P<iso>\d{4}-\d\d-\d\d)(?=\D|$)"
    r"|(?:the\s+)?(?P<first>\d{1,2})(?:st|nd|rd|th)?(?:\s+of)?[\s.]+"
    rf"(?P<month>{_MONTH})\b\.?(?:,?\s+(?P<year>\d{{4}}))?"
    rf"|(?P<month2>{_MONTH})\.?\s+(?:the\s+)?(?P<second>\d{{1,2}})(?:st|nd|rd|th)?"
    r"(?![\d:])(?:,?\s+(?P<year2>\d{4}))?"
    r"|(?:(?<=on )|(?<=by )|(?<=for ))the\s+(?P<monthday>\d{1,2})(?:st|nd|rd|th)"
    r"(?=\s*[,.;:!?]|\s*$|\s+(?:at|to|by|around|about|that|and|in\s+the|please|\d))"
    r"|(?P<dd>\d{1,2})(?P<sign>[./])(?P<mm>\d{1,2})(?:(?P=sign)(?P<yyyy>\d{4}|\d\d)?)(?![\w:])"
    rf")(?:\s+(?:in\s+the\s+|at\s+)?(?P<day_part>{_PART}))?(?![\w-])"
)
"""``tomorrow``, ``next Friday``, ``on the 24th of December``, ``on the 3rd``, ``24.12.2026``."""

_HALF_DAY = r"[ap]\.?m\b\.?"
TIMES = re.compile(
    r"(?i)(?<![\w./:-])(?:(?:at|by|around|@)\s*)?(?:"
    rf"(?P<hour>\d{{1,2}}):(?P<minute>\d\d)(?::00)?(?![\d:])\s*(?P<half_day>{_HALF_DAY})?"
    rf"|(?P<hour2>\d{{1,2}})(?:\.(?P<minute2>\d\d))?\s*(?P<half_day2>{_HALF_DAY})"
    r"|(?P<word>noon|midday|midnight)\b"
    r"|(?:(?<=at )|(?<=at)|(?<=@)|(?<=@ )|(?<=by ))(?P<hour4>\d{1,2})(?:[.h](?P<minute4>\d\d)|\s*h)?"
    r"(?:\s*o['’]?clock)?(?![\w:/%€$£-]|\.\d)"
    rf"|(?:(?<=day )|(?<=tomorrow )|(?<=tonight ))(?P<hour3>\d{{1,2}})(?=\s*$|\s*[,;!?]|\s+to\b)"
    rf"|(?P<hour5>\d{{1,2}})(?=\s+in\s+the\s+(?:{_PART}))"
    rf")(?:\s*(?:in\s+the\s+|at\s+)(?P<part>{_PART}))?(?P<either>\s+or\s+\d{{1,2}}\b)?"
)
"""``at 9``, ``14:00``, ``9am``, ``at noon``, ``at 8 in the evening``; bare numbers only after a day."""

_OFTEN = r"(?:hourly|daily|nightly|weekly|fortnightly|monthly|quarterly|yearly|annually)"
REPEATED = re.compile(
    rf"(?i)\b(?:on\s+|at\s+)?(?:every|each)\s+(?P<which>(?:single\s+)?)(?P<what>{_DAYS}s?\b(?:{_MORE_DAYS}s?\b)*)"
    rf"|\b(?:every|each)\s+(?:[\w-]+\s+){{0,2}}?(?:{_DAYS}|week|month|year|hour|minute|second|quarter)s?\b"
    rf"|\b(?:on\s+|from\s+)?(?P<range>(?:{_WEEKDAY}|{_SHORT})\s*(?:[-–]|to|through|till|until)\s*(?:{_WEEKDAY}|{_SHORT}))\b"
    rf"|\b(?:on\s+|at\s+)?(?P<plural>(?:{_WEEKDAY}s(?!['’])|weekdays|workdays|working\s+days|weekends)\b"
    rf"(?:{_MORE_DAYS}s?\b)*)"
    rf"|(?:^\W*|(?<=\s)){_OFTEN}(?=\s+(?:at|on|in|from|around|by)\b)"
    rf"|^\W*{_OFTEN}(?=\s+(?:to|that|about|of)\b)|\b{_OFTEN}(?=[\s.!?]*$)"
    r"|\b(?:once|twice|thrice|\w+\s+times)\s+(?:an?|per|every|each)\s+(?:hour|day|week|month|year)\b"
)
"""``every day``, ``every Monday and Thursday``, ``on weekdays``, ``daily at``, ``twice a week``."""
PAST = re.compile(
    rf"(?i)\b(?:(?:{COUNT})\s*{UNIT}\s+ago|last\s+(?:night|week|month|year|{_PART}))\b(?!['’]s)"
)
VAGUE = re.compile(
    r"(?i)\b(?:next\s+(?:week|month|year)|this\s+week(?:end)?|(?:at\s+the\s+)?weekend|later|soon|sometime|some\s+day|"
    rf"in\s+a\s+(?:while|moment|bit)|in\s+the\s+(?:{_PART})|before\s+\w+|after\s+\w+)\b"
)
"""Expressions of time that name no day or hour."""

READ = "\0"
"""The placeholder of a phrase that was parsed."""
_UNREAD = (
    r"(?:the\s+)?\d{1,2}(?:st|nd|rd|th)(?!\w)"
    rf"|(?:the\s+)?(?:first|second|third|fourth|last|{_ORDINAL})\s+(?:of|day|week|weekday|{_WEEKDAY}|{_MONTH})\b"
    r"|(?:the\s+)?(?:next|last|this|coming|following|end\s+of\s+(?:the|this|next))\s+(?:week|month|year|weekend)\b(?!['’]s)"
    rf"|(?:{COUNT})\s*{UNIT}\s+(?:from|before|after|earlier|later|ago|past)\b|last\b"
    r"|of\s+(?:the|each|every|next|this)\s+(?:month|week|year)\b"
    r"|(?:christmas|easter|new\s+year|thanksgiving|halloween|birthday|holidays?)(?:['’]s)?(?:\s+(?:eve|day))?\b"
    rf"|(?:beginning|starting|from|since|until|till)\s+(?:{_WEEKDAY}|{_MONTH}|\w+\s+(?:week|month))\b"
    rf"|{_MONTH}\b(?=\s*{READ})|{_WEEKDAY}\b"
)
_UNREAD_BEFORE = rf"(?:before|after|between|until|till|than|except|next|this|last)\b|(?:{COUNT})\s*weeks?\b"
_UNREAD_AFTER = (
    rf"(?:for|during)\s+(?:{COUNT})\s*{UNIT}\b|week\b|after\s+next\b|except\b|(?:at\s+)?\d{{1,2}}:\d\d"
    r"|\d{1,2}\s*[ap]m\b"
)
UNREAD = re.compile(
    rf"(?i)(?P<before>{_UNREAD}|{_UNREAD_BEFORE})[\s,]*(?:(?:on|at|of|by|from|and|in)\s+)?{READ}"
    rf"|{READ}[\s,]*(?:(?:on|of|from|and|in|by)\s+)?(?P<after>{_UNREAD}|{_UNREAD_AFTER})"
    rf"|^\W*(?P<head>(?:on|at|by|in|during|over|around|first|last|end|(?:{COUNT})\s*{UNIT})\b[^{READ}]{{1,60}}?)"
    rf"\s*{READ}(?:[\s,]*{READ})*\s*\b(?:to|that|about)\b"
)
"""An expression that was not understood right beside one that was: without it the time would be wrong."""


_HOURS = {word: number for number, word in enumerate(_NUMBER_WORDS[:12], start=1)}
_PARTS_OF_HOUR = {"quarter": 15, "half": 30} | {
    word: int(NUMBERS[word]) for word in ("five", "ten", "twenty", "twenty-five", "twenty five")
}
_TO_NINETEENTH = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
    "fifteenth sixteenth seventeenth eighteenth nineteenth"
).split()
_TWENTIES = ["twentieth", *(f"twenty-{word}" for word in _TO_NINETEENTH[:9])]
_DAY_NAMES = [*_TO_NINETEENTH, *_TWENTIES, "thirtieth", "thirty-first"]
_ORDINALS = {word: number for number, word in enumerate(_DAY_NAMES, start=1)}


def unclear(cause: str) -> ActionError:
    """The error that asks the person for one clear time."""
    return ActionError(cause, EXAMPLE)


def _any_of(words: Iterable[str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


_HOUR = rf"(?P<hour>{_any_of(_HOURS)}|\d{{1,2}})\b"
_MONTH_WORD = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)\w*"
_PAST_OR_TO = re.compile(
    rf"(?i)\b(?<!from )(?:at\s+|by\s+)?(?:a\s+)?(?P<part>{_any_of(_PARTS_OF_HOUR)}"
    rf"|(?:5|10|20|25)(?=\s+(?:past|to))|\d{{1,2}}(?=\s+min))(?:\s+min(?:ute)?s?)?\s+(?P<way>past|to)\s+{_HOUR}(?!\s*[:.]?\d)"
)
_SPELLED_HOUR = re.compile(
    rf"(?i)(?P<at>\b(?:at|by)\s+)(?P<hour>{_any_of(_HOURS)})(?:\s+(?P<minutes>fifteen|thirty|forty-five))?"
    r"(?=\s*(?:$|[,.;!?]|o['’]?clock|[ap]\.?m\b|sharp\b|(?:tomorrow|today|tonight|on|in\s+the|this|next|every|to|about)\b"
    r"|\w+day\b))"
)
_DAY_BEFORE_MONTH = re.compile(rf"(?i)\b(?P<word>{_any_of(_ORDINALS)})(?P<of>\s+(?:of\s+)?{_MONTH_WORD}\b)")
_DAY_AFTER_MONTH = re.compile(
    rf"(?i)(?P<month>\b{_MONTH_WORD}\s+(?:the\s+)?)(?P<word>{_any_of(_ORDINALS)})\b"
)
_AND_A_HALF = re.compile(
    rf"(?i)\b(?P<number>{_any_of(_HOURS)}|\d{{1,3}})\s+and\s+a\s+half\s+(?=(?:second|minute|min|hour|hr|day|week|month|year)s?\b)"
)
_SPELLED_MINUTES = {"": "", "fifteen": ":15", "thirty": ":30", "forty-five": ":45"}


def spell_in_digits(text: str) -> str:
    """``text`` with "half past nine", "at nine" and "the first of May" as 9:30, at 9 and the 1st of May."""
    text = _AND_A_HALF.sub(lambda found: f"{_HOURS.get(found['number'].lower()) or found['number']}.5 ", text)
    text = _PAST_OR_TO.sub(_in_digits, text)
    text = _SPELLED_HOUR.sub(_hour_in_digits, text)
    text = _DAY_BEFORE_MONTH.sub(lambda found: f"{_ORDINALS[found['word'].lower()]}th{found['of']}", text)
    return _DAY_AFTER_MONTH.sub(lambda found: f"{found['month']}{_ORDINALS[found['word'].lower()]}th", text)


def _hour_in_digits(found: re.Match[str]) -> str:
    minutes = _SPELLED_MINUTES[(found["minutes"] or "").lower()]
    return f"{found['at']}{_HOURS[found['hour'].lower()]}{minutes}"


def _in_digits(found: re.Match[str]) -> str:
    part, way = found["part"].lower(), found["way"].lower()
    minutes = _PARTS_OF_HOUR.get(" ".join(part.split())) or int(part)
    hour = _HOURS.get(found["hour"].lower()) or int(found["hour"])
    if minutes >= 60 or not 1 <= hour <= 23 or (part == "half" and way == "to"):
        return found[0]
    if way == "to":
        hour, minutes = (hour - 1 or 12), 60 - minutes
    return f"at {hour}:{minutes:02d}"
