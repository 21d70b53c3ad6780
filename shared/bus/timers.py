"""Moves the timers of an office whose agents shared one stream into a stream for each agent."""

import json

from shared import subjects
from shared.bus.connection import Bus
from shared.bus.entry import Entry, Stored
from shared.errors import Conflict

READ_AT_ONCE = 1_000
SCHEDULE = ("Nats-Schedule", "Nats-Schedule-Target")


async def copy_shared_timers(bus: Bus) -> int:
    """Copy every timer of the shared stream, and what is due but not done; returns how many.

    After a crash it is done again: a timer that was set since then, or copied, is kept, and one that goes off
    twice is recognised by its agent's records. Raises BusError.
    """
    done = {agent: await _done(bus, agent) for agent in subjects.TIMED}
    moved = 0
    position = 1
    while True:
        request = {"seq": position, "next_by_subj": ">", "batch": READ_AT_ONCE}
        found = [each async for each in bus.read(subjects.SHARED_TIMERS, request)]
        for each in found:
            moved += await _copy(bus, each, done.get(subjects.sender_of(each.subject), 0))
        if not found:
            return moved
        position = found[-1].seq + 1


async def _done(bus: Bus, agent: str) -> int:
    """The sequence up to which the due timers of ``agent`` were handled."""
    durable = f"{subjects.SHARED_TIMERS}.{subjects.timers_durable(agent)}"
    info = json.loads(await bus.request(f"$JS.API.CONSUMER.INFO.{durable}"))
    return int(info["ack_floor"]["stream_seq"]) if "ack_floor" in info else 0


async def _copy(bus: Bus, timer: Stored, done: int) -> bool:
    """Whether there was something to copy: what is due and handled is not."""
    schedule = {name: timer.headers[name] for name in SCHEDULE if name in timer.headers}
    if not schedule and timer.seq <= done:
        return False
    entry = Entry(
        timer.subject,
        timer.data,
        f"moved-{timer.stream}-{timer.seq}",
        expect=0 if schedule else None,
        headers=schedule,
    )
    try:
        await bus.commit([entry])
    except Conflict:
        return False  # it was set again since
    return True
