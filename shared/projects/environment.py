"""What a prepared project needs to be run, the request that asks for it, and where its tests run."""

import hashlib
import os
import platform
import shutil
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from shared.contracts import Preparation
from shared.errors import ActionError
from shared.projects.environments import Slot, open_slot
from shared.sandbox import Reach, run_command
from shared.sandbox.jail import is_below, search_path

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


# --- where tests run --------------------------------------------------------------------------------


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What a test command is run with.

    ``path`` are folders of programs, first ones first; ``interpreter`` says which runs the tests, ``problem``
    why nothing was prepared for them and ``cure`` what to do then.
    """

    path: tuple[Path, ...] = ()
    env: dict[str, str] = {}
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    interpreter: str = ""
    problem: str = ""
    cure: str = ""


async def find_surroundings(
    prepared: Sequence[Environment], ecosystem: str, repo: Path, root: Path, folder: str
) -> Surroundings:
    """What the tests in ``folder`` of ``root``, the copy of the project ``repo``, run with.

    All that was prepared for a folder above them is there, the nearest and those of their own ``ecosystem``
    first. Without any for Python, an environment in the project is used, else the machine's Python.
    """
    above = [each for each in prepared if Path(folder).is_relative_to(each.folder)]
    above.sort(key=lambda each: (each.ecosystem != ecosystem, -len(Path(each.folder).parts)))
    mine = next((each for each in above if each.ecosystem == ecosystem), None)
    failed = [each.preparation for each in above if each.preparation.problem]
    broken = mine.preparation if mine and mine.preparation.problem else None
    if not ecosystem and failed and len(failed) == len(above):
        broken = failed[0]
    if broken:
        return Surroundings(problem=broken.problem, cure=broken.cure, interpreter=broken.interpreter)
    joined = Surroundings(
        path=tuple(path for each in above for path in each.path),
        env={key: value for each in reversed(above) for key, value in each.env.items()},
        readable=tuple(path for each in above for path in each.readable),
        writable=tuple(path for each in above for path in each.writable),
        interpreter=mine.preparation.interpreter if mine else "",
    )
    if mine or ecosystem not in ("python", ""):
        return joined
    return await _with_python(joined, repo, root, folder)


async def _with_python(joined: Surroundings, repo: Path, root: Path, folder: str) -> Surroundings:
    places = [repo / folder / name for name in (".venv", "venv", "env")] + [repo / ".venv", repo / "venv"]
    own = next((place for place in places if (place / "bin" / "python").exists()), None)
    found = str(own / "bin" / "python") if own else shutil.which("python3", path=format_path(*joined.path))
    if not found:
        return joined
    # What is installed there may be a link to the project itself; the tests are to import its copy.
    places = [root / folder / "src", root / folder, root]
    paths = dict.fromkeys(str(path) for path in places if path.is_dir())
    return msgspec.structs.replace(
        joined,
        path=(*joined.path, Path(found).parent),
        env={**joined.env, "PYTHONPATH": os.pathsep.join(paths)},
        readable=(*joined.readable, *([own] if own else [])),
        interpreter=await _name_python(found, own),
    )


async def _name_python(python: str, own: Path | None) -> str:
    probe = "import platform as p; print(p.python_implementation(), p.python_version())"
    try:
        answer = await run_command(
            [python, "-I", "-c", probe], cwd=Path("/"), timeout=20, readable=[own] if own else []
        )
    except ActionError:
        return ""
    return answer.output.strip() if answer.exit_code == 0 else ""
