"""The tie between whoever runs the office and its processes: cut, it ends them."""

import asyncio
import contextlib
import subprocess
import sys
from asyncio.subprocess import Process
from pathlib import Path

from services.cli import warden
from services.cli.lock import OfficeLock


class Lifeline:
    """Keeps a warden that ends the office's processes should this process be killed.

    The warden holds the lock as well: nobody opens a new office before the old one is gone. The kernels of
    Linux and macOS have no common way to tie a life to another, but both close a pipe whose writer is gone.
    """

    def __init__(self, lock: OfficeLock, record: Path, grace: float) -> None:
        self._lock = lock
        self._command = (sys.executable, "-I", "-S", warden.__file__, str(record), str(grace))
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
