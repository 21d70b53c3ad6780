"""Which of the sentences that were read answers a question, and what said the same before it."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import msgspec

from services.nexus.answers.answer_type import fits_type, lacks_amount
from services.nexus.answers.evidence import KEPT_HERE, Evidence, find_later, multiply
from services.nexus.answers.weighing import LEAST, Asked, weigh, weigh_terms
from shared.text.cues import asks_past
from shared.text.subjects import count_missing, find_phrases
from shared.text.words import find_stems, find_terms, stem_term

SAME, CHANGE_SAME = 0.68, 0.74
"""The cosine of sentences that say the same; and if the newer one tells of a change."""
MARGIN, CHANGE_MARGIN = 3.0, 7.0
"""How much less a newer sentence that says the same may support what is asked, to be the answer instead;
and if it tells of a change. Of 480 questions about what changed in 12 made-up stores 419 were answered with
the last state, where the limits of marks before had 407; with .55 and 5 it were 415."""
TOLD_SAME = 0.7
"""As CHANGE_SAME, for two that were told in one conversation, of which the newer does not name the thing."""
BESIDE = 2.0
"""How much less another sentence may support what is asked, to be told beside the answer."""

_DEFINITE = re.compile(r"(?i)\b(?:the|our|my|your|his|her|their|its)\s+([\w-]+)")
_BARE = re.compile(r"(?i)\W*(?:(?:actually|and|but|now|since\s+then|by\s+now)\W+)?(?:we|i|it|they|that)\b")
"""How a statement begins that does not name what it is about."""

_HAPPENED = ("event", "episodic", "task", "agent")
"""Kinds that say what happened, so that a later one does not replace an earlier one."""


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """What answers a question, the answer first; and what said the same before that, the latest first.

    ``chance`` is how likely it is that something does, by what the best sentence weighs, or by its mark.
    """

    chance: float = 0.0
    answers: tuple[Evidence, ...] = ()
    earlier: tuple[Evidence, ...] = ()


def choose(question: str, evidence: Sequence[Evidence]) -> Chosen:
    """What of ``evidence`` answers the question; nothing if no sentence does.

    Of sentences that say the same the newest is the answer; instead of one that was superseded, what
    superseded it. If the question asks for the past, it is what was ended last, or else what the newest one
    replaced.
    """
    phrases = frozenset(chain.from_iterable(find_phrases(question, each.text) for each in evidence))
    missing = {each.hit.node.id: count_missing(phrases, each.text) for each in evidence}
    asked = Asked(question, phrases, weigh_terms(question, evidence))
    support = {each.hit.node.id: weigh(asked, each) for each in evidence}
    answering = [
        each
        for each in evidence
        if support[each.hit.node.id] >= LEAST and not lacks_amount(question, each.text)
    ]
    answering.sort(key=lambda each: -support[each.hit.node.id])
    past = asks_past(question)
    known = {each.hit.node.id: each for each in evidence}
    for leader in answering:
        surest = max(support[leader.hit.node.id], (leader.mark + 2) / 2)
        chance = 1 / (1 + math.exp(-surest))
        changes = [each for each in evidence if _is_told_change(question, each, leader)]
        same = [
            each
            for each in evidence
            if missing[each.hit.node.id] <= missing[leader.hit.node.id]
            and fits_type(question, each.text)
            and _say_same(each, leader, support[each.hit.node.id] - support[leader.hit.node.id])
        ]
        later = _find_later(question, leader, known, support)
        before = [each for each in answering if find_later(each.hit) == leader.hit.node.id]
        same = _unique([leader, *later, *changes, *same, *before])
        same.sort(key=lambda each: each.hit.node.created_at, reverse=True)
        current = [each for each in same if not each.ended]
        if past:
            first = [each for each in same if each.ended] or same[1:] or same
        else:
            first = [
                each
                for each in current
                if each in later
                or each in changes
                or missing[each.hit.node.id] <= missing[leader.hit.node.id]
            ]
        if summary := _find_summary(leader, answering, evidence):
            return Chosen(chance=chance, answers=tuple(_unique([summary, *answering])))
        if first:
            least = support[leader.hit.node.id] - BESIDE
            others = [each for each in answering if each not in same and support[each.hit.node.id] >= least]
            others = [each for each in others if past or not each.ended]
            alike = [each for each in same if each.ended or support[each.hit.node.id] >= LEAST]
            earlier = _unique([*first[1:], *alike])
            return Chosen(
                chance=chance,
                answers=(first[0], *others),
                earlier=tuple(each for each in earlier if each is not first[0]),
            )
    return Chosen()


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
    said = newer.told_here or (newer.hit.node.source.channel == KEPT_HERE and leader.told_here)
    if not (said and newer.changes):
        return False
    named = {stem_term(word) for word in _DEFINITE.findall(newer.text)}
    if named & find_terms(question).keys() & find_stems(leader.text):
        return True
    return bool(_BARE.match(newer.text)) and multiply(newer.vector, leader.vector) >= TOLD_SAME


def _say_same(newer: Evidence, leader: Evidence, more: float) -> bool:
    """Whether ``newer``, which supports what is asked so much more, says the same as ``leader``."""
    if newer.hit.node.kind in _HAPPENED or leader.hit.node.kind in _HAPPENED:
        return False
    if newer is not leader and newer.goal and newer.goal == leader.goal:
        return False
    if newer.changes:
        return more >= -CHANGE_MARGIN and multiply(newer.vector, leader.vector) >= CHANGE_SAME
    return more >= -MARGIN and multiply(newer.vector, leader.vector) >= SAME
