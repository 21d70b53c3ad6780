"""The passages of pages that bear on a question, chosen without a model."""

import math
import re
from collections import Counter
from collections.abc import Sequence

import msgspec

from shared.web.page import Page

LONGEST = 700
"""Characters of a passage: a paragraph that is read at a glance."""
SHORTEST = 60
"""What is shorter is a heading or a caption, and joins what follows it."""
MOST = 160
"""Passages that are compared: eight pages of twenty."""
A_PAGE = 2
"""Passages of one page that are shown, so that no page says it all."""

WORD = re.compile(r"\w{2,}")
EMPTY_WORDS = frozenset(
    "a an and are as at be by can did do does for from has have how if in into is it its of on or that the "
    "this to was were what when where which who why will with".split()
)


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a page, and how near it is to the question, 0..1."""

    url: str
    title: str
    text: str
    nearness: float = 0.0


def split_passages(pages: Sequence[Page]) -> list[Passage]:
    """The pages in pieces of one or a few paragraphs; of each page as many as of every other, at most."""
    share = max(1, MOST // max(1, len(pages)))
    return [
        Passage(url=page.url, title=page.title or page.url, text=text)
        for page in pages
        for text in _split(page.text)[:share]
    ]


def _split(text: str) -> list[str]:
    pieces: list[str] = []
    begun = ""
    for paragraph in (" ".join(row.split()) for row in text.splitlines()):
        if not paragraph:
            continue
        begun = f"{begun} {paragraph}".strip()
        if len(begun) >= SHORTEST:
            pieces += _cut(begun)
            begun = ""
    return [*pieces, *([begun] if len(begun) >= SHORTEST / 2 else [])]


def _cut(text: str) -> list[str]:
    """``text`` in pieces of at most LONGEST characters, between sentences where there are any."""
    pieces = []
    while len(text) > LONGEST:
        ends = [match.end() for match in re.finditer(r"[.!?](?=\s)", text[:LONGEST])]
        at = ends[-1] if ends else max(text.rfind(" ", 0, LONGEST), 0) or LONGEST
        pieces.append(text[:at].strip())
        text = text[at:].strip()
    return [*pieces, text] if text else pieces


def rank_by_meaning(
    passages: Sequence[Passage], question: Sequence[float], vectors: Sequence[Sequence[float]]
) -> list[Passage]:
    """The passages by the cosine of their vectors and the question's, nearest first."""
    scores = [sum(a * b for a, b in zip(question, vector, strict=True)) for vector in vectors]
    return _order(passages, scores)


def rank_by_words(passages: Sequence[Passage], question: str) -> list[Passage]:
    """The passages by the share of the question's words they hold, rare words counting more."""
    wanted = _words(question)
    held = [_words(passage.text) for passage in passages]
    common = Counter(word for words in held for word in words & wanted)
    weight = {word: math.log(1 + len(held) / (1 + common[word])) for word in wanted}
    total = sum(weight.values()) or 1.0
    return _order(passages, [sum(weight[word] for word in words & wanted) / total for words in held])


def choose(ranked: Sequence[Passage], count: int) -> list[Passage]:
    """The first ``count`` with something in common with the question, at most A_PAGE of one page."""
    taken: Counter[str] = Counter()
    chosen: list[Passage] = []
    for passage in ranked:
        if passage.nearness > 0 and taken[passage.url] < A_PAGE and len(chosen) < count:
            taken[passage.url] += 1
            chosen.append(passage)
    return chosen


def _order(passages: Sequence[Passage], scores: Sequence[float]) -> list[Passage]:
    rated = [
        msgspec.structs.replace(passage, nearness=max(0.0, min(1.0, score)))
        for passage, score in zip(passages, scores, strict=True)
    ]
    return sorted(rated, key=lambda passage: -passage.nearness)


def _words(text: str) -> set[str]:
    return {word for word in WORD.findall(text.casefold()) if word not in EMPTY_WORDS}
