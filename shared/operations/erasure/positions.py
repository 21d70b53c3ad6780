"""How far the messages of OFFICE have reached those they are for."""

import json
from collections import Counter
from collections.abc import Container, Sequence
from typing import NamedTuple, Self

import msgspec

from shared import subjects
from shared.bus import Bus
from shared.bus.records import read_presences
from shared.bus.wire import HANDLED, WAITING

BUSY = "busy"
"""The state of a message that an agent may be acting on."""
_PEOPLE = subjects.mailboxes(subjects.USER)
"""The durables of people, which no process takes messages of."""
_ENDINGS = subjects.DURABLE_ENDINGS


class _Reached(NamedTuple):
    filters: tuple[str, ...]
    delivered: int
    floor: int
    in_hand: int

    def state_of(self, seq: int) -> str:
        if seq <= self.floor:
            return HANDLED
        if seq > self.delivered:
            return WAITING
        return BUSY if self.in_hand else HANDLED


class Positions:
    """How far each durable of OFFICE is.

    What was delivered to an agent of which no process is left waits.
    """

    def __init__(self, reached: Sequence[_Reached]) -> None:
        self._reached = reached

    @classmethod
    async def read(cls, bus: Bus) -> Self:
        """The present ones, as the admin."""
        alive = {presence.agent for presence in await read_presences(bus)}
        infos = await read_durables(bus)
        return cls([_reached(info, alive) for info in infos if info.name not in _PEOPLE])

    def state_of(self, subject: str, seq: int) -> str:
        """HANDLED if all have acted on a message, WAITING if one has not got it, else BUSY."""
        states = {each.state_of(seq) for each in self._reached if any(fits(f, subject) for f in each.filters)}
        return next((state for state in (BUSY, WAITING) if state in states), HANDLED)

    def count_open(self, seq: int) -> int:
        """How many messages agents have in hand of which some came before ``seq``."""
        return sum(each.in_hand for each in self._reached if each.floor < min(each.delivered, seq - 1))


async def count_in_hand(bus: Bus) -> Counter[str]:
    """How many messages of OFFICE each agent got and has not acknowledged, as the admin."""
    counts: Counter[str] = Counter()
    for info in await read_durables(bus):
        counts[_agent_of(info)] += info.num_ack_pending
    return counts


class _Place(msgspec.Struct):
    stream_seq: int


class _Config(msgspec.Struct):
    filter_subjects: list[str] = []
    filter_subject: str = ">"


class DurableInfo(msgspec.Struct):
    """What the server says of a durable."""

    name: str
    config: _Config
    delivered: _Place
    ack_floor: _Place
    num_ack_pending: int

    @property
    def filters(self) -> tuple[str, ...]:
        """The patterns of the subjects that it delivers."""
        return tuple(self.config.filter_subjects or (self.config.filter_subject,))


class _Page(msgspec.Struct):
    total: int
    consumers: list[DurableInfo] | None = None


async def read_durables(bus: Bus) -> list[DurableInfo]:
    """The durables of OFFICE, as the admin."""
    infos: list[DurableInfo] = []
    while True:
        request = json.dumps({"offset": len(infos)}).encode()
        answer = await bus.request(f"$JS.API.CONSUMER.LIST.{subjects.OFFICE}", request)
        page = msgspec.json.decode(answer, type=_Page)
        infos += page.consumers or []
        if not page.consumers or len(infos) >= page.total:
            return infos


def _agent_of(info: DurableInfo) -> str:
    return next((info.name.removesuffix(end) for end in _ENDINGS if info.name.endswith(end)), info.name)


def _reached(info: DurableInfo, alive: Container[str]) -> _Reached:
    agent = _agent_of(info)
    delivered = info.delivered.stream_seq if agent in alive else info.ack_floor.stream_seq
    return _Reached(
        filters=info.filters,
        delivered=delivered,
        floor=info.ack_floor.stream_seq,
        in_hand=info.num_ack_pending if agent in alive else 0,
    )


def fits(pattern: str, subject: str) -> bool:
    """Whether a subject matches a pattern without ``>``."""
    wanted, tokens = pattern.split("."), subject.split(".")
    return len(wanted) == len(tokens) and all(w in ("*", t) for w, t in zip(wanted, tokens, strict=True))
