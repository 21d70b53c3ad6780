"""Whether another process of the same name is still there."""

import os
import socket
import time
from pathlib import Path
from typing import Self

import msgspec

from shared import subjects
from shared.bus.connection import Bus
from shared.errors import BusUnavailable, NoResponders

MISSING = 2.0
"""Seconds without a connection after which a process counts as gone whose id cannot be checked from here: one
that only lost its connection is back within half a second."""
ANSWER_TIMEOUT = 1.0
"""Seconds until a process must answer; one that is frozen never does."""


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """The holder of a lease: a process of a host, and the PID namespace of its number."""

    instance: str
    host: str
    space: str
    pid: int

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"

    @classmethod
    def this(cls, instance: str) -> Self:
        """The calling process."""
        space = Path("/proc/self/ns/pid")
        return cls(
            instance=instance,
            host=socket.gethostname(),
            space=str(space.readlink()) if space.is_symlink() else "",
            pid=os.getpid(),
        )

    def is_running(self, here: "Holder") -> bool | None:
        """Whether the process runs; None if ``here`` is on another host, or in another PID namespace."""
        if (self.host, self.space) != (here.host, here.space):
            return None
        if self.pid == here.pid:
            return self.instance == here.instance
        try:
            os.kill(self.pid, 0)
        except PermissionError:
            return True
        except ProcessLookupError:
            return False
        return not _is_zombie(self.pid)


def _is_zombie(pid: int) -> bool:
    """Whether the process has ended and nobody has asked for its exit code yet; never outside of Linux."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z"
    except OSError:
        return False


class Liveness:
    """Whether processes of the bus's own name are still there; ``here`` is this one.

    One is gone if its process id is no longer on this machine. Of one elsewhere that is not known: it is gone
    if the server has had no connection of it for MISSING seconds. One that is frozen keeps its connection.
    """

    def __init__(self, bus: Bus, here: Holder) -> None:
        self._bus = bus
        self._here = here
        self._missing: dict[str, float] = {}

    async def is_gone(self, holder: Holder) -> bool:
        """Whether the process is gone; call it every second or so until it is."""
        running = holder.is_running(self._here)
        if running is not None:
            return not running
        if await self._is_connected(holder.instance):
            self._missing.pop(holder.instance, None)
            return False
        now = time.monotonic()
        return now - self._missing.setdefault(holder.instance, now) >= MISSING

    async def ask(self, instance: str) -> bytes:
        """A process's answer; raises NoResponders without a connection, BusUnavailable if it is silent."""
        return await self._bus.request(subjects.peer(self._bus.name, instance), timeout=ANSWER_TIMEOUT)

    async def _is_connected(self, instance: str) -> bool:
        try:
            await self.ask(instance)
        except NoResponders:
            return False
        except BusUnavailable:
            return True
        return True
