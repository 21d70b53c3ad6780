"""Buckets in which each process writes entries of its own and reads those of all, and budgets kept in one."""

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Annotated, Generic, NamedTuple, TypeVar
from uuid import uuid4

import msgspec

from shared import subjects
from shared.bus import Bus
from shared.errors import BusError, BusUnavailable
from shared.log import logger
from shared.text.times import parse_time

T = TypeVar("T")

PAGE = 1_000  # Entries that are read at once
PATIENCE = 2.0  # Seconds for an answer of the server: a model is asked without it too
HELD = 30.0  # Seconds after which what was set aside and not renewed is free: its process has died

log = logger(__name__)


class Read(NamedTuple, Generic[T]):
    """An entry; ``seq`` is its place in the order of all, ``age`` in seconds by the server's clock."""

    subject: str
    seq: int
    age: float
    value: T


class Entries(Generic[T]):
    """A bucket of entries of one ``kind``, each written by its own agent alone."""

    def __init__(self, bus: Bus, bucket: str, kind: type[T]) -> None:
        self._bus = bus
        self._stream = subjects.bucket_stream(bucket)
        self._kind = kind
        self._written: tuple[str, float] = ("", 0.0)

    async def write(self, subject: str, value: T) -> int:
        """Write an entry; returns its place in the order of all. Raises BusError."""
        self._require_connection()
        answer = await self._bus.store(subject, msgspec.json.encode(value), timeout=PATIENCE)
        self._written = subject, time.monotonic()
        return int(answer["seq"])

    async def read(self, pattern: str) -> list[Read[T]]:
        """The entries on subjects that match; their ages follow from one of this process. Raises BusError."""
        self._require_connection()
        position, found = 1, []
        while True:
            request = {"seq": position, "next_by_subj": pattern, "batch": PAGE}
            page = [stored async for stored in self._bus.read(self._stream, request, timeout=PATIENCE)]
            found += page
            if len(page) < PAGE:
                break
            position = page[-1].seq + 1
        subject, at = self._written
        mine = next((parse_time(each.time) for each in found if each.subject == subject), None)
        passed = timedelta(seconds=time.monotonic() - at)
        now = mine + passed if mine else datetime.now().astimezone()
        read = []
        for each in found:
            try:
                value = msgspec.json.decode(each.data, type=self._kind)
            except ValueError:  # an agent may write anything
                continue
            age = max(0.0, (now - parse_time(each.time)).total_seconds())
            read.append(Read(each.subject, each.seq, age, value))
        return read

    def _require_connection(self) -> None:
        if not self._bus.connected:
            raise BusUnavailable("The bus is away")


# --- budgets that processes share -----------------------------------------------------------------


class Amount(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a budget; ``cost`` in US dollars."""

    tokens: Annotated[int, msgspec.Meta(ge=0)] = 0
    cost: Annotated[float, msgspec.Meta(ge=0)] = 0.0

    def plus(self, other: "Amount") -> "Amount":
        """Both together."""
        return Amount(tokens=self.tokens + other.tokens, cost=self.cost + other.cost)

    def minus(self, other: "Amount") -> "Amount":
        """What is left of it, at least nothing."""
        return Amount(tokens=max(0, self.tokens - other.tokens), cost=max(0.0, self.cost - other.cost))


class Share(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a process has of a budget: ``used``, ``held`` for open requests, ``asked`` for one to come."""

    used: Amount = Amount()
    held: Amount = Amount()
    asked: Amount = Amount()


class SharedBudget:
    """A budget of several processes, in which a part is set aside for each request before it is sent.

    Each process writes what it wants and then reads what all have, so of two at once the later one sees the
    other. What a process has set aside is free once it has not said for HELD seconds that it is there.
    """

    def __init__(self, bus: Bus, scope: str, agent: str = "*") -> None:
        """``scope`` names the budget, which is that of one ``agent``, or of all."""
        self.scope = scope
        self._entries = Entries(bus, subjects.BUDGETS_BUCKET, Share)
        self._subject = subjects.share(scope, bus.name, uuid4().hex[:16])
        self._pattern = subjects.share(scope, agent, "*")
        self._lock = asyncio.Lock()
        self._share = Share()
        self._used_by_others = Amount()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is set aside in this process, nor asked for."""
        return self._share.held == Amount() and not self._lock.locked()

    async def take(self, expected: Amount, has_room: Callable[[Amount, Amount], Awaitable[bool]]) -> bool:
        """Set ``expected`` aside if ``has_room`` says so of what is used and set aside by all.

        What that raises passes through. While the bus is away this process goes by what it knows.
        """
        async with self._lock:
            self._share = msgspec.structs.replace(self._share, asked=expected)
            granted = False
            try:
                granted = await has_room(*await self._sum_up())
            finally:
                held = self._share.held.plus(expected) if granted else self._share.held
                self._share = msgspec.structs.replace(self._share, held=held, asked=Amount())
                if not granted:
                    await asyncio.shield(self._write())
            return granted

    async def read_used(self) -> Amount:
        """What all have used; raises BusError."""
        found = await self._entries.read(self._pattern)
        return functools.reduce(Amount.plus, (each.value.used for each in found), Amount())

    async def close(self, expected: Amount, used: Amount) -> None:
        """A request for which ``expected`` was set aside is over, and used so much."""
        share = self._share
        self._share = msgspec.structs.replace(
            share, held=share.held.minus(expected), used=share.used.plus(used)
        )
        async with self._lock:
            await self._write()

    async def renew(self) -> None:
        """Say again and again that this process is there, until this is cancelled."""
        while True:
            await asyncio.sleep(HELD / 3)
            async with self._lock:
                await self._write()

    async def _sum_up(self) -> tuple[Amount, Amount]:
        """What is used, and set aside beside what is asked for here; others that asked first come first."""
        try:
            seq = await self._entries.write(self._subject, self._share)
            found = await self._entries.read(self._pattern)
        except BusError as error:
            log.warning("budget_not_shared", reason=str(error))
            return self._share.used.plus(self._used_by_others), self._share.held
        others = [each for each in found if each.subject != self._subject]
        self._used_by_others, held = Amount(), self._share.held
        for each in others:
            self._used_by_others = self._used_by_others.plus(each.value.used)
            if each.age < HELD:
                held = held.plus(each.value.held)
                held = held.plus(each.value.asked) if each.seq < seq else held
        return self._share.used.plus(self._used_by_others), held

    async def _write(self) -> None:
        try:
            await self._entries.write(self._subject, self._share)
        except BusError as error:  # the next entry has it too
            log.warning("budget_not_shared", reason=str(error))
