"""The kinds of a file's pieces by the model that is set, many pieces in one call."""

import time
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from services.memory.ingest.pieces import SEPARATOR, Piece
from shared.errors import BusError, ModelError
from shared.llm.protocol import Message
from shared.log import logger
from shared.reasoning.model import ModelSession
from shared.text.excerpt import excerpt, quote

MAX_PIECES = 40
"""The pieces of one call: small models lose count of longer lists."""
MAX_CHARACTERS = 600
"""What a call has of one piece: what comes later says little about its kind."""
PAUSE = 300.0
"""Seconds in which a model that failed is not asked again: files wait for each answer."""

_ORDER = """You sort passages of a team's notes into kinds. The kinds:
decision: what was settled, who is in charge of something from now on, what is given up
task: what a person has to do once
preference: what a person likes, wants or wants to have done differently
goal: what is to be reached, with or without a day
pattern: a rule of the house, advice, what is always or never done
observation: what was noticed about how things go, a tendency
event: what happened once
fact: what is so, also times of day, numbers, and who owns what
Answer with the kind of each passage, by its number."""

log = logger(__name__)


class _Sorted(msgspec.Struct, frozen=True):
    """A passage by its number, and its kind."""

    number: int
    kind: Literal["decision", "task", "preference", "goal", "pattern", "observation", "event", "fact"]


class _Answer(msgspec.Struct, frozen=True):
    passages: list[_Sorted]


class ModelKinds:
    """Asks the small model for kinds, within the budgets of memory."""

    def __init__(self, models: ModelSession) -> None:
        self._models = models
        self._room = models.context_characters // 2
        self._resume_at = 0.0
        self.chosen = 0
        """The pieces whose kind the model chose since the start."""

    async def find(self, pieces: Sequence[Piece]) -> list[str]:
        """The kind of each piece; "" for those of calls that failed, and of all after them."""
        found: list[str] = []
        for texts in self._batches(pieces):
            if time.monotonic() < self._resume_at:
                break
            try:
                found += await self._find(texts)
            except (ModelError, BusError) as error:
                self._resume_at = time.monotonic() + PAUSE
                log.warning("kinds_by_rules", reason=str(error), pause=PAUSE)
        self.chosen += len(found)
        return found + [""] * (len(pieces) - len(found))

    def _batches(self, pieces: Sequence[Piece]) -> Iterator[list[str]]:
        batch: list[str] = []
        for piece in pieces:
            text = excerpt(SEPARATOR.join([*piece.heading, piece.body]), MAX_CHARACTERS)
            if batch and (len(batch) == MAX_PIECES or sum(map(len, batch)) + len(text) > self._room):
                yield batch
                batch = []
            batch.append(text)
        if batch:
            yield batch

    async def _find(self, texts: Sequence[str]) -> list[str]:
        def check(answer: _Answer) -> str | None:
            numbers = sorted(each.number for each in answer.passages)
            if numbers == [*range(1, len(texts) + 1)]:
                return None
            return f"it must have each number from 1 to {len(texts)} once"

        asked = "\n".join(f"{number}. {' '.join(text.split())}" for number, text in enumerate(texts, 1))
        messages = [
            Message(role="system", text=_ORDER),
            Message(role="user", text=quote("The passages", asked)),
        ]
        answer, _ = await self._models.ask_small_model_for(messages, _Answer, check)
        return [each.kind for each in sorted(answer.passages, key=lambda each: each.number)]
