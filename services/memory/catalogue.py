"""Every node in RAM by id and slot, and the filters over them."""

from array import array
from datetime import UTC, datetime

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from services.memory import rows
from shared.contracts import MemoryQuery, Node

_FILTERED = ("id", "kind", "source_agent", "tags", "created_at", "updated_at", "retired_version")

Mask = NDArray[np.bool_]


class Catalogue:
    """Nodes in slots, numbered from 0 in the order of ``add``; the rows of ``table`` (as rows.NODES) come
    first.

    A node that is added again leaves its old slot dead, and ``wasted`` counts those; a retired node's slot is
    not live either, but the node is found by its id. Rows of the table are decoded when they are asked for:
    100,000 nodes take 0.3 s to take in, where making objects of them takes 3.
    """

    def __init__(self, table: pa.Table) -> None:
        self.wasted = 0
        self._table = table.drop_columns(["embedding"])
        self._later: list[bytes] = []
        self._slots: dict[str, int] = {}
        self._live = array("b")
        self._times = array("d")
        self._kinds = array("I")
        self._agents = array("I")
        self._codes: dict[str, int] = {}
        self._tags: dict[str, array[int]] = {}
        columns = [table.column(name).to_pylist() for name in _FILTERED]
        for node_id, kind, agent, tags, created, updated, retired in zip(*columns, strict=True):
            self._take_slot(node_id, kind, agent, tags, updated or created, not retired)

    def __len__(self) -> int:
        return len(self._live)

    @property
    def live(self) -> Mask:
        """Which slots hold the current state of a node that is not retired; a copy."""
        return np.array(self._live, np.bool_)

    def add(self, node: Node) -> None:
        """Take in a node at the next slot, in place of an older state of it."""
        changed = node.updated_at or node.created_at
        self._take_slot(node.id, node.kind, node.source.agent, node.tags, changed, not node.retired_version)
        self._later.append(msgspec.json.encode(node))

    def find(self, node_id: str) -> int | None:
        """The slot of a node's current state, retired or not."""
        return self._slots.get(node_id)

    def read(self, slot: int) -> Node:
        """The node in a slot, without its embedding."""
        if slot < self._table.num_rows:
            return rows.read_node(self._table.slice(slot, 1).to_pylist()[0])
        return msgspec.json.decode(self._later[slot - self._table.num_rows], type=Node)

    def count_kinds(self) -> dict[str, int]:
        """How many live nodes there are of each kind, by name."""
        counts = np.bincount(np.array(self._kinds, np.int64)[self.live], minlength=len(self._codes))
        return {name: int(counts[code]) for name, code in sorted(self._codes.items()) if counts[code]}

    def admit(self, query: MemoryQuery) -> Mask:
        """The live slots that pass the filters: one of its kinds, all its tags, its agent, not older."""
        mask = self.live
        if query.kinds:
            mask &= np.isin(np.array(self._kinds), [self._codes.get(kind, -1) for kind in query.kinds])
        if query.agent:
            mask &= np.array(self._agents, np.int64) == self._codes.get(query.agent, -1)
        if query.since:
            mask &= np.array(self._times) >= parse_time(query.since)
        for tag in query.tags:
            tagged = np.zeros(len(mask), np.bool_)
            tagged[np.array(self._tags.get(tag, array("I")), np.int64)] = True
            mask &= tagged
        return mask

    def _take_slot(
        self, node_id: str, kind: str, agent: str, tags: tuple[str, ...], changed_at: str, live: bool
    ) -> None:
        slot = len(self._live)
        old = self._slots.get(node_id)
        if old is not None:
            self._live[old] = 0
            self.wasted += 1
        self._slots[node_id] = slot
        self._live.append(live)
        self._times.append(parse_time(changed_at))
        self._kinds.append(self._codes.setdefault(kind, len(self._codes)))
        self._agents.append(self._codes.setdefault(agent, len(self._codes)))
        for tag in set(tags):
            self._tags.setdefault(tag, array("I")).append(slot)


def parse_time(text: str) -> float:
    """Seconds since the epoch; a time without a zone is UTC."""
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
