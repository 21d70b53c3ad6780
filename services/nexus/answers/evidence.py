"""Which remembered sentences may answer a question: a cross-encoder reads them, the best are compared."""

import asyncio
import operator
import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from statistics import fmean

import msgspec

from shared.clock import parse_timestamp
from shared.contracts import Hit, Node
from shared.memory import Memory
from shared.memory.ownership import PRIVATE
from shared.text.prose import EMPTY_WORDS, find_phrases, find_stems, find_terms, split_sentences

READ = 20  # Hits that are read; 4 hold the answer nearly always, but bookkeeping may stand before them
OF_ONE = 4  # Sentences of one hit that are read: those with most of the question's words
MOST = 40  # Sentences that are read in all, at 7 ms each on one core
DEPTH = 12  # Sentences that are looked at more closely, the best ones
ASKING = "Represent this sentence for searching relevant passages: "
"""What stands before a question that is embedded to find sentences: bge-small was trained so."""
WORDS = 2_000  # Words whose vectors are kept, at 1.5 KB each

_CHANGE = re.compile(
    r"\b(?:instead|in\s+place\s+of|rather\s+than|no\s+longer|any\s*more|replac\w+|switch\w*|moved|renam\w+|migrat\w+"
    r"|changed|from\s+now\s+on|as\s+of|used\s+to|(?:takes?|took|hand(?:s|ed))\s+(?:\w+\s+){0,3}over|(?:up|down)\s+from|(?:went|gone|goes)\s+(?:up|down)"
    r"|until\s+now|now|dropped|succeed\w*|and\s+not)\b",
    re.IGNORECASE,
)
"""Words of a change."""
_ARTICLE = r"(?:the|our|my|your|his|her|their|its|an?|this|that|these|those)"
ASKED = re.compile(r"\?(?:\s*\(\d{4}-\d\d-\d\d\))?\W*$|^It was asked\b")
"""A sentence that asks, or tells what was asked: it answers nothing."""
_FIELD = re.compile(r"[\w -]{1,40}: \S")  # A line of a record, as tables and YAML files have them
ALL_SAID = 0.9
"""The ``rest`` of a sentence that has all words of the question; NOTHING of one that has no words."""
NOTHING = 0.4

TOLD_HERE, KEPT_HERE = "told", "desk"


def is_kept_here(node: Node) -> bool:
    """Whether a person had the desk keep it."""
    return node.source.channel == KEPT_HERE or node.source.channel.startswith(PRIVATE)


"""The channels of what was told in a conversation: what is not kept, and what is."""
UNTOLD = 0.75  # How near a sentence comes to what a question does not have: "who", or any word of meaning
OPENING = frozenset("who whom whose when where which what why how".split())
"""Words by which a question says what it asks for."""

LONGEST_NAME = 62  # Characters within which the name of a message's author ends, with its colon

_vectors: dict[str, Sequence[float]] = {}  # The vectors of words that were asked for last


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence of a hit, and its mark as an answer: about -11 to 10.

    ``bare`` is its mark without the phrases that it shares with the question, ``left`` how many terms of the
    question it lacks, ``rest`` how near its words come to these: the mean of the best cosine of each.
    ``vector`` is its embedding, and ``near`` the cosine of that with the question's. ``least`` and
    ``mean`` are of how near it comes to each word of meaning that the question has, ``opening`` to words such
    as "who", ``whole`` to all of them; word by word in their context, 0 to 1, as ``words`` has it.
    ``then`` is the end of the time that is asked about, in seconds since the epoch; 0 if that is now.
    """

    hit: Hit
    sentence: str
    mark: float
    bare: float = 0.0
    left: int = 0
    rest: float = 0.0
    near: float = 0.0
    least: float = UNTOLD
    mean: float = UNTOLD
    opening: float = UNTOLD
    whole: float = UNTOLD
    words: Mapping[str, float] = {}
    vector: tuple[float, ...] = ()
    then: float = 0.0

    @property
    def text(self) -> str:
        """What it is read as: with its title before it where that is a heading."""
        return in_context(self.hit, self.sentence)

    @property
    def ended(self) -> bool:
        """Whether something superseded it, or it is past its end."""
        end, now = self.hit.node.valid_to, datetime.now(UTC).timestamp()
        has_ended = bool(end) and parse_timestamp(end).timestamp() <= (self.then or now)
        return has_ended or bool(self.hit.superseded_by)

    @property
    def goal(self) -> str:
        """The goal that noted it; empty if a person, a file or an agent by itself did."""
        node = self.hit.node
        return str(node.metadata.get("goal_id") or "") if node.source.channel == "goal" else ""

    @property
    def told_here(self) -> bool:
        """Whether it was told in the conversation, and is not kept."""
        return self.hit.node.source.channel == TOLD_HERE

    @property
    def changes(self) -> bool:
        """Whether it tells of a change."""
        return bool(_CHANGE.search(self.sentence))


def find_later(hit: Hit) -> str:
    """The id of what superseded a hit, or may have; empty if nothing did."""
    return hit.superseded_by or hit.questioned_by


async def read_evidence(
    memory: Memory, question: str, hits: Sequence[Hit], then: float = 0.0
) -> list[Evidence]:
    """The best sentence of each of the DEPTH best hits, best first; raises BusError if memory does not read.

    What superseded one of them or may have, and the event of the goal that noted it, are among them whatever
    their marks, if they are among ``hits``.
    """
    pairs = [(hit, sentence) for hit in hits for sentence in pick_sentences(hit, question)][:MOST]
    if not pairs:
        return []
    marks = await memory.read(question, *(in_context(hit, sentence) for hit, sentence in pairs))
    best: dict[str, Evidence] = {}
    for (hit, sentence), mark in zip(pairs, marks, strict=True):
        if hit.node.id not in best or mark > best[hit.node.id].mark:
            best[hit.node.id] = Evidence(hit=hit, sentence=sentence, mark=mark, then=then)
    near = sorted(best.values(), key=lambda each: -each.mark)[:DEPTH]
    events = {each.goal: each for each in best.values() if each.goal and each.hit.node.kind == "event"}
    for each in near:  # which grows
        for other in (best.get(find_later(each.hit)), events.get(each.goal)):
            if other and other not in near:
                near.append(other)
    return await _complete(memory, question, near)


async def _complete(memory: Memory, question: str, evidence: Sequence[Evidence]) -> list[Evidence]:
    """With what a closer look finds."""
    texts = [each.text for each in evidence]
    asked = find_terms(question)
    said = [find_terms(text) for text in texts]
    left = [{stem: word for stem, word in asked.items() if stem not in terms} for terms in said]
    marks, near, (vector, *vectors), words = await asyncio.gather(
        _read_bare(memory, [hide_subject(question, text) for text in texts]),
        memory.align(question, *texts),
        memory.embed(ASKING + question, *texts),
        _embed_words(memory, (word for terms in (*left, *said) for word in terms.values())),
    )
    return [
        msgspec.structs.replace(
            each,
            bare=marks[place],
            left=len(left[place]),
            rest=measure_rest(left[place].values(), said[place].values(), words),
            near=multiply(vector, vectors[place]),
            vector=tuple(vectors[place]),
            words=near[place],
            **summarise(near[place]),
        )
        for place, each in enumerate(evidence)
    ]


def summarise(near: Mapping[str, float]) -> dict[str, float]:
    """``least``, ``mean``, ``opening`` and ``whole`` of how near a sentence comes to each word."""
    meant = [value for word, value in near.items() if word not in EMPTY_WORDS and word not in OPENING]
    meant = meant or [*near.values()] or [UNTOLD]
    opening = [value for word, value in near.items() if word in OPENING] or [UNTOLD]
    return {
        "least": min(meant),
        "mean": fmean(meant),
        "opening": fmean(opening),
        "whole": fmean(near.values() or [UNTOLD]),
    }


def measure_rest(left: Iterable[str], said: Iterable[str], words: Mapping[str, Sequence[float]]) -> float:
    """The mean of the best cosine of each word ``left`` with one that was ``said``."""
    told = [words[word.lower()] for word in said]
    near = [max((multiply(words[word.lower()], one) for one in told), default=NOTHING) for word in left]
    return sum(near) / len(near) if near else ALL_SAID


async def _embed_words(memory: Memory, words: Iterable[str]) -> Mapping[str, Sequence[float]]:
    """The vector of each word in lower case."""
    wanted = dict.fromkeys(word.lower() for word in words)
    known = {word: _vectors[word] for word in wanted if word in _vectors}
    if missing := [word for word in wanted if word not in known]:
        found = await memory.embed(*missing)
        known.update((word, array("f", vector)) for word, vector in zip(missing, found, strict=True))
        while len(_vectors) > WORDS:
            del _vectors[next(iter(_vectors))]
        _vectors.update((word, known[word]) for word in missing)
    return known


async def _read_bare(memory: Memory, bare: Sequence[tuple[str, str]]) -> list[float]:
    """The mark of each pair of a question and a text."""
    asked = list(dict.fromkeys(masked for masked, _ in bare))
    found = await asyncio.gather(
        *(memory.read(masked, *(text for other, text in bare if other == masked)) for masked in asked)
    )
    marks = {masked: iter(some) for masked, some in zip(asked, found, strict=True)}
    return [next(marks[masked]) for masked, _ in bare]


def in_context(hit: Hit, sentence: str) -> str:
    """A sentence as it is read: behind its title if that is a heading, or the author of a message."""
    if speaker := find_speaker(hit.node):
        return sentence if sentence.startswith(speaker) else f"{speaker}: {sentence}"
    title = " ".join(hit.node.title.split()).rstrip("….")
    if title in sentence or hit.node.title.rstrip().endswith((".", "!", "?")):
        return sentence
    return sentence if _is_goal(hit.node) else f"{title}: {sentence}"


def _is_goal(node: Node) -> bool:
    """Whether its title is the text of a goal, which may be the question itself."""
    return node.source.channel == "goal" and node.kind == "event" and not node.title.startswith("Check-up")


def find_speaker(node: Node) -> str:
    """The author of a message of a chat, which begins with the name and has it as a tag; else empty."""
    who, colon, _ = node.body[:LONGEST_NAME].partition(": ")
    words = who.lower().split()
    return who if colon and words and node.tags and node.tags[0] in words else ""


def pick_sentences(hit: Hit, question: str) -> list[str]:
    """What of a hit is read for ``question``: OF_ONE sentences, or all fields of a record as one."""
    node, terms = hit.node, find_terms(question)
    lines = node.body[:20_000].splitlines()
    # The fields of a record say nothing one by one. One of a goal's report is what was asked: no answer.
    is_record = len(lines) > 1 and all(map(_FIELD.match, lines)) and not any(map(ASKED.search, lines))
    told = dict.fromkeys([", ".join(lines)] if is_record else split_sentences(node.body[:20_000]))
    if not _is_goal(node) and not find_speaker(node):
        title = " ".join(split_sentences(node.title)) or node.title
        # A heading of a file, or a single word, such as the name of one, answers nothing by itself.
        is_heading = node.source.channel == "ingest" and bool(told) and not told_first(node.title, told)
        headed = [title] if " " in title and not is_heading else []
        told = dict.fromkeys([*headed, *(each for each in told if each not in title)])
    sentences = [each for each in told if not ASKED.search(each)]
    worth = {each: len(terms.keys() & find_stems(each)) for each in sentences}
    return sorted(sentences, key=lambda each: -worth[each])[:OF_ONE]


def told_first(title: str, told: Iterable[str]) -> bool:
    """Whether a title is how the first of the sentences begins, and no heading above them."""
    first = next(iter(told))
    return first.startswith(title.rpartition(" › ")[2].rstrip("….")[:40])


def hide_subject(question: str, text: str) -> tuple[str, str]:
    """Question and text with "it" for the phrases that both have."""
    phrases = find_phrases(question, text)
    if not phrases:
        return question, text
    named = "|".join(map(re.escape, sorted(phrases, key=len, reverse=True)))
    shared = re.compile(rf"(?i)\b(?:{_ARTICLE}\s+)?(?:{named})\b(?:\s+(?:{named})\b)*")
    return shared.sub("it", question), shared.sub("it", text)


def multiply(one: Sequence[float], other: Sequence[float]) -> float:
    """The product of two vectors: the cosine of unit vectors."""
    return float(sum(map(operator.mul, one, other)))
