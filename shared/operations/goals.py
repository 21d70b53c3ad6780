"""What people do to goals and agents: cancel, do again, go on; pause, resume and restart."""

import asyncio
from typing import Any, Literal

from shared import subjects
from shared.agent.process import UNPAUSABLE, read_control
from shared.bus import Bus
from shared.bus.records import read_presences
from shared.contracts import AgentControl, AgentReport, CancelGoal, Goal, GoalBudget, generate_task_id
from shared.errors import BusUnavailable, MailroomError, Refused, TooLate
from shared.operations.submission import publish, with_person
from shared.queries.office import find_dead_letter
from shared.queries.progress import GoalFollower
from shared.queries.records import (
    Listener,
    count_subjects,
    read_goal,
    read_last,
    scan,
    unknown_agent_error,
)
from shared.queries.results import find_goal
from shared.trace import join_trace

CANCEL_TIMEOUT = 10.0  # Seconds to wait until the conductor has ended a goal
ACCEPT_TIMEOUT = 20.0  # Seconds until the conductor must have accepted or refused a resumption
POLL_INTERVAL = 1.0  # Seconds between reads if no message arrives


# --- cancel ----------------------------------------------------------------------------------------


async def cancel_goal(bus: Bus, name: str, reason: str = "", *, person: str = "") -> Goal:
    """Have the conductor end a goal; returns it as it ended, or as it is after CANCEL_TIMEOUT.

    Raises NotFound, and TooLate if it has ended already.
    """
    goal, _ = await find_goal(bus, name)
    if goal.status.final:
        raise TooLate(f"The goal {goal.goal_id} has ended already: {goal.status}")
    request = CancelGoal(
        sender=subjects.USER,
        recipient=subjects.CONDUCTOR,
        goal_id=goal.goal_id,
        reason=reason or "a person asked for it",
        person=person,
    )
    join_trace(goal.traceparent)
    follower = GoalFollower(bus, goal.goal_id)
    await follower.listen()
    subject = subjects.mail(subjects.CONDUCTOR, subjects.USER)
    await bus.store(subject, request.to_json(), headers={"Nats-Msg-Id": request.id})
    try:
        async with asyncio.timeout(CANCEL_TIMEOUT):
            async for progress in follower.follow():
                goal = progress.goal or goal
    except TimeoutError:
        pass
    return goal


# --- retry -----------------------------------------------------------------------------------------


async def find_ended(bus: Bus, name: str) -> Goal:
    """The goal ``name``; raises NotFound, and TooLate if it has not ended."""
    goal, _ = await find_goal(bus, name)
    if not goal.status.final:
        raise TooLate(
            f"The goal {goal.goal_id} has not ended: it is {goal.status}",
            f"Steer it with 'mailroom resume {goal.goal_id} --say ...', or end it with 'mailroom cancel'",
        )
    return goal


def make_retry(goal: Goal, goal_id: str = "", *, person: str = "") -> dict[str, Any]:
    """The submission of ``person`` that does ``goal`` again, under a new id."""
    body = {"retry": goal.goal_id, "goal_id": goal_id or generate_task_id("goal"), "requester": subjects.USER}
    return with_person(body, person)


# --- resume ----------------------------------------------------------------------------------------


async def resume_goal(
    bus: Bus, name: str, text: str, *, budget: GoalBudget | None = None, person: str = "", key: str = ""
) -> Goal:
    """Have the conductor go on with a goal, minding ``text``, within ``budget``; returns it as accepted.

    Sent again with the same idempotency ``key``, it is minded once.

    Raises NotFound, Refused and BusUnavailable; MailroomError if it runs and there is neither.
    """
    known, _ = await find_goal(bus, name)
    if not (text or budget or known.status.final):
        raise MailroomError(
            f"The goal {known.goal_id} is running",
            "Say what it should mind with --say, or raise --budget",
        )
    join_trace(known.traceparent)
    request_id = bus.derive_id("resume", person, key) if key else generate_task_id("resume")
    refusals = subjects.mail(subjects.USER, subjects.CONDUCTOR)
    listener = Listener(bus, POLL_INTERVAL)
    await listener.subscribe(subjects.goal(known.goal_id), refusals, subjects.dead(subjects.CONDUCTOR))
    body: dict[str, Any] = {
        "resume": known.goal_id,
        "text": text,
        "request_id": request_id,
        "requester": subjects.USER,
    }
    body |= {"budget": budget} if budget else {}
    seq = await publish(bus, with_person(body, person))

    async def read_answer() -> Goal | None:
        found = await read_goal(bus, known.goal_id)
        if found and any(each.id == request_id for each in found[0].instructions):
            return found[0]
        await _require_not_refused(bus, refusals, seq, request_id)
        return None

    try:
        return await listener.wait_for(read_answer, ACCEPT_TIMEOUT)
    except TimeoutError:
        raise BusUnavailable(
            f"The conductor has not answered within {ACCEPT_TIMEOUT:g} s; the request stays in its mailbox",
            "'mailroom status' shows whether it runs",
        ) from None


async def _require_not_refused(bus: Bus, refusals: str, seq: int, request_id: str) -> None:
    letter = await find_dead_letter(bus, subjects.CONDUCTOR, seq)
    if letter is not None:
        raise Refused(f"The conductor refuses it: {letter.reason}")
    async for stored in scan(bus, subjects.OFFICE, refusals, seq=seq):
        if request_id.encode() in stored.data and (report := AgentReport.from_json(stored.data)):
            raise Refused(report.summary.rstrip("."))


Do = Literal["pause", "resume", "restart"]


async def control_agent(bus: Bus, agent: str, do: Do, *, person: str = "", key: str = "") -> AgentControl:
    """Have ``agent`` paused, resumed or restarted; returns what holds from now on, for all its processes.

    Raises NotFound for an agent that neither runs nor was ever controlled, TooLate for one that cannot be
    paused, Refused and BusUnavailable if the conductor does not record it.
    """
    if do == "pause" and (why := UNPAUSABLE.get(agent)):
        raise TooLate(f"{agent} cannot be paused: {why}", "It can be restarted")
    presences = await read_presences(bus)
    if agent not in {presence.agent for presence in presences} and await read_control(bus, agent) is None:
        raise unknown_agent_error(agent, presences)
    request_id = bus.derive_id("control", person, agent, do, key) if key else generate_task_id("control")
    listener = Listener(bus, POLL_INTERVAL)
    await listener.subscribe(subjects.control(agent), subjects.dead(subjects.CONDUCTOR))
    body = {"control": {"agent": agent, "do": do}, "request_id": request_id, "requester": subjects.USER}
    seq = await publish(bus, with_person(body, person))

    async def read_answer() -> AgentControl | None:
        control = await read_control(bus, agent)
        if control is not None and control.request_id == request_id:
            return control
        if letter := await find_dead_letter(bus, subjects.CONDUCTOR, seq):
            raise Refused(f"The conductor refuses it: {letter.reason}")
        return None

    try:
        return await listener.wait_for(read_answer, ACCEPT_TIMEOUT)
    except TimeoutError:
        raise BusUnavailable(
            f"The conductor has not answered within {ACCEPT_TIMEOUT:g} s; the request stays in its mailbox",
            "'mailroom status' shows whether it runs",
        ) from None


async def read_controls(bus: Bus) -> dict[str, AgentControl]:
    """What people want of agents, by agent, of those that were ever controlled."""
    names = await count_subjects(bus, subjects.OFFICE, subjects.control("*"))
    found = {}
    for subject, stored in (await read_last(bus, subjects.OFFICE, names)).items():
        try:
            found[subject.rpartition(".")[2]] = AgentControl.from_json(stored.data)
        except ValueError:
            continue
    return found
