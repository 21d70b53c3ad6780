"""What one gateway of an office does for all, by a lease: telling people, webhooks, sealing."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from shared import subjects
from shared.bus import Bus
from shared.bus.lease import Lease
from shared.bus.peers import Holder
from shared.errors import BusError
from shared.log import logger

PAUSE = 1.0  # Seconds until the lease is tried again after an error

log = logger(__name__)


async def _answer(_: str, __: bytes) -> bytes:
    """That this process is there."""
    return b""


class Duty:
    """The lease, and what its holder does.

    A gateway that is killed is followed within about two seconds, on another host four; one that is frozen
    or cut off after ``subjects.LEASE_TTL`` seconds, and finds when it wakes up that it has no duty.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._here = Holder.this(bus.instance)
        self._lease: Lease | None = None

    @property
    def is_held(self) -> bool:
        """Whether this gateway has the duty for certain."""
        return self._lease is not None and self._lease.is_held

    async def run(
        self, prepare: Callable[[], Awaitable[None]], work: Callable[[], Sequence[Coroutine[Any, Any, None]]]
    ) -> None:
        """Wait for the lease, ``prepare``, and ``work`` until it is lost, again and again."""
        await self._bus.answer(subjects.peer(self._bus.name, self._bus.instance), _answer)
        while True:
            lease = Lease(self._bus, self._bus.name, self._here)
            try:
                await lease.acquire(self._note)
                self._lease = lease
                await prepare()
                await self._do(work(), lease)
            except BusError as error:
                log.warning("duty_interrupted", reason=str(error))
                await asyncio.sleep(PAUSE)
            finally:
                self._lease = None
                await lease.release()

    async def _do(self, work: Sequence[Coroutine[Any, Any, None]], lease: Lease) -> None:
        tasks = [asyncio.create_task(each) for each in work]
        try:
            await lease.lost.wait()
            log.warning("duty_lost", reason="another gateway has taken it over")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _note(self, holder: Holder) -> None:
        log.info("another_gateway_has_the_duty", holder=str(holder))
