"""Maintenance: what memory does periodically by itself, such as linking, merging, and counting accesses."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from services.memory.briefing.service import BriefingService
from services.memory.engine import MemoryEngine
from services.memory.linking.consolidation import consolidate, expire
from services.memory.linking.judging import ModelJudge, find_questions, settle
from services.memory.linking.linker import (
    CycleResult,
    DedupResult,
    link_cycle,
    merge_duplicates,
    remove_faded_edges,
)
from services.memory.linking.plan import list_made
from services.memory.retrieval.planted import RecallService
from services.memory.writes.staging import OVERTAKEN
from shared.contracts import MemoryWrite, MemoryWritten
from shared.errors import ActionError, MailroomError
from shared.log import logger
from shared.settings import Settings

DECAY_EVERY = 3_600.0
"""Seconds between two passes over faded edges; how fast edges fade does not depend on it."""
SWEEP_EVERY = 600.0
"""Seconds between two passes that compare SWEPT_AT_ONCE nodes with all others for duplicates."""
SWEPT_AT_ONCE = 500  # The nodes of one such pass: it takes a second at 100,000 nodes
ACCESS_EVERY = 30.0  # Seconds between two writes of the accesses by briefings
PAUSE = 5.0  # Seconds after a failure until it is tried again
CONSOLIDATE_EVERY = 3_600.0
"""Seconds between two looks whether a week has passed since old events were made one, and at what expires."""
RECALL_EVERY = 3_600.0
"""Seconds between two measurements of the recall of planted facts; the last one of a day is kept."""
WEEK = 7 * 86_400.0
CONSOLIDATED = "consolidated"  # The name of the note that says when that was, in seconds since 1970
MOST_ROUNDS = 20  # Cycles of the linker in a row; the rest is done the next time
CURSOR = "linker"  # The name of the note that says how far the linker is
SWEEP = "sweep"  # The name of the note with the id of the last node that was compared with all others

log = logger(__name__)

Submit = Callable[[MemoryWrite], Awaitable[MemoryWritten]]


class OvertakenError(ActionError):
    """What a write was made from has been changed meanwhile: it is made again."""


class Maintenance:
    """The daemon's own work on memory; all it changes goes through the log like the writes of agents."""

    def __init__(
        self,
        engine: MemoryEngine,
        briefings: BriefingService,
        recall: RecallService,
        submit: Submit,
        settings: Settings,
        judge: ModelJudge | None = None,
    ) -> None:
        """``judge`` answers what the linker cannot decide; without it people are asked."""
        self._engine = engine
        self._briefings = briefings
        self._recall = recall
        self._submit = submit
        self._interval = settings.linker_interval
        self._keep = settings.memory_keep
        self._judge = judge
        self._judged_version = 0
        self._linking = asyncio.Lock()
        self._counts: dict[str, int] = {}
        self._rounds = 0
        self._last_round = 0.0
        self._problem = ""

    async def run(self) -> None:
        """Work until cancelled; what fails is logged and tried again the next time."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_trying(self._engine.keep_embedding))
            group.create_task(self._keep_trying(self._briefings.keep_ready))
            group.create_task(self._keep_trying(lambda: self._repeat(self._interval, self._link)))
            group.create_task(self._keep_trying(lambda: self._repeat(self._interval, self._judge_questions)))
            group.create_task(self._keep_trying(lambda: self._repeat(DECAY_EVERY, self._remove_faded_edges)))
            group.create_task(self._keep_trying(lambda: self._repeat(SWEEP_EVERY, self._merge_duplicates)))
            group.create_task(self._keep_trying(lambda: self._repeat(ACCESS_EVERY, self._count_accesses)))
            group.create_task(self._keep_trying(lambda: self._repeat(CONSOLIDATE_EVERY, self._tidy)))
            group.create_task(self._keep_trying(lambda: self._repeat(RECALL_EVERY, self._measure_recall)))

    async def answer(self, action: str, edges: int = 0) -> dict[str, Any]:
        """The linker's status; ``trigger`` makes it do a round first, ``consolidate`` what is done weekly.

        With ``edges``, the last so many edges that were made automatically, and how many there are of each.
        """
        if action not in ("status", "trigger", "consolidate"):
            raise ActionError(
                f"The linker has no action {action[:40]!r}", "It has status, trigger and consolidate"
            )
        if action == "trigger":
            await self._link()
        if action == "consolidate":
            await self._consolidate()
            await self._expire()
        if not edges:
            return self.status()
        return {**self.status(), **await self._engine.run_in_reader(list_made, self._engine.view, edges)}

    def status(self) -> dict[str, Any]:
        """What the linker has done since the start, and when it ran last."""
        return {
            "rounds": self._rounds,
            "seconds_since": round(time.monotonic() - self._last_round, 1) if self._rounds else None,
            "interval_seconds": self._interval,
            "problem": self._problem,
            **self._counts,
        }

    def health(self) -> dict[str, Any]:
        """What belongs to memory's health besides the engine's own."""
        return {"linker": self.status(), "not_embedded": self._engine.unembedded}

    async def _keep_trying(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do something until it is done; if it fails, start it again after a pause."""
        while True:
            try:
                return await work()
            except OvertakenError as error:
                log.info("upkeep_repeated", reason=str(error))
            except MailroomError as error:
                self._problem = str(error)
                log.warning("upkeep_failed", reason=self._problem)
            except Exception as error:
                self._problem = f"{type(error).__name__}: {error}"
                log.exception("upkeep_failed")
            await asyncio.sleep(PAUSE)

    async def _repeat(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            await work()
            self._problem = ""

    async def _link(self) -> None:
        """Link what is new, round after round."""
        async with self._linking:
            for _ in range(MOST_ROUNDS):
                try:
                    if not await self._link_once():
                        break
                except OvertakenError as error:
                    log.info("round_repeated", reason=str(error))

    async def _link_once(self) -> bool:
        """One cycle; whether there may be more to do. Nothing is linked before all have their vectors."""
        if self._engine.unembedded:
            return False
        version, _, after = (await self._engine.read_note(CURSOR)).partition(" ")
        cycle: CycleResult = await self._engine.run_in_reader(
            link_cycle, self._engine.view, int(version or 0), time.time(), after
        )
        if self._engine.unembedded:  # what came meanwhile may be among it
            return False
        self._rounds += 1
        self._last_round = time.monotonic()
        if cycle.write is not None:
            await self._write(cycle.write)
        for name, count in cycle.counts.items():
            self._counts[name] = self._counts.get(name, 0) + count
        if not cycle.nodes:
            return False
        await self._engine.write_note(CURSOR, f"{cycle.cursor} {cycle.after}")
        return True

    async def _judge_questions(self) -> None:
        """Have the model answer open questions, if it is to."""
        version = self._engine.version
        if self._judge is None or version == self._judged_version:
            return
        questions = await self._engine.run_in_reader(find_questions, self._engine.view, time.time())
        verdicts = await self._judge.judge(questions)
        write = await self._engine.run_in_reader(settle, self._engine.view, questions, verdicts)
        if write is not None:
            await self._write(write)
            self._counts["judged"] = self._counts.get("judged", 0) + sum(map(bool, verdicts))
        elif not questions or any(verdicts):
            self._judged_version = version

    async def _tidy(self) -> None:
        """Retire what was kept long enough; once a week, make one event of many that are alike."""
        if time.time() - float(await self._engine.read_note(CONSOLIDATED) or 0) >= WEEK:
            await self._consolidate()
        await self._expire()

    async def _expire(self) -> None:
        while write := await self._engine.run_in_reader(expire, self._engine.view, time.time(), self._keep):
            self._counts["expired"] = self._counts.get("expired", 0) + len(write.retire)
            await self._write(write)

    async def _consolidate(self) -> None:
        while write := await self._engine.run_in_reader(consolidate, self._engine.view, time.time()):
            self._counts["consolidated"] = self._counts.get("consolidated", 0) + len(write.retire)
            await self._write(write)
        await self._engine.write_note(CONSOLIDATED, str(time.time()))

    async def _remove_faded_edges(self) -> None:
        while write := await self._engine.run_in_reader(remove_faded_edges, self._engine.view, time.time()):
            await self._write(write)

    async def _merge_duplicates(self) -> None:
        """Merge duplicates of the next nodes: those embedded late had no vector when they were linked."""
        after = await self._engine.read_note(SWEEP)
        found: DedupResult = await self._engine.run_in_reader(
            merge_duplicates, self._engine.view, after, SWEPT_AT_ONCE
        )
        if found.write is not None:
            await self._write(found.write)
        self._counts["merged"] = self._counts.get("merged", 0) + found.merged
        if found.after != after:
            await self._engine.write_note(SWEEP, found.after)

    async def _measure_recall(self) -> None:
        await self._recall.measure()

    async def _count_accesses(self) -> None:
        write = await self._briefings.take_accesses()
        if write is not None:
            await self._write(write)

    async def _write(self, write: MemoryWrite) -> None:
        written = await self._submit(write)
        if written.error.endswith(OVERTAKEN):
            raise OvertakenError(written.error)
        if written.error:
            raise ActionError(f"Memory refused its own write: {written.error}")
