"""Phrases: how people name times and days, as patterns."""

import re

EXAMPLE = "Name one time, such as 'tomorrow at 9', 'in 20 minutes', 'next Friday 14:00' or '2027-01-31 08:30'"
"""The cure of every sentence that asks back."""

_NUMBER_WORDS = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty"
).split()
NUMBERS: dict[str, float] = {
    **{word: float(number) for number, word in enumerate(_NUMBER_WORDS, start=1)},
    "thirty": 30.0,
    "forty": 40.0,
    "forty-five": 45.0,
    "fifty": 50.0,
    "sixty": 60.0,
    "ninety": 90.0,
    "a couple of": 2.0,
    "half a": 0.5,
    "half an": 0.5,
    "a": 1.0,
    "an": 1.0,
}
UNITS = {"s": 1.0, "m": 60.0, "h": 3_600.0}
"""Seconds by how a unit begins."""
LONG_UNITS = {"d": 1, "da": 1, "w": 7, "we": 7, "fo": 14}
"""Days by how a unit begins."""
WEEKDAYS = {name: number for number, name in enumerate("mon tue wed thu fri sat sun".split())}
DAY_PARTS = {
    "morning": (0, 11),
    "afternoon": (12, 18),
    "evening": (16, 23),
    "night": (18, 23),
    "tonight": (16, 23),
}
"""The first and the last hour of what people call a part of the day."""

COUNT = r"\d+(?:\.\d+)?|" + "|".join(sorted(map(re.escape, NUMBERS), key=len, reverse=True))
_UNIT = (
    r"seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|fortnights?"
    r"|(?<=\d)\s?(?:s|m|h|d|w)|(?<=\d )(?:h|m)"
)
SPAN = re.compile(
    rf"(?<!\w)(?:(?:with)?in\s+(?:about\s+|exactly\s+)?(?P<number>{COUNT})\s*(?P<unit>{_UNIT})(?![a-z])"
    rf"(?:\s*(?:,|and)?\s*(?:(?P<half>a\s+half)\b|(?P<more>{COUNT})\s*(?P<more_unit>{_UNIT})(?![a-z])))?)",
    re.IGNORECASE,
)
"""``in 20 minutes``, ``in an hour and a half``, ``in 2 days``."""

_WEEKDAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_SHORT = r"(?:mon|tues?|wed|thur?s?|fri|sat|sun)"
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)"
)
_PART = r"morning|afternoon|evening|night"
DATES = re.compile(
    rf"(?<![\w/.-])(?:(?:on|for|by)\s+)?(?:"
    rf"(?P<relative>(?:the\s+)?day\s+after\s+tomorrow|tomorrow|yesterday|tonight|today|this(?=\s+(?:{_PART})))"
    r"|(?:(?P<which>this|next|coming)\s+)?"
    rf"(?P<weekday>{_WEEKDAY}|(?:(?<=next )|(?<=this )|(?<=on )){_SHORT})\b(?!['’]s)"
    r"|(?P<iso>\d{4}-\d\d-\d\d)(?=\D|$)"
    r"|(?:the\s+)?(?P<first>\d{1,2})(?:st|nd|rd|th)?(?:\s+of)?[\s.]+"
    rf"(?P<month>{_MONTH})\b\.?(?:,?\s+(?P<year>\d{{4}}))?"
    rf"|(?P<month2>{_MONTH})\.?\s+(?:the\s+)?(?P<second>\d{{1,2}})(?:st|nd|rd|th)?"
    r"(?![\d:])(?:,?\s+(?P<year2>\d{4}))?"
    r"|(?P<dd>\d{1,2})(?P<sign>[./])(?P<mm>\d{1,2})(?:(?P=sign)(?P<yyyy>\d{4}|\d\d)?)(?![\w:])"
    rf")(?:\s+(?:in\s+the\s+|at\s+)?(?P<day_part>{_PART}))?(?![\w-])",
    re.IGNORECASE,
)
"""``tomorrow``, ``next Friday``, ``on the 24th of December``, ``24.12.2026``, ``Friday morning``."""

_HALF_DAY = r"[ap]\.?m\b\.?"
TIMES = re.compile(
    r"(?<![\w./:-])(?:(?:at|by|around|@)\s*)?(?:"
    rf"(?P<hour>\d{{1,2}}):(?P<minute>\d\d)(?::00)?(?![\d:])\s*(?P<half_day>{_HALF_DAY})?"
    rf"|(?P<hour2>\d{{1,2}})\s*(?P<half_day2>{_HALF_DAY})"
    r"|(?P<word>noon|midday|midnight)\b"
    r"|(?:(?<=at )|(?<=at)|(?<=@)|(?<=@ )|(?<=by ))(?P<hour4>\d{1,2})(?:[.h](?P<minute4>\d\d)|\s*h)?"
    r"(?:\s*o['’]?clock)?(?![\w:/%€$£-]|\.\d)"
    rf"|(?:(?<=day )|(?<=tomorrow )|(?<=tonight ))(?P<hour3>\d{{1,2}})(?=\s*$|\s*[,;!?]|\s+to\b)"
    rf"|(?P<hour5>\d{{1,2}})(?=\s+in\s+the\s+(?:{_PART}))"
    rf")(?:\s*(?:in\s+the\s+|at\s+)(?P<part>{_PART}))?(?P<either>\s+or\s+\d{{1,2}}\b)?",
    re.IGNORECASE,
)
"""``at 9``, ``14:00``, ``9am``, ``at noon``, ``at 8 in the evening``; bare numbers only after a day."""

REPEATED = re.compile(
    rf"\bevery\s+(?:other\s+|\w+\s+)?(?:{_WEEKDAY}|{_SHORT}|day|week|weekday|month|year|hour|minutes?|hours|days|weeks|{_PART})\b"
    r"|\b(?:daily|weekly|monthly|hourly)\s+at\b",
    re.IGNORECASE,
)
VAGUE = re.compile(
    r"\b(?:next\s+(?:week|month|year)|this\s+week(?:end)?|(?:at\s+the\s+)?weekend|later|soon|sometime|some\s+day|"
    rf"in\s+a\s+(?:while|moment|bit)|in\s+the\s+(?:{_PART})|before\s+\w+|after\s+\w+)\b",
    re.IGNORECASE,
)
"""What sounds like a time, and is none that a clock could show."""
