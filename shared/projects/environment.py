"""What a prepared project needs to be run, and the request that asks for it."""

import hashlib
import os
import platform
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from shared.contracts import Preparation
from shared.projects.store import Slot, open_slot
from shared.sandbox import Reach
from shared.sandbox.visible_files import is_below, search_path

Note = Callable[[str], Awaitable[None]]


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """How to run commands of the project in ``folder``: what ``run_command`` takes, beside the working copy.

    ``env`` holds variables, the PATH included; ``path`` are the folders it begins with. ``python`` is the
    interpreter, empty except for Python. If ``preparation`` has a problem, commands of the project will fail.
    """

    preparation: Preparation
    folder: str
    ecosystem: str
    env: dict[str, str] = {}
    path: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    python: str = ""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One project to be prepared: in ``folder`` of the working copy ``root`` of ``source``.

    ``deadline`` is by the monotonic clock; what the steps print goes to ``log``. ``reach`` is what the steps
    may reach beside the registries.
    """

    root: Path
    source: Path
    folder: str
    cache: Path
    note: Note
    deadline: float
    log: Path
    reach: Reach = Reach()

    @property
    def place(self) -> Path:
        """The project's folder in the working copy."""
        return self.root / self.folder

    @property
    def origin(self) -> Path:
        """The project's folder in the person's own."""
        return self.source / self.folder

    def remaining(self) -> float:
        """Seconds until the deadline, at least 1."""
        return max(1.0, self.deadline - time.monotonic())

    def slot(self, read: Iterable[str], parts: Iterable[str | bytes]) -> Slot:
        """The place of the environment made from the files ``read`` and ``parts`` on this kind of machine."""
        machine = (platform.machine(), sys.platform, str(self.source), self.folder)
        return open_slot(self.cache, self.source, self.folder, (*machine, *self._hash(read), *parts))

    def _hash(self, names: Iterable[str]) -> Iterator[str | bytes]:
        for name in names:
            path = self.place / name
            yield name
            if path.is_file():
                with path.open("rb") as file:
                    yield hashlib.file_digest(file, "sha256").digest()


def format_path(*folders: Path) -> str:
    """The PATH for a project: ``folders``, then this machine's without that of Mailroom's own environment."""
    own = [sys.prefix] if sys.prefix != sys.base_prefix else []
    others = [
        entry for entry in search_path().split(os.pathsep) if not is_below(os.path.normpath(entry), own)
    ]
    return os.pathsep.join([*map(str, folders), *others])
