"""Statements about a repository, cleaned so that they can be shown anywhere."""

from shared.contracts.checkup import Statement
from shared.web.quoting import clean


def cite(text: str, source: str, line: int = 0) -> Statement:
    """A statement with its source; ``line`` is 1-based, 0 for the whole of ``source``."""
    return Statement(text=clean(text), source=f"{source}:{line}" if line else source)


def format_code(text: str, limit: int = 100) -> str:
    """``text`` between backticks, without any of its own."""
    return f"`{clean(text, limit).replace('`', chr(39))}`"
