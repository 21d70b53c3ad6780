"""What the gateways of an office share: a bucket of the bus, and what this process knows of it."""

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

from shared import subjects
from shared.bus import Bus
from shared.bus.entry import EXPECTED
from shared.errors import BusError, BusUnavailable, Conflict
from shared.log import logger

POLL = 2.0
"""Seconds between two looks at the bucket; what another gateway writes it also tells at once."""
FRESH = 3 * POLL
"""Seconds after which nobody is let in by what is known without a look, as after this process was frozen."""
PATIENCE = 1.0  # Seconds that a request waits for that look; without a connection what is known counts
WHOLE = 1_800.0  # Seconds after which all of it is read again, without what has expired
REMOVED = 2 * WHOLE  # Seconds for which the bucket says that something was removed
LOOK = 0.1  # Seconds between two looks for what is not known
PAGE = 1_000
CHANGED = "changed"  # Where a gateway tells the others that it wrote: beside the instances' own subjects
WRONG_SEQUENCE = "(10071)"

log = logger(__name__)


class _Entry(NamedTuple):
    data: bytes
    seq: int


class Bucket:
    """Entries with keys such as ``token.ci``, of which the first part is the kind.

    Reading is from memory. Each write names the entry it replaces, so of two gateways that use up a one-time
    link, one does. What another one wrote is known within milliseconds, and at the latest after POLL seconds.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._known: dict[str, dict[str, _Entry]] = defaultdict(dict)
        self._next = 1
        self._read_at = self._whole_at = self._tried_at = self._looked_at = float("-inf")
        self._refreshing: asyncio.Task[None] | None = None
        self._told = asyncio.Event()
        self._writing: set[asyncio.Task[None]] = set()
        self.changes = 0
        """How often something in it changed."""

    def find(self, key: str) -> bytes:
        """An entry; empty if there is none."""
        kind, _, name = key.partition(".")
        found = self._known[kind].get(name)
        return found.data if found else b""

    def list(self, kind: str) -> dict[str, bytes]:
        """The entries of a kind by the rest of their keys."""
        return {name: entry.data for name, entry in self._known[kind].items() if entry.data}

    async def put(self, key: str, data: bytes, *, new: bool = False, lifetime: float = 0.0) -> None:
        """Write an entry, for ``lifetime`` whole seconds (0: until it is removed).

        Raises Conflict if another gateway wrote it meanwhile, or if it is to be ``new`` and is not.
        """
        for again in (False, True):
            if new and self.find(key):
                raise Conflict(f"There is a {key.partition('.')[0]} of this name already")
            try:
                await self._write(key, data, lifetime)
            except Conflict:
                await self.refresh(whole=True)  # what was removed long ago has no entry any more
                if again or not new:
                    raise
            else:
                return

    async def remove(self, key: str) -> bool:
        """Remove an entry; whether it was there, and nobody else removed or changed it."""
        if not self.find(key):
            return False
        try:
            await self._write(key, b"", REMOVED)
        except Conflict:
            await self.refresh()
            return False
        return True

    async def ensure(self, key: str, make: Callable[[], bytes]) -> bytes:
        """An entry, which the first of all gateways makes."""
        if not self.find(key):
            with contextlib.suppress(Conflict):
                await self.put(key, make(), new=True)
        return self.find(key)

    def note(self, key: str, data: bytes, *, lifetime: float = 0.0) -> None:
        """Write an entry soon, unless another gateway writes it, or the bus is away."""

        async def write() -> None:
            with contextlib.suppress(BusError):
                await self._write(key, data, lifetime)

        task = asyncio.ensure_future(write())
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def _write(self, key: str, data: bytes, lifetime: float) -> None:
        kind, _, name = key.partition(".")
        known = self._known[kind].get(name)
        headers = {EXPECTED: str(known.seq if known else 0)}
        headers |= {} if data else {"KV-Operation": "DEL"}
        headers |= {"Nats-TTL": f"{lifetime:.0f}s"} if lifetime else {}
        try:
            answer = await self._bus.store(subjects.shared_entry(kind, name), data, headers=headers)
        except BusUnavailable:
            raise
        except BusError as error:
            if WRONG_SEQUENCE in str(error):
                raise Conflict(f"Another gateway changed {key} meanwhile") from None
            raise
        self._take(key, data, int(answer["seq"]))
        await self._bus.publish(subjects.peer(self._bus.name, CHANGED), self._bus.instance.encode())

    def _take(self, key: str, data: bytes, seq: int) -> None:
        kind, _, name = key.partition(".")
        known = self._known[kind].get(name)
        if known is None or known.seq < seq:
            self._known[kind][name] = _Entry(data, seq)
            self.changes += 1

    # --- what others wrote -----------------------------------------------------------------------

    async def refresh(self, *, whole: bool = False) -> None:
        """Read what was written since the last time; raises BusError."""
        asked = time.monotonic()
        whole = whole or asked - self._whole_at > WHOLE
        position, seen = (1 if whole else self._next), set[str]()
        stream = subjects.bucket_stream(subjects.GATEWAY_BUCKET)
        while True:
            request = {"seq": position, "next_by_subj": ">", "batch": PAGE}
            page = [each async for each in self._bus.read(stream, request)]
            for each in page:
                key = ".".join(each.subject.split(".")[2:])
                self._take(key, each.data, each.seq)
                seen.add(key)
            position = page[-1].seq + 1 if page else position
            if len(page) < PAGE:
                break
        self._next = max(self._next, position)
        if whole:
            for kind, entries in self._known.items():
                for name, entry in list(entries.items()):
                    if entry.seq < position and f"{kind}.{name}" not in seen:
                        del entries[name]
                        self.changes += 1
            self._whole_at = asked
        self._read_at = asked

    async def ensure_fresh(self) -> None:
        """Have what is known be of the last FRESH seconds, if the bus is there."""
        now = time.monotonic()
        if now - self._read_at <= FRESH or not self._bus.connected:
            return
        if self._refreshing is None and now - self._tried_at > POLL:
            self._tried_at = now
            self._refreshing = asyncio.ensure_future(self._try_refresh())
        if self._refreshing is not None:
            await asyncio.wait({self._refreshing}, timeout=PATIENCE)

    async def look_again(self) -> None:
        """Read what was written just now, at most ten times a second: strangers lead here."""
        now = time.monotonic()
        if self._bus.connected and now - self._looked_at > LOOK:
            self._looked_at = now
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await self._try_refresh()

    async def _try_refresh(self) -> None:
        try:
            await self.refresh()
        except BusError as error:
            log.warning("bucket_unread", reason=str(error))
        finally:
            self._refreshing = None

    async def run(self) -> None:
        """Know what the other gateways write, until cancelled."""

        async def hear(_: str, instance: bytes, __: dict[str, str]) -> None:
            if instance != self._bus.instance.encode():
                self._told.set()

        await self._bus.subscribe(subjects.peer(self._bus.name, CHANGED), hear)
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL):
                    await self._told.wait()
            self._told.clear()
            await self._try_refresh()
