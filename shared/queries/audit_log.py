"""The audit log: reading it in order, following it, and verifying it against its sources."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Container, Mapping
from contextlib import AsyncExitStack, aclosing
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

import msgspec

from shared import subjects
from shared.bus import Bus, Stored
from shared.contracts import MemoryErased, MemoryWrite, MessagesErased
from shared.queries.records import call_server, last_sequence, scan

TRANSPORT_HEADERS = frozenset(
    {
        "Nats-Stream-Source",
        "Nats-Num-Pending",
        "Nats-Last-Sequence",
        "Nats-UpTo-Sequence",
        "Nats-Expected-Stream",
    }
)
"""Headers that mirroring adds to a message."""


Kind = TypeVar("Kind", MemoryErased, MemoryWrite, MessagesErased)


class Copy(NamedTuple):
    """An audit stream's copy of message ``source_seq`` of the stream ``source``."""

    audit: str
    audit_seq: int
    source: str
    source_seq: int
    subject: str
    data: bytes
    headers: dict[str, str]
    time: str


class Gap(NamedTuple):
    """Sequences of an audit stream that were not received live."""

    audit: str
    first: int
    last: int


def parse_copy(stored: Stored) -> Copy:
    """A stored message as a copy; ``source`` is empty if its headers name none."""
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


async def read_audit_log(
    bus: Bus, since: datetime | None = None, until: Mapping[str, int] | None = None
) -> AsyncGenerator[Copy, None]:
    """Both audit streams, merged by storage time, from a time on, up to the sequences in ``until``."""
    until = until if until is not None else await read_positions(bus)
    async with AsyncExitStack() as stack:
        streams = [
            await stack.enter_async_context(aclosing(scan(bus, audit, since=since, until=end)))
            for audit, end in until.items()
            if end
        ]
        waiting = [(stored, stream) for stream in streams if (stored := await anext(stream, None))]
        while waiting:
            # The server omits trailing zeros of a fraction.
            earliest = min(waiting, key=lambda pair: pair[0].time.rstrip("Z"))
            stored, stream = earliest
            yield parse_copy(stored)
            waiting.remove(earliest)
            if following := await anext(stream, None):
                waiting.append((following, stream))


async def read_positions(bus: Bus) -> dict[str, int]:
    """The last sequence of each audit stream."""
    return {audit: await last_sequence(bus, audit) for audit in subjects.AUDITED.values()}


class AuditFollower:
    """The audit log as it grows, complete.

    The server republishes each copy with its sequence in the audit stream. If sequences are skipped, for
    instance after a lost connection, a Gap is yielded, and then the missed copies, read from the stream.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._received: asyncio.Queue[Copy] = asyncio.Queue()

    async def follow(self, since: datetime | None = None) -> AsyncGenerator[Copy | Gap, None]:
        """The copies from ``since`` on (None: from now on), without end."""
        await self._bus.subscribe(subjects.AUDIT_ALL, self._receive)
        reached = await read_positions(self._bus)
        if since is not None:
            async with aclosing(read_audit_log(self._bus, since, dict(reached))) as history:
                async for copy in history:
                    yield copy
        while True:
            copy = await self._received.get()
            last = reached.get(copy.audit, 0)
            if copy.audit_seq <= last:
                continue
            if copy.audit_seq > last + 1:
                yield Gap(copy.audit, last + 1, copy.audit_seq - 1)
                async with aclosing(
                    scan(self._bus, copy.audit, seq=last + 1, until=copy.audit_seq - 1)
                ) as missed:
                    async for stored in missed:
                        yield parse_copy(stored)
            reached[copy.audit] = copy.audit_seq
            yield copy

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
        self._received.put_nowait(parse_copy(stored))


MAX_LISTED = 20
"""The most problems that are described; the others are only counted."""
COPY_TIMEOUT = 10.0
"""Seconds until the last message must have been copied."""
PROGRESS_INTERVAL = 1_000
"""Messages between two progress reports."""


class Verification(msgspec.Struct, kw_only=True):
    """The result of comparing an audit stream with its source.

    ``removed_count`` counts messages that were removed from the source later, such as dropped dead letters:
    that is not a problem, the audit stream exists to keep them. Nor are those of ``erased_count``: they were
    erased in both, as a person ordered, and both the order and what is left of each message are on record.
    """

    source: str
    audit: str
    compared: int = 0
    removed_count: int = 0
    erased_count: int = 0
    problem_count: int = 0
    problems: list[str] = []

    def add_problem(self, problem: str) -> None:
        """Count a problem, and keep its description."""
        self.problem_count += 1
        if len(self.problems) < MAX_LISTED:
            self.problems.append(problem)


async def verify_copies(
    bus: Bus,
    source: str,
    audit: str,
    report: Callable[[str], None] = lambda _: None,
    timeout: float = COPY_TIMEOUT,
) -> Verification:
    """Compare every message of ``source`` stored until now with its copy in ``audit``.

    Waits at most ``timeout`` seconds for the last copy; ``report`` gets the progress.
    """
    result = Verification(source=source, audit=audit, problems=[])
    end = await last_sequence(bus, source)
    await _wait_for_copies(bus, audit, end, timeout)
    if audit != subjects.AUDIT_MEMORY:  # it has the orders by which messages were erased
        await _wait_for_copies(bus, subjects.AUDIT_MEMORY, await last_sequence(bus, subjects.MEMORY), timeout)
    await _check_protection(bus, result)
    await _compare_all(bus, result, end, report)
    return result


async def _compare_all(bus: Bus, result: Verification, end: int, report: Callable[[str], None]) -> None:
    originals = _Originals(scan(bus, result.source, until=end))
    erased = await _find_erased(bus, result.audit)
    position = copied = 0
    async with aclosing(scan(bus, result.audit)) as copies:
        async for stored in copies:
            copy = parse_copy(stored)
            if copy.source_seq > end:
                break
            if _check_position(result, copy, position, copied, erased):
                copied = copy.source_seq
                _compare(result, copy, await originals.find(copied))
            position = copy.audit_seq
            if result.compared % PROGRESS_INTERVAL == 0:
                report(f"{result.source}: {result.compared:,} of {end:,} messages compared")
    if copied < end:
        result.add_problem(f"{_range(result.source, copied + 1, end)} no copy")


async def _find_erased(bus: Bus, audit: str) -> set[int]:
    """The messages that are recorded as erased, by memory or the admin, by an order that a person signed."""
    causes: dict[str, list[int]] = {}
    if audit == subjects.AUDIT_MEMORY:
        async for stored in scan(bus, audit, subjects.memory_write(subjects.MEMORY_DAEMON)):
            if b'"memory_erased.v1"' in stored.data and (record := _read(stored, MemoryErased)):
                causes.setdefault(record.cause, []).extend(record.seqs)
    else:
        async for stored in scan(bus, audit, subjects.ERASED):
            if noted := _read(stored, MessagesErased):
                causes.setdefault(noted.cause, []).extend(message.seq for message in noted.messages)
    erased: set[int] = set()
    if causes:
        async for stored in scan(bus, subjects.AUDIT_MEMORY, subjects.memory_write(subjects.USER)):
            if b'"forget":["' in stored.data and (order := _read(stored, MemoryWrite)):
                erased.update(causes.get(order.id, ()) if order.forget else ())
    return erased


def _read(stored: Stored, kind: type[Kind]) -> Kind | None:
    try:
        return kind.from_json(stored.data)
    except (ValueError, RecursionError, UnicodeError):
        return None


class _Originals:
    """The source's messages, read alongside their copies."""

    def __init__(self, messages: AsyncIterator[Stored]) -> None:
        self._messages = messages
        self._ahead: Stored | None = None

    async def find(self, seq: int) -> Stored | None:
        """The message with this sequence, None if it was removed; sequences must be requested in order."""
        while self._ahead is None or self._ahead.seq < seq:
            following = await anext(self._messages, None)
            if following is None:
                return None
            self._ahead = following
        return self._ahead if self._ahead.seq == seq else None


def _check_position(
    result: Verification, copy: Copy, position: int, copied: int, erased: Container[int]
) -> bool:
    """Whether the copy follows the copy before; adds a problem for what is missing between them, unless it
    was ``erased``.
    """
    missing = range(copied + 1, copy.source_seq)
    explained = sum(seq in erased for seq in missing)
    result.erased_count += explained
    if copy.audit_seq - position - 1 > explained:
        result.add_problem(f"{_range(result.audit, position + 1, copy.audit_seq - 1)} been removed")
    if copy.source != result.source:
        result.add_problem(f"{result.audit} {copy.audit_seq} is not a copy of a message of {result.source}")
        return False
    if copy.source_seq <= copied:
        result.add_problem(
            f"{result.audit} {copy.audit_seq} repeats {result.source} {copy.source_seq}, out of order"
        )
        return False
    if explained < len(missing):
        result.add_problem(f"{_range(result.source, copied + 1, copy.source_seq - 1)} no copy")
    return True


def _compare(result: Verification, copy: Copy, original: Stored | None) -> None:
    result.compared += 1
    if original is None:
        result.removed_count += 1
    elif (original.subject, original.data) != (copy.subject, copy.data):
        result.add_problem(f"{result.audit} {copy.audit_seq} differs from {result.source} {copy.source_seq}")


def _range(stream: str, first: int, last: int) -> str:
    return f"{stream} {first} has" if first == last else f"{stream} {first} to {last} have"


async def _wait_for_copies(bus: Bus, audit: str, end: int, timeout: float) -> None:
    """Wait for the copy of message ``end``: the server copies asynchronously."""
    deadline = asyncio.get_running_loop().time() + timeout
    while asyncio.get_running_loop().time() < deadline:
        last = await last_sequence(bus, audit)
        newest = [parse_copy(stored) async for stored in scan(bus, audit, seq=last)] if last else []
        if not end or (newest and newest[-1].source_seq >= end):
            return
        await asyncio.sleep(0.1)


async def _check_protection(bus: Bus, result: Verification) -> None:
    info: dict[str, Any] = await call_server(bus, f"STREAM.INFO.{result.audit}")
    if not info["config"].get("deny_purge"):
        result.add_problem(
            f"{result.audit} is not protected: deny_purge is off; 'mailroom provision' sets it"
        )
