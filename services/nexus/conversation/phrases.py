"""Phrases that short messages are made of: numbers by place, times and days."""

import re

from shared.language.sayings import read_sayings
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
WAYS = read_sayings(__file__, "phrases")


def plain(text: str) -> str:
    """``text`` in lower case, without the punctuation that has no meaning in a short message."""
    lower = text.lower().replace("’", "'").replace("a.m.", "am").replace("p.m.", "pm")
    return " ".join(re.sub(r"(?<!\d)[.,:;!?\"()]+|[.,;!?\"()]+(?!\d)", " ", lower).split())


def is_time(words: str) -> bool:
    """Whether ``words``, in lower case, name times and nothing else."""
    if WAYS["times"].fullmatch(words) and WAYS["time"].search(words):
        return True
    phrases = choose(words)  # "in a fortnight", "half nine", "first thing on Monday"
    return bool(phrases.chosen) and not WAYS["beside_time"].sub(" ", phrases.rest).strip()


def find_clock(words: str) -> str:
    """The time of day that ``words`` name, as 17:00; empty if there is none."""
    if re.search(r"\b(?:noon|midday)\b", words):
        return "12:00"
    found = next((each for each in WAYS["at"].finditer(words) if each["minute"] or each["half"]), None)
    if not found or int(found["hour"]) > 24:
        return ""
    hour = int(found["hour"])
    if found["half"]:
        hour = hour % 12 + (12 if found["half"] == "pm" else 0)
    return f"{hour:02d}:{found['minute'] or '00'}"
