"""How well a sentence supports what is asked: a fitted sum of signs, by which the best one is chosen."""

import math
import re
from collections.abc import Mapping, Sequence

import msgspec

from services.nexus.answers.answer_type import CALENDAR, KINDS, find_type
from services.nexus.answers.evidence import Evidence, find_speaker
from shared.contracts import Node
from shared.text.prose import find_stems, find_terms
from shared.text.questions import count_missing, find_names, find_numbered

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
BEGINNING = 4
"""Letters by which a name is known in another form."""


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
    # What happened by a file of a person's is an answer, where events that the office notes are not.
    told = each.hit.node.source.channel == "ingest" and 2 * len(lacking) <= len(asked.terms)
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
