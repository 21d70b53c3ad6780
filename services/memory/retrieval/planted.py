"""How well search finds again what is known to be in memory: planted facts, asked for in other words.

The facts are in ``planted.toml``. Nothing is stored: they are planted in a copy of the part of memory that is
nearest to their questions, which hold what could stand in front of them.
"""

import tomllib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from services.memory.retrieval.precedence import WIDE, arrange
from services.memory.retrieval.view import View
from services.memory.storage.rows import EDGES, NODES, Tables
from services.memory.writes.change import Change
from shared.contracts import MemoryQuery, Node, Source

BEST = 5
"""A fact is found again if it is among so many hits."""
NEAR = 100
"""The hits of each question among which its fact is planted: what ranks behind them ranks behind it too."""
AGE = timedelta(days=60)
"""How old the planted facts are."""

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
