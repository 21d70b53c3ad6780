"""How well a sentence supports what is asked, by a fitted sum of signs, and how likely it is the answer.

That a sentence is the best says little about whether it answers: of a thing that memory knows, something
else may be told. So what is chosen by a sum (``weighing``) is judged by more signs: how it compares with the
other sentences read, what it says beside the words that it shares with the question, whether it has what the
question asks for, and whether it names another thing in its place. Each sign adds a step to the log-odds.
"""

import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean

import msgspec

from services.nexus.answers.answer_type import CALENDAR, KINDS, find_type
from services.nexus.answers.evidence import OPENING, UNTOLD, Evidence, find_speaker, hide_subject, multiply
from shared.contracts import Node
from shared.text.prose import (
    EMPTY_WORDS,
    FUNCTION_WORDS,
    count_missing,
    find_names,
    find_numbered,
    find_stems,
    find_terms,
    split_words,
    stem_term,
)

WEIGHTS: Mapping[str, float] = {
    "mark": 0.341,
    "bare": 0.0896,
    "near": 12.1,
    "rest": 5.24,
    "left": 0.403,
    "least": 7,
    "mean": 9.01,
    "opening": 6.48,
    "whole": -2.4,
    "covered": -7.18,
    "told_elsewhere": -0.224,
    "missing": -0.803,
    "other_number": -8.61,
    "unnamed": -2.97,
    "no exact": -1.44,
    "no time": -2.1,
    "no count": -2.37,
    "no person": -0.722,
    "no place": -2.01,
    "exact": -2.27,
    "time": -0.641,
    "count": -0.87,
    "person": -0.0371,
    "place": 1.38,
    "length": 0.0924,
    "event": -4.17,
    "noted": -3.38,
    "always": -22.57,
}
"""What each sign counts, as it is named by ``measure``; "always" is added. Fitted by a softmax over the
sentences read and "none of them", to 1,177 questions about 12 made-up stores and 12 small teams, and to
those of them that have an answer also with it taken away; then half the way from those weights to what 886
questions teach: some of these, 126 that ask of a subject what is told of another one, and 263 about five
stores (tests/bench/answers/near_misses) of which 143 have no answer, mostly because it is not told of a known
subject. Further signs gained 6 of the 143 at most: what a sentence says beside the shared subject, another
word before the same noun, and persons by name.
"""
LEAST, LEAST_NAMED = -2.0, -1.2
"""The least weight of an answer, and of one that shares a phrase with the question. The phrase alone makes a
sentence heavy, so it has to tell what is asked as well; one in other words is never as heavy.
"""
_ADDRESSED = (
    r"(?i)(?:^|(?<=[,.!?]\s))"
    r"(?:(?:hey|hi|hello|thanks|thank you|wow|yeah|yes|no|oh|so|sure|congrats|ok)\b[\s,]+)*"
    r"(?:{0})(?=\s*(?:[,.!?:]|$))"
)
"""A name by which a person is addressed: by itself, or behind a greeting."""
BEGINNING = 4  # Letters by which a name is known in another form


class Asked(msgspec.Struct, frozen=True):
    """A question, the phrases of it that some sentence has, its terms, and what each of them counts: the less
    the more sentences have it, and nothing if none has.
    """

    text: str
    phrases: frozenset[str]
    terms: Mapping[str, float]


def weigh_terms(question: str, evidence: Sequence[Evidence]) -> dict[str, float]:
    """What each term of the question counts, by its stem."""
    stems = [find_stems(each.text) for each in evidence]
    having = {term: sum(term in each for each in stems) for term in find_terms(question)}
    return {term: math.log(1 + len(stems) / (1 + count)) if count else 0.0 for term, count in having.items()}


def weigh(asked: Asked, each: Evidence) -> float:
    """How well a sentence supports what is asked, beside the others that were read."""
    return sum(WEIGHTS[name] * value for name, value in measure(asked, each).items()) + WEIGHTS["always"]


def measure(asked: Asked, each: Evidence) -> dict[str, float]:
    """The signs that are weighed, by their names in WEIGHTS."""
    stems = find_stems(each.text)
    lacking = [term for term in asked.terms if term not in stems]
    kind, fits = find_type(asked.text, each.text)
    is_dated = kind == "time" and each.hit.node.kind in ("event", "episodic") and not is_noted(each.hit.node)
    fits = fits or is_dated  # its date is told
    # What happened by a file of a person's is an answer, where events that the office notes are not.
    kept = each.hit.node.source.channel == "ingest" or (each.then and not is_noted(each.hit.node))
    told = kept and 2 * len(lacking) <= len(asked.terms)
    return {
        "mark": each.mark,
        "bare": each.bare,
        "near": each.near,
        "rest": each.rest,
        "left": each.left,
        "least": each.least,
        "mean": each.mean,
        "opening": each.opening,
        "whole": each.whole,
        "covered": 1 - len(lacking) / max(1, len(asked.terms)),
        "told_elsewhere": sum(asked.terms[term] for term in lacking),
        "missing": count_missing(asked.phrases, each.text),
        "other_number": bool(find_numbered(asked.text) and names_another(asked.text, each.text)),
        "unnamed": not has_names(asked.text, leave_out_addressed(asked.text, each)),
        **{f"no {name}": kind == name and not fits for name in KINDS},
        **{name: kind == name and fits for name in KINDS},
        "length": len(each.text.split()),
        "event": each.hit.node.kind in ("event", "episodic") and not told,
        "noted": is_noted(each.hit.node),
    }


def is_noted(node: Node) -> bool:
    """Whether the office noted it of itself."""
    return node.source.channel in ("goal", "cognition") or node.kind in ("agent", "task")


def names_another(question: str, text: str) -> bool:
    """Whether a text has another number than the question for the same thing: lift 2 for lift 1."""
    told = find_numbered(text)
    things = {thing for thing, _ in told}
    return any(thing in things for thing, number in find_numbered(question) - told)


def leave_out_addressed(question: str, each: Evidence) -> str:
    """The text of a message without names by which it addresses others: "Thanks, Ana!" is not about Ana."""
    speaker = find_speaker(each.hit.node)
    if not speaker:
        return each.text
    said = each.text.removeprefix(f"{speaker}: ")
    names = "|".join(map(re.escape, find_names(question)))
    return f"{speaker}: {re.sub(_ADDRESSED.format(names), ' ', said)}" if names else each.text


def has_names(question: str, text: str) -> bool:
    """Whether a text has one of the question's names, or a word with the same beginning: Turkey, Turkish.

    Days, months and abbreviations are no names: who does not say Friday may mean it.
    """
    names = [name.lower() for name in find_names(question) if name[1:].islower()]
    names = [name for name in names if name.removesuffix("s") not in CALENDAR]
    words = {word[:BEGINNING] for word in re.findall(r"\w+", text.lower())}
    return not names or any(name[:BEGINNING] in words for name in names)


UNLIKELY, LIKELY = -3.5, -0.5
"""The log-odds from which the best sentence is told if its weight is enough for an answer, and if it is not.
The weights and the steps were fitted apart, and what one of them does not see, the other may. By the steps
alone more was told of teams' stores, and less of the half that is held out.
"""
LIGHTEST = -3.0  # The least that the best sentence weighs: it may be the best of nothing
SAME = 0.74  # The cosine of two sentences that say the same: of a former state the next one is no rival
SURE_OF_BEST = 10.0  # How much more than the next one the only sentence weighs

_MEASURE = re.compile(
    r"(?i)\bhow\s+(tall|high|large|big|far|heavy|wide|deep|fast|cold|warm|hot|long|soon|strong|thick|old|loud)\b"
)
TOUCHED, OPENED = 0.6, 0.68
"""How near a sentence comes at least to a measure that is asked for, and to "who" if it has no name.
Of 17 answers to "how tall" and the like all came nearer than .6, and of 20 other sentences 7; of ten to "who"
that answered nothing nine were at .56 to .67, two that answered at .73 and .84."""

SHORT = 3  # The fewest letters of a noun that is told by its modifier

_STOP = FUNCTION_WORDS | EMPTY_WORDS | OPENING
_AUXILIARY = r"(?:is|are|was|were|do|does|did|has|have|had|can|may|must|should|would|will|shall|could|might)"
_ATTRIBUTE = re.compile(
    rf"^\W*(?:(?:in|on|at|by|with|from|to|for|of|under|into)\s+)?(?:which|what)\s+(?!{_AUXILIARY}\b)([\w-]+)"
    r"|^\W*(?:what|which)(?:['’]s|\s+(?:is|are|was|were))\s+(?:the|our|\w+['’]s)\s+((?:[\w-]+\s+){0,2}?[\w-]+)"
    r"(?=\s+(?:of|for|in|on)\b|\W*$)|how\s+many\s+([\w-]+)",
    re.IGNORECASE,
)


def is_told(certain: float, weight: float, least: float) -> bool:
    """Whether the best sentence answers, by its log-odds, and its weight, of which ``least`` is enough."""
    return weight >= LIGHTEST and certain >= (UNLIKELY if weight >= least else LIKELY)


def measure_certainty(
    asked: Asked, best: Evidence, read: Sequence[Evidence], support: Mapping[str, float]
) -> dict[str, float]:
    """The signs by which the classifier ``certainty`` tells how likely ``best`` is the answer, in log-odds.

    ``support`` has what each of ``read`` weighs.
    """
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


def is_untouched(question: str, each: Evidence) -> bool:
    """Whether a question asks for a person whom a sentence neither names nor comes near to, or for a measure
    (how tall) that it does not come near to.
    """
    kind, fits = find_type(question, each.text)
    if kind == "person":
        return not fits and each.opening < OPENED
    measure = _MEASURE.search(question)
    return measure is not None and each.words.get(measure[1].lower(), UNTOLD) < TOUCHED


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
