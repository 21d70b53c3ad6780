"""Spelling: times that are spelled out, as the digits in which phrases are looked for."""

import re

_ONES = "one two three four five six seven eight nine ten eleven twelve".split()
_HOURS = {word: number for number, word in enumerate(_ONES, start=1)}
_MINUTES = {
    "quarter": 15,
    "five": 5,
    "ten": 10,
    "twenty": 20,
    "twenty-five": 25,
    "twenty five": 25,
    "half": 30,
}
_ORDINALS = {
    word: number
    for number, word in enumerate(
        "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth "
        "fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth twenty-first "
        "twenty-second twenty-third twenty-fourth twenty-fifth twenty-sixth twenty-seventh twenty-eighth "
        "twenty-ninth thirtieth thirty-first".split(),
        start=1,
    )
}
_HOUR = rf"(?P<hour>{'|'.join(_ONES)}|\d{{1,2}})\b"
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)\w*"
_BY_PARTS = re.compile(
    rf"\b(?<!from )(?:at\s+|by\s+)?(?:a\s+)?(?P<part>{'|'.join(sorted(_MINUTES, key=len, reverse=True))}"
    rf"|(?:5|10|20|25)(?=\s+(?:past|to))|\d{{1,2}}(?=\s+min))(?:\s+min(?:ute)?s?)?\s+(?P<way>past|to)\s+{_HOUR}(?!\s*[:.]?\d)",
    re.IGNORECASE,
)
_IN_WORDS = re.compile(
    rf"(?P<at>\b(?:at|by)\s+)(?P<hour>{'|'.join(_ONES)})(?:\s+(?P<minutes>fifteen|thirty|forty-five))?"
    r"(?=\s*(?:$|[,.;!?]|o['’]?clock|[ap]\.?m\b|sharp\b|(?:tomorrow|today|tonight|on|in\s+the|this|next|every|to|about)\b"
    r"|\w+day\b))",
    re.IGNORECASE,
)
_ORDINAL = re.compile(
    rf"\b(?P<word>{'|'.join(sorted(_ORDINALS, key=len, reverse=True))})(?P<of>\s+(?:of\s+)?{_MONTH}\b)",
    re.IGNORECASE,
)
_AFTER_MONTH = re.compile(
    rf"(?P<month>\b{_MONTH}\s+(?:the\s+)?)(?P<word>{'|'.join(sorted(_ORDINALS, key=len, reverse=True))})\b",
    re.IGNORECASE,
)
_AND_A_HALF = re.compile(
    rf"\b(?P<number>{'|'.join(_ONES)}|\d{{1,3}})\s+and\s+a\s+half\s+(?=(?:second|minute|min|hour|hr|day|week|month|year)s?\b)",
    re.IGNORECASE,
)
_MINUTES_IN_WORDS = {"fifteen": ":15", "thirty": ":30", "forty-five": ":45"}


def spell_in_digits(text: str) -> str:
    """``text`` with "half past nine", "at nine" and "the first of May" as 9:30, at 9 and the 1st of May."""
    text = _AND_A_HALF.sub(lambda found: f"{_HOURS.get(found['number'].lower()) or found['number']}.5 ", text)
    text = _BY_PARTS.sub(_clock, text)
    text = _IN_WORDS.sub(_hour, text)
    text = _ORDINAL.sub(lambda found: f"{_ordinal(found)}{found['of']}", text)
    return _AFTER_MONTH.sub(lambda found: f"{found['month']}{_ordinal(found)}", text)


def _clock(found: re.Match[str]) -> str:
    part, way = found["part"].lower(), found["way"].lower()
    minutes = _MINUTES.get(" ".join(part.split())) or int(part)
    hour = _HOURS.get(found["hour"].lower()) or int(found["hour"])
    if minutes >= 60 or not 1 <= hour <= 23 or (part == "half" and way == "to"):
        return found[0]
    if way == "to":
        hour, minutes = (hour - 1 or 12), 60 - minutes
    return f"at {hour}:{minutes:02d}"


def _hour(found: re.Match[str]) -> str:
    minutes = _MINUTES_IN_WORDS.get((found["minutes"] or "").lower(), "")
    return f"{found['at']}{_HOURS[found['hour'].lower()]}{minutes}"


def _ordinal(found: re.Match[str]) -> str:
    return f"{_ORDINALS[found['word'].lower()]}th"
