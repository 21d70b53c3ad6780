"""Stops the processes of an instance when its supervisor is gone: a script that watchdog.py starts.

    python -I -S watchdog_script.py RUN_RECORD GRACE

Standard input carries lines ``+ PROCESS STAGE`` and ``- PROCESS``: a process group leader that was started
or that exited. When the other end closes, because the supervisor exited or was killed, the script removes
RUN_RECORD and stops what still runs, lowest stage first: SIGTERM, and SIGKILL for the group GRACE seconds
later.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path


def main(record: Path, grace: float) -> None:
    """Wait for the end of standard input, then stop what is left."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    stages = _read_stages(sys.stdin)
    if not stages:
        return
    with contextlib.suppress(OSError):
        record.unlink()
    for stage in sorted(set(stages.values())):
        stop_all([process for process, its in stages.items() if its == stage], grace)


def _read_stages(lines: Iterable[str]) -> dict[int, int]:
    stages: dict[int, int] = {}
    for line in lines:
        match line.split():
            case ["+", process, stage]:
                stages[int(process)] = int(stage)
            case ["-", process]:
                stages.pop(int(process), None)
    return stages


def stop_all(processes: list[int], grace: float) -> None:
    """Send SIGTERM to each, then SIGKILL to the groups once all exited or ``grace`` seconds have passed."""
    for process in processes:
        with contextlib.suppress(OSError):
            os.kill(process, signal.SIGTERM)
    deadline = time.monotonic() + grace
    while any(map(_is_running, processes)) and time.monotonic() < deadline:
        time.sleep(0.02)
    for process in processes:
        with contextlib.suppress(OSError):
            os.killpg(process, signal.SIGKILL)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError:
        return False
    try:
        # Some init processes reap orphans late: a zombie counts as gone. macOS, without /proc, reaps at once.
        state = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return True
    return state != b"Z"


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
