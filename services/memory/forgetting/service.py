"""Orders to forget, carried out: records first, then the messages, then the store, whatever interrupts it."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import msgspec

from services.memory.engine import MemoryEngine
from services.memory.forgetting.redaction import Left, Secrets
from services.memory.writes.write_log import WriteLog
from shared import subjects
from shared.bus import Bus, Stored
from shared.contracts import ListQuery, MemoryErased, MemoryForgotten, MemoryWrite
from shared.errors import ActionError, BusError, MailroomError
from shared.log import logger

NOTE = "forgetting"
"""The name under which the store has the orders that are not done, and what was ever forgotten."""
PAUSE = 5.0
"""Seconds after a failure until it is tried again."""
OTHERS = 1_000
"""How many nodes are compared at a time with what is forgotten."""
COPY_LOOKS = 100
"""How often it is looked, in PAUSE seconds, whether the audit has the last record."""
REFUSED = "It was forgotten by order of a person: write it under another id"

log = logger(__name__)


class Orders(msgspec.Struct, kw_only=True):
    """``waiting`` are orders that are not done, by their id: their places in the log, and the nodes.

    ``ids`` are all nodes that were ever forgotten, with their order; ``late`` the places of writes of them
    that came afterwards, to be erased too; ``copies`` are the places in the audit of what is being erased.
    """

    waiting: dict[str, tuple[int, tuple[str, ...]]] = {}
    ids: dict[str, str] = {}
    late: list[int] = []
    copies: list[int] = []


class Forgetting:
    """Erases what a person ordered to be forgotten, one piece of work at a time.

    For each message of the log that holds a text, a record of what is left of it is appended first. When all
    are, and copied to the audit, the messages are erased in the log, then in its copy, and the store is made
    again from the log. An order counts as done only then, so after a crash it is done again from the start:
    what was erased has its record, the rest still has the texts.
    """

    def __init__(self, engine: MemoryEngine, bus: Bus, rebuild: Callable[[], Awaitable[None]]) -> None:
        self._engine = engine
        self._bus = bus
        self._rebuild = rebuild
        self._log = WriteLog(bus)
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
        remains = await self._erase(seqs)
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
                copies=tuple(self._orders.copies),
                remains=remains,
            )
            await self._log.append(done)
        for order in orders:
            del self._orders.waiting[order]
        self._orders.late = [seq for seq in self._orders.late if seq not in late]
        self._orders.copies = []
        await self.save()
        log.info("forgotten", nodes=len(ids), messages=len(seqs), remains=remains)

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
        digest = self._bus.derive_id("erased", hashlib.sha256(stored.data).hexdigest())
        return MemoryErased(
            sender=subjects.MEMORY_DAEMON,
            cause=cause,
            seqs=(*earlier.seqs, stored.seq) if earlier else (stored.seq,),
            subject=earlier.subject if earlier else stored.subject,
            time=earlier.time if earlier else stored.time,
            digest=earlier.digest if earlier else digest,
            write=left.write,
            refused=left.refused,
        )

    async def _read(self, start: int, end: int) -> AsyncIterator[Stored]:
        async for page in self._log.read_raw(start, end):
            for stored in page:
                yield stored
            self._done += len(page)
            self._engine.touch()

    async def _erase(self, seqs: Sequence[int]) -> str:
        """Erase messages in the log, then in its copy; returns what could not be erased."""
        if seqs:
            await self._wait_for_copies(await self._log.last())
        self._done, self._total, self._step = 0, 2 * len(seqs), "erasing messages"
        copies = [copy for seq in seqs if (copy := await self._find_copy(seq))]
        self._orders.copies = sorted({*self._orders.copies, *copies})
        await self.save()
        for seq in seqs:
            if not await self._delete(subjects.MEMORY, seq):
                raise ActionError(f"The server does not erase message {seq} of {subjects.MEMORY}")
            self._done += 1
        kept = 0
        for copy in copies:
            kept += not await self._delete(subjects.AUDIT_MEMORY, copy)
            self._done += 1
        return f"{kept:,} messages of {subjects.AUDIT_MEMORY}" if kept else ""

    async def _delete(self, stream: str, seq: int) -> bool:
        """Have a message overwritten on disk and removed; whether it is gone."""
        request = json.dumps({"seq": seq}).encode()
        answer = json.loads(await self._bus.request(subjects.erasure(stream), request, timeout=10.0))
        if "error" not in answer:
            return True
        place = {"seq": seq, "next_by_subj": ">", "batch": 1}
        return seq not in [each.seq async for each in self._bus.read(stream, place)]

    async def _wait_for_copies(self, end: int) -> None:
        """Wait until the audit has all up to ``end``: what is erased before it is copied would be missing."""
        self._step = "waiting for the audit"
        for _ in range(COPY_LOOKS):
            if await self._last_copied() >= end:
                return
            await asyncio.sleep(PAUSE / COPY_LOOKS)
        raise BusError("The audit has no copy of the last message yet; the order is tried again")

    async def _last_copied(self) -> int:
        request = {"multi_last": [">"], "batch": 1_000}
        found = self._bus.read(subjects.AUDIT_MEMORY, request)
        return max([_origin(each) async for each in found], default=0)

    async def _find_copy(self, seq: int) -> int:
        """The place in the audit of the copy of a message; 0 if there is none. Copies keep their order."""
        low, high = 1, seq  # a copy has no higher place than what it is a copy of
        while low <= high:
            middle = high if high == seq else (low + high) // 2
            found = await self._copy_from(middle)
            if found is None or found[1] > seq:
                high = middle - 1
            elif found[1] == seq:
                return found[0]
            else:
                low = found[0] + 1
        return 0

    async def _copy_from(self, place: int) -> tuple[int, int] | None:
        """The first copy at a place or after it, and what it is a copy of."""
        request = {"seq": place, "next_by_subj": ">", "batch": 1}
        async for each in self._bus.read(subjects.AUDIT_MEMORY, request):
            return each.seq, _origin(each)
        return None


def _origin(copy: Stored) -> int:
    """The sequence in MEMORY of what is copied."""
    number = copy.headers.get("Nats-Stream-Source", "").split(" ")[1:2]
    return int(number[0]) if number and number[0].isdecimal() else 0
