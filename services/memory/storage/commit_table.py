"""The commit table, in SQLite: which writes were applied, and up to where the tables have them."""

import contextlib
import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from services.memory.storage.disk import Disk, open_error
from shared.errors import StartError

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
            return StartError(f"Another memory daemon has {folder} open", "Stop it first: mailroom down")
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
