"""The registry of answers: what became of each write, for the log's consumer and for those who ask."""

import asyncio
from collections import OrderedDict

from shared.contracts import MemoryWritten
from shared.errors import ActionError

KEPT_ANSWERS = 10_000
"""Answers kept in RAM; older ones are looked up in the store."""

ANSWER_WAIT = 25.0
"""Seconds that ``wait`` waits for a write that is not applied yet."""


class AnswerRegistry:
    """Futures of those who wait for a write, by its id or its place in the log, and the latest answers."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, MemoryWritten] = OrderedDict()
        self._asked: dict[str, set[asyncio.Future[MemoryWritten]]] = {}
        self._expected: dict[int, asyncio.Future[MemoryWritten]] = {}

    def get(self, write_id: str) -> MemoryWritten | None:
        """The answer to a write, if it is among the latest."""
        return self._answers.get(write_id)

    def expect(self, seq: int) -> asyncio.Future[MemoryWritten]:
        """A future of the answer to the write at ``seq`` in the log; the same one if asked again."""
        if seq not in self._expected:
            self._expected[seq] = asyncio.get_running_loop().create_future()
        return self._expected[seq]

    def is_expected(self, seq: int) -> bool:
        """Whether a caller waits for the write at ``seq`` in the log."""
        return seq in self._expected

    async def wait(self, write_id: str) -> MemoryWritten:
        """The answer to a write, once there is one; raises ActionError after ANSWER_WAIT seconds."""
        if write_id in self._answers:
            return self._answers[write_id]
        future: asyncio.Future[MemoryWritten] = asyncio.get_running_loop().create_future()
        asking = self._asked.setdefault(write_id, set())
        asking.add(future)
        try:
            async with asyncio.timeout(ANSWER_WAIT):
                return await future
        except TimeoutError:
            raise ActionError(
                "The write is still queued", "Ask again, or see 'mailroom memory health'"
            ) from None
        finally:
            asking.discard(future)
            if not asking and self._asked.get(write_id) is asking:
                del self._asked[write_id]

    def settle(self, seq: int, answer: MemoryWritten) -> None:
        """Answer all who wait for the write at ``seq``."""
        if answer.cause:
            self._answers[answer.cause] = answer
        while len(self._answers) > KEPT_ANSWERS:
            self._answers.popitem(last=False)
        waiting = [*self._asked.pop(answer.cause, ())]
        if seq in self._expected:
            waiting.append(self._expected.pop(seq))
        for future in waiting:
            if not future.done():
                future.set_result(answer)
