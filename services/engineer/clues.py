"""What the files of a project tell of its tests, and how they are looked at."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import yaml

READABLE = 500_000
"""The most characters of a file that are looked at."""


class TestCommand(msgspec.Struct, frozen=True, kw_only=True):
    """How to run a project's tests.

    ``runner`` says how to read what they print, ``found`` where that was found (``package.json:7 (...)``),
    ``folder`` where to run it, relative to the project. A leading ``python`` stands for the interpreter.
    """

    __test__ = False

    runner: str
    argv: tuple[str, ...]
    found: str
    folder: str = "."


def read(path: Path) -> str:
    """The start of a text file, empty where there is none."""
    if not path.is_file():
        return ""
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(READABLE)


def find_line(text: str, pattern: str) -> int:
    """The 1-based line on which ``pattern`` first matches, 0 for none."""
    match = re.search(pattern, text, re.MULTILINE)
    return text.count("\n", 0, match.start()) + 1 if match else 0


def parse(text: str, parse: Callable[[str], Any]) -> dict[str, Any]:
    """The mapping that ``text`` is, empty where it is none or not well formed."""
    try:
        values = parse(text)
    except (ValueError, yaml.YAMLError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}
