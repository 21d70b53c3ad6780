"""What of OFFICE stays on the server although it was archived, and how far its messages have got."""

import json
from collections import Counter
from collections.abc import AsyncIterator, Container, Sequence
from typing import NamedTuple, Self

import msgspec

from shared import subjects
from shared.bus import Bus, Stored
from shared.bus.client import HANDLED, WAITING
from shared.bus.records import read_presences
from shared.contracts import StateChanged
from shared.operations.dead_letters import read_dead_letters
from shared.operations.erasure.redaction import kind_of
from shared.queries.records import LAST_BATCH, STEPS_BATCH, count_subjects, read_last

BUSY = "busy"  # The state of a message that an agent may be acting on
_PEOPLE = subjects.mailboxes(subjects.USER)  # The durables of people, which no process takes messages of
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


STAY = ("seal.", "archive.", f"event.{subjects.ERASER}.", "dead.")
"""What always stays: what proves the rest, and what is counted."""


class Retention:
    """Chooses what stays: see ``choose``."""

    def __init__(self, bus: Bus, positions: Positions, open_ids: set[bytes], originals: set[int]) -> None:
        self._bus, self._positions = bus, positions
        self._open_ids, self._originals = open_ids, originals

    @classmethod
    async def read(cls, bus: Bus) -> Self:
        """What is open at present, as somebody who may read all of OFFICE and its durables."""
        letters = [letter for _, letter in await read_dead_letters(bus) if letter.stream == subjects.OFFICE]
        return cls(
            bus,
            await Positions.read(bus),
            {goal_id.encode() async for goal_id in _read_open_goals(bus)},
            {letter.stream_seq for letter in letters},
        )

    async def choose(self, page: Sequence[Stored]) -> set[int]:
        """Which of these messages stay; pages have to come in the order of the log.

        These are seals, orders, records of erasures, dead letters and what they are about; the last message
        on each subject, and of a task that has ended its last step; all that names a goal or task that has
        not ended; and what has not reached those it is for.
        """
        lasts = await self._read_lasts([each for each in page if not each.subject.startswith(STAY)])
        for each in page:
            if (last := lasts.get(_group_of(each.subject))) and _is_open(last):
                found = (each.subject.split(".")[3], kind_of(each.data)[1])
                self._open_ids.update(name.encode() for name in found if name)
        return {each.seq for each in page if self._stays(each, lasts.get(_group_of(each.subject)))}

    def _stays(self, stored: Stored, last: Stored | None) -> bool:
        """``last`` is the last message of its group, None if that was not asked or is not known."""
        if last is None or stored.seq >= last.seq or stored.seq in self._originals or _is_open(last):
            return True
        if any(name in stored.data for name in self._open_ids):
            return True
        return self._positions.state_of(stored.subject, stored.seq) != HANDLED

    async def _read_lasts(self, messages: Sequence[Stored]) -> dict[str, Stored]:
        """The last message of each group that these belong to."""
        groups = list(dict.fromkeys(_group_of(each.subject) for each in messages))
        plain = [group for group in groups if not group.endswith(".*")]
        found = await read_last(self._bus, subjects.OFFICE, plain)
        tasks = [group for group in groups if group.endswith(".*")]
        for begin in range(0, len(tasks), STEPS_BATCH):
            request = {"multi_last": tasks[begin : begin + STEPS_BATCH], "batch": LAST_BATCH}
            async for stored in self._bus.read(subjects.OFFICE, request):
                group = _group_of(stored.subject)
                if group not in found or stored.seq > found[group].seq:
                    found[group] = stored
        return found


def _group_of(subject: str) -> str:
    """The subject, or the steps of its task."""
    tokens = subject.split(".")
    return ".".join((*tokens[:4], "*")) if tokens[0] == "task" and len(tokens) == 5 else subject


def _is_open(last: Stored) -> bool:
    """Whether a message is the last step of a task that has not ended."""
    tokens = last.subject.split(".")
    return tokens[0] == "task" and len(tokens) == 5 and tokens[4] not in subjects.FINAL_STEPS


async def _read_open_goals(bus: Bus) -> AsyncIterator[str]:
    """The goals that have not ended, and those whose records cannot be read."""
    names = list(await count_subjects(bus, subjects.OFFICE, subjects.goal("*")))
    for begin in range(0, len(names), LAST_BATCH):
        for stored in (await read_last(bus, subjects.OFFICE, names[begin : begin + LAST_BATCH])).values():
            try:
                goal = StateChanged.from_json(stored.data).goal
            except (ValueError, RecursionError):
                goal = None
            if goal is None or not goal.status.final:
                yield stored.subject.rpartition(".")[2]
