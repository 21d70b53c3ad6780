"""Memory's recall of planted facts, day by day."""

import asyncio
import time
from datetime import UTC, datetime

import msgspec
import numpy as np

from services.memory.engine import MemoryEngine
from shared.memory import RecallMeasured

COURSE = "recall"
"""The name of the note that holds the days."""
KEPT = 60
"""Days that are kept."""
FRESH = 1_800.0
"""Seconds for which a measurement is not repeated."""
LEAST = 20
"""Nodes that memory must have, as many as are planted: among fewer, everything is found."""


class RecallService:
    """Measures the recall of planted facts among what memory holds, and remembers a measurement a day."""

    def __init__(self, engine: MemoryEngine) -> None:
        self._engine = engine
        self._lock = asyncio.Lock()
        self._measured_at = float("-inf")
        self._course: list[RecallMeasured] | None = None

    async def measure(self) -> list[RecallMeasured]:
        """The measurements of the last days, the latest last; it is that of today, unless memory is too small
        to measure it, and at most FRESH seconds old.
        """
        async with self._lock:
            if self._course is None:
                self._course = await self._read()
            if self._engine.view.count() >= LEAST and time.monotonic() - self._measured_at >= FRESH:
                today = await self._measure()
                self._course = [*(each for each in self._course if each.day != today.day), today][-KEPT:]
                await self._engine.write_note(COURSE, msgspec.json.encode(self._course).decode())
                self._measured_at = time.monotonic()
            return self._course

    async def _read(self) -> list[RecallMeasured]:
        note = await self._engine.read_note(COURSE)
        return msgspec.json.decode(note or "[]", type=list[RecallMeasured])

    async def _measure(self) -> RecallMeasured:
        from services.memory.retrieval.planted import find_planted, load_facts

        facts = load_facts()
        vectors = np.array(
            await self._engine.embed([*(fact.text for fact in facts), *(fact.question for fact in facts)]),
            np.float32,
        )
        view, moment = self._engine.view, time.time()
        found = await self._engine.run_in_reader(
            find_planted, view, vectors[: len(facts)], vectors[len(facts) :], moment
        )
        missed = tuple(fact.question for fact, good in zip(facts, found, strict=True) if not good)
        day = f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d}"
        return RecallMeasured(day=day, good=sum(found), total=len(found), nodes=view.count(), missed=missed)
