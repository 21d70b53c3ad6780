"""The other processes of an agent: which are gone, and what they had in hand."""

import asyncio
import contextlib
import itertools
import json
import os
import socket
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import Self

import msgspec

from shared import subjects
from shared.bus.connection import Bus
from shared.bus.consumer import Consumer
from shared.bus.entry import EXPECTED, NAK, Delivery, Stored, ack_subject
from shared.contracts import Presence
from shared.errors import BusError, BusUnavailable, NoResponders
from shared.log import logger

MISSING = 2.0
"""Seconds without a connection after which a process counts as gone whose id cannot be checked from here: one
that only lost its connection is back within half a second."""
ANSWER_TIMEOUT = 1.0  # Seconds until a process must answer; one that is frozen never does
SILENT = 4.0
"""Seconds without an answer after which a process of another host counts as gone: a host that vanished leaves
its connections open, and the server notices only later."""


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """The holder of a lease: a process of a host, and the PID namespace of its number."""

    instance: str
    host: str
    space: str
    pid: int

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"

    @classmethod
    def this(cls, instance: str) -> Self:
        """The calling process; on a host that joined, whose name is its own: machines may be called alike."""
        space, host = Path("/proc/self/ns/pid"), subjects.host_of(instance)
        number = str(space.readlink()) if space.is_symlink() else ""
        if host == subjects.OFFICE_HOST:
            return cls(instance=instance, host=socket.gethostname(), space=number, pid=os.getpid())
        return cls(instance=instance, host=host, space=f"{host} {number}", pid=os.getpid())

    def is_running(self, here: "Holder") -> bool | None:
        """Whether the process runs; None if ``here`` is on another host, or in another PID namespace."""
        if (self.host, self.space) != (here.host, here.space):
            return None
        if self.pid == here.pid:
            return self.instance == here.instance
        try:
            os.kill(self.pid, 0)
        except PermissionError:
            return True
        except ProcessLookupError:
            return False
        return not _is_zombie(self.pid)


def _is_zombie(pid: int) -> bool:
    """Whether the process has ended and nobody has asked for its exit code yet; never outside of Linux."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z"
    except OSError:
        return False


class Liveness:
    """Whether processes of the bus's own name are still there; ``here`` is this one.

    One is gone if its process id is no longer on this machine. Of one elsewhere that is not known: it is gone
    if the server has had no connection of it for MISSING seconds. One that is frozen keeps its connection; on
    another host it is gone after SILENT seconds, in which the server has answered this process.
    """

    def __init__(self, bus: Bus, here: Holder) -> None:
        self._bus = bus
        self._here = here
        self._missing: dict[str, float] = {}
        self.silent: dict[str, float] = {}
        """Since when processes do not answer that have a connection."""
        self._silent: dict[tuple[str, int], float] = {}

    async def is_gone(self, holder: Holder) -> bool:
        """Whether the process is gone; call it every second or so until it is. Raises BusError."""
        running = holder.is_running(self._here)
        if running is not None:
            return not running
        if holder.instance in self.silent:  # or is it this process that hears nothing?
            stream = subjects.bucket_stream(subjects.AGENTS_BUCKET)
            await self._bus.last(stream, subjects.taken(self._bus.name, holder.instance))
        now = time.monotonic()
        connected = await self.is_connected(holder.instance)
        if connected is False:
            return now - self._missing.setdefault(holder.instance, now) >= MISSING
        self._missing.pop(holder.instance, None)
        if connected or subjects.host_of(holder.instance) == self._bus.host:
            return False
        return time.monotonic() - max(self.silent[holder.instance], self._bus.reconnected_at) >= SILENT

    async def ask(self, instance: str, timeout: float = ANSWER_TIMEOUT) -> bytes:
        """A process's answer; raises NoResponders without a connection, BusUnavailable if it is silent."""
        return await self._bus.request(subjects.peer(self._bus.name, instance), timeout=timeout)

    async def is_silent(self, instance: str, since: int, seconds: float) -> bool:
        """Whether a process has answered nothing for so long, asked again and again.

        It starts again from zero if another number is given for ``since``.
        """
        begun = time.monotonic()
        try:
            await self.ask(instance)
        except (NoResponders, BusUnavailable):
            first = self._silent.setdefault((instance, since), begun)
            return time.monotonic() - first >= seconds
        self._silent.clear()
        return False

    async def is_connected(self, instance: str, timeout: float = ANSWER_TIMEOUT) -> bool | None:
        """Whether a process answers; None if it has a connection and does not."""
        asked_at = time.monotonic()
        try:
            await self.ask(instance, timeout)
        except NoResponders:
            self.silent.pop(instance, None)
            return False
        except BusUnavailable:
            self.silent.setdefault(instance, asked_at)
            return None
        self.silent.pop(instance, None)
        return True


INTERVAL = 1.0  # Seconds between two checks whether the known processes are there
STILL_GIVEN = 0.25
"""The same, and how long an answer is waited for, while the server gives messages to one that is gone: half
of those that are handed back may go there again."""
READ_INTERVAL = 5.0  # Seconds between two reads of the presences, which name the processes
ANSWER_TRIES = 5  # How often a process is asked for what it has in hand before it counts as frozen
IN_FLIGHT = 0.1  # Seconds until what the server has delivered has arrived
MAX_RANGE = 50_000
"""The most stream positions of one durable that are handed back, newest first. What lies behind them, because
one message has been in hand for long, comes back after ack_wait."""
RECENT = 1_000  # The same of a durable whose requests this process took back

OFFER_TIMEOUT = 0.8  # Seconds a process may take to say whether it takes a task on: others ask it meanwhile
TAKEN_ON, BUSY = b"taken", b"busy"

log = logger(__name__)

Held = dict[str, list[int]]  # The sequences of the messages that a process has in hand, by durable


class Peers:
    """The processes of the same agent besides this one, known by their presences.

    What one had in hand that is gone is delivered again at once, instead of after ``ack_wait``: all that the
    server counts as delivered and not acknowledged, except what a living process has in hand. So nobody
    has to write down what is in hand. A process that is frozen keeps its connection, and its messages come
    back after ``ack_wait``, unless the death of another process hands them back. In every case the claims
    decide who works.

    No clock is compared with another process's. Of several survivors one hands the messages back: the one
    that stores that it takes over, by compare-and-set. It removes that and the presence when it is done; if
    it dies before, another finds it there. The presence of a process of another host it cannot remove: both
    expire. As long as the server gives such a process messages, because it has not noticed that the host is
    gone, these are handed back too.
    """

    def __init__(self, bus: Bus, consumers: Sequence[Consumer]) -> None:
        self._bus = bus
        self._consumers = consumers
        self._here = Holder.this(bus.instance)
        self._liveness = Liveness(bus, self._here)
        self._known: dict[str, tuple[Holder, int]] = {}
        self._taken: dict[str, int] = {}
        self._returned_at = float("-inf")
        self._read_at = float("-inf")
        self._dropped: set[str] = set()
        self._checked = asyncio.Event()
        self.fits: Callable[[bytes, str], Awaitable[bool]] | None = None
        """Whether this process can do a stored task, for which another one lacks what is named."""

    async def answer(self) -> None:
        """Answer the others' questions about what this process has in hand."""
        mine = subjects.peer(self._bus.name, self._bus.instance)
        await self._bus.answer(mine, self._own_answer)

    async def watch(self) -> None:
        """Take over from processes that are gone, at once and from then on; runs until cancelled."""
        while True:
            try:
                await self._check()
            except (BusError, ValueError) as error:
                log.warning("peers_unchecked", reason=str(error))
            self._checked.set()
            await asyncio.sleep(STILL_GIVEN if self._taken else INTERVAL)

    async def wait_until_checked(self, seconds: float) -> None:
        """Wait at most ``seconds`` for the first check and what follows from it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._checked.wait()

    async def _check(self) -> None:
        if time.monotonic() - self._read_at > READ_INTERVAL:
            self._known = await self._read()
            self._read_at = time.monotonic()
        known = {name: holder for name, (holder, _) in self._known.items() if name not in self._taken}
        gone = await asyncio.gather(*map(self._liveness.is_gone, known.values()))
        for name in itertools.compress(known, gone):
            await self._take(name)
        # A process that starts alone also finds what one left whose presence has expired. A server that was
        # killed has forgotten what was handed back.
        if self._taken or (not self._checked.is_set() and not self._known) or self._is_server_back():
            await self._return_unfinished(list(self._taken))
            self._returned_at = time.monotonic()
            for name in list(self._taken):
                await self._settle(name)
            self._dropped.clear()
        await self.return_lost()

    async def return_lost(self) -> None:
        """Have delivered again what got lost while this process took its requests back."""
        self._dropped.update(name for consumer in self._consumers for name in consumer.take_dropped())
        if self._dropped:
            await self._return_unfinished((), self._dropped)
            self._dropped.clear()

    def _is_server_back(self) -> bool:
        """Whether the server was away since the last time, and living processes are connected again."""
        back = self._bus.reconnected_at
        return back > self._returned_at - MISSING and time.monotonic() - back > MISSING

    async def _read(self) -> dict[str, tuple[Holder, int]]:
        """The other processes, or who takes over from them; and the position of that, 0 if nobody does."""
        stream, name = subjects.bucket_stream(subjects.AGENTS_BUCKET), self._bus.name
        request = {"multi_last": [subjects.presences(name)], "batch": 1_000}
        found: dict[str, tuple[Holder, int]] = {}
        marks: dict[str, Stored] = {}
        async for stored in self._bus.read(stream, request):
            place, instance = stored.subject.split(".")[3], stored.subject.rpartition(".")[2]
            if place == subjects.TAKEN:
                marks[instance] = stored
            elif stored.data and instance != self._bus.instance:
                found[instance] = _holder(Presence.from_json(stored.data)), 0
        for instance, stored in marks.items():
            if not stored.data and instance in found:
                found[instance] = found[instance][0], stored.seq
            elif stored.data and instance == self._bus.instance:  # another took this one for gone
                await self._mark(instance, b"", stored.seq)
            elif stored.data:
                found[instance] = msgspec.json.decode(stored.data, type=Holder), stored.seq
        return {name: each for name, each in found.items() if each[0].instance != self._bus.instance}

    async def _take(self, instance: str) -> None:
        """Put this process down as taking over from one that is gone, unless another was faster."""
        _, seq = self._known.pop(instance)
        if now := await self._mark(instance, msgspec.json.encode(self._here), seq):
            self._taken[instance] = now

    async def _settle(self, instance: str) -> None:
        """Remove a process of which nothing is left, or take back that it is gone."""
        host, back = subjects.host_of(instance), None
        if host != self._bus.host:
            back = await self._liveness.is_connected(instance, STILL_GIVEN)
            if back is None:
                return  # what it is given meanwhile is handed back next time
        if host == self._bus.host:
            subject = subjects.presence(self._bus.name, instance)
            await self._bus.store(subject, b"", headers={"KV-Operation": "DEL"})
        if back or host == self._bus.host:
            await self._mark(instance, b"", self._taken[instance])
        del self._taken[instance]

    async def _mark(self, instance: str, by: bytes, seq: int) -> int:
        """Store who takes over; returns its position, 0 if another process was faster."""
        headers = {EXPECTED: str(seq), **({} if by else {"KV-Operation": "DEL"})}
        try:
            answer = await self._bus.store(subjects.taken(self._bus.name, instance), by, headers=headers)
        except BusUnavailable:
            raise
        except BusError:
            return 0
        return int(answer["seq"])

    # --- what they left --------------------------------------------------------------------------

    async def _return_unfinished(self, gone: Sequence[str], dropped: Collection[str] = ()) -> None:
        """Have everything delivered again that no living process has in hand; of ``dropped`` durables alone,
        if there are such, what is RECENT.
        """
        durables = [
            (consumer.stream, name)
            for consumer in self._consumers
            for name in consumer.in_hand
            if not dropped or name in dropped
        ]
        states = [state for stream, name in durables if (state := await self._state(stream, name))]
        if not states:
            return
        await asyncio.sleep(IN_FLIGHT)
        held = await asyncio.gather(*map(self._held_by, list(self._known)))
        held.append(self._own())
        for state in states:
            name = state.durable
            kept = {seq for sequences in held for seq in sequences.get(name, ())}
            if dropped and state.pending <= len(kept):
                continue
            log.info("taking_over", durable=name, gone=list(gone), unfinished=state.pending, held=len(kept))
            for seq in state.positions[-RECENT:] if dropped else state.positions:
                if seq not in kept:
                    subject = ack_subject(state.stream, name, seq, state.delivery)
                    await self._bus.publish(subject, NAK)

    async def _state(self, stream: str, durable: str) -> "_Unfinished | None":
        """What was delivered of a durable and not acknowledged; None if nothing is."""
        info = json.loads(await self._bus.request(subjects.position(stream, durable)))
        if error := info.get("error"):
            raise BusError(f"The position of {durable!r} cannot be read: {error['description']}")
        if not info.get("num_ack_pending"):
            return None
        first, last = info["ack_floor"]["stream_seq"] + 1, info["delivered"]["stream_seq"]
        return _Unfinished(
            stream=stream,
            durable=durable,
            pending=info["num_ack_pending"],
            positions=range(max(first, last + 1 - MAX_RANGE), last + 1),
            delivery=info["delivered"]["consumer_seq"],
        )

    async def _held_by(self, instance: str) -> Held:
        """What a process has in hand; nothing if it does not answer, which a frozen one never does."""
        for _ in range(1 if instance in self._liveness.silent else ANSWER_TRIES):
            try:
                return msgspec.json.decode(await self._liveness.ask(instance), type=Held)
            except NoResponders:
                break
            except BusUnavailable:
                continue
        log.warning("peer_silent", instance=instance)
        return {}

    def _own(self) -> Held:
        return {name: held for consumer in self._consumers for name, held in consumer.in_hand.items()}

    async def _own_answer(self, _: str, asked: bytes) -> bytes:
        if not asked:
            return msgspec.json.encode(self._own())
        try:
            async with asyncio.timeout(OFFER_TIMEOUT):
                return await self._take_on(*msgspec.json.decode(asked, type=tuple[str, str, str]))
        except (BusError, ValueError, LookupError) as error:
            log.warning("offer_refused", reason=str(error))
            return b""
        except TimeoutError:
            return BUSY

    # --- what belongs to another process ---------------------------------------------------------

    async def offer(self, delivery: Delivery, need: str) -> bool | None:
        """Have another living process do a task, for which this one lacks what it ``need``s.

        True if one has it now; None if one could do it and has no free slot, or does not answer; False if
        none could.
        """
        offer = msgspec.json.encode((delivery.subject, delivery.reply, need))
        found: bool | None = False
        for name, (holder, _) in (await self._read()).items():
            if name in self._taken or holder.instance != name:
                continue  # it is gone
            peer = subjects.peer(self._bus.name, name)
            try:
                answer = await self._bus.request(peer, offer, timeout=ANSWER_TIMEOUT)
            except NoResponders:
                continue
            except BusUnavailable:
                answer = BUSY
            if answer == TAKEN_ON:
                return True
            found = None if answer == BUSY else found
        return found

    async def _take_on(self, subject: str, reply: str, need: str) -> bytes:
        """Take on a task that is offered: as the log has it, whatever the other process says of it."""
        stored = await self._bus.last(subjects.OFFICE, subject)
        if stored is None or self.fits is None or not await self.fits(stored.data, need):
            return b""
        consumer = next(each for each in self._consumers if each.stream == subjects.OFFICE)
        return TAKEN_ON if await consumer.adopt(stored, reply) else BUSY


def _holder(presence: Presence) -> Holder:
    return Holder(instance=presence.instance, host=presence.host, space=presence.space, pid=presence.pid)


class _Unfinished(msgspec.Struct, frozen=True, kw_only=True):
    """The messages of a durable that are delivered and not acknowledged: some of those at ``positions``."""

    stream: str
    durable: str
    pending: int
    positions: range
    delivery: int
