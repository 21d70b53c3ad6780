"""Writing files so that a crash leaves the old content or the new one, and locks between processes."""

import asyncio
import contextlib
import fcntl
import os
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

LOCK_POLL = 0.1  # Seconds between two attempts at a lock that another process holds
LOCK_PAUSE = 0.005  # The same where nothing else goes on meanwhile


def write_atomically(path: Path, data: bytes | str, *, mode: int = 0o666) -> None:
    """Replace the content of ``path``: written beside it, synced to disk, then renamed over it.

    Missing parent folders are made; text is written as UTF-8; the umask applies to ``mode``. Raises
    OSError, and then the old content stays and no temporary file is left.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name[:100]}-{secrets.token_hex(4)}.part")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and removals in ``folder`` durable; raises OSError."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.asynccontextmanager
async def hold_lock(path: Path) -> AsyncIterator[None]:
    """Hold the lock ``path``, a file that is made for it; a process that dies releases it.

    Waits as long as another process, or task, holds it. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with path.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(LOCK_POLL)
        yield


@contextlib.contextmanager
def hold_lock_within(path: Path, seconds: float, mode: int = fcntl.LOCK_EX) -> Iterator[None]:
    """The same, blocking, exclusively or shared (``fcntl.LOCK_SH``), with a file of mode 0600.

    Raises TimeoutError if it is not free within ``seconds``, OSError if it cannot be used.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock, ends = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), time.monotonic() + seconds
    try:
        while True:
            try:
                fcntl.flock(lock, mode | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > ends:
                    raise TimeoutError(f"{path} is locked") from None
                time.sleep(LOCK_PAUSE)
        yield
    finally:
        os.close(lock)
