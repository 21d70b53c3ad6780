"""In which language a message is, by its small words, and the sentence that says what is understood."""

import functools
import re
import tomllib
from pathlib import Path

import msgspec

FILE = Path(__file__).with_name("languages.toml")
_MARKS = re.compile(r"[äöüß¿¡ñçéèêàâîôûãõœąćęłńśźżåğışčďěňřšťůž]")
ENGLISH_ONLY = (
    "Without a model I understand English only: write in English, or set up a model (MAILROOM_BRAIN)."
)
"""The same for a language that is not recognised."""


class Language(msgspec.Struct, frozen=True, kw_only=True):
    """How a language is recognised, and the ``sentence`` in it that without a model English is understood."""

    sentence: str
    words: str = ""
    letters: str = ""
    script: str = ""


class Languages(msgspec.Struct, frozen=True, kw_only=True):
    """What languages.toml holds."""

    english: str
    languages: dict[str, Language]

    def count(self, words: list[str]) -> dict[str, int]:
        """How many of ``words`` are small words of each language."""
        known = {name: frozenset(each.words.split()) for name, each in self.languages.items() if each.words}
        return {name: sum(word in small for word in words) for name, small in known.items()}


@functools.cache
def read_languages() -> Languages:
    """The languages of the file."""
    return msgspec.convert(tomllib.loads(FILE.read_text(encoding="utf-8")), Languages)


def find_language(text: str) -> str:
    """The language of ``text`` if it is one of the file and not English; else an empty text."""
    known, lower = read_languages(), text.lower()
    for name, each in known.languages.items():
        if each.script and re.search(each.script, text):
            return name
    words = re.findall(r"[^\W\d_]+(?:['’-][^\W\d_]+)*", lower.replace("’", "'"))
    if not words:
        return ""
    english = sum(word in known.english.split() for word in words)
    counts = known.count(words)
    for name in counts:
        letters = known.languages[name].letters
        counts[name] += bool(letters and re.search(letters, lower))
    best = max(counts, key=lambda name: counts[name])
    marked = bool(_MARKS.search(lower))
    enough = counts[best] >= 2 or (marked and counts[best] >= 1 and len(words) <= 6)
    share = counts[best] / len(words)
    return best if enough and counts[best] > english + (0 if marked else 1) and share >= 0.25 else ""
