"""The ledger: which writes were applied, and which state of the tables is the committed one; in SQLite."""

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

from shared.errors import StartError

KEPT_WRITES = 1_000_000
"""So many writes are recognised when they are sent again; the bus redelivers within minutes."""

_SCHEMA = """
create table if not exists state (name text primary key, value integer not null) without rowid;
create table if not exists writes (id text primary key, version integer not null);
"""


class Ledger:
    """What makes a commit of several tables one: it counts when it stands here, and else it did not happen.

    LanceDB commits table by table and syncs nothing; a row here is written, synced, after the tables are. The
    file is locked while it is open, so a second daemon on the same folder is refused. Raises StartError where
    it is locked, of a later version, or no database.
    """

    def __init__(self, path: Path, schema: int) -> None:
        self._path = path
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
        for pragma in ("locking_mode = exclusive", "journal_mode = wal", "synchronous = full"):
            self._database.execute(f"pragma {pragma}")
        with self._database:
            self._database.execute("begin immediate")
            for statement in _SCHEMA.split(";"):
                self._database.execute(statement)
            self._database.execute("insert or ignore into state values ('schema', ?)", (schema,))
        found = self.state()["schema"]
        if found > schema:
            raise StartError(
                f"The memory in {self._path.parent} was written by a later version (its schema is {found}, "
                f"this one reads up to {schema})",
                "Update Mailroom",
            )

    def _start_error(self, error: sqlite3.Error) -> StartError:
        folder = self._path.parent
        if "locked" in str(error):
            return StartError(f"Another memory daemon has {folder} open", "Stop it first: mailroom down")
        return StartError(
            f"The memory's ledger {self._path} cannot be opened ({error})", "Is it writable, and whole?"
        )

    def state(self) -> dict[str, int]:
        """schema, and after the first commit: version, and for each table its committed Lance version."""
        return dict(self._database.execute("select name, value from state"))

    def find(self, write_id: str) -> int | None:
        """The graph version at which a write was applied; None where it was not."""
        row = self._database.execute("select version from writes where id = ?", (write_id,)).fetchone()
        return None if row is None else int(row[0])

    def commit(self, version: int, tables: Mapping[str, int], writes: Sequence[str] = ()) -> None:
        """Make this the committed state, on disk when it returns; raises sqlite3.Error where it cannot."""
        with self._database:
            self._database.execute("begin immediate")
            self._database.executemany(
                "insert or replace into state values (?, ?)", [("version", version), *tables.items()]
            )
            self._database.executemany(
                "insert into writes values (?, ?)", [(write, version) for write in writes]
            )

    def trim(self) -> None:
        """Forget all but the last KEPT_WRITES writes."""
        newest = "(select max(rowid) from writes)"
        self._database.execute(f"delete from writes where rowid <= {newest} - ?", (KEPT_WRITES,))  # noqa: S608

    def close(self) -> None:
        """Let the file go."""
        self._database.close()
