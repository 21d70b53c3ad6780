"""What ``${name...}`` makes of a value."""

import re
from collections.abc import Sequence
from fnmatch import translate

UNKNOWN = "\0"
"""Stands in a text for what only running it would tell."""

_DEFAULTS = {":-", "-", ":=", "="}
_NO_CHANGE = {"", ":?", "?"}
LONGEST_VALUE = 512
"""Signs of a value that is still cut and matched; beyond that it counts as unknown."""


def expand(value: str, operator: str, arguments: Sequence[str], is_set: bool) -> tuple[str, bool]:
    """The text, and whether it is hidden on purpose: cut out of what the command itself does not set."""
    if operator in _NO_CHANGE:
        return value, False
    if operator in _DEFAULTS:
        return (value, False) if UNKNOWN not in value else ("".join(arguments) or UNKNOWN, False)
    if operator in {":+", "+"}:
        return "".join(arguments), False
    if UNKNOWN in value or any(UNKNOWN in argument for argument in arguments) or len(value) > LONGEST_VALUE:
        return UNKNOWN, not is_set and operator == ":"
    if operator == ":":
        return (_cut(value, arguments), False) if is_set else (UNKNOWN, True)
    if operator in {"#", "##", "%", "%%"}:
        return _strip(value, operator, "".join(arguments)), False
    if operator in {"^^", "^", ",,", ","}:
        return (value.upper() if operator == "^^" else value.lower() if operator == ",," else UNKNOWN), False
    return UNKNOWN, operator == "@"


def _cut(value: str, arguments: Sequence[str]) -> str:
    try:
        start, length = int(arguments[0]), int(arguments[1]) if len(arguments) > 1 else None
    except (ValueError, IndexError):
        return UNKNOWN
    return value[start:] if length is None else value[start:][:length]


def _strip(value: str, operator: str, pattern: str) -> str:
    """Without the part at one end that ``pattern`` covers; a wildcard stays in its folder."""
    if "*" in value and operator == "##" and pattern == "*/":
        return "*"
    matches = re.compile(translate(pattern)).match
    front = operator.startswith("#")
    lengths = range(len(value) + 1) if len(operator) == 1 else range(len(value), -1, -1)
    for length in lengths:
        part = value[:length] if front else value[len(value) - length :]
        if matches(part):
            return value[length:] if front else value[: len(value) - length]
    return value
