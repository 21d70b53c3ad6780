"""Parquet files by way of ``python -m services.memory.storage.parquet``: JSON lines go in, or come out."""

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from services.cli.roster import SERVICES
from shared.errors import ActionError

_MODULE = (sys.executable, "-m", "services.memory.storage.parquet")


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[Callable[[bytes], object]]:
    """Takes lines and makes nodes.parquet and edges.parquet of them in ``folder``; raises ActionError."""
    process = subprocess.Popen(
        (*_MODULE, "to", str(folder.absolute())),
        cwd=SERVICES.parent,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    try:
        with contextlib.suppress(BrokenPipeError):  # it has ended, and says why
            yield process.stdin.write
            process.stdin.close()
        _require_success(process)
    finally:
        _end(process)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[Iterator[bytes]]:
    """The lines of a Parquet file, or of those in a folder, nodes first; raises ActionError at the end."""
    process = subprocess.Popen(
        (*_MODULE, "from", str(path.absolute())),
        cwd=SERVICES.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        yield process.stdout
        _require_success(process)
    finally:
        process.stdout.close()
        _end(process)


def _require_success(process: "subprocess.Popen[bytes]") -> None:
    assert process.stderr is not None
    complaint = process.stderr.read().decode("utf-8", "replace").strip()
    if process.wait():
        raise ActionError(complaint.splitlines()[-1] if complaint else "Parquet could not be converted")


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.kill()
    process.wait()
    for pipe in (process.stdin, process.stderr):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
