"""Erases messages of OFFICE and AUDIT: records and what is left of them first, whatever interrupts it."""

import asyncio
import contextlib
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from shared import subjects
from shared.bus import Bus, Entry, Stored
from shared.bus.entry import seal
from shared.bus.replacement import HANDLED, HEADER, WAITING, Origin, find_origin
from shared.contracts import ErasedMessage, MessagesErased
from shared.errors import BusError, Conflict
from shared.operations.erasure.positions import BUSY, Positions
from shared.operations.erasure.redaction import kind_of, quotes, redact
from shared.queries.audit_log import Copy, parse_copy
from shared.queries.records import last_sequence, read_message, scan
from shared.text.quotations import Quotations

T = TypeVar("T")
TOGETHER = 50
"""The most messages that are replaced in one commit."""
AT_ONCE = 32
"""Requests to the server at a time."""
PAUSE = 0.5
"""Seconds between two looks at what agents were still acting on."""
COPY_WAIT = 10.0
"""Seconds until the audit must have a copy of the last message."""
LISTED = 5_000
"""The most places of copies in one record."""

Report = Callable[[str, int, int], None]
"""Is told the present step, how much of it is done, and of how much."""


class _Unit(NamedTuple):
    """What is replaced in one commit: the messages that are erased, and what is stored in their place."""

    copies: list[Copy]
    entries: list[Entry]


async def find_quotations(
    bus: Bus, quotations: Quotations, start: int = 1, report: Report = lambda *_: None
) -> AsyncIterator[list[Stored]]:
    """The messages of AUDIT that quote the texts, page by page, without their headers."""
    end = await last_sequence(bus, subjects.AUDIT)
    if start > end or not quotations:
        return
    async for page in bus.read_all(subjects.AUDIT, start, end, timeout=30.0):
        yield [stored for stored in page if quotes(stored.data, quotations)]
        report("reading the office's messages", page[-1].seq if page else end, end)
        await asyncio.sleep(0)


class Eraser:
    """Erases what quotes ``quotations``, by the order ``cause``, as the admin.

    For each message a record without its texts is appended, in one commit with the message that takes its
    place, if it needs one: the last of a record or of a task, and what is no record, such as mail. Recipients
    that acted on the first pass over the second. Once the audit has the commit, the message is overwritten on
    disk in OFFICE and AUDIT. What an agent is acting on, or a task under way, is left until it has ended.
    """

    def __init__(
        self, bus: Bus, quotations: Quotations, cause: str, report: Report = lambda *_: None
    ) -> None:
        self._bus, self._quotations, self._cause, self._report = bus, quotations, cause, report
        self._recorded: set[int] = set()
        self._treated: set[int] = set()
        self._positions = Positions(())
        self.kept = 0
        """Messages of AUDIT that its server erases for nobody."""

    async def run(self, patience: float, before: int) -> int:
        """Erase what there is; returns how many messages are left because an agent acts on them.

        An agent that has a message in hand from before the sequence ``before`` may have read the texts, and
        quote them later: it waits for these too, ``patience`` seconds at most. Raises BusError; it can be
        done again at any time.
        """
        self._recorded = await read_recorded(self._bus)
        until = asyncio.get_running_loop().time() + patience
        start, busy = 1, set[int]()
        while True:
            in_hand = (await Positions.read(self._bus)).count_open(before)
            end = await self._catch_up()
            found = sorted(busy)
            async for page in find_quotations(self._bus, self._quotations, start, self._report):
                found += [stored.seq for stored in page if stored.seq not in busy]
            busy, start, new = await self._treat_all(found), end + 1, set(found) - busy
            if new - busy:
                continue  # an agent may have quoted them meanwhile
            if not (busy or in_hand) or asyncio.get_running_loop().time() > until:
                break
            await asyncio.sleep(PAUSE)
        await self._note_copies()
        return max(len(busy), in_hand)

    async def _treat_all(self, seqs: Sequence[int]) -> set[int]:
        """Erase messages of AUDIT and their originals; returns those that an agent acts on."""
        busy: set[int] = set()
        for done, some in enumerate(_parts(seqs, TOGETHER)):
            copies = [
                parse_copy(each) for each in await self._all(self._copy_at(seq) for seq in some) if each
            ]
            self._positions = await Positions.read(self._bus)
            busy |= await self._treat([each for each in copies if each.audit_seq not in self._treated])
            self._report("erasing messages", TOGETHER * done + len(some), len(seqs))
        return busy

    async def _treat(self, copies: Sequence[Copy]) -> set[int]:
        """The same of a part of them that fits into memory."""
        again = [copy for copy in copies if copy.source_seq in self._recorded]
        units, busy, plain = [_Unit(again, [])] if again else [], set[int](), list[Copy]()
        tasks: dict[str, list[Copy]] = {}
        for copy in copies:
            tokens = copy.subject.split(".")
            if copy.source_seq in self._recorded:
                continue
            if tokens[0] == "task" and len(tokens) == 5:
                tasks.setdefault(".".join((*tokens[:4], "*")), []).append(copy)
            elif tokens[0] in ("state", "record", "approval"):
                units.append(await self._replace_record(copy))
            elif self._positions.state_of(copy.subject, copy.source_seq) == BUSY:
                busy.add(copy.audit_seq)
            else:
                plain.append(copy)
        units += [await self._replace_plain(some) for some in _split_by_bytes(plain)]
        for pattern, steps in tasks.items():
            unit = await self._replace_task(pattern, steps)
            units += [unit] if unit else []
            busy |= {copy.audit_seq for copy in steps} if unit is None else set()
        committed = [unit for unit in units if unit.copies]
        stored = await asyncio.gather(*(self._commit(unit) for unit in committed))
        await self._erase([unit for unit, is_stored in zip(committed, stored, strict=True) if is_stored])
        lost = [unit for unit, is_stored in zip(committed, stored, strict=True) if not is_stored]
        return busy | {copy.audit_seq for unit in lost for copy in unit.copies}

    async def _replace_record(self, copy: Copy) -> _Unit:
        """A record keeps its last state; earlier ones are on record alone."""
        last = await self._bus.last(subjects.OFFICE, copy.subject)
        if last is None or last.seq != copy.source_seq:
            return _Unit([copy], [])
        return _Unit([copy], [self._entry(copy, last)._replace(expect=copy.source_seq)])

    async def _replace_task(self, pattern: str, copies: Sequence[Copy]) -> _Unit | None:
        """The steps of a task, its last one at the end, for it is what the task is; None while it goes on."""
        steps = [stored async for stored in scan(self._bus, subjects.OFFICE, pattern)]
        if not steps:
            return _Unit([*copies], [])
        last = steps[-1]
        is_over = last.subject.rpartition(".")[2] in subjects.FINAL_STEPS
        # What led to the end was acted on; whether its requester has the end is another matter.
        states = {
            self._positions.state_of(step.subject, step.seq) for step in (steps[-1:] if is_over else steps)
        }
        if BUSY in states or not (is_over or states == {WAITING}):
            return None
        found = {copy.source_seq: copy for copy in copies}
        if last.seq not in found:
            kept = [parse_copy(each) async for each in scan(self._bus, subjects.AUDIT, last.subject)]
            found |= {copy.source_seq: copy for copy in kept if copy.source_seq == last.seq}
        if last.seq not in found:
            return None
        again = [
            self._entry(found[step.seq], step, HANDLED if is_over and step is not last else "")
            for step in steps
            if step.seq in found
        ]
        again[0] = again[0]._replace(expect=last.seq, guard=pattern)
        return _Unit(list(found.values()), again)

    async def _replace_plain(self, copies: list[Copy]) -> _Unit:
        """Messages that are no records; what was removed from OFFICE before is not put back."""
        found = await self._all(read_message(self._bus, subjects.OFFICE, copy.source_seq) for copy in copies)
        there = zip(copies, found, strict=True)
        return _Unit(copies, [self._entry(copy, stored) for copy, stored in there if stored is not None])

    def _entry(self, copy: Copy, stored: Stored, state: str = "") -> Entry:
        """What takes the place of a message; ``state`` says whether it was acted on, if that is known."""
        origin = find_origin(copy.data) or Origin(seq=stored.seq, time=stored.time)
        state = state or self._positions.state_of(copy.subject, copy.source_seq)
        kept = {name: value for name, value in copy.headers.items() if not name.startswith("Nats-")}
        return Entry(
            copy.subject,
            redact(copy.data, self._quotations, origin),
            self._bus.derive_id("replaces", self._cause, str(copy.source_seq)),
            headers={**kept, HEADER: f"{copy.source_seq} {WAITING if state == WAITING else HANDLED}"},
        )

    async def _commit(self, unit: _Unit) -> bool:
        """Store the record of a unit with its messages; False if a record changed meanwhile."""
        new = [copy for copy in unit.copies if copy.source_seq not in self._recorded]
        if not new:
            return True
        replaced = {str(entry.headers[HEADER]).split()[0] for entry in unit.entries if entry.headers}
        record = MessagesErased(
            sender=self._bus.name,
            cause=self._cause,
            messages=tuple(self._describe(copy, str(copy.source_seq) in replaced) for copy in new),
        )
        try:
            await self._bus.commit([seal(subjects.ERASED, record), *unit.entries])
        except Conflict:
            return False
        self._recorded.update(copy.source_seq for copy in new)
        return True

    def _describe(self, copy: Copy, replaced: bool) -> ErasedMessage:
        kind, message_id = kind_of(copy.data)
        digest = self._bus.derive_id("erased", hashlib.sha256(copy.data).hexdigest())
        return ErasedMessage(
            seq=copy.source_seq,
            copy=copy.audit_seq,
            subject=copy.subject,
            time=copy.time,
            digest=digest,
            kind=kind[:64],
            message_id=message_id[:64],
            replaced=replaced,
        )

    async def _erase(self, units: Sequence[_Unit]) -> None:
        """Overwrite messages on disk and remove them, first in OFFICE, when the audit has their records."""
        copies = [copy for unit in units for copy in unit.copies]
        if not copies:
            return
        await self._catch_up()
        await self._all(self._delete(subjects.OFFICE, copy.source_seq) for copy in copies)
        gone = await self._all(self._delete(subjects.AUDIT, copy.audit_seq) for copy in copies)
        self.kept += gone.count(False)
        self._treated.update(copy.audit_seq for copy in copies)

    async def _delete(self, stream: str, seq: int) -> bool:
        request = json.dumps({"seq": seq}).encode()
        answer = json.loads(
            await self._bus.request(f"$JS.API.STREAM.MSG.DELETE.{stream}", request, timeout=10.0)
        )
        if "error" not in answer:
            return True
        if await read_message(self._bus, stream, seq) is None:
            return True
        if stream == subjects.OFFICE:
            raise BusError(
                f"The server does not erase message {seq} of {stream}: {answer['error']['description']}"
            )
        return False

    async def _catch_up(self) -> int:
        """Wait until AUDIT has all of OFFICE: what is erased before it is copied would be missing.

        Returns the last place in AUDIT.
        """
        wanted = await last_sequence(self._bus, subjects.OFFICE)
        until = asyncio.get_running_loop().time() + COPY_WAIT
        while True:
            end = await last_sequence(self._bus, subjects.AUDIT)
            last = await read_message(self._bus, subjects.AUDIT, end) if end else None
            if not wanted or (last is not None and parse_copy(last).source_seq >= wanted):
                return end
            if asyncio.get_running_loop().time() > until:
                raise BusError("The audit has no copy of the last message yet; the order is tried again")
            await asyncio.sleep(0.05)

    async def _note_copies(self) -> None:
        """End the record: the order is done, and these are the places that AUDIT has no more."""
        copies = [
            message.copy
            async for record in read_records(self._bus)
            if record.cause == self._cause
            for message in record.messages
        ]
        for some in _parts(copies, LISTED) or [()]:
            done = MessagesErased(sender=self._bus.name, cause=self._cause, copies=tuple(some))
            await self._bus.commit([seal(subjects.ERASED, done)])

    async def _copy_at(self, seq: int) -> Stored | None:
        return await read_message(self._bus, subjects.AUDIT, seq)

    async def _all(self, requests: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        """The answers to requests, AT_ONCE at a time."""
        slots = asyncio.Semaphore(AT_ONCE)

        async def ask(request: Coroutine[Any, Any, T]) -> T:
            async with slots:
                return await request

        return await asyncio.gather(*map(ask, requests))


async def read_recorded(bus: Bus, cause: str = "") -> set[int]:
    """The messages of OFFICE that are on record as erased, by this order or by any."""
    records = [each async for each in read_records(bus) if cause in ("", each.cause)]
    return {message.seq for record in records for message in record.messages}


async def read_records(bus: Bus, since: datetime | None = None) -> AsyncIterator[MessagesErased]:
    """The records of what was erased in OFFICE."""
    async for stored in scan(bus, subjects.OFFICE, subjects.ERASED, since=since):
        with contextlib.suppress(ValueError):
            yield MessagesErased.from_json(stored.data)


def _split_by_bytes(copies: Iterable[Copy]) -> Iterator[list[Copy]]:
    """Parts of at most MAX_BATCH_BYTES, or of one message."""
    part: list[Copy] = []
    for copy in copies:
        if part and sum(len(each.data) for each in (*part, copy)) > subjects.MAX_BATCH_BYTES:
            yield part
            part = []
        part.append(copy)
    if part:
        yield part


def _parts(items: Sequence[T], size: int) -> list[Sequence[T]]:
    return [items[begin : begin + size] for begin in range(0, len(items), size)]
