"""How likely it is that the best sentence tells what is asked: steps that are fitted to made-up questions.

That a sentence is the best says little about whether it answers: of a thing that memory knows, something
else may be told. So what is chosen by a sum (``weighing``) is judged by more signs: how it compares with the
other sentences read, what it says beside the words that it shares with the question, whether it has what the
question asks for, and whether it names another thing in its place. Each sign adds a step to the log-odds.
"""

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import msgspec

from services.nexus.answers.answer_type import find_type
from services.nexus.answers.evidence import OPENING, UNTOLD, Evidence, hide_subject, multiply
from services.nexus.answers.weighing import Asked, is_noted, measure
from shared.text.prose import EMPTY_WORDS, find_stems, find_terms, stem_term
from shared.text.questions import FUNCTION_WORDS, split_words

FILE = Path(__file__).with_name("certainty.json")
UNLIKELY, LIKELY = -3.5, -0.5
"""The log-odds from which the best sentence is told if its weight is enough for an answer, and if it is not.
The weights and the steps were fitted apart, and what one of them does not see, the other may. By the steps
alone more was told of teams' stores, and less of the half that is held out.
"""
LIGHTEST = -3.0
"""The least that the best sentence weighs: it may be the best of nothing."""
SAME = 0.74
"""The cosine of two sentences that say the same: of a former state the next one is no rival."""
SURE_OF_BEST = 10.0
"""How much more than the next one the only sentence weighs."""

SHORT = 3
"""The fewest letters of a noun that is told by its modifier."""

_STOP = FUNCTION_WORDS | EMPTY_WORDS | OPENING
_AUXILIARY = r"(?:is|are|was|were|do|does|did|has|have|had|can|may|must|should|would|will|shall|could|might)"
_ATTRIBUTE = re.compile(
    rf"^\W*(?:(?:in|on|at|by|with|from|to|for|of|under|into)\s+)?(?:which|what)\s+(?!{_AUXILIARY}\b)([\w-]+)"
    r"|^\W*(?:what|which)(?:['’]s|\s+(?:is|are|was|were))\s+(?:the|our|\w+['’]s)\s+((?:[\w-]+\s+){0,2}?[\w-]+)"
    r"(?=\s+(?:of|for|in|on)\b|\W*$)|how\s+many\s+([\w-]+)",
    re.IGNORECASE,
)


class Steps(msgspec.Struct, frozen=True, kw_only=True):
    """What a sign adds: the first of ``values`` below the first of ``limits``, the next from there on."""

    limits: tuple[float, ...]
    values: tuple[float, ...]

    def read(self, value: float) -> float:
        """What is added for ``value``."""
        return self.values[bisect_right(self.limits, value)]


class Fitted(msgspec.Struct, frozen=True, kw_only=True):
    """The steps by the names of their signs, and the log-odds without any."""

    start: float
    steps: Mapping[str, Steps]

    def weigh(self, signs: Mapping[str, float]) -> float:
        """The log-odds that the best sentence answers."""
        return self.start + sum(steps.read(signs[name]) for name, steps in self.steps.items())


@cache
def load_fitted() -> Fitted:
    """The steps of FILE, which ``python -m tests.bench.answers.fitting`` writes."""
    return msgspec.json.decode(FILE.read_bytes(), type=Fitted)


def is_told(certain: float, weight: float, least: float) -> bool:
    """Whether the best sentence answers, by its log-odds, and its weight, of which ``least`` is enough."""
    return weight >= LIGHTEST and certain >= (UNLIKELY if weight >= least else LIKELY)


def weigh_certainty(
    asked: Asked, best: Evidence, read: Sequence[Evidence], support: Mapping[str, float]
) -> float:
    """The log-odds that ``best`` answers what is asked; ``support`` has what each of ``read`` weighs."""
    return load_fitted().weigh(measure_certainty(asked, best, read, support))


def measure_certainty(
    asked: Asked, best: Evidence, read: Sequence[Evidence], support: Mapping[str, float]
) -> dict[str, float]:
    """The signs by their names in FILE."""
    signs = measure(asked, best)
    return {
        **signs,
        **_measure_shared(asked, best),
        **_measure_attribute(asked, best),
        "other_modifier": has_other_modifier(asked.text, best.text),
        "twin": has_twin(asked.text, best.text),
        "second": _find_second(best),
        "terms": len(asked.terms),
        **_compare(best, read, support),
    }


def _measure_shared(asked: Asked, best: Evidence) -> dict[str, float]:
    """What is left to be told if both share a phrase: 0 for each sign if they do not."""
    question, text = hide_subject(asked.text, best.text)
    shared = question != asked.text
    left, stems = find_terms(question), find_stems(best.text)
    met = sum(term in stems for term in left)
    kind, fits = find_type(asked.text, best.text)
    signs = {
        "shared": 1.0,
        "shared bare": best.bare,
        "shared mark": best.mark,
        "shared fits": bool(kind) and fits,
        "shared misfit": bool(kind) and not fits,
        "shared left": len(left) - met,
        "shared met": met / max(1, len(left)),
        "shared share": (len(asked.terms) - len(left)) / max(1, len(asked.terms)),
        "shared length": min(20, len(find_terms(text))),
    }
    return {name: value * shared for name, value in signs.items()}


def find_attribute(question: str) -> str:
    """What a question asks for by a noun, in lower case: colour, in "what colour is the door"; or empty."""
    found = _ATTRIBUTE.search(question)
    words = next(filter(None, found.groups())).lower().split() if found else []
    named = [word for word in words if word not in _STOP]
    return named[-1] if named else ""


def _measure_attribute(asked: Asked, best: Evidence) -> dict[str, float]:
    attribute = find_attribute(asked.text)
    near = best.words.get(attribute, UNTOLD) - UNTOLD if attribute else 0.0
    unnamed = bool(attribute) and stem_term(attribute) not in find_stems(best.text)
    return {"attribute": bool(attribute), "attribute near": near, "attribute unnamed": unnamed}


def has_other_modifier(question: str, text: str) -> bool:
    """Whether a text has another word before a noun of the question: winter tyres for summer tyres."""
    asked, told = split_words(question), split_words(text)
    stems = [stem_term(word) for word in told]
    nouns = {stem for place, stem in enumerate(stems) if place and told[place - 1] not in _STOP}
    return any(
        stem_term(word) not in stems and stem_term(noun) in nouns
        for word, noun in pairwise(asked)
        if not {word, noun} & _STOP and len(noun) >= SHORT
    )


def has_twin(question: str, text: str) -> bool:
    """Whether a text has another word in the place of one of the question, beside the same neighbour."""
    asked, told = split_words(question), split_words(text)
    known, stems = set(map(stem_term, asked)), list(map(stem_term, told))
    lacking = [
        place for place, word in enumerate(asked) if word not in _STOP and stem_term(word) not in stems
    ]
    others = [place for place, word in enumerate(told) if word not in _STOP and stems[place] not in known]
    return any(
        _is_beside(asked, place + step)
        and _is_beside(told, other + step)
        and stem_term(asked[place + step]) == stems[other + step]
        for place in lacking
        for other in others
        for step in (1, -1)
    )


def _is_beside(words: Sequence[str], place: int) -> bool:
    return 0 <= place < len(words) and words[place] not in _STOP


def _find_second(best: Evidence) -> float:
    """How near it comes to the word of meaning that it comes second least near to."""
    near = sorted(value for word, value in best.words.items() if word not in EMPTY_WORDS | OPENING)
    return (near[1:2] or near or [UNTOLD])[0]


def _compare(best: Evidence, read: Sequence[Evidence], support: Mapping[str, float]) -> dict[str, float]:
    """How it compares with others that were read, but for what says the same, and what the office noted."""
    others = [each for each in read if each is not best and not _is_beside_the_point(each, best)]
    weight = support[best.hit.node.id]
    next_one = max((support[each.hit.node.id] for each in others), default=weight - SURE_OF_BEST)
    signs = {"support": weight, "margin": weight - next_one}
    for name in ("mark", "near", "mean", "least"):
        values = [getattr(each, name) for each in (best, *others)]
        value, average = values[0], fmean(values)
        signs |= {
            f"{name} average": average,
            f"{name} above": value - average,
            f"{name} below": value - max(values),
        }
    return signs


def _is_beside_the_point(each: Evidence, best: Evidence) -> bool:
    """Whether it says the same as the best one, or tells of the office's own work."""
    return is_noted(each.hit.node) or multiply(each.vector, best.vector) >= SAME
