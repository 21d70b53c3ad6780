"""Orders to forget, carried out: records, messages, then the store; and what is left of a message."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any

import msgspec

from services.memory.engine import MemoryEngine
from services.memory.writes.write_log import Entry, WriteLog, read_entry
from shared import subjects
from shared.bus import Bus, Stored
from shared.bus.entry import seal
from shared.contracts import (
    ListQuery,
    MemoryErasable,
    MemoryErased,
    MemoryForgotten,
    MemoryRefused,
    MemoryWrite,
    Node,
)
from shared.errors import BusError, MailroomError, Reject
from shared.log import logger
from shared.operations.erasure.redaction import STRUCTURE
from shared.text.quotations import FORGOTTEN, Quotations, find_common, is_telling

_KEPT = ("id", "kind", "importance", "created_at", "updated_at", "valid_from", "valid_to")
"""What a node keeps that was forgotten, beside the name of its agent."""


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """What is left of a message: a write or a refusal without the texts, nothing if it could not be read.

    ``earlier`` is the message itself, if it is a record of what was left the time before.
    """

    write: MemoryWrite | None = None
    refused: MemoryRefused | None = None
    earlier: MemoryErased | None = None


class Secrets:
    """Nodes that are to be forgotten, and the texts that they had, as far as ``learn`` was told of them."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._ids = frozenset(ids)
        self._texts: dict[str, None] = {}
        self._id_patterns = [each.encode() for each in sorted(self._ids)]
        self._quotations = Quotations(())

    def names(self, node_id: str) -> bool:
        """Whether a node is to be forgotten."""
        return node_id in self._ids

    def learn(self, stored: Stored) -> None:
        """Keep the texts that a message says the nodes have."""
        if not any(pattern in stored.data for pattern in self._id_patterns):
            return
        try:
            found = list(self._texts_in(msgspec.json.decode(stored.data)))
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return
        self._texts |= dict.fromkeys(filter(is_telling, found))

    def leave_common(self, others: Iterable[str]) -> None:
        """Leave the parts of the texts that many of the texts of ``others`` have too."""
        self._quotations = Quotations(self._texts, find_common(self._texts, others))

    def redact(self, stored: Stored) -> Left | None:
        """What is left of a message without them; None if it holds nothing of them."""
        has_id = any(pattern in stored.data for pattern in self._id_patterns)
        if not has_id and not self._quotations.may_be_in(stored.data):
            return None
        try:
            entry = read_entry(stored.subject, stored.data, checked=True)
        except Reject:
            return Left()
        left: Entry = type(entry).from_checked_json(msgspec.json.encode(self._clean(entry.to_dict())))
        if left == entry:
            return None
        if isinstance(left, MemoryErased):
            assert isinstance(entry, MemoryErased)
            return Left(write=left.write, refused=left.refused, earlier=entry)
        if isinstance(left, MemoryWrite):
            return Left(write=left)
        return Left(refused=left if isinstance(left, MemoryRefused) else None)

    def _texts_in(self, value: Any) -> Iterable[str]:
        if isinstance(value, dict):
            if self._is_forgotten(value):
                metadata = value.get("metadata")
                told = metadata.items() if isinstance(metadata, dict) else ()
                kept = [each for name, each in told if name not in STRUCTURE]
                yield from _strings((value.get("title"), value.get("body"), kept))
            for each in value.values():
                yield from self._texts_in(each)
        elif isinstance(value, list):
            for each in value:
                yield from self._texts_in(each)

    def _is_forgotten(self, value: dict[str, Any]) -> bool:
        return isinstance(value.get("id"), str) and value["id"] in self._ids and "title" in value

    def _clean(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._clean_text(value)
        if isinstance(value, list):
            return [self._clean(each) for each in value]
        if not isinstance(value, dict):
            return value
        if self._is_forgotten(value):
            # A node without its text: it stays where it was, so that what was written of it still fits
            source = value.get("source")
            agent = source.get("agent", "") if isinstance(source, dict) else ""
            kept = {name: value[name] for name in _KEPT if name in value}
            return {**kept, "title": FORGOTTEN, "source": {"agent": agent}}
        after = {self._clean_text(key): self._clean(each) for key, each in value.items()}
        if after != value and "embedding" in after:
            after["embedding"] = []  # a text can be guessed from its vector
        if "vectors" in after and after.get("nodes") != value.get("nodes"):
            after |= {"vectors": "", "insist": True}
        return after

    def _clean_text(self, text: str) -> str:
        return self._quotations.redact(text) if self._quotations.are_in(text) else text


def is_forgotten(node: Node) -> bool:
    """Whether a node is what is left of one that a person had forgotten."""
    return bool(node.retired_version) and node.title == FORGOTTEN


def _strings(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value.strip()
    elif isinstance(value, dict):
        yield from _strings([*value.values()])
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _strings(each)


NOTE = "forgetting"
"""The name under which the store has the orders that are not done, and what was ever forgotten."""
PAUSE = 5.0  # Seconds after a failure until it is tried again
OTHERS = 1_000  # How many nodes are compared at a time with what is forgotten
LOOK = 0.2  # Seconds between two looks at whether the eraser has erased what it was told
PATIENCE = 60.0  # Seconds after which it is told again, and health says that it does not come
REFUSED = "It was forgotten by order of a person: write it under another id"

log = logger(__name__)


class Orders(msgspec.Struct, kw_only=True):
    """``waiting`` are orders that are not done, by their id: their places in the log, and the nodes.

    ``ids`` are all nodes that were ever forgotten, with their order; ``late`` the places of writes of them
    that came afterwards, to be erased too.
    """

    waiting: dict[str, tuple[int, tuple[str, ...]]] = {}
    ids: dict[str, str] = {}
    late: list[int] = []


class Forgetting:
    """Has erased what a person ordered to be forgotten, one piece of work at a time.

    For each message of the log that holds a text, a record of what is left of it is appended first. When all
    are, the eraser is told to erase the messages: memory itself has no right to. Once they are gone, the
    store is made again from the log. An order counts as done only then, so after a crash it is done again
    from the start: what was erased has its record, the rest still has the texts.
    """

    def __init__(
        self, engine: MemoryEngine, bus: Bus, log: WriteLog, rebuild: Callable[[], Awaitable[None]]
    ) -> None:
        self._engine = engine
        self._bus = bus
        self._rebuild = rebuild
        self._log = log
        self._orders = Orders()
        self._wake = asyncio.Event()
        self._done = self._total = 0
        self._step = self._problem = ""

    async def open(self, version: int) -> None:
        """Read what is not done yet of what was applied up to a graph version."""
        if note := await self._engine.read_note(NOTE):
            self._orders = msgspec.json.decode(note, type=Orders)
        for order, (_, ids) in list(self._orders.waiting.items()):
            answer = await self._engine.find_answer(order)
            if answer is not None and answer.version <= version:
                self._orders.ids |= dict.fromkeys(ids, order)
            else:
                del self._orders.waiting[order]  # it was not applied: if it is in the log, it comes again
        self._wake.set()

    @property
    def note(self) -> str:
        """What the store records of it."""
        return msgspec.json.encode(self._orders).decode()

    def status(self) -> dict[str, object]:
        """What belongs to memory's health: how far it is, or why it has failed."""
        if not (self._orders.waiting or self._orders.late):
            return {}
        progress = {"step": self._step, "done": self._done, "total": self._total}
        return {"forgetting": progress | ({"problem": self._problem} if self._problem else {})}

    def names_forgotten(self, write: MemoryWrite) -> bool:
        """Whether a write has a node that was forgotten: it is not applied, and handed to ``erase_late``."""
        return bool(self._orders.ids) and any(node.id in self._orders.ids for node in write.nodes)

    async def erase_late(self, seq: int) -> None:
        """Erase a write of what was forgotten, that came later."""
        self._orders.late.append(seq)
        await self.save()
        self._wake.set()

    async def begin(self, seq: int, write: MemoryWrite) -> None:
        """Record an order that is about to be applied, durably: from now on it is not lost."""
        self._orders.waiting[write.id] = (seq, write.forget)
        await self.save()

    async def carry_out(self, write: MemoryWrite) -> None:
        """Begin with an order that was applied."""
        self._orders.ids |= dict.fromkeys(write.forget, write.id)
        await self.save()
        self._wake.set()

    async def drop(self, write: MemoryWrite) -> None:
        """Take back an order that was refused."""
        self._orders.waiting.pop(write.id, None)
        await self.save()

    async def follow(self) -> None:
        """Erase from this copy what the log says is erased: an order of which it says so is done here too."""
        orders = self._orders
        if not (orders.waiting or orders.late):
            return
        done: set[str] = set()
        erased: set[int] = set()
        for record in await self._log.read_forgotten():
            done, erased = done | {*record.orders}, erased | {*record.seqs}
        if found := [order for order in orders.waiting if order in done and self._is_applied(order)]:
            await self._rebuild()
            orders.waiting = {order: each for order, each in orders.waiting.items() if order not in found}
            log.info("forgotten", orders=len(found))
        late = [seq for seq in orders.late if seq not in erased]
        if found or late != orders.late:
            orders.late = late
            await self.save()

    async def save(self) -> None:
        """Record the orders in the store."""
        await self._engine.write_note(NOTE, self.note)

    async def run(self) -> None:
        """Carry out orders until cancelled; one that fails is tried again after a pause."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._orders.late or any(self._is_applied(order) for order in self._orders.waiting):
                try:
                    await self._carry_out()
                except (MailroomError, OSError) as error:
                    self._problem = str(error)
                    log.warning("not_forgotten_yet", reason=self._problem)
                    await asyncio.sleep(PAUSE)

    def _is_applied(self, order: str) -> bool:
        _, ids = self._orders.waiting[order]
        return ids[0] in self._orders.ids

    async def _carry_out(self) -> None:
        self._problem = ""
        orders = [order for order in self._orders.waiting if self._is_applied(order)]
        late = list(self._orders.late)
        ids = sorted({node_id for order in orders for node_id in self._orders.waiting[order][1]})
        cause = orders[-1] if orders else next(reversed(self._orders.ids.values()))
        await self._record(Secrets(ids), late, cause)
        erased = (await self._log.read_records(1)).erased.values()
        mine = {*orders, cause}
        seqs = sorted({seq for record in erased if record.cause in mine for seq in record.seqs})
        # Have the eraser erase messages of the log, and return when they are gone
        self._done, self._total, self._step = 0, len(seqs), "waiting for the messages to be erased"
        until, told = asyncio.get_running_loop().time() + PATIENCE, False
        while self._done < len(seqs):
            if not await self._log.has(seqs[self._done]):
                self._done += 1
                continue
            if not told:
                await self._tell_eraser(seqs[self._done :], cause)
                told = True
            if asyncio.get_running_loop().time() > until:
                raise BusError(
                    f"{len(seqs) - self._done:,} messages of {subjects.MEMORY} are not erased yet",
                    "The eraser runs with 'mailroom up', and as a service of its own in containers",
                )
            await asyncio.sleep(LOOK)
            self._engine.touch()
        if orders:
            self._step = "rebuilding the store"
            await self._rebuild()
        if orders or seqs:
            done = MemoryForgotten(
                sender=subjects.MEMORY_DAEMON,
                cause=cause,
                orders=tuple(orders or [cause]),
                ids=tuple(ids),
                seqs=tuple(seqs),
            )
            await self._log.append(done)
            await self._tell_eraser((), cause)
        for order in orders:
            del self._orders.waiting[order]
        self._orders.late = [seq for seq in self._orders.late if seq not in late]
        await self.save()
        log.info("forgotten", nodes=len(ids), messages=len(seqs))

    async def _record(self, secrets: Secrets, late: Sequence[int], cause: str) -> None:
        """Append a record of what is left of each message that holds something of what is forgotten."""
        self._done, self._total, self._step = 0, 2 * await self._log.last(), "reading the log"
        async for stored in self._read(1, self._total // 2):
            secrets.learn(stored)
        secrets.leave_common([text async for text in self._read_others(secrets)])
        end = 0
        recorded = {seq for each in (await self._log.read_records(1)).erased.values() for seq in each.seqs}
        while (last := await self._log.last()) > end:  # also what was written meanwhile
            start, end = end + 1, last
            async for stored in self._read(start, end):
                if stored.seq in recorded:
                    continue
                left = Left() if stored.seq in late else secrets.redact(stored)
                if left is not None:
                    await self._log.append(self._describe(stored, left, cause))
                    recorded.add(stored.seq)

    async def _read_others(self, secrets: Secrets) -> AsyncIterator[str]:
        """What the nodes say that are not forgotten."""
        query = ListQuery(limit=OTHERS)
        while True:
            page = await self._engine.list_nodes(query)
            for node in page.nodes:
                if not secrets.names(node.id):
                    yield f"{node.title}\n{node.body}"
            if not page.next:
                return
            query = msgspec.structs.replace(query, after=page.next)

    def _describe(self, stored: Stored, left: Left, cause: str) -> MemoryErased:
        earlier = left.earlier
        return MemoryErased(
            sender=subjects.MEMORY_DAEMON,
            cause=cause,
            seqs=(*earlier.seqs, stored.seq) if earlier else (stored.seq,),
            subject=earlier.subject if earlier else stored.subject,
            time=earlier.time if earlier else stored.time,
            write=left.write,
            refused=left.refused,
        )

    async def _read(self, start: int, end: int) -> AsyncIterator[Stored]:
        async for page in self._log.read_raw(start, end):
            for stored in page:
                yield stored
            self._done += len(page)
            self._engine.touch()

    async def _tell_eraser(self, seqs: Sequence[int], cause: str) -> None:
        """Say what is to be erased of the log; nothing, once it is gone."""
        told = MemoryErasable(sender=subjects.MEMORY_DAEMON, cause=cause, seqs=tuple(seqs))
        await self._bus.commit([seal(subjects.ERASABLE, told)])
