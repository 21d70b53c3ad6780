"""What the index holds of the course of a goal: its pieces, and who sent what to whom."""

from collections.abc import Sequence

import msgspec

from services.gateway.index.rows import MessageRow
from services.gateway.index.store import Store
from shared.queries.pieces import Piece

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
