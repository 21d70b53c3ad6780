"""Erases messages of OFFICE: records and what is left of them first, whatever interrupts it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from shared import subjects
from shared.bus import Bus, Entry, Stored
from shared.bus.client import HANDLED, HEADER, WAITING, Origin, find_origin
from shared.bus.entry import SALT, seal
from shared.contracts import ErasedMessage, MessagesErased
from shared.errors import BusError, Conflict
from shared.operations.erasure.redaction import kind_of, quotes, redact
from shared.operations.erasure.retention import BUSY, Positions
from shared.queries.records import last_sequence, scan
from shared.text.quotations import Quotations
from shared.trail.seals import make_leaf

T = TypeVar("T")
TOGETHER = 50  # The most messages that are replaced in one commit
AT_ONCE = 32  # Requests to the server at a time
PAUSE = 0.5  # Seconds between two looks at what agents were still acting on
LISTED = 5_000  # The most sequences in one record

Report = Callable[[str, int, int], None]  # Is told the present step, how much of it is done, and of how much


class _Unit(NamedTuple):
    """What is replaced in one commit: the messages that are erased, and what is stored in their place."""

    erased: list[Stored]
    entries: list[Entry]


async def find_quotations(
    bus: Bus, quotations: Quotations, start: int = 1, report: Report = lambda *_: None
) -> AsyncIterator[list[Stored]]:
    """The messages of OFFICE that quote the texts, page by page."""
    end = await last_sequence(bus, subjects.OFFICE)
    if start > end or not quotations:
        return
    async for page in bus.read_all(subjects.OFFICE, start, end, timeout=30.0):
        yield [stored for stored in page if quotes(stored.data, quotations)]
        report("reading the office's messages", page[-1].seq if page else end, end)
        await asyncio.sleep(0)


class Eraser:
    """Erases what quotes ``quotations``, by the order ``cause``, as the eraser.

    For each message a record without its texts is appended, in one commit with the message that takes its
    place, if it needs one: the last of a record or of a task, and what is no record, such as mail. Recipients
    that acted on the first pass over the second. Then the message is overwritten on disk. What an agent is
    acting on, or a task under way, is left until it has ended.
    """

    def __init__(
        self, bus: Bus, quotations: Quotations, cause: str, report: Report = lambda *_: None
    ) -> None:
        self._bus, self._quotations, self._cause, self._report = bus, quotations, cause, report
        self._recorded: set[int] = set()
        self._treated: set[int] = set()
        self._positions = Positions(())

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
            end = await last_sequence(self._bus, subjects.OFFICE)
            found = sorted(busy)
            async for page in find_quotations(self._bus, self._quotations, start, self._report):
                found += [stored.seq for stored in page if stored.seq not in busy]
            busy, start, new = await self._treat_all(found), end + 1, set(found) - busy
            if new - busy:
                continue  # an agent may have quoted them meanwhile
            if not (busy or in_hand) or asyncio.get_running_loop().time() > until:
                break
            await asyncio.sleep(PAUSE)
        # End the record: the order is done, and these messages are gone
        gone = [
            message.seq
            async for record in read_records(self._bus)
            if record.cause == self._cause and record.stream == subjects.OFFICE
            for message in record.messages
        ]
        for some in _parts(gone, LISTED) or [()]:
            done = MessagesErased(sender=self._bus.name, cause=self._cause, gone=tuple(some))
            await self._bus.commit([seal(subjects.ERASED, done)])
        return max(len(busy), in_hand)

    async def _treat_all(self, seqs: Sequence[int]) -> set[int]:
        """Erase messages; returns those that an agent acts on."""
        busy: set[int] = set()
        for done, some in enumerate(_parts(seqs, TOGETHER)):
            found = await self._all(self._bus.get_exactly(subjects.OFFICE, seq) for seq in some)
            self._positions = await Positions.read(self._bus)
            busy |= await self._treat([each for each in found if each and each.seq not in self._treated])
            self._report("erasing messages", TOGETHER * done + len(some), len(seqs))
        return busy

    async def _treat(self, found: Sequence[Stored]) -> set[int]:
        """The same of a part of them that fits into memory."""
        again = [each for each in found if each.seq in self._recorded]
        units, busy, plain = [_Unit(again, [])] if again else [], set[int](), list[Stored]()
        tasks: dict[str, list[Stored]] = {}
        for each in found:
            tokens = each.subject.split(".")
            if each.seq in self._recorded:
                continue
            if tokens[0] == "task" and len(tokens) == 5:
                tasks.setdefault(".".join((*tokens[:4], "*")), []).append(each)
            elif tokens[0] in ("state", "record", "approval"):
                units.append(await self._replace_record(each))
            elif self._positions.state_of(each.subject, each.seq) == BUSY:
                busy.add(each.seq)
            else:
                plain.append(each)
        units += [_Unit(some, [self._entry(each) for each in some]) for some in _split_by_bytes(plain)]
        for pattern, steps in tasks.items():
            unit = await self._replace_task(pattern, steps)
            units += [unit] if unit else []
            busy |= {each.seq for each in steps} if unit is None else set()
        committed = [unit for unit in units if unit.erased]
        stored = await asyncio.gather(*(self._commit(unit) for unit in committed))
        await self._erase([unit for unit, is_stored in zip(committed, stored, strict=True) if is_stored])
        lost = [unit for unit, is_stored in zip(committed, stored, strict=True) if not is_stored]
        return busy | {each.seq for unit in lost for each in unit.erased}

    async def _replace_record(self, stored: Stored) -> _Unit:
        """A record keeps its last state; earlier ones are on record alone."""
        last = await self._bus.last(subjects.OFFICE, stored.subject)
        if last is None or last.seq != stored.seq:
            return _Unit([stored], [])
        return _Unit([stored], [self._entry(stored)._replace(expect=stored.seq)])

    async def _replace_task(self, pattern: str, found: Sequence[Stored]) -> _Unit | None:
        """The steps of a task, its last one at the end, for it is what the task is; None while it goes on."""
        steps = [stored async for stored in scan(self._bus, subjects.OFFICE, pattern)]
        last = steps[-1]
        is_over = last.subject.rpartition(".")[2] in subjects.FINAL_STEPS
        # What led to the end was acted on; whether its requester has the end is another matter.
        states = {
            self._positions.state_of(step.subject, step.seq) for step in (steps[-1:] if is_over else steps)
        }
        if BUSY in states or not (is_over or states == {WAITING}):
            return None
        erased = {each.seq: each for each in found}
        if last.seq not in erased:
            exact = await self._bus.get_exactly(subjects.OFFICE, last.seq)
            erased |= {last.seq: exact} if exact else {}
        if last.seq not in erased:
            return None
        again = [
            self._entry(erased[step.seq], HANDLED if is_over and step is not last else "")
            for step in steps
            if step.seq in erased
        ]
        again[0] = again[0]._replace(expect=last.seq, guard=pattern)
        return _Unit(list(erased.values()), again)

    def _entry(self, stored: Stored, state: str = "") -> Entry:
        """What takes the place of a message; ``state`` says whether it was acted on, if that is known."""
        origin = find_origin(stored.data) or Origin(seq=stored.seq, time=stored.time)
        state = state or self._positions.state_of(stored.subject, stored.seq)
        kept = {
            name: value
            for name, value in stored.headers.items()
            if not name.startswith("Nats-") and name != SALT  # with its salt a text could be guessed
        }
        return Entry(
            stored.subject,
            redact(stored.data, self._quotations, origin),
            self._bus.derive_id("replaces", self._cause, str(stored.seq)),
            headers={**kept, HEADER: f"{stored.seq} {WAITING if state == WAITING else HANDLED}"},
        )

    async def _commit(self, unit: _Unit) -> bool:
        """Store the record of a unit with its messages; False if a record changed meanwhile."""
        new = [each for each in unit.erased if each.seq not in self._recorded]
        if not new:
            return True
        replaced = {str(entry.headers[HEADER]).split()[0] for entry in unit.entries if entry.headers}
        record = MessagesErased(
            sender=self._bus.name,
            cause=self._cause,
            messages=tuple(describe(each, str(each.seq) in replaced) for each in new),
        )
        try:
            await self._bus.commit([seal(subjects.ERASED, record), *unit.entries])
        except Conflict:
            return False
        self._recorded.update(each.seq for each in new)
        return True

    async def _erase(self, units: Sequence[_Unit]) -> None:
        """Overwrite messages on disk and remove them: their records are stored."""
        seqs = [each.seq for unit in units for each in unit.erased]
        await self._all(delete(self._bus, subjects.OFFICE, seq) for seq in seqs)
        self._treated.update(seqs)

    async def _all(self, requests: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        return await gather_some(requests)


async def gather_some(requests: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The answers to requests, AT_ONCE at a time."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def ask(request: Coroutine[Any, Any, T]) -> T:
        async with slots:
            return await request

    return await asyncio.gather(*map(ask, requests))


def describe(stored: Stored, replaced: bool = False) -> ErasedMessage:
    """What is known of a message without its texts, and the commitment to it."""
    kind, message_id = kind_of(stored.data)
    return ErasedMessage(
        seq=stored.seq,
        subject=stored.subject,
        time=stored.time,
        leaf=make_leaf(stored).hex(),
        kind=kind[:64],
        message_id=message_id[:64],
        replaced=replaced,
    )


async def delete(bus: Bus, stream: str, seq: int, *, overwrite: bool = True) -> None:
    """Have a message overwritten on disk and removed; it may be gone. Raises BusError if it stays."""
    answer = await bus.call(f"STREAM.MSG.DELETE.{stream}", {"seq": seq, "no_erase": not overwrite})
    if "error" in answer and await bus.get_exactly(stream, seq) is not None:
        raise BusError(
            f"The server does not erase message {seq} of {stream}: {answer['error']['description']}"
        )


async def read_recorded(bus: Bus, cause: str = "", stream: str = subjects.OFFICE) -> set[int]:
    """The messages of a stream that are on record as erased, by this order or by any."""
    records = [
        each async for each in read_records(bus) if cause in ("", each.cause) and each.stream == stream
    ]
    return {message.seq for record in records for message in record.messages}


async def read_records(bus: Bus, since: datetime | None = None) -> AsyncIterator[MessagesErased]:
    """The records of what was erased in the log."""
    async for stored in scan(bus, subjects.OFFICE, subjects.ERASED, since=since):
        with contextlib.suppress(ValueError):
            yield MessagesErased.from_json(stored.data)


def _split_by_bytes(found: Iterable[Stored]) -> Iterator[list[Stored]]:
    """Parts of at most MAX_BATCH_BYTES, or of one message."""
    part: list[Stored] = []
    for each in found:
        if part and sum(len(one.data) for one in (*part, each)) > subjects.MAX_BATCH_BYTES:
            yield part
            part = []
        part.append(each)
    if part:
        yield part


def _parts(items: Sequence[T], size: int) -> list[Sequence[T]]:
    return [items[begin : begin + size] for begin in range(0, len(items), size)]
