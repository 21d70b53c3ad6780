"""The log as people read it: both streams in the order of time, and as they grow."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, aclosing
from datetime import datetime
from typing import NamedTuple

from shared import subjects
from shared.bus import Bus, Stored
from shared.queries.records import last_sequence, scan
from shared.trail.archives import scan_log

TRANSPORT_HEADERS = frozenset(
    {"Nats-Num-Pending", "Nats-Last-Sequence", "Nats-UpTo-Sequence", "Nats-Expected-Stream"}
)
"""Headers that reading adds to a message."""


class Gap(NamedTuple):
    """Sequences of a stream that were not received live."""

    stream: str
    first: int
    last: int


def as_sent(stored: Stored) -> Stored:
    """A message without the headers that reading adds."""
    kept = {key: value for key, value in stored.headers.items() if key not in TRANSPORT_HEADERS}
    return stored._replace(headers=kept)


async def read_audit_log(
    bus: Bus, since: datetime | None = None, until: Mapping[str, int] | None = None
) -> AsyncGenerator[Stored, None]:
    """Both streams of the log, merged by storage time, from a time on, up to the sequences in ``until``."""
    until = until if until is not None else await read_positions(bus)
    async with AsyncExitStack() as stack:
        streams = [
            await stack.enter_async_context(aclosing(scan_log(bus, stream, since=since, until=end)))
            for stream, end in until.items()
            if end
        ]
        waiting = [(stored, stream) for stream in streams if (stored := await anext(stream, None))]
        while waiting:
            # The server omits trailing zeros of a fraction.
            earliest = min(waiting, key=lambda pair: pair[0].time.rstrip("Z"))
            stored, stream = earliest
            yield as_sent(stored)
            waiting.remove(earliest)
            if following := await anext(stream, None):
                waiting.append((following, stream))


async def read_positions(bus: Bus) -> dict[str, int]:
    """The last sequence of each stream of the log."""
    return {stream: await last_sequence(bus, stream) for stream in subjects.LOG}


class AuditFollower:
    """The log as it grows, complete.

    The server republishes each message with its sequence. If sequences are skipped, for instance after a
    lost connection, a Gap is yielded, and then what was missed, read from the stream.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._received: asyncio.Queue[Stored] = asyncio.Queue()

    async def follow(self, since: datetime | None = None) -> AsyncGenerator[Stored | Gap, None]:
        """The messages from ``since`` on (None: from now on), without end."""
        await self._bus.subscribe(subjects.AUDIT_ALL, self._receive)
        reached = await read_positions(self._bus)
        if since is not None:
            async with aclosing(read_audit_log(self._bus, since, dict(reached))) as history:
                async for stored in history:
                    yield stored
        while True:
            stored = await self._received.get()
            last = reached.get(stored.stream, 0)
            if stored.seq <= last:
                continue
            if stored.seq > last + 1:
                yield Gap(stored.stream, last + 1, stored.seq - 1)
                async with aclosing(
                    scan(self._bus, stored.stream, seq=last + 1, until=stored.seq - 1)
                ) as missed:
                    async for each in missed:
                        yield as_sent(each)
            reached[stored.stream] = stored.seq
            yield stored

    async def _receive(self, _: str, payload: bytes, headers: dict[str, str]) -> None:
        kept = dict(headers)
        stored = Stored(
            stream=kept.pop("Nats-Stream"),
            subject=kept.pop("Nats-Subject"),
            seq=int(kept.pop("Nats-Sequence")),
            data=payload,
            headers=kept,
            time=kept.pop("Nats-Time-Stamp"),
        )
        self._received.put_nowait(as_sent(stored))
