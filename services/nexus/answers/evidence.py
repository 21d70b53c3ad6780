"""Which remembered sentences answer a question: read by a cross-encoder, and checked by what they hold."""

import asyncio
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain

import msgspec

from services.nexus.answers.answer_type import fits_type
from shared.clock import parse_timestamp
from shared.contracts import Hit, Node
from shared.memory import Memory
from shared.text.cues import asks_past
from shared.text.sentences import split_sentences
from shared.text.subjects import count_missing, find_names, find_phrases
from shared.text.words import find_stems, find_terms

READ = 20
"""Hits that are read; 4 hold the answer nearly always, but bookkeeping may stand before them."""
OF_ONE = 4
"""Sentences of one hit that are read: those with most of the question's words."""
MOST = 40
"""Sentences that are read in all, at 7 ms each on one core."""

LEAST = -4.6
"""The mark (about -11 to 10) from which a sentence may answer."""
CHANGE_LEAST = -8.0
"""The same for a sentence that tells of a change: it may replace one that answers."""
DEPTH = 8
"""Sentences that are looked at more closely, the best ones."""
UNNAMED_LEAST = -6.0
"""The least mark with "someone" for the names in question and sentence. A rare name alone makes a mark of
-3 to 4, so "How old is Ada?" would be answered by "Ada is at the dentist": without the name such sentences
had -6.1 and less in all 17 questions tried, and those that answered -6.0 and more in 12 of 14."""
MARK, LIKENESS, TYPE = 0.05, 20.0, 3.5
"""The shares of support: of both marks, of the cosine without the subject, of holding what is asked for."""
SUPPORT = 12.7
"""The least support. Shares and limit were chosen on a made-up team's store (make bench-answers, half work)
with 131 questions that name a subject it knows and ask what it does not know, and whose best sentence has
enough of a mark: 90 were declined, and 3 of 71 that it answers. Of 59 such about a flower shop, to which
the shares were not fitted, 6 of 11 were declined and 1 of 48. The mark alone, losing as many answers,
declines less than 11 of the 131."""
CERTAIN = 7.0
"""The mark from which a sentence answers whatever its support."""

MISSING = 2.0
"""What each word of the question's subject that a sentence lacks, and another one has, costs of its mark."""
NOTED = 3.0
"""What it costs of its mark that the office noted a sentence of itself."""
SAME, CHANGE_SAME = 0.68, 0.5
"""The cosine of sentences that say the same; and if the newer one tells of a change."""
MARGIN, WEAK_MARGIN = 9.0, 3.0
"""How much lower the mark of a newer sentence may be that says the same as the best one; and if that has
less than 2. In a calculation from stored marks, before the words of a change and without any help by the
linker, the first quotation was current in 56 of 58 questions of that store, and in 50 of 58 of another in
other words. Some misses of that other store were seen before the words of a change and the type of a weight
were added."""

_HAPPENED = ("event", "episodic", "task", "agent")
"""Kinds that say what happened, so that a later one does not replace an earlier one."""
_CHANGE = re.compile(
    r"\b(?:instead|in\s+place\s+of|rather\s+than|no\s+longer|any\s*more|replac\w+|switch\w*|moved|renam\w+|migrat\w+"
    r"|changed|from\s+now\s+on|as\s+of|used\s+to|(?:takes?|took|hand(?:s|ed))\s+(?:\w+\s+){0,3}over|(?:up|down)\s+from"
    r"|until\s+now|now|dropped|succeed\w*|and\s+not)\b",
    re.IGNORECASE,
)
"""Words of a change."""
_ARTICLE = r"(?:the|our|my|your|his|her|their|its|an?|this|that|these|those)"
_ASKED = re.compile(r"\?(?:\s*\(\d{4}-\d\d-\d\d\))?\W*$|^It was asked\b")
_NAME = "someone"


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence of a hit, and its mark as an answer.

    ``unnamed`` is its mark without the question's names (None if it has none), ``bare`` that without the
    subject of the question, ``likeness`` the cosine with the question without it; ``vector`` is its
    embedding.
    """

    hit: Hit
    sentence: str
    mark: float
    unnamed: float | None = None
    bare: float = 0.0
    likeness: float = 0.0
    vector: tuple[float, ...] = ()

    @property
    def text(self) -> str:
        """What it is read as: with its title before it where that is a heading."""
        return in_context(self.hit, self.sentence)

    @property
    def ended(self) -> bool:
        """Whether something superseded it, or it is past its end."""
        return has_ended(self.hit)

    @property
    def changes(self) -> bool:
        """Whether it tells of a change."""
        return bool(_CHANGE.search(self.sentence))


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """What answers a question, the answer first; and what said the same before that, the latest first."""

    answers: tuple[Evidence, ...] = ()
    earlier: tuple[Evidence, ...] = ()


async def read_evidence(memory: Memory, question: str, hits: Sequence[Hit]) -> list[Evidence]:
    """The best sentence of each hit, best first; raises BusError if memory does not read.

    What superseded one that may answer is among them whatever its mark, if it is among ``hits``.
    """
    pairs = [(hit, sentence) for hit in hits for sentence in _pick_sentences(hit, question)][:MOST]
    if not pairs:
        return []
    marks = await memory.read(question, *(in_context(hit, sentence) for hit, sentence in pairs))
    best: dict[str, Evidence] = {}
    for (hit, sentence), mark in zip(pairs, marks, strict=True):
        if hit.node.id not in best or mark > best[hit.node.id].mark:
            best[hit.node.id] = Evidence(hit=hit, sentence=sentence, mark=mark)
    near = [each for each in best.values() if each.mark >= (CHANGE_LEAST if each.changes else LEAST)]
    near = sorted(near, key=lambda each: -each.mark)[:DEPTH]
    for each in near:  # which grows
        later = best.get(each.hit.superseded_by)
        if later and later not in near:
            near.append(later)
    return await _complete(memory, question, near)


async def _complete(memory: Memory, question: str, evidence: Sequence[Evidence]) -> list[Evidence]:
    """With what a closer look finds."""
    if not evidence:
        return []
    bare = [_hide_subject(question, each.text) for each in evidence]
    asked = list(dict.fromkeys(masked for masked, _ in bare))
    texts = [*asked, *(text for _, text in bare), *(each.text for each in evidence)]
    vectors, unnamed, marks = await asyncio.gather(
        memory.embed(*texts), _read_unnamed(memory, question, evidence), _read_bare(memory, asked, bare)
    )
    count = len(asked)
    return [
        msgspec.structs.replace(
            each,
            unnamed=unnamed[place],
            bare=marks[place],
            likeness=_multiply(vectors[asked.index(bare[place][0])], vectors[count + place]),
            vector=tuple(vectors[count + len(bare) + place]),
        )
        for place, each in enumerate(evidence)
    ]


async def _read_bare(memory: Memory, asked: Sequence[str], bare: Sequence[tuple[str, str]]) -> list[float]:
    """The mark of each pair of a question and a text; the questions are those ``asked``."""
    found = await asyncio.gather(
        *(memory.read(masked, *(text for other, text in bare if other == masked)) for masked in asked)
    )
    marks = {masked: iter(some) for masked, some in zip(asked, found, strict=True)}
    return [next(marks[masked]) for masked, _ in bare]


async def _read_unnamed(
    memory: Memory, question: str, evidence: Sequence[Evidence]
) -> Sequence[float | None]:
    names = find_names(question)
    if not names:
        return [None] * len(evidence)
    return await memory.read(
        _hide(question, names, _NAME), *(_hide(each.text, names, _NAME) for each in evidence)
    )


def choose(question: str, evidence: Sequence[Evidence]) -> Chosen:
    """What of ``evidence`` answers the question; nothing if no sentence does.

    Of sentences that say the same the newest is the answer; instead of one that was superseded, what
    superseded it. If the question asks for the past, it is what was ended last, or else what the newest one
    replaced.
    """
    fitting = [each for each in evidence if _may_answer(question, each)]
    phrases = frozenset(chain.from_iterable(find_phrases(question, each.text) for each in fitting))
    missing = {each.hit.node.id: count_missing(phrases, each.text) for each in evidence}
    answering = [each for each in fitting if _answers(question, each)]
    answering.sort(
        key=lambda each: MISSING * missing[each.hit.node.id] + NOTED * is_noted(each.hit.node) - each.mark
    )
    past = asks_past(question)
    known = {each.hit.node.id: each for each in evidence}
    for leader in answering:
        same = [
            each
            for each in fitting
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
        if first:
            others = [each for each in answering if each not in same and each.mark >= max(0, leader.mark - 4)]
            others = [each for each in others if past or not each.ended]
            earlier = _unique([*first[1:], *same])
            return Chosen(
                answers=(first[0], *others), earlier=tuple(each for each in earlier if each is not first[0])
            )
    return Chosen()


def has_ended(hit: Hit) -> bool:
    """Whether something superseded what was found, or it is past its end."""
    end = hit.node.valid_to
    return bool(hit.superseded_by) or (bool(end) and parse_timestamp(end) <= datetime.now(UTC))


def _find_later(first: Evidence, known: Mapping[str, Evidence]) -> list[Evidence]:
    """What superseded it, what superseded that, and so on."""
    found = [first]
    while (later := known.get(found[-1].hit.superseded_by)) and later not in found:
        found.append(later)
    return found[1:]


def _unique(evidence: Iterable[Evidence]) -> list[Evidence]:
    return list({each.hit.node.id: each for each in evidence}.values())


def in_context(hit: Hit, sentence: str) -> str:
    """A sentence as it is read: behind its title if that is a heading."""
    title = " ".join(hit.node.title.split()).rstrip("….")
    if title in sentence or hit.node.title.rstrip().endswith((".", "!", "?")):
        return sentence
    return sentence if _is_goal(hit.node) else f"{title}: {sentence}"


def _is_goal(node: Node) -> bool:
    """Whether its title is the text of a goal, which may be the question itself."""
    return node.source.channel == "goal" and node.kind == "event" and not node.title.startswith("Check-up")


def _pick_sentences(hit: Hit, question: str) -> list[str]:
    node, terms = hit.node, find_terms(question)
    told = dict.fromkeys(split_sentences(node.body[:20_000]))
    if not _is_goal(node):
        title = " ".join(split_sentences(node.title)) or node.title
        told = dict.fromkeys([title, *(each for each in told if each not in title)])
    sentences = [each for each in told if not _ASKED.search(each)]
    worth = {each: len(terms.keys() & find_stems(each)) for each in sentences}
    return sorted(sentences, key=lambda each: -worth[each])[:OF_ONE]


def _may_answer(question: str, each: Evidence) -> bool:
    return _has_names(question, each.text) and (each.unnamed is None or each.unnamed >= UNNAMED_LEAST)


def _answers(question: str, each: Evidence) -> bool:
    """Whether its mark is enough, and it supports what is asked beside the subject."""
    if each.mark < LEAST:
        return False
    support = MARK * (each.mark + each.bare) + LIKENESS * each.likeness
    support += TYPE * fits_type(question, each.text)
    return each.mark >= CERTAIN or support >= SUPPORT


def is_noted(node: Node) -> bool:
    """Whether the office noted it of itself."""
    return node.source.channel in ("goal", "cognition") or node.kind in ("agent", "task")


def _has_names(question: str, text: str) -> bool:
    names = find_names(question)
    return not names or bool({name.lower() for name in names} & set(re.findall(r"\w+", text.lower())))


def _hide(text: str, parts: Sequence[str], by: str) -> str:
    named = "|".join(map(re.escape, sorted(parts, key=len, reverse=True)))
    return re.sub(rf"(?i)\b(?:{_ARTICLE}\s+)?(?:{named})\b(?:\s+(?:{named})\b)*", by, text) if parts else text


def _hide_subject(question: str, text: str) -> tuple[str, str]:
    """Question and text with "it" for the phrases that both have."""
    phrases = [*find_phrases(question, text)]
    return _hide(question, phrases, "it"), _hide(text, phrases, "it")


def _say_same(newer: Evidence, leader: Evidence) -> bool:
    if newer.hit.node.kind in _HAPPENED or leader.hit.node.kind in _HAPPENED:
        return False
    if newer.changes:
        return _multiply(newer.vector, leader.vector) >= CHANGE_SAME
    margin = MARGIN if leader.mark > 2 else WEAK_MARGIN
    return newer.mark >= leader.mark - margin and _multiply(newer.vector, leader.vector) >= SAME


def _multiply(one: Sequence[float], other: Sequence[float]) -> float:
    return float(sum(map(operator.mul, one, other)))
