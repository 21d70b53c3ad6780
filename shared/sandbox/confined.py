"""Files beneath one folder, and nowhere else: no ``..`` and no link, even if one is swapped in meanwhile."""

import contextlib
import errno
import io
import os
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import BinaryIO, Self

from shared.errors import ActionError
from shared.jailer.syscalls import has_openat2, openat2, sync_disk


class ConfinedFolder:
    """A folder held open, and what lies beneath it; paths are relative to it, with ``/``.

    Every method raises ActionError if a path leaves the folder, passes through a link or does not exist, also
    if a link is swapped in meanwhile: paths are resolved by openat2 (RESOLVE_BENEATH, no links). ``portable``
    resolves them one part after the other, as is done if the kernel has no openat2.
    """

    def __init__(self, root: Path, *, portable: bool = False) -> None:
        self.root = root
        self._portable = portable or not has_openat2()
        try:
            self.fd = os.open(root, FOLDER)
        except OSError as error:
            raise ActionError(f"The folder {root} cannot be opened: {error.strerror}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.fd)

    def relative(self, path: str) -> str:
        """``path`` as it stands beneath the folder, ``.`` for itself; an absolute one may lead into it."""
        if "\0" in path or not _is_encodable(path):
            raise ActionError(f"{path[:80]!r} is not the name of a file")
        pure = PurePosixPath(path or ".")
        if pure.is_absolute():
            if not pure.is_relative_to(self.root):
                raise outside_error(path)
            pure = pure.relative_to(self.root)
        if ".." in pure.parts:
            raise outside_error(path)
        return str(pure)

    def open(self, path: str, flags: int, mode: int = 0o600) -> int:
        """A file descriptor of ``path``, whose last part is no link either; raises ActionError."""
        name = self.relative(path)
        flags |= os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
        try:
            if self._portable:
                *folders, last = PurePosixPath(name).parts or (".",)
                at = self._descend(folders)
                try:
                    return os.open(last, flags, mode, dir_fd=at)
                finally:
                    os.close(at)
            return openat2(self.fd, name, flags, mode)
        except OSError as error:
            raise to_action_error(name, error) from None

    def _descend(self, folders: Iterable[str], *, make: bool = False) -> int:
        """A descriptor of the last of nested ``folders``, none of them a link; raises OSError."""
        at = os.dup(self.fd)
        try:
            for folder in folders:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(folder, 0o755, dir_fd=at)
                below = os.open(folder, FOLDER, dir_fd=at)
                os.close(at)
                at = below
        except OSError:
            os.close(at)
            raise
        return at

    @contextlib.contextmanager
    def open_folder(self, path: str, *, make: bool = False) -> Iterator[int]:
        """A descriptor of the folder ``path``; ``make`` creates it and those above it if needed."""
        if make:
            name = self.relative(path)
            try:
                os.close(self._descend(PurePosixPath(name).parts, make=True))
            except OSError as error:
                raise to_action_error(name, error) from None
        fd = self.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield fd
        finally:
            os.close(fd)

    def entries(self, path: str) -> list[tuple[str, int]]:
        """The names in a folder, sorted, each with its mode; raises ActionError."""
        try:
            with self.open_folder(path) as fd, os.scandir(fd) as listing:
                return sorted((item.name, item.stat(follow_symlinks=False).st_mode) for item in listing)
        except OSError as error:
            raise to_action_error(path, error) from None

    def stat(self, path: str) -> os.stat_result | None:
        """The status of ``path``, of a link the link itself; None if nothing is there."""
        parent, name = split(self.relative(path))
        try:
            with self.open_folder(parent) as at:
                return os.stat(name, dir_fd=at, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError, _Missing):
            return None
        except OSError as error:
            raise to_action_error(path, error) from None

    @contextlib.contextmanager
    def open_file(self, path: str) -> Iterator[BinaryIO]:
        """A regular file, opened to be read; raises ActionError for anything else."""
        # Without O_NONBLOCK, opening a pipe would wait for a writer.
        fd = self.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            require_regular(path, os.fstat(fd))
            with os.fdopen(fd, "rb", closefd=False) as file:
                yield file
        finally:
            os.close(fd)

    def read(self, path: str, limit: int) -> bytes:
        """The content of a regular file; raises ActionError if it has more than ``limit`` bytes."""
        with self.open_file(path) as file:
            data = file.read(limit + 1)
        if len(data) > limit:
            raise ActionError(f"{path} has more than {limit:,} bytes", "Look at a part of it by a command")
        return data

    def copy_out(self, path: str, target: Path, limit: int) -> int:
        """Copy a regular file, with its times and permissions, to the new file ``target``; returns its size.

        A file of more than ``limit`` bytes is not copied. The owner can always read and write the copy.
        Raises ActionError.
        """
        with self.open_file(path) as file:
            info = os.fstat(file.fileno())
            if info.st_size > limit:
                return info.st_size
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("xb") as copy:
                    shutil.copyfileobj(file, copy, 1 << 20)
                target.chmod(stat.S_IMODE(info.st_mode) & 0o777 | stat.S_IRUSR | stat.S_IWUSR)
                os.utime(target, ns=(info.st_atime_ns, info.st_mtime_ns))
            except OSError as error:
                raise ActionError(f"{path} cannot be copied: {error.strerror}") from None
        return info.st_size

    def write(
        self, path: str, data: bytes | BinaryIO, *, mode: int = 0, mtime_ns: int = 0, is_last: bool = True
    ) -> None:
        """Put ``data`` at ``path``, all of it or nothing; folders on the way are made.

        The file gets ``mode`` (0: the mode of the file it replaces, else 644) and ``mtime_ns`` (0: now). It
        survives a power cut; with ``is_last`` false only after ``sync``, which is cheaper for many files.
        Raises ActionError if something other than a regular file is there.
        """
        parent, name = split(self.relative(path))
        with self.open_folder(parent, make=True) as at:
            try:
                there = stat_at(at, name)
                if there is not None:
                    require_regular(path, there)
                kept = mode or (stat.S_IMODE(there.st_mode) & 0o777 if there else 0o644)
                temporary = f".mailroom-{secrets.token_hex(8)}"
                fd = os.open(
                    temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, stat.S_IRWXU, dir_fd=at
                )
                try:
                    with os.fdopen(fd, "wb") as file:
                        shutil.copyfileobj(
                            io.BytesIO(data) if isinstance(data, bytes) else data, file, 1 << 20
                        )
                        file.flush()
                        os.fchmod(fd, kept)
                        if mtime_ns:
                            os.utime(fd, ns=(mtime_ns, mtime_ns))
                        if is_last:
                            os.fsync(fd)
                    os.replace(temporary, name, src_dir_fd=at, dst_dir_fd=at)
                except BaseException:
                    with contextlib.suppress(OSError):
                        os.unlink(temporary, dir_fd=at)
                    raise
            except OSError as error:
                raise to_action_error(path, error) from None

    def sync(self) -> None:
        """Write everything to the disk, so that it survives a power cut; raises OSError."""
        sync_disk(self.fd)

    def move_in(self, source: Path, name: str) -> None:
        """Move a folder of the same file system into this one, as ``name``; raises ActionError."""
        try:
            os.rename(source, split(self.relative(name))[1], dst_dir_fd=self.fd)
        except OSError as error:
            raise to_action_error(name, error) from None

    def remove(self, path: str) -> None:
        """Remove a file, a link or a whole folder; does nothing if there is none."""
        parent, name = split(self.relative(path))
        try:
            with self.open_folder(parent) as at:
                remove_at(at, name)
        except _Missing:
            return
        except OSError as error:
            raise to_action_error(path, error) from None


class _Missing(ActionError):
    """Nothing is there."""


def outside_error(path: str) -> ActionError:
    """The error for a path that leaves the folder."""
    return ActionError(
        f"{path[:200]!r} is not inside the workspace", "Use a path relative to the workspace, without '..'"
    )


def to_action_error(path: str, error: OSError) -> ActionError:
    """The error that says what went wrong with ``path``."""
    match error.errno:
        case errno.ENOENT:
            return _Missing(f"There is no {path[:200]!r} in the workspace", "list_files tells what there is")
        case errno.ELOOP:
            return ActionError(f"{path[:200]!r} is or passes through a link, which is not followed")
        case errno.EXDEV:
            return outside_error(path)
        case errno.ENOSPC | errno.EDQUOT:
            return ActionError(
                f"There is no space left on the disk for {path[:200]!r}", "Free space on it, then try again"
            )
    return ActionError(f"{path[:200]!r} cannot be used: {error.strerror}")


def require_regular(path: str, info: os.stat_result) -> None:
    """Raise ActionError unless it is a regular file: pipes, devices and sockets are not read or replaced."""
    if stat.S_ISDIR(info.st_mode):
        raise ActionError(f"{path} is a folder", "Name a file in it")
    if stat.S_ISLNK(info.st_mode):
        raise to_action_error(path, OSError(errno.ELOOP, ""))
    if not stat.S_ISREG(info.st_mode):
        raise ActionError(f"{path} is not a regular file")


def split(name: str) -> tuple[str, str]:
    """The folder and the last part of a relative path; raises ActionError if it has none."""
    pure = PurePosixPath(name)
    if not pure.name:
        raise ActionError("The workspace itself is not a file", "Name a file in it")
    return str(pure.parent), pure.name


def _is_encodable(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


# --- removing what programs left, through open folders, so that nothing outside is touched -----------
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""The flags that open a folder, and refuse a link."""


def remove_tree(path: Path) -> None:
    """Remove a folder with all beneath it, read-only folders too; follow no link, and ignore what is gone."""
    try:
        parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        remove_at(parent, path.name)
    except OSError:
        with contextlib.suppress(RecursionError):  # then as much of it as possible
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(parent)


def is_older(path: Path, seconds: float) -> bool:
    """Whether ``path`` was last changed more than ``seconds`` ago; False if it is gone."""
    try:
        return time.time() - path.lstat().st_mtime > seconds
    except OSError:
        return False


def remove_at(at: int, name: str) -> None:
    """Remove ``name`` in the folder ``at`` with all beneath it; follow no link. Raises OSError."""
    info = stat_at(at, name)
    if info is None:
        return
    if not stat.S_ISDIR(info.st_mode):
        os.unlink(name, dir_fd=at)
        return
    # Neither recursion nor one descriptor a level: a program can nest folders deeper than either allows.
    here = os.dup(at)
    levels = [([name], _identity(here))]
    try:
        while levels:
            waiting, _ = levels[-1]
            if waiting:
                with contextlib.suppress(OSError):
                    chmod_at(here, waiting[-1], stat.S_IRWXU)
                here = _go(here, waiting[-1])
                levels.append((_remove_files(here), _identity(here)))
                continue
            levels.pop()
            if levels:
                here = _go(here, "..")
                waiting, identity = levels[-1]
                if _identity(here) != identity:
                    raise OSError(errno.EBUSY, "it was moved while it was being removed")
                os.rmdir(waiting.pop(), dir_fd=here)
    finally:
        os.close(here)


def _go(here: int, name: str) -> int:
    there = os.open(name, FOLDER, dir_fd=here)
    os.close(here)
    return there


def _remove_files(fd: int) -> list[str]:
    """Remove what is no folder in a folder; returns the names of the folders in it."""
    with os.scandir(fd) as listing:
        entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in listing]
    for name, folder in entries:
        if not folder:
            os.unlink(name, dir_fd=fd)
    return [name for name, folder in entries if folder]


def chmod_at(at: int, name: str, mode: int) -> None:
    """Change the mode of ``name`` in the folder ``at``, of a link never; raises OSError."""
    if sys.platform != "linux":
        os.chmod(name, mode, dir_fd=at, follow_symlinks=False)
        return
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        if not stat.S_ISLNK(os.fstat(fd).st_mode):
            Path(f"/proc/self/fd/{fd}").chmod(mode)
    finally:
        os.close(fd)


def stat_at(at: int, name: str) -> os.stat_result | None:
    """What ``name`` in the folder ``at`` is, of a link the link itself; None for nothing. Raises OSError."""
    try:
        return os.stat(name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _identity(fd: int) -> tuple[int, int]:
    info = os.fstat(fd)
    return info.st_dev, info.st_ino
