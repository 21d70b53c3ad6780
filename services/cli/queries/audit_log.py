"""The audit trail: what was stored, in order, and what is being stored now."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, aclosing
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from services.cli.queries.records import call_server, last_sequence, scan
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


MAX_LISTED = 20
"""The most problems that are described; the others are counted."""
PATIENCE = 10.0
"""Seconds the server is given to copy what was stored last."""
TELL_EVERY = 1_000
"""Messages between signs of progress."""


class Finding(msgspec.Struct, kw_only=True):
    """What comparing an audit stream with its source showed.

    ``removed_count`` counts messages that are in the audit stream and not in the source any more, such as
    dropped dead letters: that is no problem, it is what the audit stream is for.
    """

    source: str
    audit: str
    compared: int = 0
    removed_count: int = 0
    problem_count: int = 0
    problems: list[str] = []

    def object_to(self, problem: str) -> None:
        """Note a problem."""
        self.problem_count += 1
        if len(self.problems) < MAX_LISTED:
            self.problems.append(problem)


async def verify_copies(
    bus: Bus,
    source: str,
    audit: str,
    tell: Callable[[str], None] = lambda _: None,
    patience: float = PATIENCE,
) -> Finding:
    """Compare every message of ``source`` stored until now with its copy in ``audit``.

    Waits at most ``patience`` seconds for the last copy; ``tell`` gets signs of progress.
    """
    finding = Finding(source=source, audit=audit, problems=[])
    end = await last_sequence(bus, source)
    await _await_copies(bus, audit, end, patience)
    await _check_protection(bus, finding)
    await _compare_all(bus, finding, end, tell)
    return finding


async def _compare_all(bus: Bus, finding: Finding, end: int, tell: Callable[[str], None]) -> None:
    originals = _Originals(scan(bus, finding.source, until=end))
    position = copied = 0
    async with aclosing(scan(bus, finding.audit)) as copies:
        async for stored in copies:
            copy = copy_of(stored)
            if copy.source_seq > end:
                break
            if _is_in_place(finding, copy, position, copied):
                copied = copy.source_seq
                _compare(finding, copy, await originals.find(copied))
            position = copy.audit_seq
            if finding.compared % TELL_EVERY == 0:
                tell(f"{finding.source}: {finding.compared:,} of {end:,} messages compared")
    if copied < end:
        finding.object_to(f"{_range(finding.source, copied + 1, end)} no copy")


class _Originals:
    """The source's messages, read alongside their copies."""

    def __init__(self, messages: AsyncIterator[Stored]) -> None:
        self._messages = messages
        self._ahead: Stored | None = None

    async def find(self, seq: int) -> Stored | None:
        """The message of this sequence, None where it was removed; sequences must be asked for in order."""
        while self._ahead is None or self._ahead.seq < seq:
            following = await anext(self._messages, None)
            if following is None:
                return None
            self._ahead = following
        return self._ahead if self._ahead.seq == seq else None


def _is_in_place(finding: Finding, copy: Copy, position: int, copied: int) -> bool:
    """Whether the copy is of a later message than the copy before; notes what is missing between them."""
    if copy.audit_seq != position + 1:
        finding.object_to(f"{_range(finding.audit, position + 1, copy.audit_seq - 1)} been removed")
    if copy.source != finding.source:
        finding.object_to(f"{finding.audit} {copy.audit_seq} is no copy of a message of {finding.source}")
        return False
    if copy.source_seq <= copied:
        finding.object_to(
            f"{finding.audit} {copy.audit_seq} repeats {finding.source} {copy.source_seq}, out of order"
        )
        return False
    if copy.source_seq > copied + 1:
        finding.object_to(f"{_range(finding.source, copied + 1, copy.source_seq - 1)} no copy")
    return True


def _compare(finding: Finding, copy: Copy, original: Stored | None) -> None:
    finding.compared += 1
    if original is None:
        finding.removed_count += 1
    elif (original.subject, original.data) != (copy.subject, copy.data):
        finding.object_to(f"{finding.audit} {copy.audit_seq} differs from {finding.source} {copy.source_seq}")


def _range(stream: str, first: int, last: int) -> str:
    return f"{stream} {first} has" if first == last else f"{stream} {first} to {last} have"


async def _await_copies(bus: Bus, audit: str, end: int, patience: float) -> None:
    """Wait for the copy of message ``end``: copying follows storing, and is no gap while it does."""
    deadline = asyncio.get_running_loop().time() + patience
    while asyncio.get_running_loop().time() < deadline:
        last = await last_sequence(bus, audit)
        newest = [copy_of(stored) async for stored in scan(bus, audit, seq=last)] if last else []
        if not end or (newest and newest[-1].source_seq >= end):
            return
        await asyncio.sleep(0.1)


async def _check_protection(bus: Bus, finding: Finding) -> None:
    info: dict[str, Any] = await call_server(bus, f"STREAM.INFO.{finding.audit}")
    for setting in ("deny_delete", "deny_purge"):
        if not info["config"].get(setting):
            finding.object_to(
                f"{finding.audit} is not protected: {setting} is off; 'mailroom provision' sets it"
            )
