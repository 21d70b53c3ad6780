"""Every node in RAM by id and slot, and the filters over them."""

import heapq
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice, repeat
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from services.memory.graph.decay import parse_time
from services.memory.retrieval.node_table import (
    NONE,
    NodeRows,
    Sessions,
    code_marks,
    code_speaker,
    flatten_tags,
    measure,
    read_bounds,
    read_marks,
    read_owners,
    read_speakers,
    read_tags,
    read_times,
)
from services.memory.retrieval.postings import Postings, renumber
from services.memory.retrieval.vectors import GrowingArray, Vectors, VectorTable
from services.memory.storage.tables import write_nodes
from shared.contracts import Node
from shared.memory.ownership import GLOBAL, is_person, owner_of
from shared.subjects import USER

Mask = NDArray[np.bool_]

COLUMNS: dict[str, type[np.generic]] = {
    "live": np.bool_,
    "current": np.bool_,
    "created": np.float64,
    "changed": np.float64,
    "begins": np.float64,
    "ends": np.float64,
    "importance": np.float64,
    "version": np.int64,
    "kind": np.int32,
    "agent": np.int32,
    "session": np.int32,
    "owner": np.int32,
    "marks": np.uint8,
    "speaker": np.uint32,
    "superseded": np.bool_,
    "size": np.int32,
}
"""What is kept of a node in arrays: times in seconds since the epoch (``begins`` and ``ends``, of its
validity, are infinite without one), names as numbers (0 for none), ``owner`` as ``owner_of`` has it,
``marks`` as ``code_marks``, ``speaker`` as ``code_speaker``, whether a live node supersedes it, the
characters of title, body and tags. A slot is ``current`` until its node is written again, and ``live`` as
long as the node is not retired either."""


MANY = 64  # So many nodes are staged as rows of a table: two thirds of the time, half of the memory

KEPT, SHORT = 4_096, 2_048
"""How many nodes that were read last are kept, those of at most so many characters: a briefing that is made
again reads 1,250, which takes 20 us each. About 6 MB.
"""


class _Many(NamedTuple):
    """Nodes that were staged together, in the slots from ``start`` on."""

    rows: NodeRows
    start: int


class NodeColumns:
    """What is known of the nodes in some slots without reading them, an entry each."""

    def __init__(self, index: "NodeIndex", vectors: VectorTable, slots: NDArray[Any]) -> None:
        self._index, self._vectors, self._slots = index, vectors, slots
        self.known: Mask = slots >= 0
        """Which are there: a node of an edge may be about to come."""
        self._count = max(index.size, int(slots.max(initial=-1)) + 1)

    def column(self, name: str) -> NDArray[Any]:
        """Their values in a column of COLUMNS."""
        values: NDArray[Any] = self._index.column(name, self._count)[self._slots]
        return values

    def compare(self, vector: Vectors | None) -> NDArray[np.float64]:
        """Their cosines with a unit vector; 0 if one of the two is none."""
        if vector is None:
            return np.zeros(len(self._slots))
        return self._vectors.compare(self._slots, vector).astype(np.float64)

    def of_kinds(self, *kinds: str) -> Mask:
        """Which are of one of these kinds."""
        codes, found = self.column("kind"), np.zeros(len(self._slots), np.bool_)
        for kind in kinds:
            found |= codes == self._index.code(kind)
        return found

    def marked(self, mark: int) -> Mask:
        """Which have this one of ``code_marks``."""
        marked: Mask = self.column("marks") & mark > 0
        return marked

    def personal(self) -> Mask:
        """Which are the memory of one of the people."""
        return self._index.find_personal(self.column("owner"))

    def by(self, column: str, name: str) -> Mask:
        """Of which the column has this name."""
        named: Mask = self.column(column) == self._index.code(name)
        return named

    def tagged(self, *tags: str) -> Mask:
        """Which have one of these tags."""
        return self._among(self._index.find_tagged(tags, self._count))

    def named(self, words: Collection[str]) -> Mask:
        """Which have a tag that is one of these (case-folded) words."""
        return self._among(self._index.find_named(words, self._count))

    def _among(self, found: Sequence[NDArray[np.uint32]]) -> Mask:
        there = np.zeros(self._count, np.bool_)
        for slots in found:
            there[slots] = True
        among: Mask = there[self._slots]
        return among


class NodeIndex:
    """Nodes in slots, numbered from 0; the rows of ``table`` (as tables.NODES) come first.

    ``stage`` and ``publish`` take in nodes; one written again leaves its old slot, and ``wasted`` counts
    those. Rows of the table are decoded when they are asked for. One thread writes, any number read.
    """

    def __init__(self, table: pa.Table) -> None:
        self._rows = NodeRows(table)
        self._later: list[bytes | _Many] = []
        self._codes, self._names = {"": 0}, [""]
        self._folded_codes: dict[str, list[int]] = {}
        self._people: frozenset[int] = frozenset()
        self._ids: list[str] = table.column("id").to_pylist()
        self._slots = dict(zip(self._ids, range(len(self._ids)), strict=True))
        self._columns = {
            name: GrowingArray(values.astype(COLUMNS[name]))
            for name, values in self._read_columns(self._rows.batch).items()
        }
        self._tags = read_tags(self._rows.batch)
        self._publish_all(len(self._ids))

    def _publish_all(self, count: int) -> None:
        self.size = count
        self._kept: dict[int, Node] = {}
        self._folded: dict[str, tuple[str, ...]] = {}
        for tag in self._tags.codes:
            self._fold(tag)
        self.wasted = count - int(np.count_nonzero(self.column("current")))
        self.sessions = Sessions(
            self._columns["session"],
            self._columns["created"],
            self._columns["speaker"],
            self._ids,
            self.column("live"),
        )
        self._ordered: list[str] = []
        self._unordered = list(self._slots)

    def column(self, name: str, count: int | None = None) -> NDArray[Any]:
        """A column of COLUMNS for the first ``count`` slots, all of them by default; not a copy."""
        return self._columns[name].read(self.size if count is None else count)

    def code(self, name: str) -> int:
        """The code of a kind, an agent or a session in the columns; -1 where it is in none."""
        return self._codes.get(name, -1)

    def codes(self, folded: Collection[str]) -> list[int]:
        """The codes of (case-folded) names, in whatever case they were written."""
        return [code for name in folded for code in self._folded_codes.get(name, ())]

    def find(self, node_id: str) -> int | None:
        """The slot of a node's current state, retired or not."""
        return self._slots.get(node_id)

    def locate(self, ids: Collection[str]) -> NDArray[np.int32]:
        """The slots of the current states of nodes, -1 for an unknown id."""
        return np.fromiter(map(self._slots.get, ids, repeat(-1)), np.int32, len(ids))

    def name(self, slots: NDArray[Any]) -> list[str]:
        """The ids of the nodes in these slots."""
        return [self._ids[slot] for slot in slots.tolist()]

    def read(self, slots: Sequence[int]) -> list[Node]:
        """The nodes in these slots, without embeddings."""
        kept = self._kept
        found = {slot: kept.get(slot) for slot in slots}
        rows = [slot for slot, node in found.items() if node is None and slot < len(self._rows)]
        if rows:
            found.update(zip(rows, self._rows.read(rows), strict=True))
        nodes = [found[slot] or self._decode(slot) for slot in slots]
        if len(kept) > KEPT:
            kept = self._kept = {}
        sizes = self._columns["size"].read(max(slots, default=-1) + 1)
        kept.update((slot, node) for slot, node in zip(slots, nodes, strict=True) if sizes[slot] <= SHORT)
        return nodes

    def text(self, slot: int) -> str:
        """What is searched for words in a slot of the table: title, body, tags."""
        return self._rows.text(slot)

    def texts(self) -> Iterator[str]:
        """The same of each slot of the table."""
        return self._rows.texts()

    def stage(self, nodes: Sequence[Node]) -> None:
        """Put nodes into the next slots, where readers do not see them before ``publish``."""
        if len(nodes) < MANY:
            rows = [self._describe(node) for node in nodes]
            columns = {
                name: np.array(values) for name, values in zip(COLUMNS, zip(*rows, strict=True), strict=True)
            }
            self._later += map(msgspec.json.encode, nodes)
            pairs = [(self._tag(tag), place) for place, node in enumerate(nodes) for tag in node.tags]
            tags, places = np.array(pairs, np.int64).reshape(-1, 2).T
        else:
            many = _Many(NodeRows(write_nodes(nodes)), len(self._ids))
            columns = self._read_columns(many.rows.batch)
            self._later += [many] * len(nodes)
            names, tags, places = flatten_tags(many.rows.batch)
            tags = np.array([self._tag(name) for name in names], np.int64)[tags]
        for name, values in columns.items():
            self._columns[name].extend(values.astype(COLUMNS[name]))
        self._tags.extend(tags, places + len(self._ids))
        self._ids += [node.id for node in nodes]
        self.sessions.extend(len(nodes))

    def publish(self) -> None:
        """Replace the older states of the same nodes by what was staged."""
        live, current = (self._columns[name].read(len(self._ids)) for name in ("live", "current"))
        for slot in range(self.size, len(self._ids)):
            node_id = self._ids[slot]
            old = self._slots.get(node_id)
            if old is None:
                self._unordered.append(node_id)
            else:
                self.sessions.remove(old)
                live[old] = current[old] = False
                self.wasted += 1
            self._slots[node_id] = slot
            if live[slot]:
                self.sessions.place(slot)
        self.size = len(self._ids)

    def mark_superseded(self, superseded: Mapping[str, bool]) -> None:
        """Note of nodes, as far as they are known, whether a live one supersedes them."""
        slots = self.locate([*superseded])
        known, marks = slots >= 0, np.fromiter(superseded.values(), np.bool_, len(slots))
        self.column("superseded")[slots[known]] = marks[known]

    def find_holding(self, count: int, moment: float) -> Mask:
        """Which of the first slots hold at ``moment``: neither ended nor superseded."""
        holding: Mask = (self.column("ends", count) > moment) & ~self.column("superseded", count)
        return holding

    def find_readable(self, reader: str, count: int) -> Mask:
        """Which of the first slots a reader may read (shared/memory/ownership.py)."""
        readable: Mask = np.ones(count, np.bool_)
        if reader == USER:
            return readable
        owners = self.column("owner", count)
        if not is_person(reader):
            readable = (owners == NONE) | (owners == self.code(reader))
            for slots in self.find_tagged((GLOBAL, reader), count):
                readable[slots] = True
        return readable & ~self.find_personal(owners, reader) if self._people else readable

    def find_personal(self, owners: NDArray[Any], reader: str = "") -> Mask:
        """Which of these values of the column ``owner`` are people, ``reader`` apart."""
        return np.isin(owners, [*self._people - {self.code(reader)}])

    def is_owned(self, slot: int) -> bool:
        """Whether the node in a slot is the memory of one of the people, or lies in an agent's folder."""
        return int(self.column("owner", slot + 1)[slot]) != NONE

    def count_kinds(self) -> dict[str, int]:
        """How many live nodes there are of each kind, by name."""
        counts = np.bincount(self.column("kind")[self.column("live")], minlength=len(self._codes)).tolist()
        return {name: counts[code] for name, code in sorted(self._codes.items()) if counts[code]}

    def admit(
        self,
        among: Mask,
        *,
        kinds: Collection[str] = (),
        tags: Collection[str] = (),
        agent: str = "",
        session: str = "",
        since: float = 0.0,
        until: float = 0.0,
    ) -> Mask:
        """Those of the slots ``among`` that pass: one of the kinds, all tags, agent, session, last changed
        from ``since`` to ``until``, both included. What is empty or 0 admits everything.
        """
        count = len(among)
        mask = among.copy()
        for slots in self.find_tagged(tags, count):
            tagged = np.zeros(count, np.bool_)
            tagged[slots] = True
            mask &= tagged
        if not mask.any():
            return mask
        if kinds:
            column, wanted_kinds = self.column("kind", count), np.zeros(count, np.bool_)
            for kind in kinds:
                wanted_kinds |= column == self.code(kind)
            mask &= wanted_kinds
        for name, wanted in (("agent", agent), ("session", session)):
            if wanted:
                mask &= self.column(name, count) == self.code(wanted)
        if since:
            mask &= self.column("changed", count) >= since
        if until:
            mask &= self.column("changed", count) <= until
        return mask

    def find_tagged(self, tags: Collection[str], count: int) -> list[NDArray[np.uint32]]:
        """The first slots that have a tag, for each of these."""
        return [self._tags.find(tag, count)[0] for tag in tags]

    def find_named(self, words: Collection[str], count: int) -> list[NDArray[np.uint32]]:
        """The same for the tags that are one of these (case-folded) words."""
        return self.find_tagged([tag for word in words for tag in self._folded.get(word, ())], count)

    def page_of_many(self, mask: Mask, after: str, limit: int) -> list[int]:
        """The first slots of ``mask`` in the order of ids, those after an id alone.

        Nothing may be published between making the mask and this: a node written again has another slot.
        """
        if self._unordered:
            later, self._unordered = sorted(self._unordered), []
            last = self._ordered[-1] if self._ordered else ""
            self._ordered = self._ordered + later if later[0] > last else sorted(self._ordered + later)
        ids = self._ordered
        following = (self._slots[node_id] for node_id in islice(ids, bisect_right(ids, after), None))
        return list(islice((slot for slot in following if mask[slot]), limit))

    def page_of_few(self, mask: Mask, after: str, limit: int) -> list[int]:
        """The same at whatever time, in a time that grows with the slots in ``mask``."""
        admitted = ((self._ids[slot], slot) for slot in np.flatnonzero(mask).tolist())
        return [slot for _, slot in heapq.nsmallest(limit, (pair for pair in admitted if pair[0] > after))]

    def keep(self, slots: NDArray[np.intp]) -> "NodeIndex":
        """An index of these slots alone, renumbered in their order, which is that of their numbers."""
        rows = int(np.searchsorted(slots, len(self._rows)))
        kept = NodeIndex.__new__(NodeIndex)
        kept._rows = self._rows.keep(slots[:rows])
        kept._later = [self._encode(slot) for slot in slots[rows:].tolist()]
        kept._codes, kept._names = self._codes, self._names
        kept._folded_codes, kept._people = self._folded_codes, self._people
        kept._ids = self.name(slots)
        kept._slots = dict(zip(kept._ids, range(len(slots)), strict=True))
        kept._columns = {
            name: GrowingArray(column.read(self.size)[slots]) for name, column in self._columns.items()
        }
        kept._tags = Postings(self._tags.store(renumber(slots, self.size)))
        kept._publish_all(len(slots))
        return kept

    def _tag(self, tag: str) -> int:
        if tag not in self._tags.codes:
            self._fold(tag)
        return self._tags.codes[tag]

    def _fold(self, tag: str) -> None:
        folded = tag.casefold()
        self._folded[folded] = (*self._folded.get(folded, ()), tag)

    def _decode(self, slot: int) -> Node:
        later = self._later[slot - len(self._rows)]
        if isinstance(later, bytes):
            return msgspec.json.decode(later, type=Node)
        return later.rows.read([slot - later.start])[0]

    def _encode(self, slot: int) -> bytes:
        later = self._later[slot - len(self._rows)]
        return later if isinstance(later, bytes) else msgspec.json.encode(self._decode(slot))

    def _number(self, name: str) -> int:
        code = self._codes.get(name)
        if code is None:
            code = self._codes[name] = len(self._codes)
            self._names.append(name)
            self._folded_codes.setdefault(name.casefold(), []).append(code)
        return code

    def _number_owner(self, name: str) -> int:
        code = self._number(name)
        if is_person(name) and code not in self._people:
            self._people |= {code}
        return code

    def _describe(self, node: Node) -> tuple[Any, ...]:
        """A row of COLUMNS."""
        return (
            not node.retired_version,
            True,
            parse_time(node.created_at),
            parse_time(node.updated_at or node.created_at),
            parse_time(node.valid_from) if node.valid_from else -np.inf,
            parse_time(node.valid_to) if node.valid_to else np.inf,
            node.importance,
            node.version,
            self._number(node.kind),
            self._number(node.source.agent),
            self._number(node.source.session),
            self._number_owner(owner_of(node.source.session, node.source.channel)),
            code_marks(node.metadata),
            code_speaker(node.source.agent, node.tags),
            False,
            len(node.title) + len(node.body) + sum(map(len, node.tags)),
        )

    def _read_columns(self, table: pa.RecordBatch) -> dict[str, NDArray[Any]]:
        created, updated = table.column("created_at"), table.column("updated_at")
        names = {
            name: self._read_names(table.column(name)) for name in ("kind", "source_agent", "source_session")
        }
        owners, places = read_owners(table)
        return {
            "live": table.column("retired_version").to_numpy() == 0,
            "current": np.ones(table.num_rows, np.bool_),
            "created": read_times(created),
            "changed": read_times(pc.if_else(pc.equal(updated, ""), created, updated)),
            "begins": read_bounds(table.column("valid_from"), -np.inf),
            "ends": read_bounds(table.column("valid_to"), np.inf),
            "importance": table.column("importance").to_numpy(),
            "version": table.column("version").to_numpy(),
            "kind": names["kind"],
            "agent": names["source_agent"],
            "session": names["source_session"],
            "owner": np.array([self._number_owner(name) for name in owners], np.int32)[places],
            "marks": read_marks(table),
            "speaker": read_speakers(table),
            "superseded": np.zeros(table.num_rows, np.bool_),
            "size": measure(table),
        }

    def _read_names(self, column: pa.Array) -> NDArray[np.int32]:
        encoded = column.dictionary_encode()
        codes = self._number_all(encoded.dictionary.to_pylist())
        return codes[encoded.indices.to_numpy()] if len(codes) else np.empty(0, np.int32)

    def _number_all(self, names: Sequence[str]) -> NDArray[np.int32]:
        return np.array([self._number(name) for name in names], np.int32)
