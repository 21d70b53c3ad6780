"""Small phrases in English."""


def count(number: int, noun: str, plural: str = "") -> str:
    """``1 goal``, ``2 goals``; ``plural`` is given if an ``s`` does not make it."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
