"""The write log: the MEMORY stream as the daemon reads and extends it."""

import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Container, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

import msgspec

from services.memory.writes.change import LoggedWrite
from shared import subjects
from shared.bus import Bus, Stored
from shared.bus.entry import seal
from shared.contracts import MemoryErased, MemoryForgotten, MemoryRefused, MemoryWrite, decode
from shared.errors import Reject
from shared.trace import headers_of

PAGE = 1_000  # The most messages of one request to the stream (a limit of nats-server)


READ_BYTES = 32 * 1024 * 1024
"""Bytes of messages after which ``read_some`` stops: a single one may have 8 MiB."""

READ_TIMEOUT = 30.0  # Seconds between two messages after which reading the log has failed

CLOCK_GRAIN = 0.001  # Seconds that one and the same time may differ by, for having been a float


Entry = MemoryWrite | MemoryRefused | MemoryErased | MemoryForgotten
"""What a message of the log holds: writes, and what the daemon records beside them."""


class Records(msgspec.Struct, frozen=True, kw_only=True):
    """What the daemon recorded in the log: the ids of writes it ``refused``, and what stands where a message
    was ``erased``, by its place.
    """

    refused: set[str]
    erased: dict[int, MemoryErased]


class WriteLog:
    """The log of all writes, in one order."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def first(self) -> int:
        """The first sequence that is there; 0 if nothing is."""
        request = {"seq": 1, "next_by_subj": ">", "batch": 1}
        return max([message.seq async for message in self._get(request)], default=0)

    async def last(self) -> int:
        """The last sequence; 0 if nothing is stored."""
        request = {"multi_last": [">"], "batch": PAGE}
        return max([message.seq async for message in self._get(request)], default=0)

    async def has(self, seq: int) -> bool:
        """Whether there is a message at this sequence."""
        request = {"seq": seq, "next_by_subj": ">", "batch": 1}
        return seq in [message.seq async for message in self._get(request)]

    async def holds(self, seq: int, moment: float) -> bool:
        """Whether the message at ``seq`` was stored at ``moment``, or the log begins after it."""
        request = {"seq": seq, "next_by_subj": ">", "batch": 1}
        found = [message async for message in self._get(request)]
        if found and found[0].seq == seq:
            return abs(seconds_of(found[0].time) - moment) < CLOCK_GRAIN
        if not found:
            return False
        if erased := (await self.read_records(seq)).erased.get(seq):
            return abs(seconds_of(erased.time) - moment) < CLOCK_GRAIN
        return await self.first() > seq

    async def reaches_back(self) -> bool:
        """Whether the log has all from its beginning on, but for what was erased."""
        first = await self.first()
        return first <= 1 or set(range(1, first)) <= (await self.read_records(1)).erased.keys()

    async def read_records(self, start: int) -> Records:
        """What was recorded from ``start`` on; of several records of one place the last counts."""
        records = Records(refused=set(), erased={})
        own = subjects.memory_write(self._bus.name)
        async for messages in self.read_raw(start, await self.last(), own):
            for message in messages:
                with contextlib.suppress(Reject):
                    entry = read_entry(message.subject, message.data)
                    refused = entry
                    if isinstance(entry, MemoryErased):
                        records.erased[entry.seqs[0]] = entry
                        refused = entry.refused
                    if isinstance(refused, MemoryRefused):
                        records.refused.add(refused.cause)
        return records

    async def read(
        self,
        start: int,
        end: int,
        applied: Container[int] = (),
        erased: Mapping[int, MemoryErased] = MappingProxyType({}),
    ) -> AsyncIterator[LoggedWrite]:
        """The writes from ``start`` to ``end``, both included; unreadable ones are skipped.

        Their senders get a dead letter; see LogFollower.handle. ``applied`` are those that were read before
        and accepted; where a message was ``erased``, what is left of it is read in its place.
        """
        places = deque(sorted(seq for seq in erased if start <= seq <= end))
        async for messages in self.read_raw(start, end):
            for message in messages:
                while places and places[0] < message.seq:
                    if left := _left_of(erased[places.popleft()]):
                        yield left
                if message.seq in erased:
                    continue
                with contextlib.suppress(Reject):
                    entry = read_entry(message.subject, message.data, checked=message.seq in applied)
                    if isinstance(entry, MemoryWrite):
                        yield LoggedWrite(seq=message.seq, stored_at=seconds_of(message.time), write=entry)
        for seq in places:
            if left := _left_of(erased[seq]):
                yield left

    async def read_some(self, seqs: Sequence[int]) -> dict[int, MemoryWrite]:
        """The writes at these sequences, the last first, until they have READ_BYTES together.

        What is unreadable or no longer there is left out.
        """
        found: dict[int, MemoryWrite] = {}
        size = 0
        for seq in sorted(seqs, reverse=True):
            request = {"seq": seq, "next_by_subj": ">", "batch": 1}
            for stored in [message async for message in self._get(request) if message.seq == seq]:
                size += len(stored.data)
                if size > READ_BYTES and found:
                    return found
                with contextlib.suppress(Reject):
                    entry = read_entry(stored.subject, stored.data, checked=True)
                    if isinstance(entry, MemoryWrite):
                        found[seq] = entry
        return found

    async def append(self, entry: Entry, traceparent: str = "") -> int:
        """Write as the daemon itself, in the present trace or else this one; returns the sequence."""
        sealed = seal(subjects.memory_write(self._bus.name), entry)
        return await self._bus.append(sealed._replace(headers=headers_of(traceparent)))

    async def read_raw(self, start: int, end: int, subject: str = ">") -> AsyncIterator[list[Stored]]:
        """The messages from ``start`` to ``end`` as they are stored, page by page."""
        if end - start >= PAGE:  # worth a connection of its own
            pages = self._bus.read_all(subjects.MEMORY, start, end, subject=subject, timeout=READ_TIMEOUT)
            async for page in pages:
                yield page
            return
        while start <= end:
            begun = start
            request = {"seq": start, "next_by_subj": subject, "batch": PAGE}
            async for message in self._get(request):
                if message.seq > end:
                    return
                start = message.seq + 1
                yield [message]
                if not message.data:
                    break  # between accounts an empty message ends the answer
            if start == begun:
                return

    def _get(self, request: dict[str, object]) -> AsyncGenerator[Stored, None]:
        return self._bus.read(subjects.MEMORY, request, timeout=READ_TIMEOUT)


def _left_of(erased: MemoryErased) -> LoggedWrite | None:
    """What is left to be applied where a message was erased, if anything."""
    if erased.write is None:
        return None
    return LoggedWrite(seq=erased.seqs[0], stored_at=seconds_of(erased.time), write=erased.write, left=True)


def read_entry(subject: str, data: bytes, *, checked: bool = False) -> Entry:
    """The content of a message of the log; raises Reject with the reason if it is not accepted.

    ``checked`` says that the write is not refused, since it was applied before.
    """
    try:
        entry = decode(data, checked=checked)
    except ValueError as error:
        raise Reject(str(error)) from None
    sender = subjects.Address.of(subject).sender
    own = sender == subjects.MEMORY_DAEMON
    if own and isinstance(entry, MemoryRefused | MemoryErased | MemoryForgotten):
        return entry
    if not isinstance(entry, MemoryWrite):
        raise Reject(f"memory stores memory_write.v1, not {type(entry).__struct_config__.tag}")
    if entry.sender not in ("", sender) and not own:
        raise Reject(f"it says it is from {entry.sender!r}, but {sender!r} sent it")
    if entry.forget and sender != subjects.USER:
        raise Reject(f"{sender} may not have memory forget: that is for people alone")
    return entry if entry.sender else msgspec.structs.replace(entry, sender=sender)


def seconds_of(stamp: str) -> float:
    """A time as the server writes it, in seconds since 1970."""
    # Nanoseconds are more digits than a datetime reads.
    whole, _, fraction = stamp.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{fraction or 0}")
