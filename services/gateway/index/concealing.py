"""The tables of the index without what is one person's alone, as another one sees them."""

import sqlite3

from shared.contracts import NAME

_OF_MESSAGES = ("letters", "goals", "pieces")  # Tables whose rows have the number of a message
_OF_DELIVERIES = ("deliveries", "replies")


def conceal(db: sqlite3.Connection, reader: str) -> None:
    """Have a connection show ``reader``, a name, what is the team's and its own, whatever is asked.

    Views of its own stand before the tables, so that no question can forget it.
    """
    if not NAME.fullmatch(reader):
        raise ValueError(f"{reader!r} is no name")
    seen = f"IN ('', '{reader}')"
    db.execute(f"CREATE TEMP VIEW messages AS SELECT * FROM main.messages WHERE audience {seen}")
    for table in _OF_MESSAGES:
        db.execute(
            f"CREATE TEMP VIEW {table} AS SELECT * FROM main.{table} AS one WHERE EXISTS "
            f"(SELECT 1 FROM main.messages AS m WHERE m.number = one.number AND m.audience {seen})"
        )
    for table in _OF_DELIVERIES:
        db.execute(
            f"CREATE TEMP VIEW {table} AS SELECT * FROM main.{table} WHERE "
            f"coalesce(json_extract(CAST(body AS TEXT), '$.audience'), '') {seen}"
        )
