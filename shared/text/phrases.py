"""Small phrases in English."""

from collections.abc import Sequence


def count(number: int, noun: str, plural: str = "") -> str:
    """``1 goal``, ``2 goals``; ``plural`` is given if an ``s`` does not make it."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def format_list(names: Sequence[str], limit: int = 5) -> str:
    """``a, b and c``, or the first of them ``and 4 more``."""
    shown, more = list(names[:limit]), len(names) - limit
    if more > 0:
        return f"{', '.join(shown)} and {more:,} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
