"""How well search finds again what is known to be in memory: planted facts, day by day.

The facts are in ``planted.toml``. Nothing is stored: they are planted in a copy of the part of memory that is
nearest to their questions, which hold what could stand in front of them.
"""

import asyncio
import time
import tomllib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from services.memory.engine import MemoryEngine
from services.memory.retrieval.precedence import WIDE, arrange
from services.memory.retrieval.view import View
from services.memory.storage.tables import EDGES, NODES, Tables
from services.memory.writes.change import Change
from shared.contracts import MemoryQuery, Node, Source
from shared.memory import RecallMeasured

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
    around = _find_around(view, questions, moment)
    written = (datetime.fromtimestamp(moment, UTC) - AGE).isoformat()
    nodes = [
        Node(id=key, kind=fact.kind, title=fact.text, created_at=written, source=Source(agent="user"))
        for key, fact in zip(planted, load_facts(), strict=True)
    ]
    copy = _copy(view, around)
    _put(copy, nodes, facts)
    found = []
    for key, fact, vector in zip(planted, load_facts(), questions, strict=True):
        query = MemoryQuery(text=fact.question, limit=BEST)
        hits = copy.search(msgspec.structs.replace(query, limit=WIDE), vector, moment)
        found.append(key in {hit.node.id for hit in arrange(hits, query, copy.vectors)})
    return found


def _find_around(view: View, questions: Vectors, moment: float) -> list[Node]:
    """The nodes of memory that rank highest for any of the questions."""
    nodes: dict[str, Node] = {}
    for fact, vector in zip(load_facts(), questions, strict=True):
        for hit in view.search(MemoryQuery(text=fact.question, limit=NEAR), vector, moment):
            nodes[hit.node.id] = hit.node
    return [*nodes.values()]


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
