"""What of OFFICE stays on the server although it was archived, because something still needs it."""

from collections.abc import AsyncIterator, Sequence
from typing import Self

from shared import subjects
from shared.bus import Bus, Stored
from shared.bus.wire import HANDLED
from shared.contracts import StateChanged
from shared.operations.dead_letters import read_dead_letters
from shared.operations.erasure.positions import Positions
from shared.operations.erasure.redaction import kind_of
from shared.queries.records import LAST_BATCH, STEPS_BATCH, count_subjects, read_last

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
