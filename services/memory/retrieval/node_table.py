"""What the table of nodes says: of all rows by column, of some as nodes."""

import re
import zlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from services.memory.graph.decay import parse_time
from services.memory.retrieval.postings import Postings
from services.memory.retrieval.vectors import GrowingArray
from shared.contracts import Node, Source
from shared.contracts.base import amended
from shared.memory.ownership import CHANNEL, owner_of

REACH = 2
"""How many nodes before and after one bear on it: three found no more of the evidence in conversations."""

OFFSETS = tuple(offset for offset in range(-REACH, REACH + 1) if offset)
"""The rows of ``Sessions.neighbours``: two before, one before, one after, two after."""

NONE = 0  # The number of the session of a node that has none

MAX_CHANGED = 500_000
"""Entries kept of the sessions that were changed; beyond that they are put back with the others."""

Slots = NDArray[np.int32]
Member = tuple[float, str, int]


class Sessions:
    """The live slots of each session in their order, by time and then by id, and how many speak in it.

    ``codes``, ``moments``, ``speakers`` and ``ids`` have for each slot its session's code, the time in
    seconds, a number for who speaks (0: nobody) and the node's id; they are read when a session changes. One
    thread changes it, any number read.
    """

    def __init__(
        self,
        codes: GrowingArray,
        moments: GrowingArray,
        speakers: GrowingArray,
        ids: Sequence[str],
        live: NDArray[np.bool_],
    ) -> None:
        self._codes, self._moments, self._speakers, self._ids = codes, moments, speakers, ids
        count = len(live)
        order = _arrange(codes.read(count), moments.read(count), ids, live)
        arranged = codes.read(count)[order]
        same = arranged[1:] == arranged[:-1]
        before, after = np.full(count, -1, np.int32), np.full(count, -1, np.int32)
        before[order[1:][same]] = order[:-1][same]
        after[order[:-1][same]] = order[1:][same]
        self._before, self._after = GrowingArray(before), GrowingArray(after)
        self._order, self._arranged = order, arranged
        self._speaking = GrowingArray(_count_speakers(arranged, speakers.read(count)[order]))
        self._changed: dict[int, list[Member]] = {}
        self._said: dict[int, Counter[int]] = {}
        self._entries = 0

    def extend(self, count: int) -> None:
        """Add ``count`` slots, which have no neighbours yet."""
        nobody = np.full(count, -1, np.int32)
        self._before.extend(nobody)
        self._after.extend(nobody)

    def place(self, slot: int) -> None:
        """Take a slot into its session."""
        if (code := self._code(slot)) == NONE:
            return
        members, member = self._members(code), self._member(slot)
        place = bisect_left(members, member)
        left = members[place - 1][2] if place else -1
        right = members[place][2] if place < len(members) else -1
        members.insert(place, member)
        self._entries += 1
        self._count(code, slot, 1)
        self._join(left, slot)
        self._join(slot, right)

    def remove(self, slot: int) -> None:
        """Remove a slot from its session, if it is in one."""
        if (code := self._code(slot)) == NONE:
            return
        members, member = self._members(code), self._member(slot)
        place = bisect_left(members, member)
        if place == len(members) or members[place] != member:
            return
        del members[place]
        self._count(code, slot, -1)
        left, right = int(self._before.read(slot + 1)[slot]), int(self._after.read(slot + 1)[slot])
        self._join(left, right)
        self._join(-1, slot)
        self._join(slot, -1)

    def neighbours(self, slots: NDArray[Any], count: int) -> NDArray[np.int32]:
        """For each of ``slots`` the slots at OFFSETS from it, -1 if none is below ``count``."""
        rows = np.empty((len(OFFSETS), len(slots)), np.int32)
        for links, near, far in ((self._before, REACH - 1, 0), (self._after, REACH, -1)):
            rows[near] = _follow(links.read(count), slots, count)
            rows[far] = _follow(links.read(count), rows[near], count)
        return rows

    def count_speakers(self, codes: NDArray[np.int32]) -> NDArray[np.int32]:
        """How many speak in each of the sessions of live slots; 0 for NONE."""
        return self._speaking.read(len(self._speaking))[codes]

    def _count(self, code: int, slot: int, change: int) -> None:
        """Count what the speaker of a slot says in a session once more, or once less."""
        if code >= len(self._speaking):
            self._speaking.extend(np.zeros(code + 1 - len(self._speaking), np.int32))
        if speaker := int(self._speakers.read(slot + 1)[slot]):
            said, before = self._said[code], self._said[code][speaker] > 0
            said[speaker] += change
            self._speaking.read(code + 1)[code] += (said[speaker] > 0) - before

    def _code(self, slot: int) -> int:
        return int(self._codes.read(slot + 1)[slot])

    def _member(self, slot: int) -> Member:
        return float(self._moments.read(slot + 1)[slot]), self._ids[slot], slot

    def _members(self, code: int) -> list[Member]:
        if code in self._changed:
            return self._changed[code]
        if self._entries > MAX_CHANGED:
            self._merge_changed()
        start, end = np.searchsorted(self._arranged, (code, code + 1)).tolist()
        slots = self._order[start:end]
        members = self._changed[code] = [self._member(slot) for slot in slots.tolist()]
        self._said[code] = Counter(self._speakers.read(len(self._ids))[slots].tolist())
        self._entries += len(members)
        return members

    def _merge_changed(self) -> None:
        """Put what was changed into the arrays that the others are in."""
        changed = np.fromiter(self._changed, np.int32)
        stay = ~np.isin(self._arranged, changed)
        later = [(code, member[2]) for code, members in self._changed.items() for member in members]
        codes = np.concatenate((self._arranged[stay], np.array([code for code, _ in later], np.int32)))
        slots = np.concatenate((self._order[stay], np.array([slot for _, slot in later], np.int32)))
        order = np.argsort(codes, kind="stable")
        self._arranged, self._order = codes[order], slots[order]
        self._changed.clear()
        self._said.clear()
        self._entries = 0

    def _join(self, left: int, right: int) -> None:
        if left >= 0:
            self._after.read(left + 1)[left] = right
        if right >= 0:
            self._before.read(right + 1)[right] = left


def _count_speakers(sessions: Slots, speakers: NDArray[np.uint32]) -> NDArray[np.int32]:
    """How many different speakers each session has, by its code; those of number 0 do not count."""
    heard = speakers > 0
    pairs = np.unique(sessions[heard].astype(np.int64) << 32 | speakers[heard])
    return np.bincount(pairs >> 32, minlength=int(sessions.max(initial=0)) + 1).astype(np.int32)


def _arrange(
    codes: NDArray[np.int32], moments: NDArray[np.float64], ids: Sequence[str], live: NDArray[np.bool_]
) -> Slots:
    slots = np.flatnonzero(live & (codes != NONE)).astype(np.int32)
    ranks = np.empty(len(slots), np.int32)
    ranks[sorted(range(len(slots)), key=[ids[slot] for slot in slots.tolist()].__getitem__)] = np.arange(
        len(slots)
    )
    return slots[np.lexsort((ranks, moments[slots], codes[slots]))]


def _follow(links: Slots, slots: NDArray[Any], count: int) -> Slots:
    """Where links lead from slots; -1 leads to -1."""
    there = np.where(slots >= 0, links[slots], -1)
    return np.where(there < count, there, -1)


_TEXT = ("title", "body", "tags")
_SAID = ("id", "title", "tags", "created_at")
GENERIC, CONFIDENT, DONE = 1, 2, 4
"""Of a node's metadata: the linker's ``flag`` of what is similar to many, whether they say a ``confidence``,
and a ``status`` of DONE_WORDS."""

DONE_WORDS = frozenset(
    "done completed complete achieved reached closed cancelled canceled abandoned dropped failed".split()
)
"""What as a goal's ``status``, or as a tag, says that it is no longer active."""

_DECIDING = re.compile('"(?:flag|confidence|status)"')
_BLANK = Node(id="blank", title="blank", created_at="1970-01-01T00:00:00+00:00")


def searchable_text(title: str, body: str, tags: Iterable[str]) -> str:
    """What of a node is searched for words."""
    return "\n".join((title, body, *tags))


def code_speaker(agent: str, tags: Iterable[str]) -> int:
    """A number for who says what a node says, by its agent and its tags, which name the author of a message;
    0 for nobody. Of two speakers one pair in four billion has the same.
    """
    return zlib.crc32("\n".join(filter(None, (agent, *tags))).encode())


def read_speakers(table: pa.RecordBatch) -> NDArray[np.uint32]:
    """The same of each row."""
    tags = pc.binary_join(table.column("tags"), "\n")
    agents = table.column("source_agent")
    both = pc.and_(pc.not_equal(agents, ""), pc.not_equal(tags, ""))
    names = pc.binary_join_element_wise(agents, tags, pc.if_else(both, "\n", "")).dictionary_encode()
    codes = np.array([zlib.crc32(name.encode()) for name in names.dictionary.to_pylist()], np.uint32)
    return codes[names.indices.to_numpy()] if len(codes) else np.empty(0, np.uint32)


def code_marks(metadata: Mapping[str, Any]) -> int:
    """What of a node's metadata decides in briefings: the sum of GENERIC, CONFIDENT and DONE."""
    done = str(metadata.get("status", "")).lower() in DONE_WORDS
    generic = metadata.get("flag") == "generic"
    return GENERIC * generic + CONFIDENT * ("confidence" in metadata) + DONE * done


def read_marks(table: pa.RecordBatch) -> NDArray[np.uint8]:
    """The same of each row; each text is decoded once, and only if it has one of the three keys."""
    texts = table.column("metadata").dictionary_encode()
    found = [
        code_marks(msgspec.json.decode(text)) if _DECIDING.search(text) else 0
        for text in texts.dictionary.to_pylist()
    ]
    return np.array(found, np.uint8)[texts.indices.to_numpy()] if found else np.empty(0, np.uint8)


def read_owners(table: pa.RecordBatch) -> tuple[list[str], NDArray[np.int32]]:
    """Names, and for each row the place of the one whose own it is by its source."""
    sessions = table.column("source_session").dictionary_encode()
    channels = table.column("source_channel").dictionary_encode()
    names = [owner_of(session, CHANNEL) for session in sessions.dictionary.to_pylist()]
    told = ["" if each == CHANNEL else owner_of("", each) for each in channels.dictionary.to_pylist()]
    is_file = pc.equal(table.column("source_channel"), CHANNEL).to_numpy(zero_copy_only=False)
    places = np.where(is_file, sessions.indices.to_numpy() + 1, channels.indices.to_numpy() + 1 + len(names))
    return ["", *names, *told], places.astype(np.int32)


def measure(table: pa.RecordBatch) -> NDArray[np.int32]:
    """How many characters title, body and tags of each row have."""
    tags = table.column("tags")
    lengths = pc.utf8_length(tags.flatten()).to_numpy(zero_copy_only=False)
    rows = pc.list_parent_indices(tags).to_numpy()
    total = np.bincount(rows, lengths, table.num_rows)
    for name in ("title", "body"):
        total = total + pc.utf8_length(table.column(name)).to_numpy()
    return total.astype(np.int32)


def read_times(column: pa.Array) -> NDArray[np.float64]:
    """``parse_time`` of each; in bulk if all are written as ``generate_iso_timestamp`` does."""
    if pc.all(pc.ends_with(column, "+00:00")).as_py():
        try:
            times = pc.cast(pc.utf8_slice_codeunits(column, 0, -6), pa.timestamp("us"))
            return np.asarray(pc.cast(times, pa.int64()).to_numpy() / 1e6, np.float64)
        except pa.ArrowInvalid:
            pass  # for example a date alone
    return np.array([parse_time(text) for text in column.to_pylist()], np.float64)


def read_bounds(column: pa.Array, without: float) -> NDArray[np.float64]:
    """``parse_time`` of each, ``without`` where it is empty."""
    bounds = np.full(len(column), without)
    told = np.flatnonzero(pc.not_equal(column, "").to_numpy(zero_copy_only=False))
    if len(told):
        bounds[told] = read_times(column.take(pa.array(told)))
    return bounds


class NodeRows:
    """The rows of the table, read one by one; columns in which no row says anything are skipped."""

    def __init__(self, table: pa.Table) -> None:
        batches = table.combine_chunks().to_batches()
        self.batch = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
        self._columns = {
            name: _open_column(self.batch.column(name))
            for name in self.batch.schema.names
            if not _is_silent(name, self.batch.column(name))
        }

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def read(self, rows: Sequence[int]) -> list[Node]:
        """The nodes of these rows, without embeddings; what the table holds is not checked again."""
        names, columns = [*self._columns], [read(rows) for read in self._columns.values()]
        return [_to_node(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]

    def text(self, row: int) -> str:
        """What is searched for words in a row."""
        return searchable_text(*(self.batch.column(name)[row].as_py() for name in _TEXT))

    def texts(self) -> Iterator[str]:
        """The same of each row."""
        return map(searchable_text, *(self.batch.column(name).to_pylist() for name in _TEXT))

    def keep(self, rows: NDArray[np.intp]) -> "NodeRows":
        """These rows alone."""
        return NodeRows(pa.Table.from_batches([self.batch.take(pa.array(rows))]))


def flatten_tags(table: pa.RecordBatch) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64]]:
    """The tags, and of each time that one occurs its place among them and the row."""
    tags = table.column("tags")
    encoded = tags.flatten().dictionary_encode()
    rows = pc.list_parent_indices(tags).to_numpy().astype(np.int64)
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64), rows


def read_tags(table: pa.RecordBatch) -> Postings:
    """Which tags occur in which rows."""
    return Postings.build(*flatten_tags(table))


def _is_silent(name: str, column: pa.Array) -> bool:
    """Whether all rows say what a node says by itself."""
    by_itself = "{}" if name == "metadata" else getattr(_BLANK, name, "")
    return name not in _SAID and bool(pc.all(pc.equal(column, by_itself)).as_py())


def _open_column(column: pa.Array) -> Callable[[Sequence[int]], list[Any]]:
    """What reads some values of a column from its buffers: pyarrow takes 20 us for a row of them."""
    if pa.types.is_list(column.type):
        bounds = _open_buffer(column, "i")
        read_items = _open_column(column.values)
        return lambda rows: [tuple(read_items(range(bounds[row], bounds[row + 1]))) for row in rows]
    if pa.types.is_string(column.type):
        bounds, text = _open_buffer(column, "i"), memoryview(column.buffers()[2] or b"")
        return lambda rows: [str(text[bounds[row] : bounds[row + 1]], "utf-8") for row in rows]
    values = _open_buffer(column, "d" if pa.types.is_floating(column.type) else "q")
    return lambda rows: [values[row] for row in rows]


def _open_buffer(column: pa.Array, code: Any) -> Any:
    return memoryview(column.buffers()[1] or bytes(8)).cast("B").cast(code)[column.offset :]


@lru_cache(4_096)
def _source(agent: str, session: str, channel: str) -> Source:
    return Source(agent=agent, session=session, channel=channel)


def _to_node(row: dict[str, Any]) -> Node:
    source = _source(*(row.pop(f"source_{part}", "") for part in ("agent", "session", "channel")))
    metadata = msgspec.json.decode(row.pop("metadata", "{}"))
    return amended(_BLANK, **row, source=source, metadata=metadata)
