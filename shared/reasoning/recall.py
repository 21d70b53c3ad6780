"""What memory contributes to prompts, with a time limit and a circuit breaker."""

import asyncio
import operator
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from shared.contracts import Briefing, Hit
from shared.errors import BusUnavailable, MailroomError
from shared.log import logger
from shared.memory import Memory
from shared.reasoning.patterns import is_learned, patterns_for
from shared.settings import Settings

WAIT = 3.0
"""Seconds until a request to memory times out; it usually takes milliseconds."""
PAUSE = 30.0
"""Seconds for which memory is not asked again after a time-out."""
KNOWN = "What memory holds that may bear on it"
"""The title of what is recalled, in prompts."""
BRIEFING_SHARE = 8
"""The part of what a model can read that its briefing may take: an eighth leaves the rest to the task."""
SHORTEST, LONGEST = 1_500, 16_000
"""Characters of a briefing: fewer hold nothing of use, and more (4,000 tokens) cost more than they tell."""

T = TypeVar("T")

log = logger(__name__)


class MemoryRecall:
    """Memory as an agent loop uses it: if memory does not answer, the loop goes on without it."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._paused_until = 0.0

    async def brief(self, agent: str, settings: Settings) -> Briefing:
        """As ``brief_for_prompt``; raises BusUnavailable or Refused if there is none now."""
        return await self._ask(lambda: brief_for_prompt(self._memory, agent, settings))

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
        # What goals taught is recalled by itself, where it is near enough.
        shown = [hit.node for hit in hits if not is_learned(hit.node)]
        lines = [f"- [{node.id}] {node.title}: {node.body[:300]}" for node in shown]
        learned = await patterns_for(self._memory, asked)
        return "\n".join(filter(None, [*lines, learned])), relevance

    async def _ask(self, question: Callable[[], Awaitable[T]]) -> T:
        if time.monotonic() < self._paused_until:
            raise BusUnavailable("Memory did not answer a moment ago")
        try:
            async with asyncio.timeout(WAIT):
                return await question()
        except TimeoutError:
            self._paused_until = time.monotonic() + PAUSE
            raise BusUnavailable(f"Memory did not answer within {WAIT:g} s") from None


async def brief_for_prompt(memory: Memory, agent: str, settings: Settings, at: int = 0) -> Briefing:
    """The briefing of ``agent`` as its model gets it, now or at graph version ``at``.

    It has a BRIEFING_SHARE of the characters that the model's context holds (``brain_context``), at least
    SHORTEST and at most LONGEST. Raises BusError.
    """
    room = settings.brain_characters // BRIEFING_SHARE
    return await memory.brief(agent, max_chars=max(SHORTEST, min(LONGEST, room)), at=at)


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
