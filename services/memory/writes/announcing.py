"""Graph versions on their way to whoever listens."""

import asyncio

from shared import subjects
from shared.bus import Bus
from shared.bus.entry import seal
from shared.contracts import GraphVersion, decode
from shared.errors import BusError
from shared.log import logger

PAUSE = 1.0
"""Seconds before an announcement that failed is tried again."""

log = logger(__name__)


class Announcer:
    """Publishes each graph version, in order and once, also where the daemon was killed before it could."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._events: asyncio.Queue[tuple[GraphVersion, bool]] = asyncio.Queue()

    def put(self, event: GraphVersion, *, replayed: bool = False) -> None:
        """Have a version announced once its writes are answered; ``replayed``: unless it was before."""
        self._events.put_nowait((event, replayed))

    async def run(self, version: int) -> None:
        """Announce what is after the last announcement until cancelled, first ``version``, the store's.

        Whoever was killed between a commit and its announcement no longer knows what the commit touched: such
        a version is announced without kinds, agents and ids.
        """
        announced = await self._last()
        event, replayed = GraphVersion(version=version), True
        while True:
            # A memory made anew without what its log no longer has counts from the log's beginning.
            if event.version > announced or not replayed:
                await self._announce(event)
                announced = event.version
            event, replayed = await self._events.get()

    async def _last(self) -> int:
        try:
            stored = await self._bus.last(subjects.OFFICE, subjects.GRAPH_VERSION)
            event = None if stored is None else decode(stored.data)
        except (BusError, ValueError) as error:
            log.warning("announcements_unread", reason=str(error))
            return 0
        return event.version if isinstance(event, GraphVersion) else 0

    async def _announce(self, event: GraphVersion) -> None:
        while True:
            try:
                await self._bus.commit([seal(subjects.GRAPH_VERSION, event)])
            except BusError as error:
                log.warning("version_unannounced", version=event.version, reason=str(error))
                await asyncio.sleep(PAUSE)
            else:
                return
