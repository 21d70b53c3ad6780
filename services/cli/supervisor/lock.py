"""The lock of a state directory: at most one instance of Mailroom runs in it."""

import fcntl
import os
from pathlib import Path
from typing import IO, Self

from shared.bus.connecting import lock_path
from shared.errors import StartError


class InstanceLock:
    """An flock held by the supervisor and its watchdog; the kernel releases it when both are gone."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    @classmethod
    def acquire(cls, state_dir: Path) -> Self | None:
        """Acquire the lock; None if it is held. Raises StartError if the directory cannot be used."""
        path = lock_path(state_dir)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("a+")
        except (FileExistsError, NotADirectoryError):
            raise _not_a_folder(state_dir) from None
        except OSError as error:
            raise unusable_state_dir(state_dir, error.strerror) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
        except BlockingIOError:
            file.close()
            return None
        except OSError as error:
            raise unusable_state_dir(state_dir, error.strerror) from None
        return cls(file)

    def fileno(self) -> int:
        """The descriptor that a child process inherits to hold the lock as well."""
        return self._file.fileno()

    def release(self) -> None:
        """Release it; a process that inherited the descriptor still holds it."""
        self._file.close()


def unusable_state_dir(state_dir: Path, reason: str | None) -> StartError:
    """The error for a state directory that cannot be written."""
    cure = "Make it writable or free disk space, or name another with --state-dir or MAILROOM_STATE_DIR"
    return StartError(f"The state directory {state_dir} cannot be used: {reason}", cure)


def _not_a_folder(state_dir: Path) -> StartError:
    folders = (lock_path(state_dir).parent, state_dir, *state_dir.parents)
    file = next((path for path in folders if path.is_file()), state_dir)
    cause = "it is a file, not a folder" if file == state_dir else f"{file} is a file, not a folder"
    cure = "Name another with --state-dir or MAILROOM_STATE_DIR"
    return StartError(f"The state directory {state_dir} cannot be used: {cause}", cure)


def is_held(state_dir: Path) -> bool:
    """Whether an instance runs there, or its watchdog is still stopping processes."""
    try:
        with lock_path(state_dir).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
