"""Items of the timetable as a nexus left them behind: their records, and no timer."""

from shared.bus import Bus
from shared.bus.entry import seal
from shared.contracts import Due, Timetable, generate_id
from shared.contracts.base import amended
from shared.timetable import contents_record, due_record

BATCH = 900


async def keep_items(bus: Bus, *items: Due) -> None:
    """Record ``items``, which are new, as the agent of ``bus``."""
    sealed = [
        seal(due_record(each.due_id), amended(each, id=generate_id(), sender=bus.name), expect=0)
        for each in items
    ]
    for begin in range(0, len(sealed), BATCH):
        await bus.commit(sealed[begin : begin + BATCH])
    contents = Timetable(sender=bus.name, ids=tuple(each.due_id for each in items))
    await bus.commit([seal(contents_record(), contents, expect=0)])
