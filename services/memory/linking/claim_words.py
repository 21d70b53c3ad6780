"""The words that claims are read by: the tables in ``english.toml``, compared by their roots."""

import tomllib
from functools import lru_cache
from pathlib import Path

from shared.language.times.time_phrases import CARDINALS, MONTH_NAMES, WEEKDAY_NAMES
from shared.text.prose import stem_term

_TABLES = tomllib.loads(Path(__file__).with_name("english.toml").read_text("utf-8"))

_ENDINGS = tuple("ation ment ance ence ition tion er or al ion ity able abl ibl e y i".split())
"""Endings that make another word of the same subject: linter, approval, deployment."""

LEAST_ROOT = 4  # The fewest letters that are left of a word without its ending: paper is no form of pap


@lru_cache(20_000)
def root(word: str) -> str:
    """What the forms of a word have in common: deploys, deployed, deployment; lint, linter, linting."""
    stem = stem_term(word)
    for ending in _ENDINGS:
        if stem.endswith(ending) and len(stem) - len(ending) >= LEAST_ROOT:
            return stem[: -len(ending)]
    return stem


def _words(name: str) -> frozenset[str]:
    return frozenset(_TABLES[name].split())


def _roots(name: str) -> frozenset[str]:
    return frozenset(map(root, _TABLES[name].split()))


DETERMINERS = _words("determiners")
NOTHING = DETERMINERS | _words("nothing")
PREPOSITIONS = _words("prepositions")
PURPOSES = _words("purposes")
BEING = _words("being")
AUXILIARIES = _words("auxiliaries")
NOUN_ENDINGS = ("al", "als", "er", "ers", "or", "ors", "ment", "ments", "tion", "tions", "ance", "ence")
HARD = _words("hard")
PERIODS = _words("periods")
MEASURES = {
    unit: (kind, float(factor or 1))
    for kind, units in _TABLES["measures"].items()
    for unit, _, factor in (each.partition(":") for each in units.split())
}
"""What each unit measures, and how much of the first one of that kind it is."""

MONEY = _words("money")

GENERIC_VERBS = _roots("generic_verbs")
VERBS = GENERIC_VERBS | _roots("verbs")
CHANGE_VERBS = _roots("change_verbs")
GENERIC_NOUNS = frozenset(form for word in _words("generic_nouns") for form in (word, f"{word}s"))
SYNONYMS = {root(word): f"={group.split()[0]}" for group in _TABLES["synonyms"] for word in group.split()}
PHRASES: dict[str, str] = _TABLES["phrases"]

OFTEN = dict(pair.split(":") for pair in _TABLES["often"].split())
WEEKDAYS = {form: day[:3] for day in WEEKDAY_NAMES for form in (day, f"{day}s")}
WEEKDAYS |= {form: form[:7] for form in ("weekday", "weekdays", "weekend", "weekends")}
MONTHS = {form: month[:3] for month in MONTH_NAMES for form in (month, month[:3])}
NUMBER_WORDS = {word: str(number) for word, number in {"zero": 0, "hundred": 100, **CARDINALS}.items()}

FAMILIES = {"ident": "number", "version": "number", "per": "frequency"}
"""Types whose values stand in for those of another."""

PLACES = frozenset("in on at to into onto under inside near".split())
MEANS = frozenset("by with through via using as".split())
"""Prepositions before where or when something is, and before what or who does it."""
