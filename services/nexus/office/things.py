"""What there is in the office, each thing alike: goals, letters, agents, dead letters, requests, plans."""

import asyncio
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from functools import lru_cache
from pathlib import Path

import msgspec

from services.nexus.office.query import Kind
from services.nexus.timetable.schedule_words import describe
from shared import subjects
from shared.agent.context import AgentContext
from shared.clock import parse_timestamp, read_night
from shared.contracts import (
    ApprovalRequest,
    Due,
    DueKind,
    Goal,
    Presence,
    ResultOutcome,
    SentEmail,
    TaskStatus,
)
from shared.errors import BusError
from shared.queries.office import OfficeReader, is_question
from shared.settings import Settings
from shared.tasks.installed_agents import load_specialists, read_agents
from shared.text.display import count, flatten, shorten_id
from shared.text.prose import find_stems
from shared.text.times import format_span
from shared.timetable import KEPT, due_time, list_next, read_timetable
from shared.views.status import DeadLetters

NEWEST = 500  # The goals and the letters that are looked at, the latest of each
SEARCHED = 2_000  # Characters of each that are searched
REPORTS, REPORT = 20, 100_000  # The reports that are read for findings, and the characters of each
LONG = 2_000  # Characters of the answer or the letter of a thing that is told by itself


class Thing(msgspec.Struct, frozen=True, kw_only=True):
    """Something of the office: a line of it, and ``more`` of it if it is told by itself.

    ``words`` are searched. ``began`` and ``at`` are when it began and ended, or last changed: of what is
    planned, when it comes. ``who`` are the agents that it is of, ``states`` those of the queries. ``path`` is
    that of its report, ``report`` the text if findings are asked for.
    """

    kind: Kind
    ref: str
    words: str
    line: str
    at: datetime
    began: datetime
    more: str = ""
    who: frozenset[str] = frozenset()
    states: frozenset[str] = frozenset()
    path: str = ""
    report: str = ""

    @property
    def stems(self) -> frozenset[str]:
        """The stems of its words, and of two of them as one: "backup" of "back up"."""
        return find_joined(self.words)


@lru_cache(2_048)
def find_joined(text: str) -> frozenset[str]:
    """The stems of the words of ``text``, and of two of them as one."""
    words = text.split()
    joined = (f"{one}{two}" for one, two in itertools.pairwise(words) if one.isalpha() and two.isalpha())
    return find_stems(f"{text} {' '.join(joined)}")


def format_when(moment: datetime, now: datetime) -> str:
    """``today 09:10``, ``yesterday 16:00``, ``2026-11-26 10:00``."""
    local = moment.astimezone(now.tzinfo)
    ago = (now.date() - local.date()).days
    day = {0: "today", 1: "yesterday", -1: "tomorrow"}.get(ago) or f"{local:%a %Y-%m-%d}"
    return f"{day} {local:%H:%M}"


async def list_things(
    context: AgentContext, office: OfficeReader, known: Mapping[str, str], now: datetime
) -> list[Thing]:
    """All things of the office, as they are at ``now``; ``known`` says what each agent is for."""
    goals, sent = await asyncio.gather(office.goals(), office.sent())
    waiting = await office.waiting(goals)
    ended = {goal.goal_id for goal in goals if goal.status.final}
    return [
        *(_view_goal(each, now) for each in goals[-NEWEST:]),
        *(_view_letter(each, is_question(each, ended), now) for each in sent[-NEWEST:]),
        *await list_agents(context, known, goals, now),
        *(view_dead(each, now) for each in waiting.dead_letters),
        *map(view_request, waiting.approvals),
        *await list_planned(context, now),
    ]


def read_reports(things: Iterable[Thing]) -> list[Thing]:
    """``things``, the latest of the goals with findings with what their reports say; blocks."""
    found = {each.ref: each for each in things}
    goals = [each for each in found.values() if each.path and "findings" in each.states][-REPORTS:]
    for goal in goals:
        try:
            with Path(goal.path).open(encoding="utf-8", errors="replace") as file:
                text = file.read(REPORT)
        except OSError:
            continue
        found[goal.ref] = msgspec.structs.replace(goal, report=text, words=f"{goal.words} {text}")
    return list(found.values())


def view_dead(dead: DeadLetters, now: datetime) -> Thing:
    """The dead letters of an agent."""
    at = parse_timestamp(dead.last.created_at)
    return Thing(
        kind=Kind.DEAD,
        ref=str(dead.number),
        words=dead.last.reason,
        line=f"{count(dead.count, 'dead letter')} of {dead.agent}, the last {format_when(at, now)}: "
        f"{flatten(dead.last.reason, 200)} (mailroom dead show {dead.number})",
        at=at,
        began=at,
        who=frozenset({dead.agent}),
        states=frozenset({"failed"}),
    )


def view_request(request: ApprovalRequest) -> Thing:
    """A request for approval, with the command that answers it."""
    at = parse_timestamp(request.created_at)
    return Thing(
        kind=Kind.APPROVAL,
        ref=request.approval_id,
        words=f"{request.what} {request.why}",
        line=f"{request.sender} asks to be allowed: {flatten(request.what, 200)} "
        f"(mailroom approvals grant {request.approval_id[:12]}, or refuse)",
        at=at,
        began=at,
        who=frozenset({request.sender}),
        states=frozenset({"unanswered"}),
    )


def _view_goal(goal: Goal, now: datetime) -> Thing:
    began = parse_timestamp(goal.submitted_at)
    ended = parse_timestamp(goal.ended_at) if goal.ended_at else now
    told, took = goal.reason or goal.answer or goal.question, format_span((ended - began).total_seconds())
    states = {
        "running": not goal.status.final,
        "failed": goal.undone,
        "cancelled": goal.status is TaskStatus.CANCELLED,
        "done": goal.status is TaskStatus.COMPLETED and not goal.undone,
        "findings": goal.outcome is ResultOutcome.FINDINGS,
        "unanswered": bool(goal.question),
    }
    agents = sorted({task.assignee for task in goal.tasks})
    at_work = [each for each in goal.tasks if each.started_at and not each.ended_at]
    working = "; ".join(f"{task.assignee}: {flatten(task.text, 100)}" for task in at_work)
    by = goal.person or ("a schedule" if goal.context.get("schedule") else goal.requester)
    when = f"{format_when(ended, now)}, after {took}" if goal.ended_at else f"for {took}"
    result = f" - {flatten(told, 160) or working}" if told or working else ""
    more = [
        f"Asked for by {by} {format_when(began, now)}, {'ended' if goal.ended_at else 'at work'} {when}.",
        f"Worked on by {', '.join(agents)}." if agents else "",
        f"Now: {working}." if working else "",
        told[:LONG],
        f"The critic {'approved it' if goal.verdict['approved'] else 'sent it back'}."
        if "approved" in goal.verdict
        else "",
        f"Report: {goal.report_path}" if goal.report_path else "",
    ]
    return Thing(
        kind=Kind.GOAL,
        ref=goal.goal_id,
        words=f"{goal.text} {goal.playbook} {'schedule' if by == 'a schedule' else ''} {told}"[:SEARCHED],
        path=goal.report_path,
        line=f"{goal.standing}, {when}: {flatten(goal.text, 160)}{result} ({goal.goal_id})",
        more="\n".join(filter(None, more)),
        at=ended,
        began=began,
        who=frozenset(agents),
        states=frozenset(name for name, is_so in states.items() if is_so),
    )


def _view_letter(sent: SentEmail, asks: bool, now: datetime) -> Thing:
    email = sent.email
    at = parse_timestamp(email.created_at)
    state = "unanswered" if asks else "done"
    answered = f"Your answer: {flatten(sent.answer.body, 500)}" if sent.answer else ""
    short = shorten_id(email.id)
    waits = f"It waits for your answer: mailroom mail reply {short}" if asks else ""
    name = f"{format_when(at, now)}, {email.sender}: {flatten(email.subject or email.body, 120)}"
    return Thing(
        kind=Kind.LETTER,
        ref=email.id,
        words=f"{email.subject} {email.body}"[:SEARCHED],
        line=f"{name} - {flatten(email.body, 200)} (mailroom mail show {short})",
        more="\n".join(filter(None, [email.body[:LONG], answered, waits])),
        at=at,
        began=at,
        who=frozenset({email.sender}),
        states=frozenset({state}),
    )


async def list_agents(
    context: AgentContext, known: Mapping[str, str], goals: Iterable[Goal], now: datetime
) -> Iterator[Thing]:
    """The agents that are installed or at work, and what each does."""
    present = await context.directory.read()
    tasks: dict[str, list[str]] = {}
    for goal in goals:
        for task in () if goal.status.final else goal.tasks:
            if task.started_at and not task.ended_at:
                tasks.setdefault(task.assignee, []).append(f"{flatten(task.text, 100)} ({goal.goal_id})")
    return (
        _view_agent(name, known.get(name, ""), present.get(name), tasks.get(name, ()), now)
        for name in sorted({*known, *present})
    )


def read_installed(settings: Settings) -> dict[str, str]:
    """What each agent is for that is installed here, the gateway aside; specialists too."""
    installed, _ = read_agents(settings)
    found = [*installed, *load_specialists(settings)]
    return {each.name: each.profile.description for each in found if each.name != subjects.GATEWAY}


def _view_agent(
    name: str, says: str, presence: Presence | None, tasks: Sequence[str], now: datetime
) -> Thing:
    if presence is None:
        does, states, done = "not at work", {"down"}, ["See 'mailroom status'."]
    else:
        busy = presence.load and name != subjects.NEXUS  # which is at work on the question
        working = "; ".join(tasks) or (count(presence.load, "message") if busy else "")
        does = f"at work on {working}" if working else "paused" if presence.paused else "up, idle"
        states = {"up", "running" if working else "idle"}
        handled = f"It handled {count(presence.handled, 'message')}, {presence.failed} of them failed"
        done = [f"{handled}; version {presence.version}."]
        done += [f"It can: {flatten('; '.join(presence.actions.values()), 600)}."] if presence.actions else []
    since = parse_timestamp(presence.started_at) if presence and presence.started_at else now
    up = f", since {format_when(since, now)}" if since < now else ""
    says = says or (presence.description if presence else "")
    return Thing(
        kind=Kind.AGENT,
        ref=name,
        words=f"{name} {says}",
        line=f"{name}: {does}{up} - {flatten(says, 160)}",
        more="\n".join(done),
        at=since,
        began=since,
        who=frozenset({name}),
        states=frozenset(states),
    )


async def list_planned(context: AgentContext, now: datetime) -> list[Thing]:
    """Goals on a schedule, briefings, and jobs of the night; the next first."""
    zone, known = now.tzinfo, await read_timetable(context.bus)
    try:
        jobs = (await read_timetable(context.bus, subjects.CORTEX)).items
    except BusError:
        jobs = []
    begins = max(read_night(context.settings.night, zone).find(now)[0], now)
    wanted = [each for each in known.items if each.what is DueKind.GOAL or each.what is DueKind.BRIEFING]
    kept = [
        each
        for each in (*wanted, *jobs)
        if each.status in KEPT and (each.repeats or each.what is not DueKind.BRIEFING)
    ]
    found = [_view_due(each, begins, now, zone) for each in kept]
    return sorted(found, key=lambda each: ("paused" in each.states, each.at))


def _view_due(due: Due, night: datetime, now: datetime, zone: tzinfo | None) -> Thing:
    job, state = (
        due.what is DueKind.JOB,
        {"working": "running", "paused": "paused"}.get(due.status.value, "waiting"),
    )
    at_night = job and state == "waiting" and not due.job.get("run_at")
    moment = max(due_time(due), night) if at_night else due_time(due)
    often = (
        describe(due.repeats, due_time(due), zone) if due.repeats else "job of the night" if job else "once"
    )
    when = {"paused": "It is paused.", "running": "It is at work."}.get(
        state, f"Next: {format_when(moment, now)}."
    )
    last = f", the last {format_when(parse_timestamp(due.last_at), now)}" if due.last_at else ""
    missed = f", {due.missed} left out" if due.missed else ""
    told = [
        when,
        "" if job else f"Runs so far: {due.runs}{missed}{last}.",
        f"{due.note}." if due.note else "",
    ]
    times = [format_when(each, now) for each in list_next(due, zone, 4)[1:]]
    more = [
        f"Then: {', '.join(times)}." if times else "",
        f"Its last run: mailroom show {due.last}" if due.last else "",
    ]
    paused = " (paused)" if state == "paused" else ""
    return Thing(
        kind=Kind.PLANNED,
        ref=due.due_id,
        words=f"{due.due_id} {due.text} {often} {due.words} {'job' if job else 'schedule'}",
        line=f"{due.due_id}  {often}{paused}: {flatten(due.text, 200)}\n    {' '.join(filter(None, told))}",
        more="\n".join(filter(None, more)),
        at=moment,
        began=moment,
        who=frozenset({subjects.CORTEX if job else subjects.NEXUS}),
        states=frozenset({state}),
    )
