"""What people want of an agent: pause, resume, restart, on record and followed by each of its processes."""

import asyncio
from collections.abc import Awaitable, Callable

from shared import subjects
from shared.bus import Bus
from shared.bus.records import read_record
from shared.contracts import AgentControl
from shared.errors import BusError
from shared.log import logger

RESTART_STATUS = 75  # The exit status of a process that ends because people want it to start again
LOOK_EVERY = 1.0  # Seconds between two looks at whether the connection was lost meanwhile
READ_EVERY = 15.0
"""Seconds after which the record is read although nothing was heard: live messages may get lost."""
UNPAUSABLE = {
    subjects.CONDUCTOR: "without it no goal begins, goes on or is stopped",
    subjects.MEMORY_DAEMON: "every agent waits for what it asks of memory",
    subjects.GATEWAY: "it takes no tasks, and people need it to have anything resumed",
}
"""The agents that cannot be paused, and why."""

log = logger(__name__)


async def read_control(bus: Bus, agent: str) -> AgentControl | None:
    """What people want of ``agent``; None if they never said, or if the record cannot be read."""
    try:
        record = await read_record(bus, subjects.control(agent), AgentControl)
    except ValueError as error:
        log.warning("control_unreadable", agent=agent, reason=str(error))
        return None
    return record.value if record else None


class ControlFollower:
    """Follows the record of one agent, from the start of one of its processes.

    ``apply``, if it is given, gets what holds whenever that may have changed. ``restart`` is set when one is
    asked for that this process has not begun with. ``subject`` is where its live copies arrive, by default
    the record's own.
    """

    def __init__(
        self,
        bus: Bus,
        agent: str,
        apply: Callable[[AgentControl], Awaitable[None]] | None = None,
        *,
        subject: str = "",
    ) -> None:
        self.restart = asyncio.Event()
        self._bus, self._agent, self._apply = bus, agent, apply
        self._subject = subject or subjects.control(agent)
        self._restarts = 0
        self._heard = asyncio.Event()

    async def start(self) -> None:
        """Subscribe, then read what holds now: a restart asked for before is done. Raises BusError."""
        await self._bus.subscribe(self._subject, self._hear)
        control = await read_control(self._bus, self._agent)
        if control is not None:
            self._restarts = control.restarts
            if self._apply is not None:
                await self._apply(control)

    async def follow(self) -> None:
        """Read the record when it changes, after a lost connection, and now and then; until cancelled."""
        loop = asyncio.get_running_loop()
        connected_at, due = self._bus.reconnected_at, loop.time() + READ_EVERY
        while True:
            try:
                async with asyncio.timeout(LOOK_EVERY):
                    await self._heard.wait()
            except TimeoutError:
                if self._bus.reconnected_at == connected_at and loop.time() < due:
                    continue
            self._heard.clear()
            try:
                at = self._bus.reconnected_at
                await self._read()
            except BusError as error:
                log.warning("control_unread", reason=str(error))
                continue
            connected_at, due = at, loop.time() + READ_EVERY

    async def _hear(self, _: str, __: bytes, ___: dict[str, str]) -> None:
        self._heard.set()

    async def _read(self) -> None:
        control = await read_control(self._bus, self._agent)
        if control is None:
            return
        if self._apply is not None:
            await self._apply(control)
        if control.restarts > self._restarts:
            self._restarts = control.restarts
            self.restart.set()
