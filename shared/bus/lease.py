"""Leases: rights that one process at a time holds."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable

import msgspec

from shared import subjects
from shared.bus.connection import Bus
from shared.bus.entry import Stored
from shared.bus.peers import Holder, Liveness
from shared.errors import BusError
from shared.log import logger

log = logger(__name__)

RENEW = subjects.LEASE_TTL / 3  # Seconds between two renewals: two may get lost


CONFIRMED = 1.0
"""Seconds for which a holder relies on what the server last answered: less than any silence after which
another process takes the lease."""


class Lease:
    """The lease ``name``, held from ``acquire`` until ``release``, or until LEASE_TTL of silence.

    It is also free once its holder is gone, see Liveness, or was ``silent`` for so many seconds: frozen, or
    cut off. Each write is a compare-and-set on its entry, so there is one holder; ``lost`` is set if another
    process wrote last. A holder that was frozen goes on where it was, so it calls ``confirm`` before it does
    what only one may.
    """

    def __init__(self, bus: Bus, name: str, holder: Holder, *, silent: float = 0.0) -> None:
        self.lost = asyncio.Event()
        self._bus = bus
        self._subject = subjects.lease(name)
        self._holder = holder
        self._liveness = Liveness(bus, holder)
        self._silent = silent
        self._seq = 0
        self._confirmed = float("-inf")
        self._writing = asyncio.Lock()
        self._renewing: asyncio.Task[None] | None = None

    @property
    def is_held(self) -> bool:
        """Whether this process holds it for certain, also if it was frozen until now."""
        return not self.lost.is_set() and time.monotonic() - self._confirmed < subjects.LEASE_TTL - RENEW

    async def acquire(
        self, waiting: Callable[[Holder], Awaitable[None]], may: Callable[[], bool] = lambda: True
    ) -> None:
        """Take the lease as soon as it is free; ``waiting`` is called once for each holder before that.

        It is not tried while ``may()`` is false.
        """
        reported = None
        while (holder := await self.try_acquire(may)) is not None:
            if holder != reported:
                await waiting(holder)
                reported = holder
            await asyncio.sleep(RENEW / (20 if self._silent else 5))

    async def try_acquire(self, may: Callable[[], bool] = lambda: True) -> Holder | None:
        """Take the lease if it is free; otherwise returns who has it."""
        if (holder := await self._take(may)) is None:
            self._renewing = asyncio.create_task(self._renew())
        return holder

    async def acquire_or_find(self) -> Holder | None:
        """Take the lease if it is free or becomes so; returns its holder once that is known to be at work."""
        while (holder := await self.try_acquire()) is not None:
            with contextlib.suppress(BusError):
                await self._liveness.ask(holder.instance)
                return holder
            await asyncio.sleep(RENEW / 20)
        return None

    async def confirm(self) -> None:
        """Return if this process had the lease within the last CONFIRMED seconds, or once the server says so.

        Never returns if it is lost.
        """
        while time.monotonic() - self._confirmed >= CONFIRMED:
            await self._renew_once()
            if self.lost.is_set():
                await asyncio.Event().wait()

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

    async def _take(self, may: Callable[[], bool]) -> Holder | None:
        """Take it if it is free or its holder is gone; otherwise returns the holder."""
        entry, holder = await self._read()
        self._seq = entry.seq if entry else 0
        if holder is not None and not await self._has_left(holder):
            return holder
        if not may():
            return holder or self._holder
        try:
            await self._write(msgspec.json.encode(self._holder))
        except BusError as error:
            log.info("lease_contended", reason=str(error))
            return holder or self._holder
        return None

    async def _has_left(self, holder: Holder) -> bool:
        if await self._liveness.is_gone(holder):
            return True
        return bool(self._silent) and await self._liveness.is_silent(holder.instance, self._seq, self._silent)

    async def _read(self) -> tuple[Stored | None, Holder | None]:
        entry = await self._bus.last(subjects.bucket_stream(subjects.LEASES_BUCKET), self._subject)
        if entry is None or not entry.data:
            return entry, None
        return entry, msgspec.json.decode(entry.data, type=Holder)

    async def _write(self, payload: bytes, headers: dict[str, str] | None = None) -> None:
        guard, begun = {"Nats-Expected-Last-Subject-Sequence": str(self._seq)}, time.monotonic()
        answer = await self._bus.store(self._subject, payload, headers={**guard, **(headers or {})})
        self._seq, self._confirmed = int(answer["seq"]), begun

    async def _renew(self) -> None:
        while not self.lost.is_set():
            # Wait until a renewal is due, or the connection is back: another process may have taken it
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RENEW):
                    await self._bus.reconnected.wait()
            await self._renew_once()

    async def _renew_once(self) -> None:
        async with self._writing:
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
