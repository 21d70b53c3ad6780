"""The folders that a request names, each of them, and the tasks of a playbook for each."""

import contextlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from shared.contracts import GoalTask, ResultOutcome, TaskStatus
from shared.errors import ActionError
from shared.text.prose import PATH_IN_TEXT

MAX_PATH_CHARACTERS = 1_000
MAX_PATH_WORDS = 20  # How much of a text may be one path with spaces in it, in characters and in words
MAX_FOLDERS = 20  # The most folders of one request: each has tasks of its own
TRAILING = ".,;:!?*…。，、！？；："
BRACKETS = {")": "(", "]": "[", "}": "{", ">": "<"}
EXCEPT = re.compile(r"\b(?:not|except|without|excluding|ignor(?:e|ing)|other than)\W{1,4}$", re.IGNORECASE)
"""Words after which a path is not meant."""


UNNAMED = re.compile(r"[^A-Za-z0-9_-]+")  # What the name of a task cannot have


class Named(NamedTuple):
    """A folder that a request names: its path, or as it was named and why it cannot be used."""

    path: str
    problem: str = ""


def find_path(text: str) -> str:
    """The first path in ``text``, empty if there is none."""
    return next(iter(_paths(text)), "")


def find_folders(text: str) -> list[Named]:
    """Every folder that ``text`` names, once; a file counts as named only if nothing else is."""
    named: dict[str, Named] = {}
    for path in _paths(text):
        try:
            folder = require_folder(path)
            named.setdefault(folder, Named(folder))
        except ActionError as error:
            named.setdefault(path, Named(path, str(error)))
    found = list(named.values())[:MAX_FOLDERS]
    folders = [each for each in found if not each.problem]
    return [each for each in found if not (folders and each.problem and _is_file(each.path))]


def _is_file(path: str) -> bool:
    with contextlib.suppress(OSError, RuntimeError, ValueError):
        return Path(path).expanduser().is_file()
    return False


def _paths(text: str) -> Iterable[str]:
    position = 0
    while found := PATH_IN_TEXT.search(text, position):
        start = found.start("bare") if found["bare"] else found.start()
        path = found["quoted"] or _longest_folder(text[start:]) or trim(found["bare"])
        position = found.end() if found["quoted"] else max(start + len(path), start + 1)
        if not EXCEPT.search(text[: found.start()]):
            yield path


def _longest_folder(text: str) -> str:
    """The longest path of a folder that ``text`` begins with, spaces included; empty for none."""
    words = re.split(r"(\s+)", text[:MAX_PATH_CHARACTERS], maxsplit=2 * MAX_PATH_WORDS)
    for count in range(len(words), 0, -2):
        path = trim("".join(words[:count]))
        with contextlib.suppress(OSError, RuntimeError, ValueError):
            if Path(path).expanduser().is_dir():
                return path
    return ""


def trim(found: str) -> str:
    """``found`` without the punctuation that ends the sentence; brackets that it opened itself stay."""
    while found and (
        found[-1] in TRAILING
        or (found[-1] in BRACKETS and found.count(found[-1]) > found.count(BRACKETS[found[-1]]))
    ):
        found = found[:-1]
    return found


def require_folder(value: str) -> str:
    """The folder, resolved; raises ActionError with the reason and the cure if it cannot be used."""
    try:
        path = Path(value).expanduser()
        if not path.is_absolute():
            raise ActionError(f"{value[:200]!r} is not an absolute path", "Give the whole path, from /")
        if not path.is_dir():
            raise ActionError(
                f"There is no folder {value[:200]}", "Correct the path; in containers it must be mounted"
            )
        return str(path.resolve())
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error).rstrip(".")
        raise ActionError(f"The folder {value[:200]} cannot be opened: {reason}") from None


def name_folders(folders: Iterable[Named]) -> dict[str, Named]:
    """The folders by names that tasks can have: the last part of the path, with a number if it is taken."""
    names: dict[str, Named] = {}
    for folder in folders:
        own = UNNAMED.sub("-", Path(folder.path).name).strip("-")[:40] or "folder"
        name, number = own, 2
        while name in names:
            name, number = f"{own}-{number}", number + 1
        names[name] = folder
    return names


def for_folder(tasks: Iterable[GoalTask], goal_id: str, name: str) -> list[GoalTask]:
    """``tasks`` with names and ids of their own for the folder ``name``."""
    return [
        msgspec.structs.replace(
            task,
            name=f"{task.name}-{name}",
            task_id=f"{goal_id}-{task.name}-{name}-1",
            depends_on=tuple(f"{needed}-{name}" for needed in task.depends_on),
        )
        for task in tasks
    ]


def refuse_tasks(tasks: Iterable[GoalTask], reason: str, now: str) -> list[GoalTask]:
    """``tasks`` that ended before they began, for ``reason``."""
    return [
        msgspec.structs.replace(
            task, status=TaskStatus.FAILED, outcome=ResultOutcome.FAILED, ended_at=now, summary=reason[:200]
        )
        for task in tasks
    ]


def listed(value: Any) -> list[str]:
    """The folders that a value of the context names: one, or a list."""
    return [str(each) for each in value] if isinstance(value, list | tuple) else [str(value)] if value else []
