"""The timetable as it is recorded: reminders, goals on a schedule, briefings; a record an item."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from shared import subjects
from shared.bus import Bus, Stored
from shared.bus.records import Record
from shared.contracts import Due, DueKind, DueStatus, Timetable
from shared.log import logger
from shared.queries.records import count_subjects, read_last

WAITING = frozenset({DueStatus.WAITING, DueStatus.SNOOZED})
KEPT = WAITING | {DueStatus.PAUSED}
ENDED = frozenset({DueStatus.DONE, DueStatus.CANCELLED})

SIDE_BY_SIDE = 64  # records that nexus reads at a time

log = logger(__name__)


class Known(NamedTuple):
    """The items by their ids, in the order in which they were added, and the record of these ids.

    ``damaged`` are the ids of the items whose record cannot be read, and its sequence; they hide no other.
    """

    contents: Timetable
    seq: int
    records: dict[str, Record[Due]]
    damaged: dict[str, int]

    @property
    def items(self) -> list[Due]:
        """All items that can be read."""
        return [record.value for record in self.records.values()]

    def of(self, what: DueKind) -> list[Due]:
        """The items of a kind."""
        return [each for each in self.items if each.what is what]

    @property
    def problem(self) -> str:
        """A sentence that names what is damaged; empty if nothing is."""
        if not self.damaged:
            return ""
        return f"Not shown, because their records are damaged: {', '.join(list(self.damaged)[:20])}."


def due_record(due_id: str) -> str:
    """The subject of the record of an item."""
    return subjects.record(subjects.NEXUS, subjects.DUE, due_id)


async def read_timetable(bus: Bus) -> Known:
    """What is kept; raises BusError. If the record of the ids is damaged, the log says what there is."""
    found = await bus.last(subjects.OFFICE, subjects.CONTENTS)
    try:
        contents = Timetable.from_json(found.data) if found else Timetable()
    except ValueError as error:
        log.warning("timetable_damaged", reason=str(error))
        logged = await count_subjects(bus, subjects.OFFICE, due_record("*"))
        contents = Timetable(ids=tuple(sorted(subjects.Address.of(each).id for each in logged)))
    names = {each: due_record(each) for each in contents.ids}
    stored = await _read_items(bus, list(names.values()))
    records: dict[str, Record[Due]] = {}
    damaged: dict[str, int] = {}
    for due_id, subject in names.items():
        if (last := stored.get(subject)) is None:
            continue
        try:
            records[due_id] = Record(Due.from_json(last.data), last.seq, last.time)
        except ValueError as error:
            log.warning("due_damaged", due=due_id, reason=str(error))
            damaged[due_id] = last.seq
    return Known(contents, found.seq if found else 0, records, damaged)


async def _read_items(bus: Bus, names: Sequence[str]) -> dict[str, Stored]:
    """The last message of each; an agent may read its own records alone, and those one by one."""
    if bus.name in (*subjects.PEOPLE, subjects.ADMIN):
        return await read_last(bus, subjects.OFFICE, names)
    found: dict[str, Stored] = {}
    for begin in range(0, len(names), SIDE_BY_SIDE):
        part = names[begin : begin + SIDE_BY_SIDE]
        read = await asyncio.gather(*(bus.last(subjects.OFFICE, name) for name in part))
        found |= {stored.subject: stored for stored in read if stored is not None}
    return found
