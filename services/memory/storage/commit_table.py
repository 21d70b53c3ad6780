"""The commit table, in SQLite: which writes were applied, and up to where the tables have them."""

import contextlib
import json
import os
import re
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from shared.errors import ActionError, StartError

_MANIFEST_BASE = 2**64 - 1
"""Lance names the manifest of version v ``{2**64 - 1 - v}.manifest``, so that the newest is listed first."""

_HINDRANCES = re.compile(
    r"no space left|disk full|denied|read-?only|too many open files|unable to open|disk i/o|cannot allocate"
    r"|generic (s3|gcs)|error performing",
    re.IGNORECASE,
)
"""In errors of Lance, Arrow, SQLite and the system that are about the machine, and not about the files."""

P = ParamSpec("P")
T = TypeVar("T")


class Damaged(StartError):
    """The files of a store cannot be read."""


class Locked(StartError):
    """Another process has the store open."""


def open_error(path: Path, error: Exception) -> StartError:
    """Why the store in ``path`` cannot be opened: Damaged, unless the machine hinders it."""
    if _HINDRANCES.search(str(error)):
        return StartError(
            f"The memory in {path} cannot be opened ({first_line(error)})",
            "Free disk space, or make the folder writable",
        )
    return Damaged(
        f"The memory in {path} is damaged ({first_line(error)})",
        "Move that folder away to start over; what was committed is also in the MEMORY stream",
    )


class Disk:
    """The folder ``path``. Each step that changes it goes through ``run``, so that tests can let it fail.

    Without ``synced`` nothing is flushed: for what counts only once all of it is. The tables of a new store
    lie below the address ``root`` of an object store, if that is given; those of this one at ``place``.
    """

    def __init__(self, path: Path, *, synced: bool = True, root: str = "") -> None:
        self.path = path
        self.synced = synced
        self.root, self.place = root.rstrip("/"), ""
        self._flushed: set[str] = set()

    def run(self, step: str, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do ``work``; ``step`` names what it does to the disk."""
        return work(*args, **kwargs)

    def sync(self) -> None:
        """Flush the files that are new since the last time; raises OSError.

        Lance never writes to a file again, and flushes none.
        """
        if self.synced:
            self.run("sync", self._sync)

    def _sync(self) -> None:
        found = [_flush(table, self._flushed) for table in self.path.glob("*.lance")]
        self._flushed = set().union(*found)
        _fsync(self.path)

    def drop_uncommitted(self, committed: Mapping[str, int]) -> None:
        """Drop what tables have beyond their ``committed`` versions, and the tables that have none.

        Raises ValueError if nothing is committed although there is data: its commit table is lost.
        """
        for table in self.path.glob("*.lance"):
            kept = committed.get(table.stem, 0)
            versions = {_MANIFEST_BASE - int(file.stem): file for file in table.glob("_versions/*.manifest")}
            if not committed and max(versions, default=0) > 1:
                raise ValueError(f"{table} contains data, but ledger.sqlite does not list it")
            if not kept:
                self.run("drop", shutil.rmtree, table)
                continue
            for version, file in versions.items():
                if version > kept:
                    self.run("drop", file.unlink)

    def count_commits(self) -> int:
        """How many commits of tables still have their files."""
        return sum(1 for _ in self.path.glob("*.lance/_versions/*.manifest"))

    def explain(self, error: Exception) -> ActionError:
        """The error for the sender of a write that failed by ``error``."""
        reason = first_line(error)
        if "No space left" in reason or "disk is full" in reason or "quota" in reason.lower():
            return ActionError(
                f"Memory cannot be written: the disk of {self.path} is full",
                "Free some space and send it again",
            )
        return ActionError(f"Memory cannot be written: {reason}", f"Check {self.path} and send it again")


def first_line(error: Exception) -> str:
    """The first line of an error's message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def _flush(folder: Path, known: Set[str] = frozenset()) -> set[str]:
    """Flush what is in a folder, and below, but for the ``known`` files; returns all files."""
    files: set[str] = set()
    for root, _, names in os.walk(folder):
        here = {os.path.join(root, name) for name in names}  # noqa: PTH118
        for path in [*(here - known), root]:
            _fsync(path)
        files |= here
    return files


def _fsync(path: Path | str) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


DRAFT = "rebuild"
"""The folder, within the store's, in which a new one is made: the store's own may be a mount."""

_READY = "ready"
_MOVING = "moving"


def replace(path: Path) -> None:
    """Put the store in the draft's folder in the place of that in ``path``; both must be closed."""
    _flush(path / DRAFT)
    (path / DRAFT / _READY).touch()
    _fsync(path / DRAFT)
    _fsync(path)
    settle(path)


def settle(path: Path) -> None:
    """Complete a replacement that a crash interrupted, and remove a draft that was never completed.

    First the old files go, then the new ones come: which of it was begun is told by a file's name.
    """
    draft = path / DRAFT
    if (draft / _READY).exists():
        for entry in path.iterdir():
            if entry != draft:
                if entry.is_dir():
                    shutil.rmtree(entry)
                else:
                    entry.unlink()
        _fsync(path)
        (draft / _READY).rename(draft / _MOVING)
        _fsync(draft)
    if (draft / _MOVING).exists():
        for entry in draft.iterdir():
            if entry.name != _MOVING:
                os.replace(entry, path / entry.name)  # noqa: PTH105 - as it is named in the docs of POSIX
        _fsync(path)
    if draft.exists():
        shutil.rmtree(draft)


KEPT_WRITES = 1_000_000
"""So many writes are recognised when they are delivered again; the bus redelivers within minutes."""

KEPT_BRIEFINGS = 10_000  # So many briefings can be reproduced with the moment at which they were made

ANSWERED = "answered"  # The file beside it with the version of the last write that was answered

_LAST = 2**63 - 1  # The largest number that SQLite holds

_SCHEMA = """
create table if not exists state (name text primary key, value integer not null) without rowid;
create table if not exists writes (id text primary key, version integer not null);
create table if not exists moments (version integer primary key, moment real not null);
create table if not exists access (id text primary key, count integer not null, last_at text not null)
    without rowid;
create table if not exists notes (name text primary key, value text not null) without rowid;
create table if not exists briefings (agent text not null, version integer not null, moment real not null,
    primary key (agent, version));
create temp table later_writes (id text primary key, version integer not null);
create temp table later_moments (version integer primary key, moment real not null);
create temp table later_access (id text primary key, count integer not null, last_at text not null)
    without rowid;
create temp view all_writes as
    select id, version from writes union all select id, version from later_writes;
"""
"""What is not committed yet is in the ``later`` tables, which are in RAM."""


class CommitTable:
    """Says which writes are in the tables: those up to the version that was committed, in all of them.

    Writes that were added and not committed are known as well, and lost if the process ends: the log has
    them. Notes and briefings are on disk when their method returns. LanceDB commits table by table: a row
    here, written and synced after the tables are, makes one commit of it.

    The file is locked while it is open, so a second daemon on the same folder is refused. Raises StartError
    if it is locked, of another version, or no database. Safe in any thread. Raises sqlite3.Error if
    something cannot be written.
    """

    def __init__(self, path: Path, schema: int, disk: Disk | None = None) -> None:
        self._path = path
        self._disk = disk or Disk(path.parent)
        self._lock = threading.RLock()
        self._database = sqlite3.connect(path, timeout=0, check_same_thread=False, isolation_level=None)
        try:
            self._prepare(schema)
        except sqlite3.Error as error:
            self._database.close()
            raise self._start_error(error) from None
        except StartError:
            self._database.close()
            raise

    def _prepare(self, schema: int) -> None:
        synchronous = f"synchronous = {'full' if self._disk.synced else 'off'}"
        for pragma in ("locking_mode = exclusive", "journal_mode = wal", "temp_store = memory", synchronous):
            self._database.execute(f"pragma {pragma}")
        with self._transaction():
            for statement in _SCHEMA.split(";"):
                self._database.execute(statement)
            self._database.execute("insert or ignore into state values ('schema', ?)", (schema,))
        found = self.state()["schema"]
        if found != schema:
            raise StartError(
                f"The memory in {self._path.parent} was written by another version of Mailroom "
                f"(its schema is {found}, this version reads {schema})",
                "Carry it over: 'mailroom memory export' there, 'mailroom memory import' here",
            )

    def _start_error(self, error: sqlite3.Error) -> StartError:
        folder = self._path.parent
        if "locked" in str(error):
            return Locked(f"Another memory daemon has {folder} open", "Stop it first: mailroom down")
        return open_error(folder, error)

    def state(self) -> dict[str, int]:
        """What is committed: schema, then version, the counts, and each table's Lance version."""
        return dict(self._read("select name, value from state"))

    def find(self, write_id: str) -> int | None:
        """The graph version at which a write was applied; None if it was not."""
        rows = self._read("select version from all_writes where id = ?", write_id)
        return int(rows[0][0]) if rows else None

    def find_all(self, write_ids: Sequence[str]) -> dict[str, int]:
        """The graph versions at which writes were applied, of those that were."""
        query = "select id, version from all_writes where id in (select value from json_each(?))"
        return dict(self._read(query, json.dumps(write_ids)))

    def add(
        self,
        writes: Sequence[tuple[str, int]],
        moments: Sequence[float],
        accessed: Mapping[str, tuple[int, str]],
    ) -> None:
        """Know writes that were applied, all or none: ids and versions, the time of each, new totals."""
        with self._transaction():
            self._many("insert into later_writes values (?, ?)", writes)
            versions = [version for _, version in writes]
            self._many("insert into later_moments values (?, ?)", zip(versions, moments, strict=True))
            totals = ((node_id, *access) for node_id, access in accessed.items())
            self._many("insert or replace into later_access values (?, ?, ?)", totals)

    def commit(self, state: Mapping[str, int]) -> None:
        """Make what was added the committed state, whole or not at all.

        ``state`` has version, each table's Lance version and further numbers to keep.
        """
        self._disk.run("commit", self._commit, state)

    def _commit(self, state: Mapping[str, int]) -> None:
        with self._transaction():
            self._many("insert or replace into state values (?, ?)", state.items())
            for name in ("writes", "moments", "access"):
                self._database.execute(f"insert or replace into {name} select * from later_{name}")  # noqa: S608
                self._database.execute(f"delete from later_{name}")  # noqa: S608

    def forget(self, names: Sequence[str]) -> None:
        """Drop tables from the state: they are no more."""
        with self._transaction():
            self._many("delete from state where name = ?", [(name,) for name in names])

    def access(self) -> dict[str, tuple[int, str]]:
        """How often each node was shown, and when last."""
        rows = [
            *self._read("select id, count, last_at from access"),
            *self._read("select id, count, last_at from later_access"),
        ]
        return {node_id: (count, last_at) for node_id, count, last_at in rows}

    def moment_of(self, version: int) -> float:
        """When a version was reached: the time of the last write up to it; 0 if there was none."""
        found = self.versions(version + 1, 1)
        return found[0][1] if found else 0.0

    def versions(self, before: int, limit: int) -> list[tuple[int, float]]:
        """The latest versions below ``before`` (0: of all), and when each was reached; the latest first."""
        found: list[tuple[int, float]] = []
        for name in ("later_moments", "moments"):
            query = f"select version, moment from {name} where version < ? order by version desc limit ?"  # noqa: S608
            found += self._read(query, before or _LAST, limit - len(found))
        return found

    def first_version(self) -> int:
        """The oldest version that is known; 0 if nothing was stored."""
        first = "(select min(version) from moments), (select min(version) from later_moments)"
        ((found,),) = self._read(f"select coalesce({first}, 0)")
        return int(found)

    def applied(self) -> list[int]:
        """The versions of all writes that were applied."""
        return [
            version
            for (version,) in self._read(
                "select version from moments union all select version from later_moments"
            )
        ]

    def write_note(self, name: str, value: str) -> None:
        """Record a text under a name."""
        with self._transaction():
            self._many("insert or replace into notes values (?, ?)", [(name, value)])

    def read_note(self, name: str) -> str:
        """The text that was recorded under a name; empty if there is none."""
        rows = self._read("select value from notes where name = ?", name)
        return str(rows[0][0]) if rows else ""

    def record_briefing(self, agent: str, version: int, moment: float) -> None:
        """Record when a briefing was made; of several at one version the newest counts."""
        with self._transaction():
            self._many("insert or replace into briefings values (?, ?, ?)", [(agent, version, moment)])
            self._trim("briefings", KEPT_BRIEFINGS)

    def briefing_moment(self, agent: str, version: int) -> float | None:
        """When a briefing was last made at a version; None if that is not known."""
        query = "select moment from briefings where agent = ? and version = ?"
        rows = self._read(query, agent, version)
        return float(rows[0][0]) if rows else None

    def mark_answered(self, version: int) -> None:
        """Note beside the file that all up to a version is answered; a power cut may take back what is noted.

        Not flushed, since it is noted with every batch; what cannot be noted is left out.
        """
        with contextlib.suppress(OSError):
            file = os.open(self._path.with_name(ANSWERED), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.pwrite(file, f"{version:019}".encode(), 0)
            finally:
                os.close(file)

    def answered(self) -> int:
        """The version up to which all was answered, as it was noted last; 0 if that is not known."""
        try:
            return int(self._path.with_name(ANSWERED).read_bytes())
        except (OSError, ValueError):
            return 0

    def trim(self) -> None:
        """Forget all but the last KEPT_WRITES writes."""
        with self._transaction():
            self._trim("writes", KEPT_WRITES)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock, self._database:
            self._database.execute("begin immediate")
            yield

    def _read(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._database.execute(query, values).fetchall()

    def _many(self, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
        self._database.executemany(statement, rows)

    def _trim(self, table: str, kept: int) -> None:
        newest = f"(select max(rowid) from {table})"  # noqa: S608
        self._database.execute(f"delete from {table} where rowid <= {newest} - ?", (kept,))  # noqa: S608
