"""Which of the sentences that were read answers a question, and what said the same before it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import msgspec

from services.nexus.answers.answer_type import CALENDAR, fits_type
from services.nexus.answers.evidence import Evidence, multiply
from shared.contracts import Node
from shared.text.cues import asks_past
from shared.text.subjects import count_missing, find_names, find_phrases

FIRST_NEAR, FIRST_REST = 7.0, 12.0
"""What ``near`` and ``rest`` of a sentence count beside its mark, for which one is first: half of what a fit
gave, with which, by stores left out in turn, 105 of 137 plain facts were first, and 95 by marks alone."""
MISSING = 2.0
"""What each word of the question's subject that a sentence lacks, and another one has, costs of its mark."""
NOTED = 3.0
"""What it costs of its mark that the office noted a sentence of itself."""
SAME, CHANGE_SAME = 0.68, 0.55
"""The cosine of sentences that say the same; and if the newer one tells of a change."""
CHANGE_LEAST = -8.0
"""The least mark of a newer sentence that tells of a change and says the same."""
MARGIN, WEAK_MARGIN = 9.0, 3.0
"""How much lower the mark of a newer sentence may be that says the same as the best one; and if that has
less than 2. In a calculation from stored marks, before the words of a change and without any help by the
linker, the first quotation was current in 56 of 58 questions of that store, and in 50 of 58 of another in
other words. Some misses of that other store were seen before the words of a change and the type of a weight
were added."""

BARE, GAP, REST, NEAR, LEFT, UNFIT = 0.101, 0.53, 7.0, 12.5, 0.66, 2.2
"""What supports an answer: the mark without what sentence and question share; how far the mark is above that
of the next sentence that says something else of the subject; how near its words are to those of the question
that it lacks; how near it is to the question; each word of these, since sentences in other words are less
near; against it, that it lacks what the question asks for."""
LEAST = 13.75
"""The least support. Shares and limit are a logistic regression over 461 questions about seven made-up stores
(their facts, changed or not, and what they have not noted), and over those that have an answer without it. By
stores that were left out in turn the limit declines three of four questions that have none. Likeness to the
question (``near``) was what was missing: at equal numbers declined, 88 facts of 137 were told where 73 were.
Trees, up to 15 features, the least near word, and places in search told no more."""
UNNAMED = 3.0
"""Against it too, that it has none of the question's names: Vienna stands for Austria, Ada not for Bob. Of 12
facts whose question has a name 9 were told so, and 6 if such sentences are left out. With another name put in
all of 24 questions were declined in both ways, 23 with 2."""
ALIKE = 0.72
"""The least cosine of two sentences that say the same of one subject, in another state perhaps."""
MOST_GAP, LOWEST = 4.0, -11.3
"""More than so much above the next one counts as much; the mark of nothing."""
BEGINNING = 4
"""Letters by which a name is known in another form."""

_HAPPENED = ("event", "episodic", "task", "agent")
"""Kinds that say what happened, so that a later one does not replace an earlier one."""


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """What answers a question, the answer first; and what said the same before that, the latest first."""

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
    answering = [each for each in evidence if weigh(question, each, _rivals(each, evidence, missing)) >= 0]
    answering.sort(key=lambda each: _rank(each, missing[each.hit.node.id]), reverse=True)
    past = asks_past(question)
    known = {each.hit.node.id: each for each in evidence}
    for leader in answering:
        same = [
            each
            for each in evidence
            if missing[each.hit.node.id] <= missing[leader.hit.node.id]
            and fits_type(question, each.text)
            and _say_same(each, leader)
        ]
        later = _find_later(leader, known)
        same = _unique([leader, *later, *same])
        same.sort(key=lambda each: each.hit.node.created_at, reverse=True)
        current = [each for each in same if not each.ended]
        if past:
            first = [each for each in same if each.ended] or same[1:] or same
        else:
            first = [each for each in current if missing[each.hit.node.id] <= missing[leader.hit.node.id]]
        if summary := _find_summary(leader, answering, evidence):
            return Chosen(answers=tuple(_unique([summary, *answering])))
        if first:
            others = [each for each in answering if each not in same and each.mark >= max(0, leader.mark - 4)]
            others = [each for each in others if past or not each.ended]
            earlier = _unique([*first[1:], *same])
            return Chosen(
                answers=(first[0], *others), earlier=tuple(each for each in earlier if each is not first[0])
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


def _find_later(first: Evidence, known: Mapping[str, Evidence]) -> list[Evidence]:
    """What superseded it, what superseded that, and so on."""
    found = [first]
    while (later := known.get(found[-1].hit.superseded_by)) and later not in found:
        found.append(later)
    return found[1:]


def _unique(evidence: Iterable[Evidence]) -> list[Evidence]:
    return list({each.hit.node.id: each for each in evidence}.values())


def _rivals(each: Evidence, evidence: Iterable[Evidence], missing: Mapping[str, int]) -> list[Evidence]:
    """What says something else and lacks no more of the question's subject."""
    most = missing[each.hit.node.id]
    return [
        other
        for other in evidence
        if missing[other.hit.node.id] <= most and multiply(other.vector, each.vector) < ALIKE
    ]


def _rank(each: Evidence, missing: int) -> float:
    """By what the answers are put in order, the highest first."""
    against = MISSING * missing + NOTED * is_noted(each.hit.node)
    return each.mark + FIRST_NEAR * each.near + FIRST_REST * each.rest - against


def weigh(question: str, each: Evidence, rivals: Iterable[Evidence]) -> float:
    """How well a sentence supports what is asked: from 0 on it answers, above all if no rival is near it."""
    gap = min(MOST_GAP, each.mark - max((rival.mark for rival in rivals), default=LOWEST))
    found = BARE * each.bare + GAP * gap + REST * each.rest + NEAR * each.near + LEFT * each.left
    found -= UNFIT * (not fits_type(question, each.text)) + UNNAMED * (not _has_names(question, each.text))
    return found - LEAST


def is_noted(node: Node) -> bool:
    """Whether the office noted it of itself."""
    return node.source.channel in ("goal", "cognition") or node.kind in ("agent", "task")


def _has_names(question: str, text: str) -> bool:
    """Whether a text has one of the question's names, or a word with the same beginning: Turkey, Turkish.

    Days, months and abbreviations are no names: who does not say Friday may mean it.
    """
    names = [name.lower() for name in find_names(question) if name[1:].islower()]
    names = [name for name in names if name.removesuffix("s") not in CALENDAR]
    words = {word[:BEGINNING] for word in re.findall(r"\w+", text.lower())}
    return not names or any(name[:BEGINNING] in words for name in names)


def _say_same(newer: Evidence, leader: Evidence) -> bool:
    if newer.hit.node.kind in _HAPPENED or leader.hit.node.kind in _HAPPENED:
        return False
    if newer is not leader and newer.goal and newer.goal == leader.goal:
        return False
    if newer.changes:
        return newer.mark >= CHANGE_LEAST and multiply(newer.vector, leader.vector) >= CHANGE_SAME
    margin = MARGIN if leader.mark > 2 else WEAK_MARGIN
    return newer.mark >= leader.mark - margin and multiply(newer.vector, leader.vector) >= SAME
