"""The timetable: what is going to happen by itself, and what people change of it."""

import asyncio
from typing import Annotated, Literal

import msgspec

from services.gateway.call import Call
from services.gateway.routing import Endpoint
from services.gateway.timetable.items import list_items
from services.gateway.timetable.night_queue import read_night_queue
from services.gateway.timetable.orders import add_item, change_item, find_item
from shared.access.scopes import Scope
from shared.clock import read_zone
from shared.contracts import TaskStatus
from shared.queries.spending import read_night_state
from shared.queries.timetable import ENDED, read_timetable
from shared.views.desk import Answer
from shared.views.listed import Item, TimetablePage

TIMETABLE = "/api/v1/timetable"
ITEM = f"{TIMETABLE}/{{id}}"
RUNNING = [status.value for status in TaskStatus if not status.final]
MAX_GOALS = 100  # goals whose deadlines are shown

Phrase = Annotated[str, msgspec.Meta(max_length=500)]


class TimetableQuery(msgspec.Struct, frozen=True, kw_only=True):
    """``what``: mail, goal, briefing, job or deadline alone; ``everything``: what is over too."""

    what: Literal["", "mail", "goal", "briefing", "job", "deadline"] = ""
    everything: bool = False


class NewItem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A reminder, a goal on a schedule, or a job of the night.

    ``when`` is a time such as ``tomorrow at 9``, ``every weekday at 7``, ISO 8601 or a rule of RFC 5545; of
    a reminder whose text names the time it is empty, of a job ``night`` (or empty) or ``now``.
    """

    what: Literal["mail", "goal", "job"] = "mail"
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=20_000)]
    when: Phrase = ""


class Snooze(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Until when a reminder is snoozed: minutes from now, or a time such as "tomorrow at 9" or ISO 8601."""

    minutes: Annotated[int, msgspec.Meta(ge=1, le=525_600)] = 30
    until: Phrase = ""


class ItemAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the front desk says; ``item`` as it is now, if it is no job; ``goal_id``: the goal that began."""

    text: str
    id: str
    item: Item | None = None
    goal_id: str = ""


async def read_page(call: Call, query: TimetableQuery) -> TimetablePage:
    """What happens by itself: reminders, goals, briefings, jobs of the night, ends of goals' time."""
    settings, bus = call.gateway.settings, call.gateway.bus
    known, state = await asyncio.gather(read_timetable(bus), read_night_state(bus))
    night = await asyncio.to_thread(read_night_queue, settings, state)
    running = call.gateway.index.store.goals(statuses=RUNNING, limit=MAX_GOALS)
    dues = [each for each in known.items if query.everything or each.status not in ENDED]
    items = list_items(dues, night, [goal for _, goal in running], read_zone(settings.time_zone))
    return TimetablePage(
        time_zone=settings.time_zone,
        items=[each for each in items if query.what in ("", each.what)],
        night=night,
        problem=known.problem,
    )


async def add(call: Call, body: NewItem) -> ItemAnswer:
    """Add a reminder, a goal or a job; a time that is not clear is refused with a question."""
    answer, item_id = await add_item(call, body.what, body.text, body.when)
    return await _answer(call, answer, item_id)


async def remove(call: Call) -> ItemAnswer:
    """Cancel a reminder, remove a goal or a job; a goal that has begun goes on, a job ends."""
    return await _change(call, "remove")


async def finish(call: Call) -> ItemAnswer:
    """Mark a reminder as done; one that repeats goes on with its next time."""
    return await _change(call, "done")


async def snooze(call: Call, body: Snooze) -> ItemAnswer:
    """Put a reminder off."""
    return await _change(
        call, "snooze", f"until {body.until.strip()}" if body.until.strip() else f"for {body.minutes} minutes"
    )


async def pause(call: Call) -> ItemAnswer:
    """Pause a goal."""
    return await _change(call, "pause")


async def resume(call: Call) -> ItemAnswer:
    """Have a goal that is paused go on with its next run."""
    return await _change(call, "resume")


async def run(call: Call) -> ItemAnswer:
    """Begin a run of a goal, or a job, now, whatever it waits for; further runs stay as they are."""
    return await _change(call, "run")


async def _change(call: Call, verb: str, time: str = "") -> ItemAnswer:
    return await _answer(call, await change_item(call, verb, time), call.path["id"])


async def _answer(call: Call, answer: Answer, item_id: str) -> ItemAnswer:
    item = await find_item(call, item_id)
    return ItemAnswer(text=answer.text, id=item_id, item=item, goal_id=answer.goal_id)


ENDPOINTS = (
    Endpoint("GET", TIMETABLE, read_page, scope=Scope.READ, tag="timetable"),
    Endpoint("POST", TIMETABLE, add, scope=Scope.SUBMIT, tag="timetable", status=201),
    Endpoint("DELETE", ITEM, remove, scope=Scope.SUBMIT, tag="timetable"),
    Endpoint("POST", f"{ITEM}/done", finish, scope=Scope.SUBMIT, tag="timetable"),
    Endpoint("POST", f"{ITEM}/snooze", snooze, scope=Scope.SUBMIT, tag="timetable"),
    Endpoint("POST", f"{ITEM}/pause", pause, scope=Scope.SUBMIT, tag="timetable"),
    Endpoint("POST", f"{ITEM}/resume", resume, scope=Scope.SUBMIT, tag="timetable"),
    Endpoint("POST", f"{ITEM}/run", run, scope=Scope.SUBMIT, tag="timetable"),
)
