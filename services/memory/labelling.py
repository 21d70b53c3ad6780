"""One word of the small model for each of many texts, within memory's budget."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from shared.errors import BusError, ModelError
from shared.llm.protocol import Message
from shared.log import logger
from shared.reasoning.model import ModelSession
from shared.text.display import quote

PAUSE = 300.0  # Seconds in which a model that failed is not asked again: others wait for each answer

log = logger(__name__)


class ModelLabels:
    """Asks the model for the labels of texts; ``order`` tells it what they mean.

    ``labels`` is the type of a label, a Literal; ``most`` is the number of texts of one call.
    """

    def __init__(self, models: ModelSession, order: str, labels: Any, most: int) -> None:
        self._models = models
        self._order = order
        self._most = most
        self._room = models.context_characters // 2
        item = msgspec.defstruct("Labelled", [("number", int), ("label", labels)], frozen=True)
        self._answer: type[Any] = msgspec.defstruct("Labels", [("texts", list[item])])  # type: ignore[valid-type]
        self._resume_at = 0.0
        self.chosen = 0
        """The texts that were labelled since the start."""

    async def find(self, texts: Sequence[str]) -> list[str]:
        """The label of each text; "" for those of a call that failed, and of all after it."""
        found: list[str] = []
        for batch in self._batches(texts):
            if time.monotonic() < self._resume_at:
                break
            try:
                found += await self._ask(batch)
            except (ModelError, BusError) as error:
                self._resume_at = time.monotonic() + PAUSE
                log.warning("model_left_alone", reason=str(error), seconds=PAUSE)
        self.chosen += len(found)
        return found + [""] * (len(texts) - len(found))

    def _batches(self, texts: Sequence[str]) -> Iterator[list[str]]:
        batch: list[str] = []
        for text in texts:
            if batch and (len(batch) == self._most or sum(map(len, batch)) + len(text) > self._room):
                yield batch
                batch = []
            batch.append(" ".join(text.split()))
        if batch:
            yield batch

    async def _ask(self, texts: Sequence[str]) -> list[str]:
        asked = "\n".join(f"{number}. {text}" for number, text in enumerate(texts, 1))
        messages = [
            Message(role="system", text=self._order),
            Message(role="user", text=quote("The texts", asked)),
        ]
        answer = await self._models.ask_small_model_for(messages, self._answer, _checker(len(texts)))
        labelled = sorted(answer[0].texts, key=lambda each: each.number)
        return [each.label for each in labelled]


def _checker(count: int) -> Callable[[Any], str | None]:
    def check(answer: Any) -> str | None:
        numbers = sorted(each.number for each in answer.texts)
        return (
            None if numbers == [*range(1, count + 1)] else f"it must have each number from 1 to {count} once"
        )

    return check
