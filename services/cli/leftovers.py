"""What runs on although an office and its warden were both killed: ended before the next office opens."""

import socket
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from services.cli import warden


def end_leftovers(state_dir: Path, marks: Iterable[str], grace: float) -> list[int]:
    """End the processes that agents' signs of life and the server's own note tell of; returns them.

    The caller holds the office's lock, so none of them belongs to a running office. Only those whose command
    line holds one of ``marks`` are taken: a process id may be somebody else's by now.
    """
    noted = dict(_noted(state_dir))
    left = [process for process in noted.values() if _command_has(process, tuple(marks))]
    warden.end(left, grace)
    for path in noted:
        path.unlink(missing_ok=True)
    return left


def _noted(state_dir: Path) -> Iterator[tuple[Path, int]]:
    host = f"-{socket.gethostname()}-"
    for path in [*(state_dir / "run").glob(f"*{host}*.alive"), *(state_dir / "nats").glob("*.pid")]:
        text = path.read_text() if path.suffix == ".pid" else path.stem.rpartition("-")[2]
        if text.strip().isdecimal():
            yield path, int(text)


def _command_has(process: int, marks: tuple[str, ...]) -> bool:
    command = ["ps", "-ww", "-o", "command=", "-p", str(process)]
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return any(mark in found for mark in marks)
