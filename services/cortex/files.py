"""Files of the queue: listed, read without following links, written whole."""

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

LARGEST = 1_000_000
"""The most bytes a job file may have."""


def json_files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """What lies in ``folder`` as <name>.json, hidden names left out; nothing where there is no folder."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.lower().endswith(".json") and not entry.name.startswith("."):
                with suppress(FileNotFoundError):
                    yield Path(entry.path), entry.stat(follow_symlinks=False)


def read_bytes(path: Path) -> tuple[bytes, os.stat_result]:
    """The content of a regular file; raises ValueError for anything else that stands under its name."""
    with ExitStack() as stack:
        try:
            # Without NONBLOCK a pipe dropped here would stop the queue.
            number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            raise
        except OSError as error:
            reason = (
                "it is a link, not a file" if path.is_symlink() else f"it cannot be read: {error.strerror}"
            )
            raise ValueError(reason) from None
        stack.callback(os.close, number)
        written = os.fstat(number)
        if not stat.S_ISREG(written.st_mode):
            raise ValueError("it is not a regular file")
        if written.st_size > LARGEST:
            raise ValueError(f"it has {written.st_size:,} bytes; the limit is {LARGEST:,}")
        return os.read(number, LARGEST), written


def write_whole(path: Path, content: bytes) -> None:
    """Put ``content`` at ``path``, all of it or nothing, and on the disk when this returns."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
