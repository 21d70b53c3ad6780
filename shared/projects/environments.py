"""Where prepared environments are kept: found by what they were made from, removed when unused.

<cache>/<project>/downloads      what the package manager keeps of its downloads, for this project alone
    <cache>/<project>/<key>          an environment
    <cache>/<project>/<key>.json     says that it is complete; written last
    <cache>/<project>/<key>.lock     held while it is made

While an environment is made, code of the project can write in that folder and in ``downloads``, and nowhere
else. No folder is writable for two projects: package managers trust what they have unpacked before.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import platform
import shutil
import stat
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from shared.contracts import Preparation
from shared.errors import ActionError
from shared.files import hold_lock, write_atomically
from shared.sandbox import Reach, remove_tree, run_command
from shared.sandbox.jail import is_below, search_path

LIMIT = 10 << 30  # The default of the most bytes that all environments and downloads may have together
IN_USE = 3 * 3600.0
"""Seconds after its last use in which an environment is not removed: tests may be running with it."""
STALE = 7 * 86_400.0
"""Seconds after which an environment without a lock is made again: newer versions may be out."""
FORMAT = "2"  # Part of every key; another one makes all environments again


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a complete environment: the folder of the working copy it was made in, its size."""

    root: str
    size: int = 0
    made: str = ""
    interpreter: str = ""
    notes: tuple[str, ...] = ()


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """The place of one environment."""

    folder: Path

    @property
    def downloads(self) -> Path:
        """Where the package manager keeps its downloads."""
        return self.folder.parent / "downloads"

    @property
    def mark(self) -> Path:
        """The file that says the environment is complete."""
        return self.folder.with_name(f"{self.folder.name}.json")

    def read(self) -> Record | None:
        """The record of the environment, if it is complete; it counts as used now."""
        try:
            record = msgspec.json.decode(self.mark.read_bytes(), type=Record)
            os.utime(self.mark)
        except (OSError, msgspec.DecodeError):
            return None
        return record

    def reuse(self, root: Path, *, locked: bool = True) -> Record | None:
        """The record, with what was kept put into ``root``; None if that is not what was kept.

        Nor is an environment used again after STALE seconds that was not made from a lock.
        """
        record = self.read()
        if record is None:
            return None
        try:
            is_stale = not locked and time.time() - self.folder.stat().st_mtime > STALE
        except OSError:
            is_stale = True
        return record if not is_stale and restore_made(self.folder / "made", root, record.made) else None

    def begin(self) -> None:
        """Make the empty folders, whatever was left there."""
        self.discard()
        self.folder.mkdir(parents=True, mode=0o700)
        self.downloads.mkdir(exist_ok=True, mode=0o700)

    def complete(self, record: Record) -> None:
        """Say that the environment is complete."""
        os.utime(self.folder)
        write_atomically(self.mark, msgspec.json.encode(record))

    def discard(self) -> None:
        """Remove the environment."""
        self.mark.unlink(missing_ok=True)
        if self.folder.exists():
            remove_tree(self.folder)


def open_slot(cache: Path, source: Path, place: str, parts: Iterable[str | bytes]) -> Slot:
    """The place of the environment of the project in ``place`` of ``source`` that is made from ``parts``."""
    digest = hashlib.sha256(FORMAT.encode())
    for part in parts:
        data = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big") + data)
    project = hashlib.sha256(os.fsencode(source / place)).hexdigest()[:16]
    return Slot(folder=cache / project / digest.hexdigest()[:32])


def hold(slot: Slot) -> contextlib.AbstractAsyncContextManager[None]:
    """Hold the lock of ``slot``: only one process makes an environment. A process that dies releases it."""
    return hold_lock(slot.folder.with_name(f"{slot.folder.name}.lock"))


def clean(cache: Path, limit: int) -> None:
    """Remove the least recently used environments, until all have ``limit`` bytes at most.

    Those in use (IN_USE) stay. A project that has no environment left loses its downloads.
    """
    found = []
    for mark in cache.glob("*/*.json"):
        with contextlib.suppress(OSError, msgspec.DecodeError):
            record = msgspec.json.decode(mark.read_bytes(), type=Record)
            found.append((mark.stat().st_mtime, record.size, Slot(folder=mark.with_suffix(""))))
    downloads = {slot.downloads: measure(slot.downloads) for _, _, slot in found}
    total = sum(size for _, size, _ in found) + sum(downloads.values())
    for used, size, slot in sorted(found, key=lambda each: each[0]):
        if total <= limit:
            return
        # The downloads only make the next environment of the project quicker.
        total -= downloads.pop(slot.downloads, 0)
        _remove_unless_held(slot, slot.downloads)
        if total > limit and time.time() - used > IN_USE:
            _remove_unless_held(slot, slot.folder)
            total -= size


def _remove_unless_held(slot: Slot, folder: Path) -> None:
    lock = slot.folder.with_name(f"{slot.folder.name}.lock")
    with lock.open("w") as file, contextlib.suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if folder == slot.folder:
            slot.discard()
        elif folder.exists():
            remove_tree(folder)


def measure(folder: Path) -> int:
    """The bytes on the disk of everything beneath ``folder``; no link is followed."""
    size, waiting = 0, [folder]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as listing:
            for entry in listing:
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
                    else:
                        size += entry.stat(follow_symlinks=False).st_blocks * 512
    return size


# --- the files that an installation makes in a working copy -----------------------------------------

# They are hard links where the file system allows it: 20,000 files of a node_modules take half a second. A
# test can therefore change a kept file; that shows in its time or size, and the environment is made again.

LEFT_OUT = frozenset((".git", "__pycache__", ".DS_Store"))

Listing = Mapping[str, tuple[int, int, int]]
"""Relative paths, each with its kind and mode, size and time of change; folders are not listed."""


def list_files(root: Path) -> dict[str, tuple[int, int, int]]:
    """The files and links beneath ``root``; no link is followed."""
    found, waiting = {}, [""]
    while waiting:
        place = waiting.pop()
        with contextlib.suppress(OSError), os.scandir(f"{root}/{place}") as listing:
            for entry in listing:
                if entry.name in LEFT_OUT:
                    continue
                name = f"{place}/{entry.name}" if place else entry.name
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(name)
                    continue
                info = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode):
                    changed = 0 if stat.S_ISLNK(info.st_mode) else info.st_mtime_ns
                    found[name] = (info.st_mode, info.st_size, changed)
    return found


def digest(files: Listing) -> str:
    """A hash of the names, sizes and times in ``files``."""
    text = "\0".join(f"{name}\0{details}" for name, details in sorted(files.items()))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def keep_made(root: Path, before: Listing, kept: Path) -> str:
    """Keep in ``kept`` what ``root`` has beyond ``before``; returns the digest that ``restore`` takes."""
    after = list_files(root)
    made = {name: details for name, details in after.items() if before.get(name) != details}
    _link_all(root, kept, made)
    return digest(list_files(kept))


def restore_made(kept: Path, root: Path, expected: str) -> bool:
    """Put what was kept into ``root``, leaving alone what is there; False if it is not what was kept."""
    files = list_files(kept)
    if digest(files) != expected:
        return False
    # What a package manager makes is made by it alone: whatever was copied there would be mixed with it.
    parts = (name.split("/") for name in files)
    modules = {
        "/".join(each[: each.index("node_modules") + 1]) for each in parts if "node_modules" in each[:-1]
    }
    for name in modules:
        place = root / name
        if place.is_symlink():
            place.unlink()
        elif place.is_dir() and place.parent.resolve().is_relative_to(root.resolve()):
            remove_tree(place)
    _link_all(kept, root, files)
    return True


def _link_all(source: Path, target: Path, files: Listing) -> None:
    # Plain strings: with paths, 20,000 files take twice as long.
    target.mkdir(parents=True, exist_ok=True)
    above, here = f"{source}/", f"{target}/"
    made = {"": True}
    for name, (mode, _, _) in files.items():
        if not _make_folder(here, name.rpartition("/")[0], made):
            continue
        try:
            if stat.S_ISLNK(mode):
                os.symlink(os.readlink(above + name), here + name)  # noqa: PTH115, PTH211 - as it is written
            else:
                os.link(above + name, here + name, follow_symlinks=False)
        except FileExistsError:
            continue
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP):
                raise
            shutil.copy2(above + name, here + name, follow_symlinks=False)


def _make_folder(target: str, name: str, made: dict[str, bool]) -> bool:
    """Make a folder and those above it; False if one of them is a link or a file."""
    if name not in made:
        is_inside = _make_folder(target, name.rpartition("/")[0], made)
        if is_inside:
            try:
                os.mkdir(target + name)  # noqa: PTH102
            except FileExistsError:
                is_inside = stat.S_ISDIR(os.lstat(target + name).st_mode)
        made[name] = is_inside
    return made[name]


Note = Callable[[str], Awaitable[None]]


# --- what a prepared project needs to be run --------------------------------------------------------


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """How to run commands of a project: what ``run_command`` takes, beside the working copy.

    ``env`` holds variables, the PATH included; ``path`` are the folders it begins with. ``python`` is the
    interpreter, empty except for Python. If ``preparation`` has a problem, commands of the project will fail.
    """

    preparation: Preparation
    env: dict[str, str] = {}
    path: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    python: str = ""

    @property
    def folder(self) -> str:
        """The project's folder, relative to the repository."""
        return self.preparation.folder

    @property
    def ecosystem(self) -> str:
        """The project's ecosystem, as Preparation names it."""
        return self.preparation.ecosystem


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
        made_of: list[str | bytes] = [platform.machine(), sys.platform, str(self.source), self.folder]
        for name in read:
            made_of.append(name)
            if (path := self.place / name).is_file():
                with path.open("rb") as file:
                    made_of.append(hashlib.file_digest(file, "sha256").digest())
        return open_slot(self.cache, self.source, self.folder, (*made_of, *parts))


def format_path(*folders: Path) -> str:
    """The PATH for a project: ``folders``, then this machine's without that of Mailroom's own environment."""
    own = [sys.prefix] if sys.prefix != sys.base_prefix else []
    entries = search_path().split(os.pathsep)
    others = (entry for entry in entries if not is_below(os.path.normpath(entry), own))
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
    places = [repo / folder / name for name in (".venv", "venv", "env")] + [repo / ".venv", repo / "venv"]
    own = next((place for place in places if (place / "bin" / "python").exists()), None)
    found = str(own / "bin" / "python") if own else shutil.which("python3", path=format_path(*joined.path))
    if not found:
        return joined
    # What is installed there may be a link to the project itself; the tests are to import its copy.
    places = [root / folder / "src", root / folder, root]
    paths = dict.fromkeys(str(path) for path in places if path.is_dir())
    shown = [own] if own else []
    probe = "import platform as p; print(p.python_implementation(), p.python_version())"
    name = ""
    with contextlib.suppress(ActionError):
        answer = await run_command([found, "-I", "-c", probe], cwd=Path("/"), timeout=20, readable=shown)
        name = answer.output.strip() if answer.exit_code == 0 else ""
    return msgspec.structs.replace(
        joined,
        path=(*joined.path, Path(found).parent),
        env={**joined.env, "PYTHONPATH": os.pathsep.join(paths)},
        readable=(*joined.readable, *shown),
        interpreter=name,
    )
