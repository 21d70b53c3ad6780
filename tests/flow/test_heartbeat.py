"""The heartbeat of a process, in processes of their own that block, are stopped, or go on."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.server import ROOT
from tests.support.waiting import wait_for

SCRIPT = """
import asyncio, re, sys, time
from pathlib import Path
from shared.heartbeat import Heartbeat

async def main():
    heartbeat = Heartbeat(Path(sys.argv[1]), 2.0, lambda: True)
    heartbeat.start()
    {body}
    heartbeat.stop()

asyncio.run(main())
"""


@contextmanager
def running(folder: Path, body: str) -> "Iterator[subprocess.Popen[str]]":
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(body=body), str(folder / "run" / "scout-here-1.alive")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        wait_for(lambda: list(folder.glob("run/*.alive")))
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_blocked_loop_ends_its_process_with_its_stack(tmp_path: Path) -> None:
    with running(tmp_path, "time.sleep(60)  # blocks") as process:
        output, _ = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "in main" in output
    assert "event_loop_blocked" in output


def test_code_that_keeps_the_interpreter_s_lock_ends_it_too(tmp_path: Path) -> None:
    with running(tmp_path, "re.match('(a|aa)+$', 'a' * 60 + 'b')") as process:
        output, _ = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGPROF
    assert "in main" in output


def test_work_in_a_thread_is_none_of_the_loop_s(tmp_path: Path) -> None:
    with running(tmp_path, "await asyncio.to_thread(time.sleep, 5)") as process:
        output, _ = process.communicate(timeout=30)
    assert (process.returncode, output) == (0, "")
    assert not list(tmp_path.glob("run/*.alive"))


def test_a_machine_that_slept_ends_nothing(tmp_path: Path) -> None:
    with running(tmp_path, "await asyncio.sleep(8)") as process:
        process.send_signal(signal.SIGSTOP)
        time.sleep(5)
        process.send_signal(signal.SIGCONT)
        process.communicate(timeout=30)
    assert process.returncode == 0


def test_a_process_that_gets_nothing_is_alive_and_does_not_pull(tmp_path: Path) -> None:
    body = "heartbeat._pulls = lambda: False; await asyncio.sleep(3)"
    with running(tmp_path, body) as process:
        (pulling,) = tmp_path.glob("run/*.pulling")  # its first beat
        alive = pulling.with_suffix(".alive")
        wait_for(lambda: alive.stat().st_mtime > pulling.stat().st_mtime + 1)
        process.communicate(timeout=30)
    assert process.returncode == 0
    assert not list(tmp_path.glob("run/*"))


BEATS = """
import asyncio, os
from shared import settings
from shared.heartbeat import Heartbeat, heartbeat_path

async def main():
    Heartbeat(heartbeat_path(settings.load(), "scout", os.getpid()), 60.0, lambda: True).start()
    await asyncio.sleep(60)

asyncio.run(main())
"""


def test_the_check_of_a_container_ends_what_is_stopped_and_nothing_else(tmp_path: Path) -> None:
    own = {**os.environ, "MAILROOM_STATE_DIR": str(tmp_path), "MAILROOM_UNRESPONSIVE_LIMIT": "3"}

    def check() -> str:
        command = [sys.executable, "-m", "shared.heartbeat"]
        return subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True, check=True).stdout

    beating = [subprocess.Popen([sys.executable, "-c", BEATS], cwd=ROOT, env=own) for _ in range(2)]
    stopped, living = beating
    try:
        wait_for(lambda: len(list(tmp_path.glob("run/scout-*.alive"))) == 2)
        stopped.send_signal(signal.SIGSTOP)
        assert check() == ""  # not for long enough
        time.sleep(5)
        assert check().startswith(f"scout (process {stopped.pid}) was stopped by a signal for ")
        assert stopped.wait(10) == -signal.SIGKILL
        assert living.poll() is None
        assert check() == ""
    finally:
        for process in beating:
            process.kill()
            process.wait()
