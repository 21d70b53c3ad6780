"""Working copies: a task works on a copy of a repository, never on the repository."""

import asyncio
import contextlib
import os
import shutil
import stat
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path, PurePath

import msgspec

from services.engineer.listing import list_files
from shared.errors import ActionError
from shared.sandbox import remove_tree, run_command
from shared.sandbox.beneath import Beneath
from shared.skills.git import BASE
from shared.skills.repository import AUTHOR, ENVIRONMENT, find_repository

MAX_BYTES = 2 << 30
MAX_FILES = 200_000
COPIES = ".copies"
"""What the name of a folder of copies ends with: no goal's name, so no workspace's, has a dot in it."""
NOT_OWN = (":(exclude,glob)node_modules/**", ":(exclude,glob)**/node_modules/**")
"""Pathspecs of what is installed beneath a project."""
STALE = 86_400.0
"""Seconds after which a copy that was kept, or left by a crash, is removed: longer than a task lasts."""


class Workspace(msgspec.Struct, frozen=True, kw_only=True):
    """A working copy: ``root`` is the copy, ``results`` a folder beside it, ``skipped`` what it lacks."""

    root: Path
    results: Path
    files: int
    size: int
    skipped: tuple[str, ...] = ()


def require_folder(path: str) -> Path:
    """``path`` as an absolute existing folder; raises ActionError with the cure where it is none."""
    folder = Path(path)
    if not folder.is_absolute():
        raise ActionError(f"{path!r} is not an absolute path", "Give the whole path of the folder, from / on")
    if not folder.is_dir():
        cause = f"{path} is a file" if folder.exists() else f"The folder {path} does not exist"
        raise ActionError(cause, "Give the path of an existing folder on the machine the engineer runs on")
    if not os.access(folder, os.R_OK | os.X_OK):
        raise ActionError(
            f"The folder {path} cannot be read", "Give the engineer's user the right to read it"
        )
    return folder.resolve()


@contextlib.asynccontextmanager
async def working_copy(
    repo: Path,
    place: Path,
    *,
    keep: bool = False,
    max_bytes: int = MAX_BYTES,
    max_files: int = MAX_FILES,
    apart: Path | None = None,
    history: bool = False,
) -> AsyncIterator[Workspace]:
    """A copy of ``repo`` beneath ``place`` (the folder of one attempt), removed at the end unless ``keep``.

    It holds the files as they are in the work tree, uncommitted changes included, and where ``repo`` is in
    git, or ``history`` is wanted, a history of one commit. Links that lead outside and what is neither file
    nor link are left out and listed; what lies in ``apart`` (default ``place``) is left out. Raises
    ActionError where ``repo`` has more than ``max_bytes`` (default 2 GiB) or ``max_files``.
    """
    place = (await asyncio.to_thread(_make_place, place)).resolve()
    try:
        root, results = place / "copy" / (repo.name or "root"), place / "results"
        copier = _Copier(repo, root, apart or place, max_bytes, max_files)
        await copier.run(await list_files(repo))
        results.mkdir()
        if history or find_repository(repo):
            await _commit(root)
        yield Workspace(
            root=root, results=results, files=copier.files, size=copier.size, skipped=tuple(copier.skipped)
        )
    finally:
        if not keep:
            await asyncio.to_thread(_remove_place, place)


def clean_copies(workspaces: Path, older_than: float = STALE) -> int:
    """Remove the copies that are older than ``older_than`` seconds; returns how many there were."""
    removed = 0
    for place in list(workspaces.glob(f"*{COPIES}/*")):
        with contextlib.suppress(FileNotFoundError):  # another engineer may be at the same
            if time.time() - place.lstat().st_mtime > older_than:
                _remove_place(place)
                removed += 1
    return removed


def _make_place(wanted: Path) -> Path:
    wanted.parent.mkdir(parents=True, exist_ok=True)
    for number in range(1, 1000):
        place = wanted if number == 1 else wanted.with_name(f"{wanted.name}-{number}")
        with contextlib.suppress(FileExistsError):
            place.mkdir(mode=0o700)
            return place
    raise ActionError(f"{wanted} holds too many working copies", f"Remove the folder {wanted.parent}")


def _remove_place(place: Path) -> None:
    remove_tree(place)
    with contextlib.suppress(OSError):
        place.parent.rmdir()


async def _commit(root: Path) -> None:
    """Give the copy a history of its own.

    A clone would read the repository's configuration and its promisor remotes, and borrowed objects get their
    times touched by ``git add``; a commit of what was copied takes nothing from the repository. Without one
    (git is missing, or refuses a file) the tests can still run, so a failure is left alone.
    """
    await _git(root, "init", "--quiet", "--template=")
    await asyncio.to_thread(_keep_line_ends, root)
    await _git(root, "-c", "core.compression=0", "add", "--all")
    # What is ignored and here all the same is tracked there, but for what was installed.
    await _git(root, "-c", "core.compression=0", "add", "--force", "--", ".", *NOT_OWN)
    await _git(root, "commit", "--quiet", "--no-verify", "--allow-empty", "--message", "Working copy")
    await _git(root, "update-ref", BASE, "HEAD")


async def _git(root: Path, *arguments: str) -> None:
    git = ["git", "-c", "core.hooksPath=/dev/null", *arguments]
    with contextlib.suppress(ActionError):
        await run_command(git, cwd=root, timeout=120, writable=[root], env={**ENVIRONMENT, **AUTHOR})


def _keep_line_ends(root: Path) -> None:
    """Have git take line ends as they are: else a patch tells of others than the work tree has."""
    with contextlib.suppress(OSError):
        (root / ".git" / "info").mkdir()
        (root / ".git" / "info" / "attributes").write_text("* -text\n")


class _TooMuch(ActionError):
    """There is more than a working copy may have."""


class _Copier:
    """Copies files below ``source`` to below ``target``, leaving out what leads outside."""

    def __init__(self, source: Path, target: Path, apart: Path, max_bytes: int, max_files: int) -> None:
        self.source = source
        self.target = target
        self.apart = apart
        self.max_bytes = max_bytes
        self.max_files = max_files
        self.files = 0
        self.size = 0
        self.skipped: list[str] = []
        self.stopped = False

    async def run(self, names: Iterable[str]) -> None:
        """Copy ``names`` in a thread, which has ended when this has, also when it is cancelled."""
        copying = asyncio.ensure_future(asyncio.to_thread(self._copy_all, names))
        try:
            await asyncio.shield(copying)
        except asyncio.CancelledError:
            self.stopped = True
            await asyncio.wait({copying})
            raise

    def _copy_all(self, names: Iterable[str]) -> None:
        self.target.mkdir(parents=True)
        with Beneath(self.source) as beneath:
            for name in names:
                if self.stopped:
                    return
                try:
                    self._copy(beneath, PurePath(name))
                except _TooMuch:
                    raise
                except (OSError, ActionError) as error:
                    reason = error.strerror if isinstance(error, OSError) else str(error)
                    self.skipped.append(f"{name} ({reason})")

    def _copy(self, beneath: Beneath, name: PurePath) -> None:
        if not self._is_inside(name):
            self.skipped.append(f"{name} (leads outside the folder)")
            return
        info = beneath.stat(str(name))
        if info is None or os.path.lexists(self.target / name):
            return  # tracked, but deleted in the work tree; or listed twice, as what is installed and tracked
        if stat.S_ISLNK(info.st_mode):
            self._copy_link(beneath, name)
        elif stat.S_ISREG(info.st_mode):
            self._copy_file(beneath, name)
        elif not stat.S_ISDIR(info.st_mode):
            self.skipped.append(f"{name} (neither a file nor a link)")

    def _is_inside(self, name: PurePath) -> bool:
        """Whether ``name`` reads as a path below the source: an index can claim anything."""
        proper = not name.is_absolute() and all(p != ".." and p.lower() != ".git" for p in name.parts)
        return proper and not (self.source / name).is_relative_to(self.apart)

    def _copy_file(self, beneath: Beneath, name: PurePath) -> None:
        target = self.target / name
        with beneath.reading(str(name)) as file:
            info = os.fstat(file.fileno())
            self._count(info.st_size)
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as copy:
                shutil.copyfileobj(file, copy, 1 << 20)
        target.chmod(stat.S_IMODE(info.st_mode) & 0o777 | stat.S_IRUSR | stat.S_IWUSR)
        os.utime(target, ns=(info.st_atime_ns, info.st_mtime_ns))

    def _copy_link(self, beneath: Beneath, name: PurePath) -> None:
        source, target = self.source / name, self.target / name
        with beneath.folder(str(name.parent)) as folder:
            text = os.readlink(name.name, dir_fd=folder)
        end = Path(os.path.realpath(source.parent / text))
        if not end.is_relative_to(self.source):
            self.skipped.append(f"{name} (a link that leads outside the folder)")
            return
        self._count(0)
        if os.path.normpath(name.parent / text).startswith(("..", "/")):
            text = os.path.relpath(
                end, source.parent
            )  # it leaves and comes back, which the copy's place would not
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(text)

    def _count(self, size: int) -> None:
        self.files += 1
        self.size += size
        if self.files > self.max_files or self.size > self.max_bytes:
            limit = f"{self.max_files:,} files or {self.max_bytes / (1 << 30):.1f} GiB"
            raise _TooMuch(
                f"{self.source} holds more than the {limit} a working copy may have",
                "Name a smaller folder, or have .gitignore leave out what the tests do not need",
            )
