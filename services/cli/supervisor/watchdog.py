"""The tie between whoever runs the office and its processes: cut, it ends them."""

import asyncio
import contextlib
import socket
import subprocess
import sys
from asyncio.subprocess import Process
from collections.abc import Iterable, Iterator
from pathlib import Path

from services.cli.supervisor import watchdog_script
from services.cli.supervisor.lock import OfficeLock


class Lifeline:
    """Keeps a warden that ends the office's processes should this process be killed.

    The warden holds the lock as well: nobody opens a new office before the old one is gone. The kernels of
    Linux and macOS have no common way to tie a life to another, but both close a pipe whose writer is gone.
    """

    def __init__(self, lock: OfficeLock, record: Path, grace: float) -> None:
        self._lock = lock
        self._command = (sys.executable, "-I", "-S", watchdog_script.__file__, str(record), str(grace))
        self._stages: dict[int, int] = {}
        self._warden: Process | None = None
        self._keeper: asyncio.Task[None] | None = None

    async def tie(self) -> None:
        """Start the warden, and keep one running."""
        self._warden = await self._spawn()
        self._keeper = asyncio.create_task(self._keep(self._warden))

    async def untie(self) -> None:
        """Let the warden go; it ends what is still enrolled."""
        if self._keeper is not None:
            self._keeper.cancel()
        if self._warden is not None and self._warden.stdin is not None:
            self._warden.stdin.close()
            await self._warden.wait()

    def enroll(self, process: int, stage: int) -> None:
        """Have ``process`` ended with this one; the lowest ``stage`` first."""
        self._stages[process] = stage
        self._write(f"+ {process} {stage}\n")

    def strike(self, process: int) -> None:
        """``process`` has ended by itself."""
        self._stages.pop(process, None)
        self._write(f"- {process}\n")

    def _write(self, line: str) -> None:
        if self._warden is not None and self._warden.stdin is not None:
            with contextlib.suppress(OSError, RuntimeError):
                self._warden.stdin.write(line.encode())

    async def _keep(self, running: Process) -> None:
        while True:
            await running.wait()
            running = self._warden = await self._spawn()
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


def end_leftovers(state_dir: Path, marks: Iterable[str], grace: float) -> list[int]:
    """End the processes that agents' signs of life and the server's own note tell of; returns them.

    The caller holds the office's lock, so none of them belongs to a running office. Only those whose command
    line holds one of ``marks`` are taken: a process id may be somebody else's by now.
    """
    noted = dict(_noted(state_dir))
    left = [process for process in noted.values() if _command_has(process, tuple(marks))]
    watchdog_script.end(left, grace)
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
