"""The kinds of a file's pieces: by rules where these are clear, else by the model that is set, if it is to
choose them, else also by the nearest examples.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from services.memory.ingest.kinds import (
    Likeness,
    Scores,
    choose_kind,
    is_clear,
    list_examples,
    score_kinds,
)
from services.memory.ingest.model_kinds import ModelKinds
from services.memory.ingest.pieces import Document, Piece

AT_ONCE = 64
"""Texts that are embedded in one go: queries come between."""

ALONE = 0.5
"""By how much a kind must be likelier than the default if only its likeness to examples speaks for it."""

OF_THE_OFFICE = frozenset({"preference", "goal", "pattern"})
"""What agents are briefed with as the wishes and rules of the people they work for. What people write
to each other is none of that by rules: of 663 messages between two friends 155 were, as "I love spending time
with friends"."""

_PROMISE = re.compile(r"(?i)\b(?:i|we)(?:['’]ll|\s+will|\s+shall)\b")
"""What decides nothing among people: "I'll let you know"."""

Embed = Callable[[Sequence[str]], Awaitable[list[list[float]]]]
Vectors = NDArray[np.float32]


def score_piece(piece: Piece) -> Scores:
    """What speaks for each kind of a piece that does not state its kind, by rules alone."""
    text = piece.prose or piece.body
    text = _PROMISE.sub(" ", text) if piece.said else text
    scores = score_kinds(text, piece.heading, dated=bool(piece.date), default=piece.default_kind)
    if not piece.said:
        return scores
    unlikely = OF_THE_OFFICE if is_clear(scores) else {*OF_THE_OFFICE, "decision"}
    return {kind: score for kind, score in scores.items() if kind not in unlikely}


def _score_all(pieces: Sequence[Piece]) -> list[Scores]:
    return [Scores() if piece.kind else score_piece(piece) for piece in pieces]


def lean(told: Scores, found: Scores, default: str) -> Scores:
    """The scores that likeness ``found``, if it is sure enough of a kind for which nothing was ``told``."""
    kind = choose_kind(found)
    unsure = not told.get(kind, 0.0) and found[kind] - found.get(default, 0.0) < ALONE
    return {**found, default: found[kind] + 1} if unsure else found


class KindChooser:
    """Gives pieces their kinds: by rules and, if it is set, by ``model`` before they are stored; what both
    leave unclear is compared to the examples once it has its vector, by ``settle``.

    ``embed`` makes unit vectors of texts: the examples are embedded with it, once.
    """

    def __init__(self, embed: Embed, model: ModelKinds | None = None) -> None:
        self._embed = embed
        self._model = model
        self._likeness: Likeness | None = None
        self._fitting = asyncio.Lock()

    async def choose(self, document: Document) -> Document:
        """The document with the kind of every piece that is clear; the others keep none."""
        scores = await asyncio.to_thread(_score_all, document.pieces)
        unclear = [place for place, found in enumerate(scores) if found and not is_clear(found)]
        found_by_model = (
            await self._model.find([document.pieces[place] for place in unclear]) if self._model else []
        )
        kinds = {place: kind for place, kind in zip(unclear, found_by_model, strict=False) if kind}
        open_places = set(unclear) - kinds.keys()
        pieces = tuple(
            piece
            if place in open_places
            else msgspec.structs.replace(piece, kind=piece.kind or kinds.get(place) or choose_kind(found))
            for place, (piece, found) in enumerate(zip(document.pieces, scores, strict=True))
        )
        return msgspec.structs.replace(document, pieces=pieces)

    async def settle(self, pieces: Sequence[Piece], vectors: Vectors) -> list[str]:
        """The kinds of pieces that are unclear; ``vectors`` are those of their nodes, of title and body."""
        likeness = await self._fit()
        return await asyncio.to_thread(_lean_all, pieces, vectors, likeness)

    async def _fit(self) -> Likeness:
        """The likeness to the examples, which is fitted once."""
        async with self._fitting:
            if self._likeness is None:
                vectors: list[list[float]] = []
                texts = [text for _, text in list_examples()]
                for start in range(0, len(texts), AT_ONCE):
                    vectors += await self._embed(texts[start : start + AT_ONCE])
                self._likeness = await asyncio.to_thread(Likeness, np.array(vectors, np.float32))
            return self._likeness


def _lean_all(pieces: Sequence[Piece], vectors: Vectors, likeness: Likeness) -> list[str]:
    kinds = []
    for piece, vector in zip(pieces, vectors, strict=True):
        scores = score_piece(piece)
        kinds.append(choose_kind(lean(scores, likeness.add(scores, vector), piece.default_kind)))
    return kinds
