"""A project's small text files: their start, the lines things stand on, and the values they hold."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shared.source.syntax import parse_json, parse_toml

READABLE = 500_000
"""The most characters of a file that are read."""


def read_start(path: Path) -> str:
    """The start of a text file, empty if there is none."""
    try:
        if not path.is_file():
            return ""
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(READABLE)
    except OSError:
        return ""


def find_line(text: str, pattern: str) -> int:
    """The 1-based line on which ``pattern`` first matches, 0 for none."""
    match = re.search(pattern, text, re.MULTILINE)
    return text.count("\n", 0, match.start()) + 1 if match else 0


def parse_mapping(text: str, parse: Callable[[str], Any], *keys: str) -> dict[str, Any]:
    """The mapping at ``keys`` within ``text``, empty if it is something else or malformed."""
    try:
        values = parse(text)
    except ValueError:
        return {}
    for key in keys:
        values = values.get(key) if isinstance(values, dict) else None
    return values if isinstance(values, dict) else {}


def read_toml(path: Path, *keys: str) -> dict[str, Any]:
    """The table at ``keys`` of a TOML file, empty if there is none."""
    return parse_mapping(read_start(path), parse_toml, *keys)


def read_json(path: Path, *keys: str) -> dict[str, Any]:
    """The object at ``keys`` of a JSON file, empty if there is none."""
    return parse_mapping(read_start(path), parse_json, *keys)


def texts(values: dict[str, Any]) -> dict[str, str]:
    """Those of ``values`` that are texts."""
    return {key: value for key, value in values.items() if isinstance(value, str)}
