"""No process outlives a bench or the tests, however they end.

    python -m tests.support.sweeper FOLDER

waits for the end of standard input, which a bench or the tests hold open, and then kills what still runs on
FOLDER. It has a session of its own, so that neither Ctrl-C nor a signal to their group ends it.
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
    """Have the temporary folders of this process, and what runs on them, swept at its end."""
    tempfile.tempdir = tempfile.mkdtemp(prefix="mailroom-bench-")
    Path(tempfile.tempdir).chmod(0o711)  # the jail's user has a folder in it
    leave_no_process(Path(tempfile.tempdir), "--remove")


def leave_no_process(folder: Path, *options: str) -> None:
    """Have what runs on a folder killed when this process ends.

    That covers an exception, Ctrl-C, SIGTERM and ``kill -9`` of this process or of its group alike. A process
    is recognised by the folder in its command line or environment. With "--remove" the folder goes too.
    """
    command = [sys.executable, "-m", "tests.support.sweeper", str(folder), *options]
    sweeper = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, start_new_session=True)
    atexit.register(sweeper.communicate)  # closes its input, and waits for its end


def sweep(folder: Path) -> None:
    """Kill all processes that use a folder."""
    ends = time.monotonic() + PATIENCE
    while (found := find_users(folder)) and time.monotonic() < ends:
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(found, timeout=1.0)


def find_users(folder: Path) -> list[psutil.Process]:
    """The processes of this user with the folder in their command line or environment, but for this one."""
    found, within = [], f"{folder}/"
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            told = [*process.cmdline(), *process.environ().values()]
            running = process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE
            if running and any(within in f"{each}/" for each in told):
                found.append(process)
    return found


if __name__ == "__main__":
    sys.stdin.read()
    sweep(Path(sys.argv[1]))
    if "--remove" in sys.argv:
        shutil.rmtree(sys.argv[1], ignore_errors=True)
