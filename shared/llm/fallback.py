"""A chain of models: where one cannot answer, the next is asked."""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Unpack

import msgspec

from shared.errors import ModelError, ModelUnavailable
from shared.llm.clients import Unusable
from shared.llm.protocol import AskOptions, LanguageModel, Message, Pieces, StreamOptions, Thought
from shared.log import logger

COOLDOWN = 300.0  # Seconds after which new tasks ask a model again that failed: outages last minutes
TASKS = 200  # Tasks whose model is remembered: more than an agent works on at once

log = logger(__name__)


class FallbackModel:
    """Asks the first of ``models`` that can answer.

    The next one is asked if a model's server cannot be reached or is overloaded after all attempts, refuses
    the key, or does not know the model; an error of the request itself is raised. Requests of one
    ``cache_key`` (those of a task) stay with the model that answered: another would have to read the whole
    conversation anew. Other requests ask a model that failed again after ``cooldown`` seconds.
    """

    available = True

    def __init__(
        self,
        models: Sequence[LanguageModel],
        *,
        cooldown: float = COOLDOWN,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``models`` has at least two, the preferred one first; ``clock`` is in seconds."""
        self.name = models[0].name
        self._models = tuple(models)
        self._cooldown = cooldown
        self._clock = clock
        self._failed_until = [0.0] * len(self._models)
        self._kept: OrderedDict[str, int] = OrderedDict()

    async def complete(self, messages: Sequence[Message], **options: Unpack[AskOptions]) -> Thought:
        """One answer; if none of the models can give one, the error of the last is raised."""
        failed: list[ModelError] = []
        for number in self._order(options.get("cache_key", "")):
            try:
                thought = await self._models[number].complete(messages, **options)
            except (ModelUnavailable, Unusable) as error:
                failed.append(error)
                self._fail(number, error)
            else:
                self._succeed(number, options.get("cache_key", ""))
                return self._named(number, thought)
        raise _together(failed)

    async def stream(self, messages: Sequence[Message], **options: Unpack[StreamOptions]) -> Pieces:
        """One answer, piece by piece; after its first piece no other model is asked."""
        failed: list[ModelError] = []
        for number in self._order(options.get("cache_key", "")):
            begun = False
            try:
                async with aclosing(self._models[number].stream(messages, **options)) as pieces:
                    async for piece in pieces:
                        begun = True
                        yield self._named(number, piece) if isinstance(piece, Thought) else piece
            except (ModelUnavailable, Unusable) as error:
                self._fail(number, error)
                if begun:
                    raise
                failed.append(error)
            else:
                self._succeed(number, options.get("cache_key", ""))
                return
        raise _together(failed)

    def _named(self, number: int, thought: Thought) -> Thought:
        """``thought`` with the model that was to give it, if another did."""
        return msgspec.structs.replace(thought, instead_of=self.name) if number else thought

    def _order(self, task: str) -> list[int]:
        """The models in the order in which they are asked: those that failed lately last, none left out."""
        first = self._kept.get(task, 0) if task else 0
        now = self._clock()
        numbers = range(len(self._models))
        return sorted(numbers, key=lambda number: (self._failed_until[number] > now, number < first, number))

    def _succeed(self, number: int, task: str) -> None:
        self._failed_until[number] = 0.0
        if task:
            self._kept[task] = number
            self._kept.move_to_end(task)
            if len(self._kept) > TASKS:
                self._kept.popitem(last=False)

    def _fail(self, number: int, error: ModelError) -> None:
        self._failed_until[number] = self._clock() + self._cooldown
        log.warning("model_failed", model=self._models[number].name, reason=error.cause)


def _together(failed: Sequence[ModelError]) -> ModelError:
    """One error for all models; a later attempt may help if it may help with one of them."""
    causes = "; ".join(dict.fromkeys(error.cause for error in failed))
    cures = "; ".join(dict.fromkeys(error.cure for error in failed if error.cure))
    later = any(isinstance(error, ModelUnavailable) for error in failed)
    return (ModelUnavailable if later else ModelError)(causes, cures)
