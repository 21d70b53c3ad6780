"""Goals on a schedule and jobs of the night: changed by commands to the front desk, as anybody may."""

import re

import msgspec

from services.gateway.context import Call
from services.gateway.desk.asking import ask, wait_for_answer
from services.gateway.desk.sessions import PAGE_SESSION, Answer
from services.gateway.pages.task import message_id_of
from services.gateway.problems import Failure, not_found
from shared import subjects
from shared.bus.records import read_record
from shared.clock import parse_timestamp, read_zone
from shared.contracts import Question, ResultOutcome, Schedule, Schedules, ScheduleStatus
from shared.errors import BusUnavailable
from shared.recurrence import describe_recurrence, next_occurrence, parse_recurrence

TIMEOUT = 20.0
"""Seconds until the front desk must have answered; if it runs, it takes a tenth of a second."""
KEPT = (ScheduleStatus.ACTIVE, ScheduleStatus.PAUSED)
RUNS = 3
"""The next runs that are shown."""
_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")
_ADDED = re.compile(r"^(?P<schedule>s[0-9a-f]{7}) runs |^Queued as (?P<job>job-[0-9-]+)\.")


class ScheduledGoal(msgspec.Struct, frozen=True, kw_only=True):
    """A goal on a schedule; ``every`` says its times as text, ``next_runs`` are the next of them.

    ``runs`` counts its goals, ``missed`` the runs that were left out, ``note`` says why the last one was.
    """

    schedule_id: str
    text: str
    status: str
    every: str
    next_at: str = ""
    next_runs: list[str] = []
    runs: int = 0
    missed: int = 0
    last_at: str = ""
    last_goal: str = ""
    note: str = ""


async def read_schedules(call: Call) -> list[ScheduledGoal]:
    """Those that go on or are paused, the next one first."""
    subject = subjects.record(subjects.NEXUS, "schedules", "all")
    record = await read_record(call.gateway.bus, subject, Schedules)
    kept = [each for each in record.value.schedules if each.status in KEPT] if record else []
    kept.sort(key=lambda each: (each.next_at or "9", each.schedule_id))
    return [_view(each, call.gateway.settings.time_zone) for each in kept]


def _view(schedule: Schedule, zone: str) -> ScheduledGoal:
    runs = [parse_timestamp(schedule.next_at)] if schedule.next_at else []
    every = "once"
    if schedule.repeats:
        recurrence = parse_recurrence(schedule.repeats)
        while runs and len(runs) < RUNS and (later := next_occurrence(recurrence, runs[-1], read_zone(zone))):
            runs.append(later)
        try:
            every = describe_recurrence(recurrence)
        except (KeyError, ValueError, IndexError):  # a rule that has no short form in words
            every = recurrence.rule
    shown = {name: getattr(schedule, name) for name in ("schedule_id", "text", "next_at", "runs", "missed")}
    more = {name: getattr(schedule, name) for name in ("last_at", "last_goal", "note")}
    moments = [moment.isoformat() for moment in runs]
    return ScheduledGoal(**shown, **more, status=str(schedule.status), every=every, next_runs=moments)


async def add_schedule(call: Call, when: str, text: str) -> tuple[str, ScheduledGoal]:
    """What the desk says, and the schedule; raises Failure with its question if the time is not clear."""
    answer = await give_order(call, f"/schedule add\n{_line(when)}\n{text.strip()}")
    found = _ADDED.search(answer.text)
    if found is None:
        raise Failure(422, answer.text)
    return answer.text, await find_schedule(call, found["schedule"] or "")


async def find_schedule(call: Call, schedule_id: str) -> ScheduledGoal:
    """The one with exactly this id; raises Failure if there is none."""
    for each in await read_schedules(call):
        if each.schedule_id == schedule_id:
            return each
    raise not_found(f"schedule {schedule_id[:40]!r}", "Read /api/v1/schedules for the ids")


async def change_schedule(call: Call, verb: str) -> Answer:
    """Pause, resume, remove or run the schedule that the path names."""
    found = await find_schedule(call, call.path["id"])
    return await give_order(call, f"/schedule {verb} {found.schedule_id}")


async def add_job(call: Call, when: str, text: str) -> tuple[str, str]:
    """What the desk says, and the id of the job; ``when`` is ``night``, ``now`` or a time."""
    answer = await give_order(call, f"/night_job add\n{_line(when)}\n{text.strip()}")
    found = _ADDED.search(answer.text)
    if found is None:
        raise Failure(422, answer.text)
    return answer.text, found["job"] or ""


async def change_job(call: Call, verb: str) -> Answer:
    """Remove or run the job that the path names."""
    job_id = call.path["id"]
    if not _ID.fullmatch(job_id) or not any(sign.isdigit() for sign in job_id):
        raise not_found(f"job {job_id[:40]!r}", "Read /api/v1/schedule for the ids")
    return await give_order(call, f"/queue {verb} {job_id}")


def _line(when: str) -> str:
    return " ".join(when.split())


async def give_order(call: Call, words: str) -> Answer:
    """The front desk's answer to a message of the person; raises Failure with its words if it did nothing."""
    question = Question(
        id=message_id_of(call),
        sender=subjects.USER,
        recipient=subjects.NEXUS,
        text=words,
        user_session_id=PAGE_SESSION,
        person=call.person.name,
    )
    turn = await wait_for_answer(call.gateway, await ask(call.gateway, question), TIMEOUT)
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
