"""The commit protocol: tables, tail and ledger in one folder, changed together or not at all."""

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from services.memory.storage import disk, rows, states
from services.memory.storage.ledger import Commit, Ledger
from services.memory.storage.tables import SCHEMA_VERSION, Shelf, Vectors, lay_out, migrate, vector_table
from services.memory.storage.tail import Piece, Tail
from shared.errors import StartError

FLUSH_BYTES = 16 << 20
FLUSH_PIECES = 2_000
"""When the tail goes into the tables. Reading so much of it takes 20 ms at the start."""

SPLIT_ROWS = 10_000
SPLIT_SHARE = 0.25
"""Old states move to the history when there are so many and they are such a share of their table: thus what
is rewritten then is a small multiple of what was written since."""

FAILURES = (OSError, RuntimeError, ValueError, sqlite3.Error)
"""What Lance, Arrow, SQLite and the disk raise."""


class Vault:
    """The rows of a memory in the folder ``path``, with the vectors of one embedding model.

    A small commit is: rows into the tail, synced, then the ledger's commit. When the tail is long it is: the
    tables' commits, syncfs, the ledger's commit. What a crash, a power cut or a full disk left half done is
    not in the ledger, and is rolled back by removing the manifests that are newer than it says. Raises
    StartError where the folder cannot be opened.
    """

    def __init__(self, path: Path, model: str, dimensions: int) -> None:
        self._path, self._model, self._dimensions = path, model, dimensions
        self._layouts = lay_out(model, dimensions)
        self._vectors = vector_table(model)
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StartError(
                f"The memory cannot be kept in {path}: {error.strerror}",
                "Set MAILROOM_STATE_DIR to a folder of yours",
            ) from None
        self.state: dict[str, int] = {}
        self._pieces: list[Piece] = []
        self._whole = False
        self.commits = disk.count_commits(path)
        """Commits of tables whose files are still there, at least."""
        try:
            with contextlib.ExitStack() as opened:
                self.ledger = Ledger(path / "ledger.sqlite", SCHEMA_VERSION)
                opened.callback(self.ledger.close)
                self._tail = Tail(path / "tail.arrow")
                opened.callback(self._tail.close)
                self._open()
                opened.pop_all()
        except FAILURES as error:
            raise StartError(
                f"The memory in {path} cannot be opened ({disk.first_line(error)})",
                "Move that folder away to begin anew; what was committed is also in the MEMORY stream",
            ) from None

    def read(self, name: str, columns: list[str] | None = None, *, history: bool = False) -> pa.Table:
        """All rows of a table: all of its columns or some, with those of its history or without."""
        schema = self._layouts[name].schema
        chosen = pa.schema([schema.field(column) for column in columns]) if columns else schema
        return pa.Table.from_batches(self._read_batches(name, columns, history=history), chosen)

    def read_states(self, name: str, at: int) -> pa.Table:
        """The newest state of each key, at a graph version or (0) now."""
        table = self.read(name, history=bool(at))
        if at or self.state.get(f"old {name}"):
            return table.filter(pa.array(states.newest(table, self._layouts[name].keys, at)))
        return table

    def read_vectors(self, at: int) -> tuple[list[str], Vectors]:
        """The newest vector of each id, at a graph version or (0) now."""
        name = self._vectors
        count = self._shelf.count(name) + (self._shelf.count(self._layouts[name].history) if at else 0)
        count += sum(batch.num_rows for batch in self._read_tail(name))
        # Read into place batch by batch: they are most of what is on disk.
        keys, vectors = rows.read_vectors(self._read_batches(name, history=bool(at)), count, self._dimensions)
        if at or self.state.get(f"old {name}"):
            held = states.newest(keys, ("id",), at)
            keys, vectors = keys.filter(pa.array(held)), vectors[held]
        return keys.column("id").to_pylist(), vectors

    def store(self, new: Mapping[str, pa.Table], commit: Commit, replaced: Mapping[str, int]) -> None:
        """Commit new rows, of which so many ``replaced`` older ones. Use it within ``writing``."""
        counts = {f"old {name}": self.state.get(f"old {name}", 0) + count for name, count in replaced.items()}
        commit = commit._replace(counts={**counts, **commit.counts})
        parts = [(name, table) for name, table in new.items() if table.num_rows]
        size = self._end + sum(table.nbytes for _, table in parts)
        if size >= FLUSH_BYTES or len(self._pieces) + len(parts) > FLUSH_PIECES:
            self._flush(dict(parts), commit)
            return
        pieces = self._tail.write(parts, self._end) if parts else []
        self.ledger.commit(commit._replace(tail=pieces))
        self._pieces += pieces
        self.state |= {"version": commit.version, **commit.counts}

    def tidy(self) -> None:
        """Empty the tail, compact the tables and drop their old files. Use it within ``writing``.

        Compacted first, then committed, then cleaned up: interrupted anywhere, the committed state is there.
        """
        self.commits = 0
        now = Commit(version=self.state.get("version", 0))
        if self._pieces:
            self._flush({}, now)
        due = [name for name in self._layouts if self._is_split_due(name)]
        for name in due:
            self._shelf.split(name)
        self._shelf.compact()
        self._commit(now._replace(counts={f"old {name}": 0 for name in due}))
        self._shelf.clean()
        self.ledger.trim()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Change what is stored; raises ActionError with cause and cure where that fails, and rolls back."""
        try:
            self.recover()
            yield
        except FAILURES as error:
            self.commits += disk.MANY
            self._whole = False  # it is tried now, and if need be again before anything else is written
            with contextlib.suppress(*FAILURES):
                self._open()
            raise disk.refusal(self._path, error) from None

    def recover(self) -> None:
        """Roll back what a failed commit left, if that could not be done then; raises what the disk does."""
        if not self._whole:
            self._open()

    def drop_other_models(self) -> None:
        """Every text has its vector of this model: forget those of all others. Use it within ``writing``."""
        others = _tables_of(self.ledger.state()).keys() - self._shelf.versions().keys()
        self._commit(Commit(version=self.state.get("version", 0), counts={"pending": 0}))
        self.ledger.forget(sorted(others))
        disk.drop_uncommitted(self._path, _tables_of(self.ledger.state()))

    def close(self) -> None:
        """Let the files go."""
        self._tail.close()
        self.ledger.close()

    @property
    def _end(self) -> int:
        return self._pieces[-1].start + self._pieces[-1].size if self._pieces else 0

    def _read_batches(
        self, name: str, columns: list[str] | None = None, *, history: bool
    ) -> Iterator[pa.RecordBatch]:
        if history:
            yield from self._shelf.read(self._layouts[name].history, columns)
        yield from self._shelf.read(name, columns)
        for batch in self._read_tail(name):
            yield batch.select(columns) if columns else batch

    def _read_tail(self, name: str) -> list[pa.RecordBatch]:
        schema = self._layouts[name].schema
        return [self._tail.read(piece, schema) for piece in self._pieces if piece.table == name]

    def _flush(self, new: Mapping[str, pa.Table], commit: Commit) -> None:
        for name, layout in self._layouts.items():
            table = pa.Table.from_batches(self._read_tail(name), layout.schema)
            table = pa.concat_tables([table, new[name]]) if name in new else table
            if table.num_rows:
                self.commits += 1
                self._shelf.add(name, table.combine_chunks())
        self._commit(commit._replace(flushed=True))

    def _commit(self, commit: Commit) -> None:
        disk.sync(self._path)
        self.ledger.commit(commit._replace(tables=self._shelf.versions()))
        self._look_up()

    def _look_up(self) -> None:
        self.state = self.ledger.state()
        self._pieces = [piece for piece in self.ledger.tail() if piece.table in self._layouts]

    def _is_split_due(self, name: str) -> bool:
        old = self.state.get(f"old {name}", 0)
        return old >= SPLIT_ROWS and old >= SPLIT_SHARE * self._shelf.count(name)

    def _open(self) -> None:
        """Open the tables as the ledger has them, and no later; make those it does not name."""
        state = self.ledger.state()
        disk.drop_uncommitted(self._path, _tables_of(state))
        self._shelf = Shelf(self._path, self._layouts)
        if "version" in state and state["schema"] < SCHEMA_VERSION:
            self._migrate(state)
            state = self.ledger.state()
        self._shelf.open(_tables_of(state))
        self._look_up()
        self._tail.require(self._end)
        now = Commit(version=state.get("version", 0), counts={"schema": SCHEMA_VERSION})
        if self.ledger.noted("model") != self._model:
            # The tail ends here: it may hold vectors of the other model, which only its Vault can read.
            self._flush({}, now._replace(counts={**now.counts, "pending": int("version" in state)}))
            self.ledger.note("model", self._model)
        elif self._shelf.versions().items() - state.items():
            self._commit(now)
        self._whole = True

    def _migrate(self, state: dict[str, int]) -> None:
        """Write the tables anew as this schema has them; the ledger then tells which are meant."""
        now = datetime.now(UTC)
        old = {name: self._shelf.read_other(name) for name in _tables_of(state)}
        stamp = now.isoformat(timespec="microseconds")
        new = migrate(old, state["schema"], self._model, self._dimensions, stamp)
        for name, table in new.items():
            self._shelf.replace(name, table, there=name in old)
        self.ledger.mark(state["version"], now.timestamp())
        self._commit(Commit(version=state["version"], counts={"schema": SCHEMA_VERSION, "pending": 1}))


def _tables_of(state: Mapping[str, int]) -> dict[str, int]:
    """The Lance versions in a ledger's state, by table."""
    numbers = ("schema", "version", "pending")
    return {name: version for name, version in state.items() if name not in numbers and " " not in name}
