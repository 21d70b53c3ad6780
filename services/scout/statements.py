"""Statements about a repository, cleaned so that they can be shown anywhere."""

from shared.contracts.checkup import Statement
from shared.web.quoting import clean


def cite(text: str, source: str, line: int = 0) -> Statement:
    """A statement with its source; ``line`` is 1-based, 0 for the whole of ``source``."""
    return Statement(text=clean(text), source=f"{source}:{line}" if line else source)


def format_code(text: str, limit: int = 100) -> str:
    """``text`` between backticks, without any of its own."""
    return f"`{clean(text, limit).replace('`', chr(39))}`"


def format_count(number: int, noun: str, plural: str = "") -> str:
    """``1 file``, ``2 files``, ``1,000 files``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def format_list(names: list[str] | tuple[str, ...], limit: int = 5) -> str:
    """``a, b and c``, or the first of them ``and 4 more``."""
    shown, more = list(names[:limit]), len(names) - limit
    if more > 0:
        return f"{', '.join(shown)} and {more:,} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
