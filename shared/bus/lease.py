"""Leases: rights that one process at a time holds, agreed on over the bus."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import msgspec

from shared import subjects
from shared.bus.connection import Bus
from shared.bus.entry import Stored
from shared.bus.peers import Holder, Liveness
from shared.errors import BusError
from shared.log import logger

RENEW = subjects.LEASE_TTL / 3  # Seconds between two renewals: two may get lost
log = logger(__name__)


class Lease:
    """The lease ``name``, held from ``acquire`` until ``release``, or until LEASE_TTL of silence.

    It is also free once its holder is gone, see Liveness. Each write is a compare-and-set on its entry, so
    there is one holder; ``lost`` is set if another process wrote last, as after this one was frozen for
    longer than a lease lasts.
    """

    def __init__(self, bus: Bus, name: str, holder: Holder) -> None:
        self.lost = asyncio.Event()
        self._bus = bus
        self._subject = subjects.lease(name)
        self._holder = holder
        self._liveness = Liveness(bus, holder)
        self._seq = 0
        self._renewing: asyncio.Task[None] | None = None

    async def acquire(self, waiting: Callable[[Holder], Awaitable[None]]) -> None:
        """Take the lease as soon as it is free; ``waiting`` is called once for each holder before that."""
        reported = None
        while (holder := await self._take()) is not None:
            if holder != reported:
                await waiting(holder)
                reported = holder
            await asyncio.sleep(RENEW / 5)
        self._renewing = asyncio.create_task(self._renew())

    async def release(self) -> None:
        """Give the lease up at once, instead of letting it expire."""
        if self._renewing is None:
            return
        self._renewing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._renewing
        if not self.lost.is_set() and self._bus.connected:
            with contextlib.suppress(BusError):
                await self._write(b"", {"KV-Operation": "DEL"})

    async def _take(self) -> Holder | None:
        """Take it if it is free or its holder is gone; otherwise returns the holder."""
        entry, holder = await self._read()
        if holder is not None and not await self._liveness.is_gone(holder):
            return holder
        self._seq = entry.seq if entry else 0
        try:
            await self._write(msgspec.json.encode(self._holder))
        except BusError as error:
            log.info("lease_contended", reason=str(error))
            return holder or self._holder
        return None

    async def _read(self) -> tuple[Stored | None, Holder | None]:
        entry = await self._bus.last(subjects.bucket_stream(subjects.LEASES_BUCKET), self._subject)
        if entry is None or not entry.data:
            return entry, None
        return entry, msgspec.json.decode(entry.data, type=Holder)

    async def _write(self, payload: bytes, headers: dict[str, str] | None = None) -> None:
        guard = {"Nats-Expected-Last-Subject-Sequence": str(self._seq)}
        answer = await self._bus.store(self._subject, payload, headers={**guard, **(headers or {})})
        self._seq = int(answer["seq"])

    async def _renew(self) -> None:
        while not self.lost.is_set():
            # Wait until a renewal is due, or the connection is back: another process may have taken it
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RENEW):
                    await self._bus.reconnected.wait()
            try:
                await self._write(msgspec.json.encode(self._holder))
            except BusError as error:
                await self._check_lost(error)

    async def _check_lost(self, error: BusError) -> None:
        """Set ``lost`` if a renewal failed because another process holds the lease now."""
        try:
            entry, holder = await self._read()
        except BusError:
            log.warning("lease_unrenewed", reason=str(error))
            return
        if holder is None or holder == self._holder:
            self._seq = entry.seq if entry else 0
        else:
            self.lost.set()
