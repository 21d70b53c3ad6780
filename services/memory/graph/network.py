"""The network itself: places of nodes, a rustworkx graph between them, a row of an array for each edge."""

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import rustworkx
from numpy.typing import NDArray

from services.memory.graph.decay import EXEMPT, effective_weights, is_exempt, parse_time
from services.memory.storage.tables import EDGES
from shared.contracts import Edge, Node, Relation
from shared.contracts.base import amended
from shared.contracts.queries import Direction

RELATIONS = tuple(Relation)  # A relation's place in here is its code in the rows

NAMES = tuple(relation.value for relation in RELATIONS)
CODES = {name: code for code, name in enumerate(NAMES)}

GONE = -1  # The code in a row whose edge was removed

EDGE = np.dtype(
    [
        ("start", np.int32),
        ("end", np.int32),
        ("weight", np.float64),
        ("touched", np.int64),
        ("created", np.int64),
        ("created_version", np.int64),
        ("version", np.int64),
        ("relation", np.int8),
        ("exempt", np.bool_),
    ]
)
"""``start`` and ``end`` are places of nodes, ``touched`` and ``created`` microseconds since the epoch."""

NODE = np.dtype([("importance", np.float64), ("kind", np.int32), ("live", np.bool_)])
"""``kind`` is a code that the graph gives out."""

NEVER = 2**62  # The time of an edge that has none: far ahead, so that the edge does not fade

_LEAST_WASTED = 1 << 20
_CANONICAL = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00$"
_EPOCH = datetime.fromtimestamp(0, UTC)
_ANY_EDGE = Edge(from_id="a", to_id="b")


class _Texts:
    """A short text a row, all in one piece: objects of their own would take twice the RAM."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._bounds = np.zeros((0, 2), np.int64)
        self._used = 0
        self._held = 0

    @classmethod
    def load(cls, column: pa.ChunkedArray) -> "_Texts":
        """The texts of a column."""
        texts, joined = (
            cls(),
            pa.concat_arrays(column.cast(pa.large_string()).chunks) if len(column) else None,
        )
        if joined is not None:
            _, offsets, data = joined.buffers()
            ends = np.frombuffer(offsets, np.int64)[joined.offset : joined.offset + len(joined) + 1]
            texts._bounds = np.column_stack((ends[:-1], ends[1:]))
            texts._data = bytearray(data or b"")
            texts._used, texts._held = len(joined), len(texts._data)
        return texts

    def __len__(self) -> int:
        return self._used

    def read(self, row: int) -> bytearray:
        """The text of a row."""
        start, end = self._bounds[row].tolist()
        return self._data[start:end]

    def write(self, row: int, text: bytes) -> None:
        """Put a text into a row, which may be the next one."""
        self._bounds = enlarged(self._bounds, row + 1)
        self._used = max(self._used, row + 1)
        start, end = self._bounds[row].tolist()
        self._held += len(text) - (end - start)
        self._bounds[row] = len(self._data), len(self._data) + len(text)
        self._data += text
        if len(self._data) > 2 * self._held + _LEAST_WASTED:
            self._tidy()

    def _tidy(self) -> None:
        texts = [self._data[start:end] for start, end in self._bounds[: self._used].tolist()]
        ends = np.cumsum([len(text) for text in texts])
        self._bounds[: self._used, 1] = ends
        self._bounds[: self._used, 0] = ends - [len(text) for text in texts]
        self._data = bytearray().join(texts)


class EdgeRows:
    """Edges as rows of an array, with beside it what no array holds well.

    ``provenance`` stays JSON, end to end in one piece, until it is read; times that are written in another
    form than the office's own are kept as they are written.
    """

    def __init__(self) -> None:
        self.array: NDArray[Any] = np.zeros(0, EDGE)
        self._texts = _Texts()
        self._odd_times: dict[int, tuple[str, str]] = {}

    @classmethod
    def load(cls, table: pa.Table, start: NDArray[np.int32], end: NDArray[np.int32]) -> "EdgeRows":
        """The rows of a table, whose ends are at these places."""
        rows = cls()
        array = rows.array = np.zeros(len(table), EDGE)
        array["start"], array["end"] = start, end
        for name in ("weight", "created_version", "version"):
            array[name] = table[name].to_numpy()
        array["relation"] = pc.index_in(table["relation"], value_set=pa.array(list(CODES))).to_numpy()
        # Which edges keep their weight; only candidates are decoded, and each text once
        column = table["provenance"]
        candidates = pc.match_substring_regex(column, "|".join(f'"{word}"' for word in sorted(EXEMPT)))
        texts = pc.unique(column.filter(candidates)).to_pylist()
        exempt = [
            text for text in texts if (by := _BY.decode(text).by) and isinstance(by, str) and by in EXEMPT
        ]
        found = pc.is_in(column, value_set=pa.array(exempt, pa.string()))
        array["exempt"] = np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)
        rows._texts = _Texts.load(table["provenance"])
        rows._load_times(table)
        return rows

    def write(self, row: int, start: int, end: int, edge: Edge) -> None:
        """Put an edge between the nodes at two places into a row, which may be a new one."""
        self.array = enlarged(self.array, row + 1)
        created = to_microseconds(edge.created_at)
        touched = to_microseconds(edge.touched_at) if edge.touched_at else created
        self.array[row] = (
            start,
            end,
            edge.weight,
            touched,
            created,
            edge.created_version,
            edge.version,
            CODES[edge.relation],
            is_exempt(edge.provenance),
        )
        self._texts.write(row, msgspec.json.encode(edge.provenance))
        self._odd_times.pop(row, None)
        if (edge.created_at, edge.touched_at) != (to_text(created), to_text(touched)):
            self._odd_times[row] = (edge.created_at, edge.touched_at)

    def remove(self, row: int) -> None:
        """Forget the edge of a row."""
        self.array["relation"][row] = GONE

    def live(self) -> NDArray[np.intp]:
        """The rows that hold an edge."""
        return np.flatnonzero(self.array["relation"][: len(self._texts)] != GONE)

    def read(self, rows: NDArray[np.intp], ids: list[str]) -> list[Edge]:
        """The edges of these rows by from, to and relation; ``ids`` has those of the nodes by place."""
        records = zip(rows.tolist(), self.array[rows].tolist(), strict=True)
        found = sorted(
            (ids[record[0]], ids[record[1]], NAMES[record[7]], row, record) for row, record in records
        )
        return [self._edge(from_id, to_id, row, record) for from_id, to_id, _, row, record in found]

    def find_made_by(self, rows: NDArray[Any], rule: str) -> NDArray[np.bool_]:
        """Which of these rows hold an edge that this rule made."""
        said = msgspec.json.encode(rule)
        texts = (self._texts.read(row) for row in rows.tolist())
        made = (said in text and _BY.decode(bytes(text)).rule == rule for text in texts)
        return np.fromiter(made, np.bool_, len(rows))

    def count_made(self) -> dict[str, dict[str, int]]:
        """How many edges were made automatically, by relation and then by the rule that made them."""
        counts: dict[str, Counter[str]] = {}
        rows = self.live()
        rows = rows[~self.array["exempt"][rows]]
        for row, code in zip(rows.tolist(), self.array["relation"][rows].tolist(), strict=True):
            made = _BY.decode(bytes(self._texts.read(row)))
            counts.setdefault(NAMES[code], Counter())[str(made.rule or made.by or "other")] += 1
        return {name: dict(counted.most_common()) for name, counted in sorted(counts.items())}

    def _edge(self, from_id: str, to_id: str, row: int, record: tuple[Any, ...]) -> Edge:
        _, _, weight, touched, created, created_version, version, code, _ = record
        created_at, touched_at = self._odd_times.get(row) or (to_text(created), to_text(touched))
        return amended(
            _ANY_EDGE,
            from_id=from_id,
            to_id=to_id,
            relation=RELATIONS[code],
            weight=weight,
            provenance=msgspec.json.decode(self._texts.read(row)),
            created_at=created_at,
            touched_at=touched_at,
            created_version=created_version,
            version=version,
        )

    def _load_times(self, table: pa.Table) -> None:
        created, odd_created = _read_times(table["created_at"])
        differing = pc.invert(pc.equal(table["created_at"], table["touched_at"]))
        places = np.flatnonzero(differing.to_numpy(zero_copy_only=False))
        touched, odd_touched = _read_times(table["touched_at"].filter(differing))
        self.array["created"] = self.array["touched"] = created
        self.array["touched"][places] = np.where(touched == NEVER, created[places], touched)
        odd = sorted({*odd_created, *places[odd_touched].tolist()})
        texts = table.select(["created_at", "touched_at"]).take(pa.array(odd, pa.int64())).to_pylist()
        times = [(text["created_at"], text["touched_at"]) for text in texts]
        self._odd_times = dict(zip(odd, times, strict=True))


def enlarged(rows: NDArray[Any], count: int) -> NDArray[Any]:
    """``rows`` itself if it holds ``count`` of them, else a copy with spare capacity."""
    if count <= len(rows):
        return rows
    larger = np.zeros((max(count, len(rows) * 3 // 2, 1_024), *rows.shape[1:]), rows.dtype)
    larger[: len(rows)] = rows
    return larger


def number_ids(
    edges: pa.Table, nodes: pa.Table | None
) -> tuple[list[str], NDArray[np.int32], NDArray[np.int32]]:
    """Every id once, those of the nodes first and in their order, and the places of the edges' ends in it."""
    ids = pa.array([], pa.string()) if nodes is None else nodes["id"].combine_chunks()
    ends = [pc.index_in(edges[name], value_set=ids) for name in ("from_id", "to_id")]
    if any(end.null_count for end in ends):
        ids = pc.unique(pa.chunked_array([ids, *edges["from_id"].chunks, *edges["to_id"].chunks]))
        ends = [pc.index_in(edges[name], value_set=ids) for name in ("from_id", "to_id")]
    start, end = (end.to_numpy().astype(np.int32) for end in ends)
    return ids.to_pylist(), start, end


def to_microseconds(text: str) -> int:
    """Since the epoch; NEVER for an empty text."""
    return round(parse_time(text) * 1e6) if text else NEVER


@lru_cache(4_096)
def to_text(microseconds: int) -> str:
    """The time in the one form in which Mailroom writes times; "" for NEVER."""
    if microseconds == NEVER:
        return ""
    return (_EPOCH + timedelta(microseconds=microseconds)).isoformat(timespec="microseconds")


class _By(msgspec.Struct):
    by: Any = ""
    rule: Any = ""


_BY = msgspec.json.Decoder(_By)


def _read_times(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], list[int]]:
    """Microseconds since the epoch, and the places of those that are not written as ``to_text`` does."""
    canonical = pc.match_substring_regex(column, _CANONICAL)
    texts = pc.if_else(canonical, column, pa.scalar(None, pa.string()))
    times = pc.fill_null(texts.cast(pa.timestamp("us", "UTC")).cast(pa.int64()), NEVER)
    result = np.array(times.to_numpy(), np.int64)
    odd: list[int] = np.flatnonzero(~canonical.to_numpy(zero_copy_only=False)).tolist()
    for place in odd:
        result[place] = to_microseconds(column[place].as_py())
    return result, odd


Rows = NDArray[np.int32]
Places = NDArray[np.intp]


class Adjacency:
    """The rows of the edges at places 0 to ``count``, as they were when it was made.

    ``is_stale`` marks the places whose edges changed since; ``changed`` counts them.
    """

    def __init__(self, start: Rows, end: Rows, rows: NDArray[Any], count: int) -> None:
        self.is_stale = np.zeros(count, np.bool_)
        self.changed = 0
        self._leaving = _group(start, rows, count)
        self._coming = _group(end, rows, count)

    def mark(self, place: int) -> None:
        """Note that a place has other edges now; one that came since is stale without that."""
        self.changed += 1
        if place < len(self.is_stale):
            self.is_stale[place] = True

    def find_fresh(self, places: Places) -> NDArray[np.bool_]:
        """Which of the places have the edges they had."""
        known = places < len(self.is_stale)
        known[known] = ~self.is_stale[places[known]]
        return known

    def find(self, places: Places, *, leaving: bool) -> tuple[Rows, Places]:
        """The rows of the edges that leave these places, or come to them; and at the how manieth each is."""
        bounds, rows = self._leaving if leaving else self._coming
        first = bounds[places]
        counts = bounds[places + 1] - first
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        return (
            rows[np.arange(total) + np.repeat(first - ends + counts, counts)],
            np.repeat(np.arange(len(places)), counts),
        )


def _group(ends: Rows, rows: NDArray[Any], count: int) -> tuple[NDArray[np.int64], Rows]:
    bounds = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(ends, minlength=count), out=bounds[1:])
    return bounds, rows[np.argsort(ends, kind="stable")].astype(np.int32)


IMPORTANCE = 0.5  # The importance of a node that is only known as the end of an edge, as a new node has it

LEAST_CHANGED = 1_000  # Changes of edges that are left alone, however few nodes there are

_UNKNOWN = (IMPORTANCE, -1, True)
_BLOCK = 50_000


class Network:
    """Nodes by their places and edges by their rows; for one thread at a time.

    A node's place, once given, stays its own for good; an edge's row is given to another one after it left.
    A row is at the same time the index of its edge in ``net``, a place that of its node.
    """

    def __init__(self) -> None:
        self.net: rustworkx.PyDiGraph[None, None] = rustworkx.PyDiGraph(multigraph=True)
        self.rows = EdgeRows()
        self.nodes: NDArray[Any] = np.zeros(0, NODE)
        self.ids: list[str] = []
        self.places: dict[str, int] = {}
        self.kinds: dict[str, int] = {}
        self._leaving: list[int] = []  # how many edges a node has in either direction
        self._coming: list[int] = []
        self.adjacency = self.make_adjacency()

    @classmethod
    def load(cls, edges: pa.Table | None, nodes: pa.Table | None) -> "Network":
        """The network of tables' rows; of nodes it takes id, kind, importance and retired_version."""
        network = cls()
        edges = EDGES.empty_table() if edges is None else edges
        if pc.any(pc.greater(edges["retired_version"], 0)).as_py():
            edges = edges.filter(pc.equal(edges["retired_version"], 0))
        network.ids, start, end = number_ids(edges, nodes)
        count = len(network.ids)
        network.places = dict(zip(network.ids, range(count), strict=True))
        network.net.add_nodes_from([None] * count)
        network.nodes = np.full(count, np.array(_UNKNOWN, NODE))
        network._leaving = np.bincount(start, minlength=count).tolist()
        network._coming = np.bincount(end, minlength=count).tolist()
        if nodes is not None:
            network._load_nodes(nodes)
        network.rows = EdgeRows.load(edges, start, end)
        for first in range(0, len(edges), _BLOCK):
            block = slice(first, first + _BLOCK)
            pairs = zip(start[block].tolist(), end[block].tolist(), strict=True)
            network.net.extend_from_edge_list(list(pairs))
        network.adjacency = network.make_adjacency()
        return network

    def make_adjacency(self) -> Adjacency:
        """The edges by place as they are now; 0.1 s at 500,000."""
        rows = self.rows.live()
        edges = self.rows.array
        return Adjacency(edges["start"][rows], edges["end"][rows], rows, len(self.ids))

    @property
    def is_outdated(self) -> bool:
        """Whether so many places have other edges that ``adjacency`` is worth making again."""
        return self.adjacency.changed > max(LEAST_CHANGED, len(self.ids) // 4)

    def put_node(self, node: Node) -> None:
        """Take in what walking needs to know of a node as it is now."""
        place = self._add_place(node.id)
        kind = self.kinds.setdefault(node.kind, len(self.kinds))
        self.nodes[place] = (node.importance, kind, not node.retired_version)

    def put_edge(self, edge: Edge) -> None:
        """Take in an edge as it is now; a retired one leaves."""
        start, end = self._add_place(edge.from_id), self._add_place(edge.to_id)
        row = self.find(start, end, CODES[edge.relation])
        change = 0
        if not edge.retired_version:
            if row is None:
                row, change = self.net.add_edge(start, end, None), 1
            self.rows.write(row, start, end, edge)
        elif row is not None:
            self.net.remove_edge_from_index(row)
            self.rows.remove(row)
            change = -1
        if change:
            self.adjacency.mark(start)
            self.adjacency.mark(end)
        self._leaving[start] += change
        self._coming[end] += change

    def find(self, start: int, end: int, code: int) -> int | None:
        """The row of an edge, searched at the end with fewer edges: a hub has very many."""
        if self._leaving[start] > self._coming[end]:
            rows = [row for row in self.net.in_edge_indices(end) if self.rows.array["start"][row] == start]
        elif self.net.has_edge(start, end):
            rows = list(self.net.edge_indices_from_endpoints(start, end))
        else:
            return None
        return next((row for row in rows if self.rows.array["relation"][row] == code), None)

    def has_edges(self, place: int) -> bool:
        """Whether any edge leaves a place or comes to it."""
        return bool(self._leaving[place] or self._coming[place])

    def incident(self, places: Sequence[int], direction: Direction) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """The rows of the edges at these places, and at the how manieth of them each is."""
        asked = np.asarray(places, np.intp)
        fresh = self.adjacency.find_fresh(asked)
        numbers, others = np.flatnonzero(fresh), np.flatnonzero(~fresh)
        parts = []
        for leaving in (True, False):
            if direction != ("in" if leaving else "out"):
                rows, origins = self.adjacency.find(asked[numbers], leaving=leaving)
                parts.append((rows, numbers[origins]))
                list_edges = self.net.out_edge_indices if leaving else self.net.in_edge_indices
                for number in others.tolist():
                    listed = np.array(list_edges(places[number]), np.int32)
                    parts.append((listed, np.full(len(listed), number)))
        found, numbered = zip(*parts, strict=True)
        return np.concatenate(found), np.concatenate(numbered)

    def weigh(self, edges: NDArray[Any], moment: float) -> NDArray[np.float64]:
        """The effective weights of edges at ``moment``."""
        importance = self.nodes["importance"]
        higher = np.maximum(importance[edges["start"]], importance[edges["end"]])
        return effective_weights(edges["weight"], edges["touched"] / 1e6, higher, edges["exempt"], moment)

    def read(self, rows: Sequence[int] | NDArray[np.intp]) -> list[Edge]:
        """The edges of these rows by from, to and relation."""
        return self.rows.read(np.asarray(rows, np.intp), self.ids)

    def _add_place(self, node_id: str) -> int:
        place = self.places.get(node_id)
        if place is None:
            place = self.net.add_node(None)
            self.nodes = enlarged(self.nodes, place + 1)
            self.nodes[place] = _UNKNOWN
            self._leaving.append(0)
            self._coming.append(0)
            self.ids.append(node_id)
            self.places[node_id] = place
        return place

    def _load_nodes(self, nodes: pa.Table) -> None:
        kinds = nodes["kind"].combine_chunks().dictionary_encode()
        self.kinds = {kind: code for code, kind in enumerate(kinds.dictionary.to_pylist())}
        told = self.nodes[: len(nodes)]
        told["kind"] = kinds.indices.to_numpy()
        told["importance"] = nodes["importance"].to_numpy()
        told["live"] = nodes["retired_version"].to_numpy() == 0


def relation_mask(relations: Collection[str]) -> NDArray[np.bool_]:
    """Which relations pass, by their codes; all of them if none is named."""
    mask = np.zeros(len(RELATIONS) + 1, np.bool_)  # the last one is GONE
    mask[[CODES[relation] for relation in relations or CODES]] = True
    return mask
