"""The store: nodes, edges and vectors in tables, which follow the log and have it up to one version."""

import contextlib
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from services.memory.storage import tables
from services.memory.storage.commit_table import CommitTable, Disk, open_error
from services.memory.storage.tables import (
    NODES,
    SCHEMA_VERSION,
    VERSIONS,
    LanceTables,
    StoredRows,
    Tables,
    Vectors,
    lay_out,
    vector_table,
)
from services.memory.writes.change import Change, join_text
from shared.contracts import Edge, Node, generate_id
from shared.errors import StartError

MANY_COMMITS = 48
"""Commits of tables after which ``compact`` is due. Each leaves three files, and reading slows down with
them: 600 single adds made 1,803 files and a search eleven times slower; 48 commits keep it under 200
files."""

FLUSH_BYTES = 8 << 20
FLUSH_PARTS = 2_000
FLUSH_TEXT = 40_000
"""How far the tables may lag: by so many bytes of rows or parts of them, which are in RAM, or by so many
characters whose vectors were made here: making them again after a crash takes 4 s of one core."""

SPLIT_ROWS = 10_000
SPLIT_SHARE = 0.25
"""Old states move to the history if there are so many and they are such a share of their table: thus what is
rewritten then is a small multiple of what was written since."""

PLACE, LEFT = "place", "left"
"""The names of the notes with the address of the tables, and with that of the store of before, while there
may be something of it."""

FAILURES = (OSError, RuntimeError, ValueError, sqlite3.Error)  # What Lance, Arrow, SQLite and the disk raise

S = TypeVar("S", Node, Edge)


class Store:
    """Nodes, edges and the vectors of the embedding model ``model``, in the folder ``path``.

    What is applied is in RAM, and in the log; ``flush`` writes it to the tables, a large piece at a time. A
    crash, a power cut or a full disk takes the tables back to the last flush: the commit table says up to
    which version that was, and the log has what comes after. Every state that something had is kept: the
    newest counts, and the others serve ``load(at)``.

    One owner: only one process has it open, and calls its methods one at a time, those of ``commits`` at any
    time. Raises StartError if the folder cannot be opened.
    """

    def __init__(self, path: Path, model: str, dimensions: int, disk: Disk | None = None) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", model):
            raise ValueError(f"{model!r} cannot be part of a table's name")
        self._model, self._dimensions = model, dimensions
        self._layouts = lay_out(model, dimensions)
        self._vectors = vector_table(model)
        self._missing: pa.Table | None = None
        self._disk = disk or Disk(path)
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StartError(
                f"The memory cannot be stored in {path}: {error.strerror}",
                "Set MAILROOM_STATE_DIR to a folder of yours",
            ) from None
        self._state: dict[str, int] = {}
        self._tail: dict[str, list[pa.Table]] = {name: [] for name in self._layouts}
        """What is not flushed, by table."""
        self._tail_parts, self._tail_bytes, self._tail_text = 0, 0, 0
        self._is_whole = False
        self._table_commits = self._disk.count_commits()
        """Commits of tables whose files are still there, at least."""
        try:
            with contextlib.ExitStack() as opened:
                self.commits = CommitTable(path / "ledger.sqlite", SCHEMA_VERSION, self._disk)
                opened.callback(self.commits.close)
                disk = self._disk
                disk.place = self.commits.read_note(PLACE)
                if disk.root and not disk.place and not _tables_of(self.commits.state()):
                    disk.place = f"{disk.root}/{generate_id()}"
                    self.commits.write_note(PLACE, disk.place)
                self._open()
                opened.pop_all()
        except FAILURES as error:
            raise open_error(path, error) from None

    @property
    def version(self) -> int:
        """The graph version; 0 if nothing was stored yet."""
        return self._state.get("version", 0)

    @property
    def root(self) -> str:
        """The address below which the tables of a new store lie; empty: in its folder."""
        return self._disk.root

    @property
    def place(self) -> str:
        """The address of the tables; empty if they are in the folder."""
        return self._disk.place

    def leave(self) -> None:
        """Remove the tables from the object store, if they are in one: the folder is about to be removed."""
        drop_place(self.place)

    def drop_left(self) -> None:
        """Remove those of the store whose place this one took; raises ActionError if that fails."""
        if left := self.commits.read_note(LEFT):
            with self._writing():
                drop_place(left)
            self.commits.write_note(LEFT, "")

    @property
    def needs_compaction(self) -> bool:
        """Whether ``compact`` is due."""
        return self._table_commits >= MANY_COMMITS

    def load(self, at: int = 0) -> Tables:
        """Memory as it is, or as it was at graph version ``at``."""
        self._recover()
        at = at if at < self.version else 0
        with ThreadPoolExecutor(2) as pool:  # reading is decoding, which runs in parallel
            nodes = pool.submit(self._rows.read_states, "nodes", at, has_old=self._has_old("nodes"))
            edges = pool.submit(self._rows.read_states, "edges", at, has_old=self._has_old("edges"))
            ids, vectors = self._rows.read_vectors(self._vectors, at, has_old=self._has_old(self._vectors))
        return Tables(
            nodes=nodes.result(),
            edges=tables.drop_retired(edges.result()),
            access=self.commits.access(),
            vector_ids=ids,
            vectors=vectors,
            version=at or self.version,
        )

    def read_node(self, node_id: str) -> pa.Table:
        """All states that a node had, in no order."""
        self._recover()
        escaped = node_id.replace("'", "''")
        return self._rows.read_where("nodes", NODES.names, f"id = '{escaped}'", pc.field("id") == node_id)

    def read_changes(self, name: str, first: int, last: int) -> pa.Table:
        """The states of ``nodes`` or ``edges`` that came with the versions from ``first`` to ``last``.

        Only what tells what changed: for nodes id, kind, title and source, for both the versions of a state.
        """
        self._recover()
        told = ("id", "kind", "title", "source_session", "source_channel")
        columns = [*(told if name == "nodes" else ()), *VERSIONS]
        passes = (pc.field("version") >= first) & (pc.field("version") <= last)
        return self._rows.read_where(name, columns, f"version >= {first} AND version <= {last}", passes)

    def apply(
        self, change: Change, ids: Sequence[str], vectors: Vectors, versions: Sequence[int] = ()
    ) -> None:
        """Take a change in; flushes before if that is due.

        ``vectors`` has a row for each of ``ids``: of ``change.texts_changed``, and those of
        ``change.interim`` if they are wanted; then ``versions`` says since when each has its text. Texts
        that are not among them lack their vector: they are ``missing_vectors``.
        Raises ActionError with cause and cure if the tables cannot be written; then it is not taken in.
        """
        if change.version <= self.version:
            raise ValueError(f"version {change.version} does not come after {self.version}")
        versions = versions or [change.texts_changed[node_id] for node_id in ids]
        keys = set(zip(ids, versions, strict=True))
        lacking = [change.nodes[key] for key, at in change.texts_changed.items() if (key, at) not in keys]
        lacks_old = any((text.id, text.version) not in keys for text in change.interim)
        later = [key for key, since in keys if change.nodes[key].created_version != since]
        rows = {
            "nodes": tables.write_nodes(_states(change.nodes, change.replaced_nodes, self.version)),
            "edges": tables.write_edges(_states(change.edges, change.replaced_edges, self.version)),
            self._vectors: tables.write_vectors(ids, versions, vectors),
        }
        self._flush_if_due()
        self.commits.add(change.writes, change.moments, change.accessed)
        replaced = (len(change.replaced_nodes), len(change.replaced_edges), len(later))
        self._append(rows, dict(zip(rows, replaced, strict=True)))
        self._state["version"] = change.version
        self._tail_parts += 1  # also if it only counted accesses
        made = [change.nodes[key] for key in change.texts_changed.keys() - change.given.keys()]
        self._tail_text += sum(len(node.title) + len(node.body) for node in made)
        if lacks_old:
            self._missing = None
        elif not self._state.get("pending"):
            self._missing = tables.list_texts(lacking)  # all others have theirs
        elif self._missing is not None:
            self._missing = pa.concat_tables([self._missing, tables.list_texts(lacking)])
        if lacking or lacks_old:
            self._state["pending"] = 1

    def vectors_by_text(self) -> tuple[dict[str, int], Vectors]:
        """The vectors of this model, and the row in them of each text that any state of a node had."""
        texts = self._rows.read("nodes", ["id", "version", "title", "body"])
        keys, vectors = self._rows.read_all_vectors(self._vectors)
        return tables.find_rows(texts, keys), vectors

    def missing_vectors(self, limit: int) -> list[tuple[str, int, str]]:
        """Texts without a vector of this model, at most ``limit``: id, version since which it has it, text.

        Those that were current when they were looked up come first. Once none are left, the vectors of other
        models are dropped, and asking costs nothing until the model is changed again.
        """
        if not self._state.get("pending"):
            return []
        missing = self._find_missing()
        if not missing.num_rows:
            with self._writing():
                # Every text has its vector of this model: drop those of all others
                others = _tables_of(self.commits.state()).keys() - self._tables.versions().keys()
                self._flush()
                self._commit({"pending": 0})
                self.commits.forget(sorted(others))
                for name in others:
                    self._state.pop(name, None)
                self._disk.drop_uncommitted(_tables_of(self.commits.state()))
                self._tables.drop(others)
            self._missing = None
        columns = missing.slice(0, limit).to_pydict()
        texts = map(join_text, columns["title"], columns["body"])
        return list(zip(columns["id"], columns["version"], texts, strict=True))

    def count_missing(self) -> int:
        """How many texts have no vector of this model."""
        return self._find_missing().num_rows if self._state.get("pending") else 0

    def add_vectors(self, keys: Sequence[tuple[str, int]], vectors: Vectors) -> None:
        """Take in vectors of the first texts of ``missing_vectors``; the graph version stays.

        Raises ActionError as ``apply`` does.
        """
        ids, versions = [node_id for node_id, _ in keys], [version for _, version in keys]
        self._flush_if_due()
        # Texts of the past may be among them: one old row is enough to have the newest looked for.
        self._append({self._vectors: tables.write_vectors(ids, versions, vectors)}, {self._vectors: 1})
        if self._missing is not None:
            self._missing = self._missing.slice(len(ids))

    def flush(self) -> None:
        """Write all that was taken in to the tables; it is on disk when this returns; raises as ``apply``."""
        if self._tail_parts:
            with self._writing():
                self._flush()

    def compact(self) -> None:
        """Flush, compact the tables and drop their old files; raises as ``apply`` does.

        Compacted first, then committed, then cleaned: interrupted anywhere, the committed state is there.
        """
        with self._writing():
            self._table_commits = 0
            self._flush()
            due = [name for name in self._layouts if self._is_split_due(name)]
            for name in due:
                self._tables.split(name)
            self._tables.compact()
            self._commit({f"old {name}": 0 for name in due})
            self._tables.clean()
            self.commits.trim()

    def close(self) -> None:
        """Close the files; what is not flushed is in the log alone."""
        self.commits.close()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Change the tables; raises ActionError with cause and cure if that fails, and takes them back."""
        try:
            self._recover()
            yield
        except FAILURES as error:
            self._table_commits += MANY_COMMITS
            self._is_whole = False  # dropped now, or if that fails before anything else is written
            with contextlib.suppress(*FAILURES):
                self._open()
            raise self._disk.explain(error) from None

    def _recover(self) -> None:
        """Drop what a failed flush left, if that could not be done then; raises what the disk does."""
        if not self._is_whole:
            self._open()

    def _append(self, rows: Mapping[str, pa.Table], replaced: Mapping[str, int]) -> None:
        """Take new rows in, of which so many ``replaced`` older ones."""
        for name, table in rows.items():
            if table.num_rows:
                self._tail[name].append(table)
                self._tail_parts += 1
                self._tail_bytes += table.nbytes
            old = f"old {name}"
            self._state[old] = self._state.get(old, 0) + replaced[name]

    def _flush_if_due(self) -> None:
        lags = self._disk.synced and self._tail_text >= FLUSH_TEXT  # else a crash leaves nothing of it anyway
        if lags or self._tail_bytes >= FLUSH_BYTES or self._tail_parts >= FLUSH_PARTS:
            self.flush()

    def _flush(self) -> None:
        for name, parts in self._tail.items():
            if parts:
                self._table_commits += 1
                self._tables.add(name, pa.concat_tables(parts).combine_chunks())
        self._commit()
        self._clear_tail()

    def _clear_tail(self) -> None:
        for parts in self._tail.values():
            parts.clear()
        self._tail_parts = self._tail_bytes = self._tail_text = 0

    def _commit(self, counts: Mapping[str, int] = {}) -> None:
        self._disk.sync()
        state = {"version": self.version, **self._state, **counts, **self._tables.versions()}
        self.commits.commit(state)
        self._state = state

    def _find_missing(self) -> pa.Table:
        if self._missing is None:
            texts = self._rows.read("nodes", ["id", "version", "title", "body"])
            done = self._rows.read(self._vectors, ["id", "version"])
            self._missing = tables.find_texts(texts, done)
        return self._missing

    def _has_old(self, name: str) -> bool:
        """Whether a table has states that were replaced."""
        return bool(self._state.get(f"old {name}"))

    def _is_split_due(self, name: str) -> bool:
        old = self._state.get(f"old {name}", 0)
        return old >= SPLIT_ROWS and old >= SPLIT_SHARE * self._tables.count(name)

    def _open(self) -> None:
        """Open the tables at the versions in the commit table; create those that it does not name."""
        state = self.commits.state()
        self._disk.drop_uncommitted(_tables_of(state))
        self._tables = LanceTables(self._disk, self._layouts)
        self._rows = StoredRows(self._tables, self._tail, self._layouts)
        self._tables.open(_tables_of(state))
        if _tables_of(self._state) not in ({}, _tables_of(state)):  # the failed commit was made
            self._clear_tail()
        self._state = {**state, **self._state, **_tables_of(state)}
        if self.commits.read_note("model") != self._model:
            self._state["pending"] = int(self.version > 0)
            self._flush()
            self.commits.write_note("model", self._model)
        elif self._tables.versions().items() - state.items():
            self._flush()
        self._is_whole = True


def drop_place(place: str) -> None:
    """Remove all tables at an address of an object store; nothing for an empty one."""
    if place:
        tables.connect(place).drop_all_tables()


def _tables_of(state: Mapping[str, int]) -> dict[str, int]:
    """The Lance versions in a state of the commit table, by table."""
    numbers = ("schema", "version", "pending")
    return {name: version for name, version in state.items() if name not in numbers and " " not in name}


def _states(current: Mapping[Any, S], replaced: Sequence[tuple[S, int]], before: int) -> list[S]:
    """The states to write, those included that began and ended since version ``before``."""
    interim = [state for state, _ in replaced if state.version > before]
    return interim + list(current.values())
