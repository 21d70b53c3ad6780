"""The store: nodes, edges and vectors on disk, changed together or not at all."""

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
from services.memory.storage.commit_table import Commit, CommitTable
from services.memory.storage.disk import Disk, Wal, open_error
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
from shared.contracts import Edge, Node
from shared.errors import StartError

MANY_COMMITS = 48
"""Commits of tables after which ``compact`` is due. Each leaves three files, and reading slows down with
them: 600 single adds made 1,803 files and a search eleven times slower; 48 commits keep it under 200
files."""

FLUSH_BYTES = 16 << 20
FLUSH_SEGMENTS = 2_000
"""When the write-ahead log goes into the tables. Reading so much of it takes 20 ms at the start."""

SPLIT_ROWS = 10_000
SPLIT_SHARE = 0.25
"""Old states move to the history if there are so many and they are such a share of their table: thus what is
rewritten then is a small multiple of what was written since."""

FAILURES = (OSError, RuntimeError, ValueError, sqlite3.Error)
"""What Lance, Arrow, SQLite and the disk raise."""

S = TypeVar("S", Node, Edge)


class Store:
    """Nodes, edges and the vectors of the embedding model ``model``, in the folder ``path``.

    A small commit writes its rows to the write-ahead log and syncs it, then adds a row to the commit table.
    If the log is long, the rows go into the tables: their commits, syncfs, a row in the commit table. What a
    crash, a power cut or a full disk left half done is not in the commit table, and is rolled back by
    removing the manifests that are newer than it says. Every state that something had is kept: the newest
    counts, and the others serve ``load(at)``.

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
        self._is_whole = False
        self._table_commits = self._disk.count_commits()
        """Commits of tables whose files are still there, at least."""
        try:
            with contextlib.ExitStack() as opened:
                self.commits = CommitTable(path / "ledger.sqlite", SCHEMA_VERSION, self._disk)
                opened.callback(self.commits.close)
                self._wal = Wal(path / "tail.arrow", self._disk)
                opened.callback(self._wal.close)
                self._open()
                opened.pop_all()
        except FAILURES as error:
            raise open_error(path, error) from None

    @property
    def version(self) -> int:
        """The committed graph version; 0 if nothing was stored yet."""
        return self._state.get("version", 0)

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

        Only what tells what changed: for nodes id, kind and title, for both the versions of a state.
        """
        self._recover()
        columns = [*(("id", "kind", "title") if name == "nodes" else ()), *VERSIONS]
        passes = (pc.field("version") >= first) & (pc.field("version") <= last)
        return self._rows.read_where(name, columns, f"version >= {first} AND version <= {last}", passes)

    def apply(
        self, change: Change, ids: Sequence[str], vectors: Vectors, versions: Sequence[int] = ()
    ) -> None:
        """Store a change; it is on disk when this returns.

        ``vectors`` has a row for each of ``ids``: of ``change.texts_changed``, and those of
        ``change.interim`` if they are wanted; then ``versions`` says since when each has its text. Changed
        texts that are not among them lack their vector: they are ``missing_vectors``, also after a crash.
        Raises ActionError with cause and cure if it cannot be written; then nothing of it is stored.
        """
        if change.version <= self.version:
            raise ValueError(f"version {change.version} does not come after {self.version}")
        given = set(ids)
        lacking = [change.nodes[key] for key in change.texts_changed if key not in given]
        versions = versions or [change.texts_changed[node_id] for node_id in ids]
        later = [change.nodes[key].created_version != at for key, at in zip(ids, versions, strict=True)]
        with self._writing():
            self._store(
                {
                    "nodes": tables.write_nodes(_states(change.nodes, change.replaced_nodes, self.version)),
                    "edges": tables.write_edges(_states(change.edges, change.replaced_edges, self.version)),
                    self._vectors: tables.write_vectors(ids, versions, vectors),
                },
                Commit(
                    version=change.version,
                    writes=change.writes,
                    moments=change.moments,
                    accessed=change.accessed,
                    counts={"pending": 1} if lacking else {},
                ),
                {
                    "nodes": len(change.replaced_nodes),
                    "edges": len(change.replaced_edges),
                    self._vectors: sum(later),
                },
                lacking,
            )

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
                self._drop_other_models()
            self._missing = None
        columns = missing.slice(0, limit).to_pydict()
        texts = map(join_text, columns["title"], columns["body"])
        return list(zip(columns["id"], columns["version"], texts, strict=True))

    def count_missing(self) -> int:
        """How many texts have no vector of this model."""
        return self._find_missing().num_rows if self._state.get("pending") else 0

    def add_vectors(self, keys: Sequence[tuple[str, int]], vectors: Vectors) -> None:
        """Store vectors of the first texts of ``missing_vectors``; the graph version stays.

        Raises ActionError as ``apply`` does.
        """
        ids, versions = [node_id for node_id, _ in keys], [version for _, version in keys]
        with self._writing():
            table = tables.write_vectors(ids, versions, vectors)
            # Texts of the past may be among them: one old row is enough to have the newest looked for.
            self._store({self._vectors: table}, Commit(version=self.version), {self._vectors: 1})
        if self._missing is not None:
            self._missing = self._missing.slice(len(ids))

    def compact(self) -> None:
        """Empty the write-ahead log, compact the tables and drop their old files; raises as ``apply`` does.

        Compacted first, then committed, then cleaned: interrupted anywhere, the committed state is there.
        """
        with self._writing():
            self._table_commits = 0
            now = Commit(version=self.version)
            if self._wal.segments:
                self._flush({}, now)
            due = [name for name in self._layouts if self._is_split_due(name)]
            for name in due:
                self._tables.split(name)
            self._tables.compact()
            self._commit(now._replace(counts={f"old {name}": 0 for name in due}))
            self._tables.clean()
            self.commits.trim()

    def close(self) -> None:
        """Close the files."""
        self._wal.close()
        self.commits.close()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Change what is stored; raises ActionError with cause and cure if that fails, and rolls back."""
        try:
            self._recover()
            yield
        except FAILURES as error:
            self._table_commits += MANY_COMMITS
            self._is_whole = False  # rolled back now, or if that fails before anything else is written
            with contextlib.suppress(*FAILURES):
                self._open()
            raise self._disk.explain(error) from None

    def _recover(self) -> None:
        """Roll back what a failed commit left, if that could not be done then; raises what the disk does."""
        if not self._is_whole:
            self._open()

    def _store(
        self,
        new: Mapping[str, pa.Table],
        commit: Commit,
        replaced: Mapping[str, int],
        lacking: Sequence[Node] = (),
    ) -> None:
        """Commit new rows, of which so many ``replaced`` older ones; ``lacking`` nodes have no vector."""
        was_pending = bool(self._state.get("pending"))
        self._commit_rows(new, commit, replaced)
        if lacking and not was_pending:
            self._missing = tables.list_texts(lacking)  # all others have theirs
        elif lacking and self._missing is not None:
            self._missing = pa.concat_tables([self._missing, tables.list_texts(lacking)])

    def _commit_rows(self, new: Mapping[str, pa.Table], commit: Commit, replaced: Mapping[str, int]) -> None:
        counts = {
            f"old {name}": self._state.get(f"old {name}", 0) + count for name, count in replaced.items()
        }
        commit = commit._replace(counts={**counts, **commit.counts})
        parts = [(name, table) for name, table in new.items() if table.num_rows]
        size = self._wal.end + sum(table.nbytes for _, table in parts)
        if size >= FLUSH_BYTES or len(self._wal.segments) + len(parts) > FLUSH_SEGMENTS:
            self._flush(dict(parts), commit)
            return
        segments = self._wal.write(parts)
        self.commits.commit(commit._replace(wal=segments))
        self._wal.segments += segments
        self._state |= {"version": commit.version, **commit.counts}

    def _flush(self, new: Mapping[str, pa.Table], commit: Commit) -> None:
        for name, layout in self._layouts.items():
            table = pa.Table.from_batches(self._wal.read(name, layout.schema), layout.schema)
            table = pa.concat_tables([table, new[name]]) if name in new else table
            if table.num_rows:
                self._table_commits += 1
                self._tables.add(name, table.combine_chunks())
        self._commit(commit._replace(flushed=True))

    def _commit(self, commit: Commit) -> None:
        self._disk.sync()
        self.commits.commit(commit._replace(tables=self._tables.versions()))
        self._read_state()

    def _read_state(self) -> None:
        self._state = self.commits.state()
        self._wal.require([segment for segment in self.commits.wal() if segment.table in self._layouts])

    def _find_missing(self) -> pa.Table:
        if self._missing is None:
            texts = self._rows.read("nodes", ["id", "version", "title", "body"])
            done = self._rows.read(self._vectors, ["id", "version"])
            self._missing = tables.find_texts(texts, done)
        return self._missing

    def _drop_other_models(self) -> None:
        """Every text has its vector of this model: drop those of all others."""
        others = _tables_of(self.commits.state()).keys() - self._tables.versions().keys()
        self._commit(Commit(version=self.version, counts={"pending": 0}))
        self.commits.forget(sorted(others))
        self._disk.roll_back(_tables_of(self.commits.state()))

    def _has_old(self, name: str) -> bool:
        """Whether a table has states that were replaced."""
        return bool(self._state.get(f"old {name}"))

    def _is_split_due(self, name: str) -> bool:
        old = self._state.get(f"old {name}", 0)
        return old >= SPLIT_ROWS and old >= SPLIT_SHARE * self._tables.count(name)

    def _open(self) -> None:
        """Open the tables at the versions in the commit table; create those that it does not name."""
        state = self.commits.state()
        self._disk.roll_back(_tables_of(state))
        self._tables = LanceTables(self._disk, self._layouts)
        self._rows = StoredRows(self._tables, self._wal, self._layouts)
        self._tables.open(_tables_of(state))
        self._read_state()
        now = Commit(version=state.get("version", 0), counts={"schema": SCHEMA_VERSION})
        if self.commits.read_note("model") != self._model:
            # The log ends here: it may hold vectors of the other model, which only its own Store can read.
            self._flush({}, now._replace(counts={**now.counts, "pending": int("version" in state)}))
            self.commits.write_note("model", self._model)
        elif self._tables.versions().items() - state.items():
            self._commit(now)
        self._is_whole = True


def _tables_of(state: Mapping[str, int]) -> dict[str, int]:
    """The Lance versions in a state of the commit table, by table."""
    numbers = ("schema", "version", "pending")
    return {name: version for name, version in state.items() if name not in numbers and " " not in name}


def _states(current: Mapping[Any, S], replaced: Sequence[tuple[S, int]], before: int) -> list[S]:
    """The states to write, those included that began and ended since version ``before``."""
    interim = [state for state, _ in replaced if state.version > before]
    return interim + list(current.values())
