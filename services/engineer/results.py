"""What a test run comes to: counts and failing tests."""

import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from shared.contracts import TestFailure

MAX_FAILURES = 100
MAX_MESSAGE = 500


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """How many tests there were of each kind; ``at`` is where a stopped run was, if it says so."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    errors: int = 0
    failures: tuple[TestFailure, ...] = ()
    at: str = ""


def failure(test: str, message: str, source: str) -> TestFailure:
    """A TestFailure with its message on one line of at most MAX_MESSAGE characters."""
    text = " ".join(message.split())
    text = text if len(text) <= MAX_MESSAGE else f"{text[: MAX_MESSAGE - 1]}…"
    return TestFailure(test=test, message=text, source=source or test)


def distinct(failures: Iterable[TestFailure]) -> tuple[TestFailure, ...]:
    """The first MAX_FAILURES failures, those of one test once."""
    return tuple({(each.test, each.source): each for each in failures}.values())[:MAX_FAILURES]


def place(file: str, line: str | int, root: Path) -> str:
    """``file:line`` relative to ``root``; empty for a file outside of it or among the installed packages."""
    path = Path(file.removeprefix("file://"))
    if path.is_absolute():
        if not path.is_relative_to(root):
            return ""
        path = path.relative_to(root)
    if path.parts[:1] == ("..",) or {"node_modules", "site-packages"} & set(path.parts):
        return ""
    return f"{path}:{line}"


def count(pattern: str, text: str) -> dict[str, int]:
    """The numbers before words, such as ``2 passed, 1 failed``, by word."""
    return {word: int(number) for number, word in re.findall(pattern, text)}
