"""Locks between processes that a killed one lets go of."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from shared.errors import ActionError


@contextlib.contextmanager
def holding(path: Path, mode: int, patience: float, why: str) -> Iterator[None]:
    """Hold the lock at ``path``, shared or alone (``fcntl.LOCK_SH``, ``LOCK_EX``).

    Raises ActionError with ``why`` where it is not free within ``patience`` seconds, or cannot be used.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ActionError(f"The snapshots in {path.parent} cannot be used: {error.strerror}") from None
    try:
        _wait(fd, mode, patience, why)
        yield
    finally:
        os.close(fd)


def _wait(fd: int, mode: int, patience: float, why: str) -> None:
    ends = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(fd, mode | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > ends:
                raise ActionError(why, "Try again later") from None
            time.sleep(0.02)
