"""How a project is tested: read off its files, with the place where it says so."""

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import yaml

from services.engineer.clues import TestCommand, find_line, parse, read
from services.engineer.listing import JUNK
from services.engineer.project_kinds import (
    find_cargo,
    find_cmake,
    find_go,
    find_java,
    find_make,
    find_node,
)
from services.engineer.python_tests import find_loose_python, find_python_project
from shared.errors import ActionError


def find_tests(project: Path) -> TestCommand | None:
    """The command that tests ``project``: what it says itself, else what its kind of project goes by.

    Where nothing is found in the folder itself, its subfolders are tried in the order of their names. Raises
    ActionError where the project's own statement makes no sense.
    """
    for folder in (project, *_subfolders(project)):
        for detect in DETECTORS:
            if command := detect(folder):
                place = folder.relative_to(project)
                found = command.found if folder == project else f"{place}/{command.found}"
                return msgspec.structs.replace(command, found=found, folder=str(place))
    return None


def _subfolders(project: Path) -> list[Path]:
    return sorted(
        path for path in project.iterdir() if path.is_dir() and path.name not in {*JUNK, "node_modules"}
    )


def _find_hint(folder: Path) -> TestCommand | None:
    text = read(folder / "pyproject.toml")
    table = parse(text, tomllib.loads).get("tool", {})
    mailroom = table.get("mailroom", {}) if isinstance(table, dict) else {}
    if isinstance(mailroom, dict) and "test" in mailroom:
        header = find_line(text, r"^\[tool\.mailroom\]")
        within = "\n" * header + "\n".join(text.splitlines()[header:])
        line = find_line(within, r"^ *test *=") or header or find_line(text, r"mailroom")
        return _hint(mailroom["test"], f"pyproject.toml:{line}", "[tool.mailroom] test")
    text = read(folder / ".mailroom.yaml")
    hints = parse(text, yaml.safe_load)
    if "test" in hints:
        line = find_line(text, r"^test *:")
        return _hint(hints["test"], f".mailroom.yaml:{line}", "test")
    return None


def _hint(value: Any, source: str, name: str) -> TestCommand:
    if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        words = value
    elif isinstance(value, str) and value.strip():
        words = ["sh", "-c", value] if re.search(r"[|&;<>()$`*\n]", value) else _split(value, source)
    else:
        raise ActionError(f"{source}: {name} must be a command, as text or as a list of words")
    return TestCommand(runner=_tell_runner(words), argv=_as_module(words), found=f"{source} ({name})")


def _split(text: str, source: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ActionError(f"{source}: the test command {text!r} is not well formed: {error}") from None


def _tell_runner(words: list[str]) -> str:
    if words[0] in ("pytest", "py.test") or words[1:3] == ["-m", "pytest"]:
        return "pytest"
    known = {"cargo": "cargo", "go": "go", "npm": "node", "pnpm": "node", "yarn": "node", "node": "node"}
    return "unittest" if words[1:3] == ["-m", "unittest"] else known.get(words[0], "any")


def _as_module(words: list[str]) -> tuple[str, ...]:
    if words[0] in ("pytest", "py.test"):
        return ("python", "-m", "pytest", *words[1:])
    return ("python", *words[1:]) if words[0] in ("python", "python3") else tuple(words)


DETECTORS = (
    _find_hint,
    find_python_project,
    find_node,
    find_cargo,
    find_go,
    find_loose_python,
    find_make,
    find_cmake,
    find_java,
)
"""In order: a stray test_*.py in a JavaScript project must not hide that project's own tests."""
