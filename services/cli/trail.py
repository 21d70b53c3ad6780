"""The audit trail: what was stored, in order, and what is being stored now."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, aclosing
from datetime import datetime
from typing import NamedTuple

from services.cli.records import last_sequence, scan
from shared import subjects
from shared.bus import Bus, Stored

TRANSPORT_HEADERS = frozenset(
    {
        "Nats-Stream-Source",
        "Nats-Num-Pending",
        "Nats-Last-Sequence",
        "Nats-UpTo-Sequence",
        "Nats-Expected-Stream",
    }
)
"""Headers that say how a copy came here, not what was sent."""


class Copy(NamedTuple):
    """An audit stream's copy of a message: ``source`` and ``source_seq`` say where the original is stored."""

    audit: str
    audit_seq: int
    source: str
    source_seq: int
    subject: str
    data: bytes
    headers: dict[str, str]
    time: str


class Gap(NamedTuple):
    """Copies of an audit stream that were not heard live: from ``first`` to ``last``."""

    audit: str
    first: int
    last: int


def copy_of(stored: Stored) -> Copy:
    """The copy as it says of itself; where it does not say what it is a copy of, ``source`` is empty."""
    source, _, rest = stored.headers.get("Nats-Stream-Source", "").partition(" ")
    number = rest.partition(" ")[0]
    return Copy(
        audit=stored.stream,
        audit_seq=stored.seq,
        source=source,
        source_seq=int(number) if number.isdecimal() else 0,
        subject=stored.subject,
        data=stored.data,
        headers={key: value for key, value in stored.headers.items() if key not in TRANSPORT_HEADERS},
        time=stored.time,
    )


async def read_trail(
    bus: Bus, since: datetime | None = None, until: Mapping[str, int] | None = None
) -> AsyncGenerator[Copy, None]:
    """Both audit streams, merged by time of storing, from a moment on, up to the sequences in ``until``."""
    until = until if until is not None else await positions(bus)
    async with AsyncExitStack() as stack:
        streams = [
            await stack.enter_async_context(aclosing(scan(bus, audit, since=since, until=end)))
            for audit, end in until.items()
            if end
        ]
        waiting = [(stored, stream) for stream in streams if (stored := await anext(stream, None))]
        while waiting:
            # The server leaves out zeros at the end of a fraction.
            earliest = min(waiting, key=lambda pair: pair[0].time.rstrip("Z"))
            stored, stream = earliest
            yield copy_of(stored)
            waiting.remove(earliest)
            if following := await anext(stream, None):
                waiting.append((following, stream))


async def positions(bus: Bus) -> dict[str, int]:
    """The last sequence of each audit stream."""
    return {audit: await last_sequence(bus, audit) for audit in subjects.AUDITED.values()}


class Tail:
    """The audit trail as it grows, without a hole.

    The server republishes each copy with its sequence in the audit stream. Where one is skipped, for
    instance because the connection was lost, a Gap is given, and then what was missed, read from the stream.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._heard: asyncio.Queue[Copy] = asyncio.Queue()

    async def follow(self, since: datetime | None = None) -> AsyncGenerator[Copy | Gap, None]:
        """What was stored from ``since`` on (None: from now on), and then what comes."""
        await self._bus.subscribe(subjects.AUDIT_ALL, self._hear)
        reached = await positions(self._bus)
        if since is not None:
            async with aclosing(read_trail(self._bus, since, dict(reached))) as history:
                async for copy in history:
                    yield copy
        while True:
            copy = await self._heard.get()
            last = reached.get(copy.audit, 0)
            if copy.audit_seq <= last:
                continue
            if copy.audit_seq > last + 1:
                yield Gap(copy.audit, last + 1, copy.audit_seq - 1)
                async with aclosing(
                    scan(self._bus, copy.audit, seq=last + 1, until=copy.audit_seq - 1)
                ) as missed:
                    async for stored in missed:
                        yield copy_of(stored)
            reached[copy.audit] = copy.audit_seq
            yield copy

    async def _hear(self, _: str, payload: bytes, headers: dict[str, str]) -> None:
        kept = dict(headers)
        stored = Stored(
            stream=kept.pop("Nats-Stream"),
            subject=kept.pop("Nats-Subject"),
            seq=int(kept.pop("Nats-Sequence")),
            data=payload,
            headers=kept,
            time=kept.pop("Nats-Time-Stamp"),
        )
        self._heard.put_nowait(copy_of(stored))
