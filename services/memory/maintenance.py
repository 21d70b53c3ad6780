"""Maintenance: what memory does periodically by itself, such as linking, merging, and counting accesses."""

import asyncio
import time
import tomllib
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from services.memory.briefing.service import BriefingService
from services.memory.engine import MemoryEngine
from services.memory.linking.consolidation import consolidate, expire
from services.memory.linking.linker import (
    CycleResult,
    DedupResult,
    link_cycle,
    merge_duplicates,
    remove_faded_edges,
)
from services.memory.linking.meaning import PairReader
from services.memory.linking.plan import list_made
from services.memory.linking.questions import ModelJudge, find_questions, settle
from services.memory.retrieval.ranking import WIDE, arrange
from services.memory.retrieval.view import View
from services.memory.storage.tables import EDGES, NODES, Tables
from services.memory.writes.change import Change
from services.memory.writes.staging import OVERTAKEN
from shared.contracts import MemoryQuery, MemoryWrite, MemoryWritten, Node, Source
from shared.errors import ActionError, MailroomError
from shared.log import logger
from shared.memory import RecallMeasured
from shared.settings import Settings

BEST = 5  # A fact is found again if it is among so many hits
NEAR = 100
"""The hits of each question among which its fact is planted: what ranks behind them ranks behind it too."""
AGE = timedelta(days=60)  # How old the planted facts are

Vectors = NDArray[np.float32]


class PlantedFact(msgspec.Struct, frozen=True):
    """A fact, its kind, and a question about it that shares few words with it."""

    kind: str
    text: str
    question: str


@cache
def load_facts() -> tuple[PlantedFact, ...]:
    """The planted facts."""
    rules = tomllib.loads(Path(__file__).with_name("planted.toml").read_text("utf-8"))
    return msgspec.convert(rules["facts"], tuple[PlantedFact, ...])


def find_planted(view: View, facts: Vectors, questions: Vectors, moment: float) -> list[bool]:
    """Whether each planted fact is among the BEST hits of its question, as ``search`` gives them.

    ``facts`` and ``questions`` are the vectors of both; ``moment`` is now, in seconds since 1970.
    """
    planted = [f"planted-{number}" for number in range(len(load_facts()))]
    around: dict[str, Node] = {}  # the nodes of memory that rank highest for any of the questions
    for fact, vector in zip(load_facts(), questions, strict=True):
        for hit in view.search(MemoryQuery(text=fact.question, limit=NEAR), vector, moment):
            around[hit.node.id] = hit.node
    written = (datetime.fromtimestamp(moment, UTC) - AGE).isoformat()
    nodes = [
        Node(id=key, kind=fact.kind, title=fact.text, created_at=written, source=Source(agent="user"))
        for key, fact in zip(planted, load_facts(), strict=True)
    ]
    copy = _copy(view, [*around.values()])
    _put(copy, nodes, facts)
    found = []
    for key, fact, vector in zip(planted, load_facts(), questions, strict=True):
        query = MemoryQuery(text=fact.question, limit=BEST)
        hits = copy.search(msgspec.structs.replace(query, limit=WIDE), vector, moment)
        found.append(key in {hit.node.id for hit in arrange(hits, query, copy.vectors)})
    return found


def _copy(view: View, nodes: Sequence[Node]) -> View:
    """A view of these nodes alone."""
    none = np.zeros((0, view.dimensions), np.float32)
    copy = View.build(Tables(NODES.empty_table(), EDGES.empty_table(), {}, [], none, 0))
    vectors = [view.vector(node.id) for node in nodes]
    blank = np.zeros(view.dimensions, np.float32)
    _put(copy, nodes, np.array([blank if vector is None else vector for vector in vectors], np.float32))
    return copy


def _put(view: View, nodes: Sequence[Node], vectors: Vectors) -> None:
    change = Change(
        version=view.version + 1,
        nodes={node.id: node for node in nodes},
        edges={},
        replaced_nodes=[],
        replaced_edges=[],
        accessed={},
        texts_changed={},
        given={},
        interim=[],
        writes=(),
        moments=(),
    )
    view.put(change, [node.id for node in nodes], vectors)


COURSE = "recall"  # The name of the note that holds the days
KEPT = 60  # Days that are kept
FRESH = 1_800.0  # Seconds for which a measurement is not repeated
LEAST = 20  # Nodes that memory must have, as many as are planted: among fewer, everything is found


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
                note = await self._engine.read_note(COURSE)
                self._course = msgspec.json.decode(note or "[]", type=list[RecallMeasured])
            if self._engine.view.count() >= LEAST and time.monotonic() - self._measured_at >= FRESH:
                today = await self._measure()
                self._course = [*(each for each in self._course if each.day != today.day), today][-KEPT:]
                await self._engine.write_note(COURSE, msgspec.json.encode(self._course).decode())
                self._measured_at = time.monotonic()
            return self._course

    async def _measure(self) -> RecallMeasured:
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
UPKEEP = ("linker", "sweep", CONSOLIDATED, COURSE)
"""The names of the notes that say how far this is, for a process that goes on with it."""
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
        self._read = PairReader(engine.reranker).read if engine.reranker.is_there else None
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
            group.create_task(self._keep_trying(lambda: self._repeat(RECALL_EVERY, self._recall.measure)))

    async def count_accesses(self) -> None:
        """The part of it that each copy does for itself, until cancelled: its briefings count as read."""
        await self._keep_trying(lambda: self._repeat(ACCESS_EVERY, self._count_accesses))

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

    async def _repeat(self, seconds: float, work: Callable[[], Awaitable[object]]) -> None:
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
            link_cycle, self._engine.view, int(version or 0), time.time(), after, self._read
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
