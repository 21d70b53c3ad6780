"""Timers, and days that are counted from one named elsewhere, as times are read: "in 20 minutes"."""

import re

from shared.language.times.spoken_times import spell_plainly
from shared.language.times.time_parser import choose

_AMOUNT = (
    r"(?:\d+(?:[.,]\d+)?|an?|half\s+an?|one|two|three|four|five|ten|fifteen|twenty|thirty|forty|ninety)"
    r"(?:\s+and\s+a\s+half)?[\s-]*(?:s|sec\w*|min\w*|h|hrs?|hours?)\b"
)
_TIMER_FIRST = re.compile(
    r"(?i)\b(?:(?:set|start|make|put|give)\s+(?:me\s+|up\s+|on\s+)*)?(?:an?\s+|the\s+|another\s+)?(?:kitchen\s+|egg\s+)?"
    rf"timer\W+(?:(?:for|of|to|on)\s+)*(?={_AMOUNT})"
)
_TIMER_LAST = re.compile(
    rf"(?i)\b(?:(?:set|start|make|put|give)\s+(?:me\s+|up\s+|on\s+)*)?(?:an?\s+)?(?P<amount>{_AMOUNT})[\s-]+timer\b"
)
_EVE = re.compile(
    r"(?i)\b(?:on\s+|in\s+)?the\s+(?P<part>evening|night|morning|afternoon)\s+before\s+"
    r"(?=(?:on\s+)?(?:the\s+\d|\d|(?:mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)))"
)
_BEFORE_IT = re.compile(
    r"(?i)\b(?:the|a|one|two|three|four|five|\d+)\s+(?:day|week)s?\s+before\b(?!\s+(?:yesterday|that|it)\b)"
)
"""A day that is counted from one that is named elsewhere: "the exam is on the 30th, two days before it"."""


def spell_out(text: str) -> str:
    """``text`` with timers and days before others said as times are read: "in 20 minutes"."""
    text = spell_plainly(text)
    text = _TIMER_FIRST.sub(
        "remind me in ", _TIMER_LAST.sub(r"remind me in \g<amount>", text, count=1), count=1
    )
    text = _EVE.sub(r"in the \g<part> the day before ", text, count=1)
    away = _BEFORE_IT.search(text)
    if not away or choose(text)["offset"]:
        return text
    bare = f"{text[: away.start()]}{text[away.end() :]}"
    days = [each for each in choose(bare)["day"] if not each["bound"] and not each["relative"]]
    if len(days) != 1:
        return text
    at = days[0].match.start()
    return f"{bare[:at]} {away[0].strip()} {bare[at:].strip()}"
