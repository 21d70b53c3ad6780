"""After a power loss: tasks and goals whose outcome is not on disk are delivered again."""

from datetime import datetime, timedelta

from shared import subjects
from shared.bus import Bus
from shared.errors import BusError
from shared.operations.erasure.retention import fits, read_durables
from shared.queries.records import last_sequence, scan
from shared.subjects import Address

RECENT = timedelta(seconds=60)
"""How much of the end of the log the conductor gets again: it commits what follows within milliseconds."""


async def deliver_lost_again(bus: Bus, lifetime: float) -> list[str]:
    """Have delivered again, as the admin while no agent runs, what was acknowledged and has no outcome.

    The server may have written that a message was acknowledged, and not what came of it. A task without an
    end is such a message, of those of the last ``lifetime`` seconds; so is what was for the conductor just
    before the end of the log. Agents pass over what they did. Returns a line for each durable that begins
    again; raises BusError.
    """
    end = await last_sequence(bus, subjects.OFFICE)
    last = await bus.get_exactly(subjects.OFFICE, end) if end else None
    if last is None:
        return []
    at = datetime.fromisoformat(last.time)
    lost = await _read_open_tasks(bus, at - timedelta(seconds=lifetime))
    recent = [stored.seq async for stored in scan(bus, subjects.OFFICE, since=at - RECENT)]
    changes = []
    for info in await read_durables(bus):
        places = [seq for seq, subject in lost if any(fits(each, subject) for each in info.filters)]
        if info.name in subjects.mailboxes(subjects.CONDUCTOR):
            places += recent[:1]
        start = min([*places, info.ack_floor.stream_seq + 1])
        if places and start <= info.delivered.stream_seq:
            durable = info.name
            answer = await bus.call(f"CONSUMER.RESET.{subjects.OFFICE}.{durable}", {"seq": start})
            if error := answer.get("error"):
                raise BusError(f"The durable {durable!r} cannot be set back: {error['description']}")
            changes.append(f"durable {info.name} delivers again from message {start} on")
    return changes


async def _read_open_tasks(bus: Bus, since: datetime) -> list[tuple[int, str]]:
    """Where the tasks that have not ended were submitted, and on which subject."""
    tasks: dict[str, tuple[int, str]] = {}
    async for stored in scan(bus, subjects.OFFICE, subjects.task("*", "*", "*", "*"), since=since):
        task, step = stored.subject.rpartition(".")[0], Address.of(stored.subject).step
        if step in subjects.FINAL_STEPS:
            tasks.pop(task, None)
        elif step in subjects.NEW.values():
            tasks.setdefault(task, (stored.seq, stored.subject))
    return list(tasks.values())
