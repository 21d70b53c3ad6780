"""The lock of a state directory: one office runs in it at a time."""

import fcntl
import os
from pathlib import Path
from typing import IO, Self

from shared.errors import StartError


class OfficeLock:
    """Held by whoever runs the office of a state directory, and by the warden that cleans up after it.

    The lock belongs to the open file: the kernel frees it when its last holder is gone, however it went.
    """

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    @classmethod
    def acquire(cls, state_dir: Path) -> Self | None:
        """Take the lock, None where it is held; raises StartError where the directory cannot be used."""
        try:
            file = _open(state_dir)
        except (FileExistsError, NotADirectoryError):
            raise _no_folder(state_dir) from None
        except OSError as error:
            raise unusable(state_dir, error.strerror) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        try:
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
        except OSError as error:
            raise unusable(state_dir, error.strerror) from None
        return cls(file)

    def fileno(self) -> int:
        """The descriptor that a process inherits to hold the lock as well."""
        return self._file.fileno()

    def release(self) -> None:
        """Let go of it; whoever inherited it still holds it."""
        self._file.close()


def unusable(state_dir: Path, reason: str | None) -> StartError:
    """The error that says that no office can be in ``state_dir``."""
    cure = "Make it writable or make room, or name another with --state-dir or MAILROOM_STATE_DIR"
    return StartError(f"The state directory {state_dir} cannot be used: {reason}", cure)


def _no_folder(state_dir: Path) -> StartError:
    folders = (_path(state_dir).parent, state_dir, *state_dir.parents)
    file = next((path for path in folders if path.is_file()), state_dir)
    cause = "it is a file, not a folder" if file == state_dir else f"{file} is a file, not a folder"
    cure = "Name another with --state-dir or MAILROOM_STATE_DIR"
    return StartError(f"The state directory {state_dir} cannot be used: {cause}", cure)


def is_held(state_dir: Path) -> bool:
    """Whether somebody runs an office there, or still cleans up after one."""
    try:
        with _path(state_dir).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def holder(state_dir: Path) -> int:
    """The process that took the lock last; 0 where that is not known."""
    try:
        return int(_path(state_dir).read_text())
    except (OSError, ValueError):
        return 0


def _open(state_dir: Path) -> IO[str]:
    path = _path(state_dir)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("a+")


def _path(state_dir: Path) -> Path:
    return state_dir / "run" / "office.lock"
