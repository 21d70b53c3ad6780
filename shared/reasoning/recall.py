"""What memory contributes to prompts, with a time limit and a circuit breaker."""

import asyncio
import operator
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from shared.contracts import Hit
from shared.errors import BusUnavailable, MailroomError
from shared.log import logger
from shared.memory import Memory

WAIT = 3.0
"""Seconds until a request to memory times out; it usually takes milliseconds."""
PAUSE = 30.0
"""Seconds for which memory is not asked again after a time-out."""

T = TypeVar("T")

log = logger(__name__)


class MemoryRecall:
    """Memory as an agent loop uses it: if memory does not answer, the loop goes on without it."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._paused_until = 0.0

    async def brief(self, agent: str) -> str:
        """The compact briefing of ``agent``; raises BusUnavailable or Refused if there is none now."""
        briefing = await self._ask(lambda: self._memory.brief(agent, compact=True))
        return briefing.text

    async def recall(self, text: str, limit: int = 5) -> tuple[str, Mapping[str, object]]:
        """What memory holds about ``text``, formatted for a prompt, and how well it fits.

        The second part has the best and all cosine scores under ``best`` and ``scores``. The text is empty if
        nothing is found or memory does not answer.
        """
        asked = text[:2_000]
        try:
            hits = await self._ask(lambda: self._memory.search(asked, limit=limit))
            relevance = await self._ask(lambda: measure_relevance(self._memory, asked, hits))
        except MailroomError as error:
            log.warning("nothing_recalled", reason=str(error))
            return "", {}
        lines = [f"- [{hit.node.id}] {hit.node.title}: {hit.node.body[:300]}" for hit in hits]
        return "\n".join(lines), relevance

    async def _ask(self, question: Callable[[], Awaitable[T]]) -> T:
        if time.monotonic() < self._paused_until:
            raise BusUnavailable("Memory did not answer a moment ago")
        try:
            async with asyncio.timeout(WAIT):
                return await question()
        except TimeoutError:
            self._paused_until = time.monotonic() + PAUSE
            raise BusUnavailable(f"Memory did not answer within {WAIT:g} s") from None


async def measure_relevance(memory: Memory, query: str, hits: Sequence[Hit]) -> dict[str, object]:
    """The cosine similarity of each hit to ``query`` under ``scores``, the highest under ``best``.

    Empty without hits; raises BusError.
    """
    if not hits:
        return {}
    texts = [f"{hit.node.title}\n{hit.node.body}"[:2_000] for hit in hits]
    asked, *found = await memory.embed(query, *texts)
    scores = [round(sum(map(operator.mul, asked, vector)), 4) for vector in found]
    return {"scores": scores, "best": max(scores)}
