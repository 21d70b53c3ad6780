"""How people name times: patterns of days, times of day, spans and repetitions, found in a text."""

import re
from collections.abc import Iterable

import msgspec

_ONES = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
).split()
_TENS = {"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "ninety": 90}
HOURS = {word: number for number, word in enumerate(_ONES[:12], 1)}
NUMBERS: dict[str, float] = {
    **{word: number for number, word in enumerate(_ONES, 1)},
    **_TENS,
    **{f"{ten} {one}": _TENS[ten] + n for ten in _TENS for n, one in enumerate(_ONES[:9], 1)},
    "a": 1,
    "an": 1,
    "a couple of": 2,
    "couple of": 2,
    "a few": 3,
    "half a": 0.5,
    "half an": 0.5,
    "half": 0.5,
    "a quarter of an": 0.25,
    "quarter of an": 0.25,
    "three quarters of an": 0.75,
}
_NTHS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
    "fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
).split()
ORDINALS = {word: number for number, word in enumerate(_NTHS, 1)} | {
    **{f"twenty {word}": 20 + number for number, word in enumerate(_NTHS[:9], 1)},
    "thirtieth": 30,
    "thirty first": 31,
    "last": -1,
}
WEEKDAYS = {name: number for number, name in enumerate("mon tue wed thu fri sat sun".split())}
MONTHS = {name: n for n, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)}
PARTS = {
    "morning": (9, 0, 11),
    "afternoon": (15, 12, 18),
    "evening": (19, 16, 23),
    "night": (20, 18, 23),
    "tonight": (20, 16, 23),
    "lunch": (12, 11, 14),
    "dinner": (19, 17, 21),
    "breakfast": (8, 5, 11),
    "work": (18, 15, 19),
    "bed": (22, 19, 23),
    "end of day": (17, 15, 19),
    "first thing": (8, 5, 11),
}
"""The hour that each part of the day stands for if no time is named, its first and its last hour."""
SHIFTED = {
    "early morning": 7.0,
    "late afternoon": 17.0,
    "late evening": 21.0,
    "before lunch": 11.5,
    "after lunch": 13.0,
    "after dinner": 20.0,
    "early evening": 17.5,
}
HOLIDAYS = {
    "christmas eve": (12, 24),
    "christmas day": (12, 25),
    "christmas": (12, 25),
    "boxing day": (12, 26),
    "new year eve": (12, 31),
    "new year day": (1, 1),
    "new year": (1, 1),
    "halloween": (10, 31),
    "valentine day": (2, 14),
    "valentine": (2, 14),
    "labour day": (5, 1),
    "st patrick day": (3, 17),
}
EASTER = {
    "good friday": -2,
    "easter sunday": 0,
    "easter monday": 1,
    "easter": 0,
    "ascension day": 39,
    "ascension": 39,
    "pentecost": 49,
    "whit sunday": 49,
    "whit monday": 50,
}
"""Days after Easter Sunday."""


def _any(words: Iterable[str]) -> str:
    return "|".join(
        re.escape(word).replace(r"\ ", r"[\s-]+") for word in sorted(words, key=len, reverse=True)
    )


_COUNT = rf"(?:\d{{1,6}}(?:[.,]\d+)?|(?:{_any(NUMBERS)})(?![a-z]))"
_UNIT = (
    r"(?:seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|wks?|fortnights?|months?|quarters?"
    r"|years?|yrs?"
    r"|(?<=\d)[smhdw]|(?<=\d )[mh])(?![a-z])"
)
AMOUNT = re.compile(
    rf"(?i)(?P<count>{_COUNT})(?P<half>\s+and\s+a\s+half)?[\s-]*(?P<unit>{_UNIT})(?P<more>\s+and"
    rf"\s+a\s+half\b)?"
    r"(?:(?P<minutes>(?<=h)[0-5]\d(?!\d))m?)?"
)
_PLAIN = re.sub(r"\?P<\w+>", "", AMOUNT.pattern.removeprefix("(?i)"))
_AMOUNTS = rf"{_PLAIN}(?:\s*,?\s*(?:and\s+)?{_PLAIN}){{0,3}}"
AGO = re.compile(rf"(?i)(?<![\w.-])(?P<amount>{_AMOUNTS})\s+ago\b")
_WEEKDAY = r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days?(?!['’]s))"
_SHORT = r"(?:(?:mon|tues?|wed|thur?s?|fri|sat|sun)\b)"
_DAY = (
    rf"(?:{_WEEKDAY}|{_SHORT}(?=\s+(?:at\b|\d|morning|evening|noon)|\s*$|\s*(?:,|and|&|-|–"
    rf"|to)\s*(?:and\s+)?{_SHORT}))"
)
_MONTH = (
    r"(?:(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b)"
)
_ORDINAL = rf"(?:\d{{1,2}}(?:st|nd|rd|th)\b|(?:{_any(ORDINALS)})\b)"
_NUMBER = rf"(?:{_ORDINAL}|\d{{1,2}}\b)"
_OWNED = "(year|valentine|patrick)"
HOLIDAY = re.sub(_OWNED, r"\1(?:['’]?s)?", _any([*HOLIDAYS, *EASTER]))
HOLIDAY = rf"(?:{HOLIDAY})(?!['’]s)\b"


def name_holiday(match: str) -> str:
    """What HOLIDAY matched, as HOLIDAYS and EASTER name it."""
    return re.sub(rf"{_OWNED}['’]?s\b", r"\1", " ".join(re.split(r"[\s-]+", match.lower())))


_NAMED = rf"(?:(?:the\s+)?(?:{_DAY}|{_ORDINAL}|{_MONTH}|{HOLIDAY}|\d|noon|midnight))"
_GROUP = r"(?:weekdays?|work(?:ing\s+)?days?|business\s+days?|weekends?)"
_LINK = r"\s*(?:,\s*and|,|&|and)\s+(?:on\s+)?"
_PART = r"(?:morning|afternoon|evening|night)s?\b"
_PERIOD = (
    rf"(?:(?:(?:the|this|next|each|every|following|coming)\s+)?(?:week|month|quarter|year)\b"
    rf"|{_MONTH}(?:\s+\d{{4}})?)"
)
_HALF_DAY = r"[ap]\.?\s?m\b\.?"
_HOUR = rf"(?:\d{{1,2}}|(?:{_any(HOURS)}))"
_ADVERB = r"(?:hourly|daily|nightly|weekly|bi-?weekly|fortnightly|monthly|quarterly|yearly|annually)"
_AFTER_CLOCK = r"(?![\w:/%€$£-]|[.,]\d|\s*(?:or\s+\d|percent))"

PATTERNS = {
    "except": re.compile(
        rf"(?i)(?<=[\s,(])(?:except|excluding|apart\s+from|other\s+than|but(?:\s+not)?|bar|not)\s+(?:(?:on|at|for|the)\s+)*"
        rf"(?P<days>(?:{_WEEKDAY}|{_SHORT}|{_GROUP})(?:{_LINK}(?:{_WEEKDAY}|{_SHORT}))*)\)?"
    ),
    "repeat": re.compile(
        rf"(?i)(?<!\w)(?<!\bof )(?<!\bin )(?:on\s+|at\s+)?(?:every|each)\s+(?:single\s+)?(?:(?P<nth>other"
        rf"|{_ORDINAL})\s+|(?P<count>{_COUNT})[\s-]*)?"
        rf"(?:(?P<unit>{_UNIT})|(?P<days>(?:{_WEEKDAY}|{_SHORT}|{_GROUP})(?:{_LINK}(?:{_WEEKDAY}"
        rf"|{_SHORT}))*)|(?P<part>{_PART}))"
        rf"(?P<of>\s+(?:of|in)\s+(?:the|each|every)\s+month)?"
        rf"|(?<!\w)(?P<bare>every|each)(?=\s+(?:the\s+)?(?:{_ORDINAL}|\d{{1,2}}\s+(?:of\s+)?{_MONTH}"
        rf"|{_MONTH}|{HOLIDAY}))"
        rf"|(?:^\W*|(?<=\s))(?P<adverb>{_ADVERB})(?=\s+(?:(?:at|on|in|from|around|by|to|that|about|of)\b|\d)"
        rf"|[\s.!?]*$)"
        rf"|(?<!\w)(?:on\s+|from\s+)?(?P<first>{_WEEKDAY}|{_SHORT})\s*(?:-|–|to|through|till"
        rf"|until)\s*(?P<last>{_WEEKDAY}|{_SHORT})"
        rf"|(?<!\w)(?<!\d\s)(?<!two\s)(?<!three\s)(?<!four\s)(?<!five\s)(?<!ten\s)(?:on\s+|at\s+)?(?P<plural>(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days(?!['’])"
        rf"|weekdays|workdays|working\s+days|weekends)\b"
        rf"(?:{_LINK}(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days?|weekends)\b)*"
        rf"|{_SHORT}(?:\s*(?:,\s*and|,|&|and)\s*{_SHORT})+)"
        r"|(?<!\w)(?P<often>once|twice|thrice|\w+\s+times)\s+(?:an?|per|every|each)\s+(?P<per>hour|day"
        r"|week|month|year)\b"
    ),
    "lasting": re.compile(
        rf"(?i)(?<!\w)for\s+(?:the\s+next\s+)?(?P<amount>{_AMOUNTS})|(?<!\w)(?P<times>\d{{1,3}})\s+times\b"
    ),
    "span": re.compile(
        rf"(?i)(?<!\w)(?:within|in|after)\s+(?:about\s+|around\s+|another\s+|exactly\s+"
        rf"|like\s+)?(?P<amount>{_AMOUNTS})(?:\s+time\b|\s+from\s+now\b)?"
        rf"|(?<![\w.-])(?P<later>{_AMOUNTS})\s+from\s+(?:now|today)\b"
    ),
    "offset": re.compile(
        rf"(?i)(?<![\w.-])(?:(?P<amount>{_AMOUNTS})|the\s+(?P<unit>day|week|month))\s+"
        rf"(?:(?P<way>before|after|prior\s+to)\s+(?=(?:on\s+)?{_NAMED}|(?<!the day after )tomorrow\b"
        rf"|(?:the|my|our)\s+(?:\w+\s+){{1,3}}at\s+\d)"
        rf"|(?=(?:on|from)\s+{_NAMED}))"
        rf"|(?<!\w)(?:on\s+)?the\s+(?P<weekday>{_WEEKDAY})\s+(?P<side>before|after)\s+(?={_NAMED})"
    ),
    "day": re.compile(
        r"(?i)(?<![\w/.-])(?:(?P<bound>until|till|through|up\s+to|starting|beginning|as\s+of"
        r"|from)\s+)?(?:(?:on|for|by|of|from|over|at|during)\s+){0,2}(?:"
        r"(?P<relative>(?:the\s+)?day\s+after\s+tomorrow|tom+or+ow|tmrw|tmr|tmw|yesterday|today|tonight"
        r"|this(?=\s+(?:morning|afternoon|evening)))(?!['’]s)"
        rf"|(?:(?P<which>this\s+coming|this|next|coming|following|last)\s+)?(?P<weekday>{_DAY}"
        rf"|(?<=next ){_SHORT}|(?<=on ){_SHORT}|(?<=this ){_SHORT})(?P<week>\s+week\b|\s+after\s+next\b)?"
        r"|(?P<iso>\d{4}-\d\d-\d\d)(?=\D|$)"
        rf"|(?:the\s+)?(?P<d>{_NUMBER})(?:\s+of)?[\s.]+(?P<m>{_MONTH})\.?(?:,?\s+(?P<y>\d{{4}}))?"
        rf"|(?P<m2>{_MONTH})\.?\s+(?:the\s+)?(?P<d2>{_NUMBER})(?![:\d]|\s*[ap]m)(?:,?\s+(?P<y2>\d{{4}}))?"
        rf"|(?:the\s+)?(?P<nth>{_ORDINAL})\s+(?P<what>(?:{_WEEKDAY}|day|(?:working|work|business)\s*day"
        rf"|weekday)\b)(?:\s+(?:of|in)\s+(?P<period>{_PERIOD}))?"
        rf"|(?:the\s+)?(?P<edge>end|start|beginning|middle|mid)[\s-]*(?:of\s+)?(?P<period2>{_PERIOD})"
        rf"|(?:the\s+)?(?P<monthday>{_ORDINAL}(?:(?:\s*,\s*|\s+and\s+)(?:on\s+)?(?:the\s+)?{_ORDINAL}){{0,4}})\s+of\s+(?P<period3>{_PERIOD})"
        rf"|(?:(?<=on )|(?<=by )|(?<=for )|(?<=until )|(?<=from )|(?<=before )|(?<=after )|(?<=every )"
        rf"|(?<=each ))(?:the\s+)?(?P<monthday2>{_ORDINAL})"
        r"(?=\s*[,.;:!?]|\s*$|\s+(?:at|to|by|around|about|that|and|in|from|with|quarter|half|noon|please|every|each|next"
        r"|remind|is|there|i|we|you|he|she|they|it|my|our|the|\d))"
        rf"|(?:(?:in|within)\s+)(?P<workdays>{_COUNT})\s+(?:working|work|business)\s*days?(?:\s+time)?"
        r"|(?<!\bat )(?P<dd>\d{1,2})(?P<sign>[./])(?P<mm>\d{1,2})(?<!\.[2-9]\d)(?<!\.1[3-9])"
        r"(?:(?P=sign)(?P<yyyy>\d{4}|\d\d)?)?(?![\w:])"
        rf"|(?P<holiday>{HOLIDAY})"
        r"|(?P<vague>(?:(?:this|next|coming|following)\s+)(?:week(?:end)?|month|year)|(?:(?<=at )"
        r"|(?<=over )|(?<=on ))the\s+weekend|(?:my|his|her|our|\w+['’]s)\s+birthday(?=\s+(?:at|to)\b"
        r"|\s*$))(?!['’]s)"
        r")(?P<either>\s+or\s+(?:on\s+)?\w+day\b)?(?![\w-])"
    ),
    "clock": re.compile(
        r"(?i)(?<![\w./:-])(?P<at>(?:at|by|around|about(?=\s+\w+\s+(?:tomorrow|today|tonight|o))"
        r"|approx\w*|@|~|for(?=\s+\d))\s*)?(?:"
        rf"(?P<h>\d{{1,2}})(?::|(?<=\d)h)(?P<min>[0-5]\d)(?::[0-5]\d)?(?![\d:])\s*(?P<ap>{_HALF_DAY})?"
        rf"|(?P<h2>{_HOUR})(?:[.\s](?P<min2>[0-5]\d)|[\s-](?P<spoken2>ten|fifteen|twenty|thirty|forty|fifty|(?:twenty|thirty|forty|fifty)[\s-]five))?\s*(?P<ap2>{_HALF_DAY})"
        r"|(?P<word>noon|midday|midnight)\b|(?:the\s+)?(?P<same>(?:same|this)\s+time)(?=\s*(?:$|[,.;!?]|(?:to|tomorrow|next|on)\b))"
        rf"|(?:a\s+)?(?P<past>half|quarter|(?<!from )(?:five|ten|twenty(?:[\s-]five)?"
        rf"|5|10|20|25|\d{{1,2}}(?=\s+min))(?:\s+min(?:ute)?s?)?)\s+(?P<way>past"
        rf"|to)\s+(?P<h3>{_HOUR})(?![\w:])(?:\s*(?P<ap3>{_HALF_DAY}))?"
        rf"|half\s+(?P<h4>{_any(HOURS)}|(?:1[0-2]|[1-9])(?!\s*(?:an?\b|h|min|of|[%.:\d])))\b"
        rf"|(?P<h5>{_HOUR})(?:\s*o['’]?\s?clock\b|ish\b|(?<=\d)h\b|\s*sharp\b|(?=\s+in\s+the\s+(?:morning"
        rf"|afternoon|evening)))"
        r"|(?:(?<=at )|(?<=at)|(?<=@))(?P<h6>[01]\d|2[0-3])(?P<min6>[0-5]\d)(?!\w)(?:\s*h(?:rs)?\b)?"
        rf"|(?:(?<=at )|(?<=by )|(?<=around )|(?<=about )|(?<=@)|(?<=@ )|(?<=~)"
        rf"|(?<=for ))(?P<h7>{_HOUR})(?:[.](?P<min7>[0-5]\d)|\s+(?P<spoken>fifteen|thirty"
        rf"|forty[\s-]five)\b)?{_AFTER_CLOCK}"
        rf"|(?:(?<=day )|(?<=tomorrow )|(?<=tonight ))(?P<h8>\d{{1,2}})(?=\s*$|\s*[,;!?]|\s+to\b)"
        r"|(?P<h9>[01]?\d|2[0-3])\.(?P<min9>1[3-9]|[2-5]\d)(?=\s*(?:$|[,;!?]|to\b|for\b|with\b|about\b|that\b))"
        r"|(?P<bad>(?<=at )\d{1,2})(?=\s+or\s+\d))(?P<either>\s+or\s+(?:at\s+)?\d{1,2}\b)?"
        rf"(?P<and>(?:\s*(?:,|and)\s+(?:at\s+)?(?:\d{{1,2}}(?::[0-5]\d)?\s*(?:{_HALF_DAY})"
        rf"|\d{{1,2}}:[0-5]\d|(?:1[3-9]|2[0-3])\b(?=\s*(?:$|[,.!?]|(?:and|to|every|each|daily)\b))))+)?"
    ),
    "part": re.compile(
        r"(?i)(?<![\w-])(?:(?:in|during|on|at|by|over)\s+)?(?:the\s+)?(?:"
        rf"(?P<shift>early|late)\s+(?:(?:in\s+the\s+|this\s+)?(?P<shifted>{_PART})"
        rf"|(?=tom+or+ow\s+(?:morning|afternoon|evening)|on\s+\w+day))|(?:(?<=the )|(?<=this )|(?<=day )"
        rf"|(?<=row )|(?<=mrw )|(?<=every )|(?<=at ))(?P<part>{_PART})"
        r"|(?P<eod>end\s+of\s+(?:the\s+|my\s+)?(?:work(?:ing)?\s*)?day|eod|cob|close\s+of\s+business)\b"
        r"|(?P<first>first\s+thing(?:\s+in\s+the\s+morning)?)\b"
        r"|(?:(?P<when>before|after|at|over|during|around)\s+)?(?P<meal>(?:lunch|dinner|breakfast"
        r"|bed)(?:\s?time))\b|(?P<when2>before|after|at|over|during|around)\s+(?P<meal2>lunch|dinner"
        r"|breakfast|work|bed)\b)"
    ),
}
"""The kinds of phrases in the order of the search; what one kind took, a later one does not get."""
ISO_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)")
_GLUE = re.compile(r"(?i)[\s,]*(?:(?:and|at|on|by|the|of|in|for|starting|beginning|around|please)\b[\s,]*)*")


class Phrase(msgspec.Struct, frozen=True):
    """A phrase about time in a text: its ``kind`` (see PATTERNS) and its match."""

    kind: str
    match: re.Match[str]

    def __getitem__(self, name: str) -> str:
        """The named group in lower case with single spaces; empty if it did not match."""
        found = self.match.groupdict().get(name) or ""
        return " ".join(found.lower().replace("-", " ").split()) if name != "iso" else found


def find_phrases(text: str) -> list[Phrase]:
    """The phrases about time in ``text``, by their place."""
    found: list[Phrase] = []
    for kind, pattern in PATTERNS.items():
        for match in pattern.finditer(text):
            if match[0].strip() and not any(_overlap(match, each.match) for each in found):
                found.append(Phrase(kind, match))
    return sorted(found, key=lambda each: each.match.start())


def cluster(text: str, phrases: list[Phrase]) -> list[list[Phrase]]:
    """``phrases`` in groups: those of one group have nothing but small words between them."""
    groups: list[list[Phrase]] = []
    for phrase in phrases:
        if groups and _GLUE.fullmatch(text, groups[-1][-1].match.end(), phrase.match.start()):
            groups[-1].append(phrase)
        else:
            groups.append([phrase])
    return groups


def _overlap(one: re.Match[str], other: re.Match[str]) -> bool:
    return one.start() < other.end() and other.start() < one.end()
