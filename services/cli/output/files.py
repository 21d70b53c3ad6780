"""Files that a command writes: whole, or not at all."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from shared.errors import ActionError


@contextlib.contextmanager
def replaced_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of ``path`` at the end of the block.

    After an error or Ctrl-C ``path`` is as it was. Raises ActionError if it cannot be written.
    """
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    except OSError as error:
        raise not_written(path, error) from None
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        part.chmod(0o644)
        part.replace(path)
    except OSError as error:
        raise not_written(path, error) from None
    finally:
        part.unlink(missing_ok=True)


def not_written(path: Path, error: OSError) -> ActionError:
    """The error that ``path`` cannot be written."""
    cure = "Name another place, or free disk space"
    return ActionError(f"{path} cannot be written: {error.strerror}", cure)
