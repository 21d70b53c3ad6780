"""Braces: ``{a,b}`` and ``{1..9}`` become several words."""

import re
from collections.abc import Iterator
from itertools import pairwise

MOST_WORDS = 64
"""Words one pair of braces may become before the rest is left out."""
LONGEST_RANGE = 100_000
"""Words of a range beyond which making them is a burden in itself."""
LONGEST_TEXT = 1_024
"""Signs of a word with braces that is still expanded."""
_RANGE = re.compile(r"\{(-?\w+)\.\.(-?\w+)(\.\.-?\d+)?\}")


def expand_braces(raw: str, room: int = MOST_WORDS) -> Iterator[str]:
    """At most ``room`` of the words that ``raw`` stands for; of a long range its ends."""
    found = _outer(raw) if len(raw) <= LONGEST_TEXT else None
    if found is None or room <= 0:
        yield raw
        return
    start, end, commas = found
    choices = _choices(raw, start, end, commas)
    if choices is None:
        for rest in expand_braces(raw[start + 1 :], room):
            yield raw[: start + 1] + rest
        return
    for choice in choices[:room]:
        yield from expand_braces(raw[:start] + choice + raw[end + 1 :], room // len(choices))


def _choices(raw: str, start: int, end: int, commas: list[int]) -> list[str] | None:
    if commas:
        return [raw[before + 1 : after] for before, after in pairwise([start, *commas, end])]
    match = _RANGE.fullmatch(raw, start, end + 1)
    return _range(match[1], match[2]) if match else None


def _range(first: str, last: str) -> list[str]:
    """All letters of a range, or as many numbers as there is room for, its ends among them."""
    if len(first) == len(last) == 1 and not (first + last).isdigit():
        low, high = sorted((ord(first), ord(last)))
        return [chr(code) for code in range(low, high + 1)]
    if _count(first, last) >= MOST_WORDS or not (first + last).replace("-", "").isdigit():
        return [first, last]
    low, high = sorted((int(first), int(last)))
    return [str(number) for number in range(low, high + 1)]


def is_long(raw: str) -> bool:
    """Whether ``raw`` is too long to be expanded, or has a range of very many words."""
    return len(raw) > LONGEST_TEXT or any(
        _count(match[1], match[2]) > LONGEST_RANGE for match in _RANGE.finditer(raw)
    )


def _count(first: str, last: str) -> int:
    try:
        return abs(int(first) - int(last))
    except ValueError:
        return 0


def _outer(raw: str) -> tuple[int, int, list[int]] | None:
    """The first pair of braces that closes, and its commas."""
    start = raw.find("{")
    while start >= 0:
        depth = 0
        commas: list[int] = []
        for position in range(start, len(raw)):
            sign = raw[position]
            if sign == "{":
                depth += 1
            elif sign == "}":
                depth -= 1
                if not depth:
                    return start, position, commas
            elif sign == "," and depth == 1:
                commas.append(position)
        start = raw.find("{", start + 1)
    return None
