"""Long questions to the index, answered in another thread so that requests go on meanwhile."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any, Protocol, TypeVar

from services.gateway.index.store import Store

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
        with closing(sqlite3.connect(f"{store.path.as_uri()}?mode=ro", uri=True)) as db:
            return question(Reader(db))

    return await asyncio.to_thread(answer)
