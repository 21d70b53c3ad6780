"""The timetable: what is going to happen by itself, and what people change of it."""

import asyncio
import re
from datetime import datetime
from typing import Annotated, Literal

import msgspec

from services.gateway.call import Call
from services.gateway.conversations import PAGE_SESSION, ask, wait_for_answer
from services.gateway.night_queue import list_items, read_night_queue, view_due
from services.gateway.problems import Failure, not_found
from services.gateway.routing import Endpoint
from shared import subjects
from shared.access.scopes import Scope
from shared.clock import read_zone
from shared.contracts import ResultOutcome, TaskStatus
from shared.errors import BusUnavailable
from shared.queries.spending import read_night_state
from shared.timetable import ENDED, read_timetable
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
    known, jobs, state = await asyncio.gather(
        read_timetable(bus), read_timetable(bus, subjects.CORTEX), read_night_state(bus)
    )
    night = await asyncio.to_thread(read_night_queue, settings, state, jobs.items)
    running = call.gateway.index.store.goals(statuses=RUNNING, limit=MAX_GOALS)
    dues = [each for each in known.items if query.everything or each.status not in ENDED]
    items = list_items(dues, night, [goal for _, goal in running], read_zone(settings.time_zone))
    return TimetablePage(
        time_zone=settings.time_zone,
        items=[each for each in items if query.what in ("", each.what)],
        night=night,
        problem=" ".join(filter(None, [known.problem, jobs.problem])),
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


TIMEOUT = 20.0  # seconds until the front desk must have answered; if it runs, it takes a tenth of a second
ORDERS = {
    ("mail", "remove"): "Cancel the reminder {}",
    ("mail", "done"): "Mark the reminder {} as done",
    ("mail", "snooze"): "Snooze the reminder {} {time}",
    **{("goal", verb): f"/schedule {verb} {{}}" for verb in ("remove", "pause", "resume", "run")},
    **{("job", verb): f"/queue {verb} {{}}" for verb in ("remove", "run")},
}
"""The message for what is done with an item, by what it is."""
_DUE_ID = re.compile(r"r[0-9a-f]{6,40}|s[0-9a-f]{7}")
_JOB_ID = re.compile(r"(?=.*\d)[A-Za-z0-9_-]{1,100}")
_ADDED = re.compile(
    r"\breminder (?P<mail>r[0-9a-f]{6,})\b|^(?P<goal>s[0-9a-f]{7}) runs |^Queued as (?P<job>job-[0-9-]+): "
)


async def add_item(call: Call, what: str, text: str, when: str) -> tuple[Answer, str]:
    """What the desk says, and the item's id; raises Failure with its question if the time is not clear."""
    text, when = text.strip(), " ".join(when.split())
    if what == "mail":
        words = text if re.match(r"(?i)remind\b", text) else f"Remind me to {text}"
        try:
            datetime.fromisoformat(when)
            when = f"at {when}"
        except ValueError:  # it is in words
            pass
        words = f"{words} {when}".strip()
    else:
        words = f"/{'schedule' if what == 'goal' else 'night_job'} add\n{when or 'night'}\n{text}"
    answer = await _give_order(call, words)
    found = _ADDED.search(answer.text)
    if found is None or not found[what]:
        raise Failure(422, answer.text)
    return answer, found[what]


async def change_item(call: Call, verb: str, time: str = "") -> Answer:
    """What the desk says to an order about the item that the path names."""
    item_id = call.path["id"]
    item = await find_item(call, item_id)
    is_job = item is None and _JOB_ID.fullmatch(item_id) and not _DUE_ID.fullmatch(item_id)
    if not is_job and (item is None or (item.what == "goal" and item.status in ENDED)):
        raise not_found(f"item {item_id[:40]!r}", "Read /api/v1/timetable for the ids")
    words = ORDERS.get((item.what if item else "job", verb))
    if words is None:
        raise Failure(422, f"{item_id[:100]} cannot be changed so: {verb}")
    return await _give_order(call, words.format(item_id, time=time.replace("\n", " ")))


async def find_item(call: Call, item_id: str) -> Item | None:
    """The item of the timetable with exactly this id, as it is now."""
    record = (await read_timetable(call.gateway.bus)).records.get(item_id)
    return view_due(record.value, read_zone(call.gateway.settings.time_zone)) if record else None


async def _give_order(call: Call, words: str) -> Answer:
    """The front desk's answer to a message of the person; raises Failure with its words if it did nothing."""
    asked = await ask(call.gateway, call.message_id(), words, call.person.name, PAGE_SESSION)
    turn = await wait_for_answer(call.gateway, asked, TIMEOUT)
    if turn is None or turn.state == "waiting":
        raise BusUnavailable(
            f"The front desk has not answered within {TIMEOUT:g} s; the request stays in its mailbox",
            "See on the page of the agents whether nexus and cortex run",
        )
    if turn.answer is None:
        raise Failure(422, f"The front desk could not handle it: {turn.reason}")
    if turn.answer.outcome == ResultOutcome.FAILED:
        raise Failure(422, turn.answer.text)
    return turn.answer


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
