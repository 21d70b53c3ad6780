"""Ends the office's processes when whoever runs the office is gone: a script that supervisor.py starts.

    python -I -S warden.py OFFICE_RECORD GRACE

Standard input is a lifeline. On it come lines ``+ PROCESS STAGE`` and ``- PROCESS``: a process, the leader
of its group, that runs now or that ended. When the other end closes, because its holder ended or was killed,
the record that says that an office runs is removed, and what still runs is ended, the lowest stage first:
SIGTERM, and GRACE seconds later SIGKILL for the group.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path


def main(record: Path, grace: float) -> None:
    """Wait for the lifeline to end, then end what is left."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    stages = _listen(sys.stdin)
    if not stages:
        return
    with contextlib.suppress(OSError):
        record.unlink()
    for stage in sorted(set(stages.values())):
        end([process for process, its in stages.items() if its == stage], grace)


def _listen(lines: Iterable[str]) -> dict[int, int]:
    stages: dict[int, int] = {}
    for line in lines:
        match line.split():
            case ["+", process, stage]:
                stages[int(process)] = int(stage)
            case ["-", process]:
                stages.pop(int(process), None)
    return stages


def end(processes: list[int], grace: float) -> None:
    """SIGTERM for each, and SIGKILL for its group once all have ended or ``grace`` seconds have passed."""
    for process in processes:
        with contextlib.suppress(OSError):
            os.kill(process, signal.SIGTERM)
    deadline = time.monotonic() + grace
    while any(map(_runs, processes)) and time.monotonic() < deadline:
        time.sleep(0.02)
    for process in processes:
        with contextlib.suppress(OSError):
            os.killpg(process, signal.SIGKILL)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError:
        return False
    try:
        # Orphans are init's to bury, and some take their time. macOS has no /proc, and buries at once.
        state = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return True
    return state != b"Z"


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
