"""Which of the sentences that were read answers a question, and what said the same before it."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import msgspec

from services.nexus.answers.answer_type import adds_nothing, fits_type, lacks_amount, lacks_object
from services.nexus.answers.asked_time import HAPPENED
from services.nexus.answers.evidence import Evidence, find_later, is_kept_here, multiply
from services.nexus.answers.weighing import (
    LEAST,
    LEAST_NAMED,
    Asked,
    is_told,
    is_untouched,
    measure_certainty,
    weigh,
    weigh_terms,
)
from shared.memory import Memory
from shared.text.prose import asks_past, count_missing, find_phrases, find_stems, find_terms, stem_term

SAME, CHANGE_SAME = 0.68, 0.74
"""The cosine of sentences that say the same; and if the newer one tells of a change."""
MARGIN, CHANGE_MARGIN = 3.0, 7.0
"""How much less a newer sentence that says the same may support what is asked, to be the answer instead;
and if it tells of a change. Of 480 questions about what changed in 12 made-up stores 419 were answered with
the last state, where the limits of marks before had 407; with .55 and 5, 415."""
SURER = 1.0
"""Added to a weight for the chance: fewer questions of people have no answer than of those fitted to."""
TOLD_SAME = 0.7
"""As CHANGE_SAME, for two that were told in one conversation, of which the newer does not name the thing."""
BESIDE = 2.0  # How much less another sentence may support what is asked, to be told beside the answer

_DEFINITE = re.compile(r"(?i)\b(?:the|our|my|your|his|her|their|its)\s+([\w-]+)")
_BARE = re.compile(r"(?i)\W*(?:(?:actually|and|but|now|since\s+then|by\s+now)\W+)?(?:we|i|it|they|that)\b")
"""How a statement begins that does not name what it is about."""


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """What answers a question, the answer first; and what said the same before that, the latest first.

    ``chance`` is how likely it is that something does, by what the best sentence weighs, or by its mark.
    """

    chance: float = 0.0
    answers: tuple[Evidence, ...] = ()
    earlier: tuple[Evidence, ...] = ()


async def choose(question: str, evidence: Sequence[Evidence], memory: Memory) -> Chosen:
    """What of ``evidence`` answers the question; nothing if the heaviest sentence is not certain enough to.

    Of sentences that say the same the newest is the answer; instead of one that was superseded, what
    superseded it. If the question asks for the past, it is what was ended last, or else what the newest one
    replaced.
    """
    phrases = frozenset(chain.from_iterable(find_phrases(question, each.text) for each in evidence))
    asked = Asked(question, phrases, weigh_terms(question, evidence))
    known = _Weighed(
        question=question,
        past=asks_past(question) and not any(each.then for each in evidence),
        evidence={each.hit.node.id: each for each in evidence},
        missing={each.hit.node.id: count_missing(phrases, each.text) for each in evidence},
        support={each.hit.node.id: weigh(asked, each) for each in evidence},
    )
    may_answer = [
        each
        for each in evidence
        if not lacks_amount(question, each.text)
        and not lacks_object(question, each.words)
        and not adds_nothing(question, each.text)
        and not is_untouched(question, each)
    ]
    may_answer.sort(key=lambda each: -known.of(each))
    if not may_answer:
        return Chosen()
    best = may_answer[0]
    signs = measure_certainty(asked, best, evidence, known.support)
    (certain,) = await memory.classify("certainty", features=[signs])
    if not is_told(certain["log_odds"], known.of(best), known.least(best)):
        return Chosen()
    answering = [best, *(each for each in may_answer[1:] if known.of(each) >= known.least(each))]
    return next(filter(None, (_follow(leader, answering, known) for leader in answering)), Chosen())


class _Weighed(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence by the id of its node: how well it supports the question, how many words of its phrases it
    lacks; ``past`` if the question asks for what held before.
    """

    question: str
    past: bool
    evidence: Mapping[str, Evidence]
    missing: Mapping[str, int]
    support: Mapping[str, float]

    def of(self, each: Evidence) -> float:
        """How well it supports what is asked."""
        return self.support[each.hit.node.id]

    def least(self, each: Evidence) -> float:
        """How much of that is enough for an answer."""
        return LEAST_NAMED if find_phrases(self.question, each.text) else LEAST

    def covers(self, each: Evidence, leader: Evidence) -> bool:
        """Whether it has as many words of the question's phrases as ``leader``."""
        return self.missing[each.hit.node.id] <= self.missing[leader.hit.node.id]


def _follow(leader: Evidence, answering: Sequence[Evidence], known: _Weighed) -> Chosen | None:
    """What ``leader`` leads to: the newest that says the same, with what it took the place of; None if all
    that says it has ended.
    """
    chance = 1 / (1 + math.exp(-max(known.of(leader) + SURER, (leader.mark + 2) / 2)))
    evidence = [*known.evidence.values()]
    if summary := _find_summary(leader, answering, evidence):
        return Chosen(chance=chance, answers=tuple(_unique([summary, *answering])))
    changes = [each for each in evidence if _is_told_change(known.question, each, leader)]
    alike = [
        each
        for each in evidence
        if known.covers(each, leader)
        and fits_type(known.question, each.text)
        and _say_same(each, leader, known.of(each) - known.of(leader))
    ]
    later = _find_later(known.question, leader, known.evidence, known.support)
    before = [each for each in answering if find_later(each.hit) == leader.hit.node.id]
    same = _unique([leader, *later, *changes, *alike, *before])
    same.sort(key=lambda each: each.hit.node.created_at, reverse=True)
    if known.past:
        first = [each for each in same if each.ended] or same[1:] or same
    else:
        newer = [*later, *changes]
        first = [each for each in same if not each.ended and (each in newer or known.covers(each, leader))]
    if not first:
        return None
    beside = [
        each
        for each in answering
        if each not in same and known.of(each) >= known.of(leader) - BESIDE and (known.past or not each.ended)
    ]
    told = [each for each in same if each.ended or known.of(each) >= LEAST]
    return Chosen(
        chance=chance,
        answers=(first[0], *beside),
        earlier=tuple(each for each in _unique([*first[1:], *told]) if each is not first[0]),
    )


def _find_summary(
    leader: Evidence, answering: Sequence[Evidence], evidence: Iterable[Evidence]
) -> Evidence | None:
    """The event of the goal of which ``leader`` is one of several findings: these are no versions
    of each other.
    """
    goal = leader.goal
    if not goal or leader.hit.node.kind == "event" or [each.goal for each in evidence].count(goal) < 3:
        return None
    return next((each for each in evidence if each.hit.node.kind == "event" and each.goal == goal), None)


def _find_later(
    question: str, first: Evidence, known: Mapping[str, Evidence], support: Mapping[str, float]
) -> list[Evidence]:
    """What superseded it, what superseded that, and so on; what may have, if that tells what is asked."""
    found = [first]
    while (later := known.get(find_later(found[-1].hit))) and later not in found:
        more = support[later.hit.node.id] - support[first.hit.node.id]
        if not (found[-1].hit.superseded_by or (more >= -CHANGE_MARGIN and fits_type(question, later.text))):
            break
        found.append(later)
    return found[1:]


def _unique(evidence: Iterable[Evidence]) -> list[Evidence]:
    return list({each.hit.node.id: each for each in evidence}.values())


def _is_told_change(question: str, newer: Evidence, leader: Evidence) -> bool:
    """Whether ``newer`` was told in the conversation, tells of a change of what memory has or was told
    before, and names the thing by its noun alone ("I moved the key"), or not at all ("we use SQLite now").
    """
    said = newer.told_here or (is_kept_here(newer.hit.node) and leader.told_here)
    if not (said and newer.changes):
        return False
    named = {stem_term(word) for word in _DEFINITE.findall(newer.text)}
    if named & find_terms(question).keys() & find_stems(leader.text):
        return True
    return bool(_BARE.match(newer.text)) and multiply(newer.vector, leader.vector) >= TOLD_SAME


def _say_same(newer: Evidence, leader: Evidence, more: float) -> bool:
    """Whether ``newer``, which supports what is asked so much more, says the same as ``leader``."""
    if newer.hit.node.kind in HAPPENED or leader.hit.node.kind in HAPPENED:
        return False
    if newer is not leader and newer.goal and newer.goal == leader.goal:
        return False
    if newer.changes:
        return more >= -CHANGE_MARGIN and multiply(newer.vector, leader.vector) >= CHANGE_SAME
    return more >= -MARGIN and multiply(newer.vector, leader.vector) >= SAME
