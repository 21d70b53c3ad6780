"""No orphans: a watchdog process for when the supervisor is killed, and a search for what outlived both."""

import asyncio
import contextlib
import socket
import subprocess
import sys
from asyncio.subprocess import Process
from collections.abc import Iterable, Iterator
from pathlib import Path

from services.cli.supervisor import watchdog_script
from services.cli.supervisor.lock import InstanceLock
from shared.heartbeat import remove_heartbeat


class Watchdog:
    """Runs ``watchdog_script.py``, which stops the registered processes if this process is killed.

    It holds ``lock`` as well, so that no new instance starts before the old one is gone. A pipe is the link,
    since Linux and macOS have no common call for "end with my parent", and both close a dead writer's pipe.
    """

    def __init__(self, lock: InstanceLock, record: Path, grace: float) -> None:
        self._lock = lock
        self._command = (sys.executable, "-I", "-S", watchdog_script.__file__, str(record), str(grace))
        self._stages: dict[int, int] = {}
        self._process: Process | None = None
        self._keeper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the process, and restart it if it ends."""
        self._process = await self._spawn()
        self._keeper = asyncio.create_task(self._keep(self._process))

    async def stop(self) -> None:
        """Close its input and wait for it; it stops what is still registered."""
        if self._keeper is not None:
            self._keeper.cancel()
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            await self._process.wait()

    def add(self, process: int, stage: int) -> None:
        """Register a running process; the lowest ``stage`` is stopped first."""
        self._stages[process] = stage
        self._write(f"+ {process} {stage}\n")

    def remove(self, process: int) -> None:
        """Unregister a process that has exited."""
        self._stages.pop(process, None)
        self._write(f"- {process}\n")

    def _write(self, line: str) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError, RuntimeError):
                self._process.stdin.write(line.encode())

    async def _keep(self, running: Process) -> None:
        while True:
            await running.wait()
            running = self._process = await self._spawn()
            for process, stage in self._stages.items():
                self._write(f"+ {process} {stage}\n")

    async def _spawn(self) -> Process:
        return await asyncio.create_subprocess_exec(
            *self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(self._lock.fileno(),),
            start_new_session=True,
        )


def end_orphans(state_dir: Path, marks: Iterable[str], grace: float) -> list[int]:
    """Stop processes of an earlier instance that the agents' alive files and the server's pid file name.

    Returns their ids. The caller holds the instance lock, so none of them belongs to a running instance. Only
    processes with one of ``marks`` in their command line are stopped: a process id may have been reused.
    """
    noted = dict(_read_process_ids(state_dir))
    left = [process for process in noted.values() if _command_has(process, tuple(marks))]
    watchdog_script.stop_all(left, grace)
    for path in noted:
        remove_heartbeat(path)
    return left


def _read_process_ids(state_dir: Path) -> Iterator[tuple[Path, int]]:
    host = f"-{socket.gethostname()}-"
    for path in [*(state_dir / "run").glob(f"*{host}*.alive"), *state_dir.glob("nats*/*.pid")]:
        text = path.read_text() if path.suffix == ".pid" else path.stem.rpartition("-")[2]
        if text.strip().isdecimal():
            yield path, int(text)


def _command_has(process: int, marks: tuple[str, ...]) -> bool:
    command = ["ps", "-ww", "-o", "command=", "-p", str(process)]
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return any(mark in found for mark in marks)
