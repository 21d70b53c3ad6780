"""What ``${name...}`` makes of a value."""

import re
from collections.abc import Sequence
from fnmatch import translate

UNKNOWN = "\0"
"""Stands in a text for what only running it would tell."""

_DEFAULTS = {":-", "-", ":=", "="}
_REPLACES = {"/", "//", "/#", "/%"}
_NO_CHANGE = {"", ":?", "?"}
LONGEST_VALUE = 512
"""Signs of a value that is still cut and matched; beyond that it counts as unknown."""


def expand(value: str, operator: str, arguments: Sequence[str], is_set: bool) -> tuple[str, bool]:
    """The text, and whether it is hidden on purpose: cut out of what the command itself does not set."""
    if operator in _NO_CHANGE:
        return value, False
    if operator in _DEFAULTS:
        if UNKNOWN in value or (not value and operator.startswith(":")):
            return "".join(arguments) or value, False
        return value, False
    if operator in {":+", "+"}:
        return "".join(arguments), False
    if UNKNOWN in value or any(UNKNOWN in argument for argument in arguments) or len(value) > LONGEST_VALUE:
        return UNKNOWN, not is_set and operator == ":"
    if operator == ":":
        return (_cut(value, arguments), False) if is_set else (UNKNOWN, True)
    if operator in {"#", "##", "%", "%%"}:
        return _strip(value, operator, "".join(arguments)), False
    if operator in _REPLACES:
        return _replace(value, operator, *(*arguments, "", "")[:2]), False
    if operator in {"^^", "^", ",,", ","}:
        return (value.upper() if operator == "^^" else value.lower() if operator == ",," else UNKNOWN), False
    return UNKNOWN, operator == "@"


def _cut(value: str, arguments: Sequence[str]) -> str:
    try:
        start, length = int(arguments[0]), int(arguments[1]) if len(arguments) > 1 else None
    except (ValueError, IndexError):
        return UNKNOWN
    return value[start:] if length is None else value[start:][:length]


def _replace(value: str, operator: str, pattern: str, new: str) -> str:
    """With other text in the place of ``pattern``; a file of a folder stays a file of it."""
    if any(sign in value for sign in "*?["):
        folder, slash, _ = value.rpartition("/")
        return f"{folder}{slash}*" if "/" not in new and not value.startswith("/") else UNKNOWN
    if any(sign in pattern for sign in "*?[\\"):
        return UNKNOWN
    if operator == "/#":
        return new + value.removeprefix(pattern) if value.startswith(pattern) else value
    if operator == "/%":
        return value.removesuffix(pattern) + new if value.endswith(pattern) else value
    return value.replace(pattern, new, 1 if operator == "/" else -1) if pattern else value


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
