"""How people name times: patterns of days, times of day, spans and repetitions, found in a text.

``spell_plainly`` writes what only speech has in the words of these: "4-ish" is "at 4 o'clock".
"""

import re

import msgspec

from shared.language.sayings import read_sayings

WAYS = read_sayings(__file__, "time_phrases")

_ONES = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
).split()
_TENS = {"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "ninety": 90}
CARDINALS = {**{word: number for number, word in enumerate(_ONES, 1)}, **_TENS}
HOURS = {word: number for number, word in enumerate(_ONES[:12], 1)}
NUMBERS: dict[str, float] = {
    **CARDINALS,
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
WEEKDAY_NAMES = "monday tuesday wednesday thursday friday saturday sunday".split()
MONTH_NAMES = "january february march april may june july august september october november december".split()
WEEKDAYS = {name[:3]: number for number, name in enumerate(WEEKDAY_NAMES)}
MONTHS = {name[:3]: number for number, name in enumerate(MONTH_NAMES, 1)}
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


def name_holiday(match: str) -> str:
    """The name of a holiday that a phrase matched, as HOLIDAYS and EASTER have it."""
    return re.sub(r"(year|valentine|patrick)['’]?s\b", r"\1", " ".join(re.split(r"[\s-]+", match.lower())))


KINDS = ("except", "repeat", "lasting", "span", "offset", "day", "clock", "part")
"""The kinds of phrases in the order of the search; what one kind took, a later one does not get."""
ISO_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)")


class Phrase(msgspec.Struct, frozen=True):
    """A phrase about time in a text: its ``kind`` (see KINDS) and its match."""

    kind: str
    match: re.Match[str]

    def __getitem__(self, name: str) -> str:
        """The named group in lower case with single spaces; empty if it did not match."""
        found = self.match.groupdict().get(name) or ""
        return " ".join(found.lower().replace("-", " ").split()) if name != "iso" else found


def find_phrases(text: str) -> list[Phrase]:
    """The phrases about time in ``text``, by their place."""
    found: list[Phrase] = []
    for kind in KINDS:
        for match in WAYS[kind].finditer(text):
            if match[0].strip() and not any(_overlap(match, each.match) for each in found):
                found.append(Phrase(kind, match))
    return sorted(found, key=lambda each: each.match.start())


def find_ago(text: str) -> list[re.Match[str]]:
    """What lies an ``amount`` of time behind: "three weeks ago"."""
    return list(WAYS["ago"].finditer(text))


def find_delay(text: str) -> re.Match[str] | None:
    """By which ``amount`` something is put off, and which ``way``: "for another hour", "an hour later"."""
    return WAYS["delay"].search(text)


def cluster(text: str, phrases: list[Phrase]) -> list[list[Phrase]]:
    """``phrases`` in groups: those of one group have nothing but small words between them."""
    groups: list[list[Phrase]] = []
    for phrase in phrases:
        if groups and WAYS["glue"].fullmatch(text, groups[-1][-1].match.end(), phrase.match.start()):
            groups[-1].append(phrase)
        else:
            groups.append([phrase])
    return groups


def _overlap(one: re.Match[str], other: re.Match[str]) -> bool:
    return one.start() < other.end() and other.start() < one.end()


SPOKEN = read_sayings(__file__, "spoken_times")


def spell_plainly(text: str) -> str:
    """``text`` with its spoken times as ``time_phrases`` reads them."""
    return SPOKEN.rewrite("spoken", text)
