"""Questions to the index: long ones in another thread, and those about the course of a goal."""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TypeVar

import msgspec

from services.gateway.index.rows import Position
from services.gateway.index.store import Filter, Store
from services.gateway.problems import Failure
from shared.queries.pieces import Piece
from shared.views.timeline import MessageRow

LONGEST = 5.0
"""Seconds after which a search is given up: among millions of messages few words may need that long."""

T = TypeVar("T")


async def ask(store: Store, question: Callable[[Store], T]) -> T:
    """What ``question`` makes of the tables as they are now."""

    def answer() -> T:
        with closing(store.again()) as own:
            return question(own)

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
        with closing(store.again()) as own:
            own.limit(LONGEST)
            return own.messages(wanted, after=after, before=before, limit=limit)

    try:
        return await asyncio.to_thread(find)
    except sqlite3.OperationalError as error:
        raise Failure(503, f"The search was given up: {error}", "Give more words, or an agent") from None


MAX_PIECES = 20_000  # The most pieces of one goal that are read

_read_piece = msgspec.json.Decoder(Piece)


def read_pieces(store: Store, goal_id: str) -> tuple[list[Piece], int]:
    """The pieces of which a goal's course consists, in order, and the number of the last one (0: none)."""
    # The index is of pieces with a goal, which the condition has to say.
    sql = "SELECT number, piece FROM pieces WHERE goal_id = ? AND goal_id != '' ORDER BY number LIMIT ?"
    rows = store.query(sql, [goal_id, MAX_PIECES])
    return [_read_piece.decode(piece) for _, piece in rows], rows[-1][0] if rows else 0


def read_sent(store: Store, goal_id: str, types: Sequence[str], limit: int) -> tuple[list[MessageRow], int]:
    """A goal's first messages of these types that have a recipient, and how many there are."""
    marks = ", ".join("?" * len(types))
    # The plus keeps it from looking through all messages of these types.
    where = f"goal_id = ? AND goal_id != '' AND recipient != '' AND +type IN ({marks})"
    rows = store.rows(where, [goal_id, *types], limit)
    if len(rows) < limit:
        return rows, len(rows)
    return rows, int(store.query(f"SELECT count(*) FROM messages WHERE {where}", [goal_id, *types])[0][0])
