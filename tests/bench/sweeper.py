"""Nothing outlives a bench: its folders, and the processes that use them, go however it ends.

    python -m tests.bench.sweeper FOLDER

waits for the end of standard input, which a bench holds open, and then kills what still runs on FOLDER, and
removes it. It has a session of its own, so that neither Ctrl-C nor a signal to the bench's group ends it.
"""

import atexit
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 10.0
"""Seconds for which the sweeper goes on looking for processes."""


def leave_nothing() -> None:
    """Have everything that this process puts into temporary folders, and what runs on it, swept at its end.

    That covers an exception, Ctrl-C, SIGTERM and ``kill -9`` of this process or of its group alike. A process
    is recognised by the folder in its command line or environment.
    """
    tempfile.tempdir = tempfile.mkdtemp(prefix="mailroom-bench-")
    Path(tempfile.tempdir).chmod(0o711)  # the jail's user has a folder in it
    command = [sys.executable, "-m", "tests.bench.sweeper", tempfile.tempdir]
    sweeper = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, start_new_session=True)
    atexit.register(sweeper.communicate)  # closes its input, and waits for its end


def sweep(folder: Path) -> None:
    """Kill all processes that use a folder, and remove it."""
    ends = time.monotonic() + PATIENCE
    while (found := find_users(folder)) and time.monotonic() < ends:
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(found, timeout=1.0)
    shutil.rmtree(folder, ignore_errors=True)


def find_users(folder: Path) -> list[psutil.Process]:
    """The processes of this user with the folder in their command line or environment, but for this one."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            told = [*process.cmdline(), *process.environ().values()]
            running = process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE
            if running and any(str(folder) in each for each in told):
                found.append(process)
    return found


if __name__ == "__main__":
    sys.stdin.read()
    sweep(Path(sys.argv[1]))
