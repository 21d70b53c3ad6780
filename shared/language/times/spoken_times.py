"""Times as people say them, in the words that ``time_phrases`` reads: "4-ish" is "at 4 o'clock"."""

import re

_WEEKDAY = (
    r"(?P<day>(?:mon|tues|wednes|thurs|fri|satur|sun)day|(?:mon|tue|wed|thu|thurs|fri|sat|sun)(?!\w))s?\b"
)
_HOUR = r"(?:1[0-2]|[1-9]|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)"
_ADVERB = r"(?:hourly|daily|nightly|weekly|bi-?weekly|fortnightly|monthly|quarterly|yearly|annual)"
_COUNT = r"(?:\d{1,2}|an?|one|two|three|four|five|six)"

_SPOKEN = tuple(
    (re.compile(rf"(?i){pattern}"), plain)
    for pattern, plain in (
        (r"\barvo\b", "afternoon"),
        (
            r"\bsay\s+(?=\d{1,2}(?:[:.]\d\d)?(?:\s*[ap]\.?m\b\.?)?\s*(?:$|[,;.!?]|(?:and|on|tomorrow|today)\b))",
            "at ",
        ),
        (r"\blate\s+tonight\b", "late evening today"),
        (r"\b(noon|midday|midnight|\d{1,2}[:.]\d\d)[\s-]?ish\b", r"\1"),
        (rf"(?<![\w:.])({_HOUR})-ish\b", r"\1ish"),
        (r"\b(noon|midday|midnight)\s+(?:sharp|on\s+the\s+dot|prompt)\b", r"\1"),
        (
            r"(?<![\w:.])(?:at\s+)?(\d{1,2}(?:[:.]\d\d)?\s*(?:[ap]\.?m\b\.?)?)\s+(?:sharp|on\s+the\s+dot|prompt)\b",
            r"at \1",
        ),
        (r"\b(?:close|end)\s+of\s+(?:play|business|trading)\b", "close of business"),
        (r"\b(?:no|not)\s+later\s+than\b", "by"),
        (r"\s+at\s+the\s+latest\b", ""),
        (r"\bfive\s+and\s+twenty\s+(?=past\b|to\b)", "twenty-five "),
        (r"(?<=[\dk])\s+(?:of|at)\s+the\s+(?=morning\b|afternoon\b|evening\b)", " in the "),
        (rf"\b({_COUNT}\s+weeks?|a\s+fortnight)\s+(?=today\b)", r"\1 from "),
        (rf"\b({_COUNT}\s+(?:days?|weeks?)|a\s+fortnight)\s+(?:from\s+)?(?=tomorrow\b)", r"\1 after "),
        (rf"\b({_COUNT}\s+(?:days?|weeks?)|a\s+fortnight)\s+from\s+(?={_WEEKDAY})", r"\1 after "),
        (rf"\b{_WEEKDAY}\s+fortnight\b", r"two weeks after \g<day>"),
        (rf"\b(?:on\s+)?(?:every\s+)?alternate\s+{_WEEKDAY}", r"every other \g<day>"),
        (rf"\b(?:bi-?weekly|fortnightly)[\s,]+(?:on\s+)?{_WEEKDAY}", r"every other \g<day>"),
        (rf"\bweekly[\s,]+(?:on\s+|say\s+(?:on\s+)?)?{_WEEKDAY}", r"every \g<day>"),
        (rf"\b(?:in|on|at)\s+the\s+(next\s+|coming\s+|following\s+|)(?={_WEEKDAY})", r"on \1"),
        (rf"(?:\bon\s+)?\b{_WEEKDAY}\s+next\b(?!\s+(?:week|month|year))", r"next \g<day>"),
        (
            rf"\b(?:come\s+{_WEEKDAY})|\b(?:on\s+)?{_WEEKDAY.replace('<day>', '<other>')}\s+coming\b",
            r"on \g<day>\g<other>",
        ),
        (
            rf"\b(?P<at>{_WEEKDAY}|tomorrow|tmrw|today)\s+(?P<h>[01]\d|2[0-3])(?P<m>[0-5]\d)"
            r"(?=\s*(?:$|[,;!?.]|(?:to|for|that|about|h|hrs?)\b))",
            r"\g<at> at \g<h>:\g<m>",
        ),
        (rf"\b(an?|my|the|another)\s+({_ADVERB})\s+(reminder|alarm|nudge)\b", r"\1 \3 \2"),
    )
)


def spell_plainly(text: str) -> str:
    """``text`` with its spoken times as ``time_phrases`` reads them."""
    for pattern, plain in _SPOKEN:
        text = pattern.sub(plain, text)
    return text
