"""Long questions to the index, answered in another thread so that requests go on meanwhile."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any, Protocol, TypeVar

from services.gateway.index.rows import MessageRow, Position
from services.gateway.index.store import Filter, Store, open_reading
from services.gateway.problems import Failure

LONGEST = 5.0
"""Seconds after which a search is given up: among millions of messages few words may need that long."""

T = TypeVar("T")


class Tables(Protocol):
    """What answers questions to the tables of the index."""

    @property
    def count(self) -> int:
        """How many messages are indexed."""

    def query(self, sql: str, values: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows that answer a question."""


class Reader:
    """A connection of its own to the database of a Store, which reads and never writes."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    @property
    def count(self) -> int:
        """How many messages are indexed."""
        (number,) = self._db.execute("SELECT coalesce(max(number), 0) FROM messages").fetchone()
        return int(number)

    def query(self, sql: str, values: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows that answer a question."""
        return self._db.execute(sql, list(values)).fetchall()


async def ask(store: Store, question: Callable[[Tables], T]) -> T:
    """What ``question`` makes of the tables as they are now."""

    def answer() -> T:
        with closing(open_reading(store.path)) as db:
            return question(Reader(db))

    return await asyncio.to_thread(answer)


async def find_messages(
    store: Store,
    wanted: Filter,
    *,
    after: Position | None = None,
    before: Position | None = None,
    limit: int = 100,
) -> list[MessageRow]:
    """As Store.messages; a search that may look at many messages is made in another thread.

    Raises Failure (503) after LONGEST.
    """
    if not (wanted.text or wanted.subject):
        return store.messages(wanted, after=after, before=before, limit=limit)

    def find() -> list[MessageRow]:
        with closing(Store(store.path, read_only=True)) as own:
            own.limit(LONGEST)
            return own.messages(wanted, after=after, before=before, limit=limit)

    try:
        return await asyncio.to_thread(find)
    except sqlite3.OperationalError as error:
        raise Failure(503, f"The search was given up: {error}", "Give more words, or an agent") from None
