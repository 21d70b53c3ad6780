"""Phrases that short messages are made of: numbers by place, times and days."""

import re

from shared.language.times.time_parser import choose

ORDINALS = {
    word: number
    for number, words in enumerate(
        (
            ("first", "1st"),
            ("second", "2nd"),
            ("third", "3rd"),
            ("fourth", "4th"),
            ("fifth", "5th"),
            ("sixth", "6th"),
            ("seventh", "7th"),
            ("eighth", "8th"),
            ("ninth", "9th"),
        ),
        start=1,
    )
    for word in words
}
_WEEKDAY = r"(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?s?"
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)"
)
_PART = r"(?:morning|noon|afternoon|evening|night|lunch(?:time)?|midnight|midday)"
_COUNT = r"(?:\d+|an?|one|two|three|four|five|six|seven|eight|nine|ten|half\s+an?|a\s+couple\s+of|a\s+few)"
_UNIT = r"(?:seconds?|minutes?|mins?|hours?|hrs?|days?|weeks?|months?|years?)"
CLOCK = (
    r"(?:(?:at|by|around|about|from|until|till)\s+)?(?:\d{1,2}(?:[:.]\d\d)?\s*(?:am|pm|o'?clock|h\b)"
    r"|\d{1,2}:\d\d"
    r"|(?:half|quarter)\s+(?:past|to)\s+\w+|\b(?:noon|midnight|midday)\b)|at\s+\d{1,2}(?:\.[0-5]\d)?\b(?!\s*%)"
)
DAY = (
    rf"(?:on\s+)?(?:(?:the\s+day\s+after\s+)?tomorrow(?:\s+{_PART})?|the\s+day\s+(?:after|before)"
    rf"|today|tonight"
    rf"|yesterday(?:\s+{_PART})?|now"
    rf"|(?:this|next|last|coming|the\s+coming)\s+(?:week(?:end)?|month|quarter|year|{_WEEKDAY}|{_PART})"
    rf"|(?:at\s+)?(?:the\s+)?weekend|{_WEEKDAY}(?:\s+{_PART})?|\d{{4}}-\d\d-\d\d"
    rf"|(?:the\s+)?\d{{1,2}}(?:st|nd|rd|th)?\s+(?:of\s+)?{_MONTH}(?:\s+\d{{4}})?"
    rf"|{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?(?:\s+\d{{4}})?"
    rf"|(?:the\s+)\d{{1,2}}(?:st|nd|rd|th))|in\s+the\s+{_PART}|in\s+{_MONTH}(?:\s+\d{{4}})?|in\s+{_COUNT}\s+{_UNIT}"
    rf"|{_COUNT}\s+{_UNIT}\s+(?:ago|earlier|later)"
    rf"|(?:every|each)\s+\w+"
)
_TIME = re.compile(
    rf"(?:(?:{CLOCK}|{DAY}|then|and|please|maybe|sharp|make\s+it|let'?s\s+say|say|rather)[\s,]*)+"
)
_BESIDE = re.compile(r"(?i)\b(?:at|on|in|for|by|the|to|then|please|maybe|rather|say|and)\b|\W")
"""What is no other word than a time beside it."""
_AT = re.compile(r"(?P<hour>\d{1,2})(?:[:.](?P<minute>\d\d))?\s*(?P<half>am|pm)?")


def plain(text: str) -> str:
    """``text`` in lower case, without the punctuation that has no meaning in a short message."""
    lower = text.lower().replace("’", "'").replace("a.m.", "am").replace("p.m.", "pm")
    return " ".join(re.sub(r"(?<!\d)[.,:;!?\"()]+|[.,;!?\"()]+(?!\d)", " ", lower).split())


def is_time(words: str) -> bool:
    """Whether ``words``, in lower case, name times and nothing else."""
    if _TIME.fullmatch(words) and re.search(rf"{CLOCK}|{DAY}", words):
        return True
    phrases = choose(words)  # "in a fortnight", "half nine", "first thing on Monday"
    return bool(phrases.chosen) and not _BESIDE.sub(" ", phrases.rest).strip()


def find_clock(words: str) -> str:
    """The time of day that ``words`` name, as 17:00; empty if there is none."""
    if re.search(r"\b(?:noon|midday)\b", words):
        return "12:00"
    found = next((each for each in _AT.finditer(words) if each["minute"] or each["half"]), None)
    if not found or int(found["hour"]) > 24:
        return ""
    hour = int(found["hour"])
    if found["half"]:
        hour = hour % 12 + (12 if found["half"] == "pm" else 0)
    return f"{hour:02d}:{found['minute'] or '00'}"
