"""The directory of agents at work, read from their presence."""

import time

from shared import subjects
from shared.bus import Bus
from shared.bus.records import read_presences
from shared.contracts import Presence
from shared.errors import BusError
from shared.log import logger
from shared.plans.agents import format_agents, pages_of

CACHE_SECONDS = 10.0
"""Seconds for which the presences that were read are reused."""
NO_MAIL = frozenset({subjects.MEMORY_DAEMON, subjects.CONDUCTOR})
"""Agents that do not answer mail."""

log = logger(__name__)


class Directory:
    """Which agents are at work now."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._known: dict[str, Presence] = {}
        self._read_at = 0.0

    async def read(self) -> dict[str, Presence]:
        """One presence of each agent at work, by name, including the reader's own; raises BusError."""
        if not self._read_at or time.monotonic() - self._read_at > CACHE_SECONDS:
            present = await read_presences(self._bus)
            self._known = {each.agent: each for each in present if each.agent != subjects.GATEWAY}
            self._read_at = time.monotonic()
        return self._known

    async def text(self, me: str) -> str:
        """Every agent at work but ``me``, and how to write to it, for a prompt; empty if unreadable."""
        try:
            known = await self.read()
        except BusError as error:
            log.warning("no_directory", reason=str(error))
            return ""
        others = {name: presence for name, presence in known.items() if name not in (me, *NO_MAIL)}
        return format_agents(pages_of(others).values(), actions=False)
