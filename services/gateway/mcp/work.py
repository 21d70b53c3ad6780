"""Tools of goals and of the front desk."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Annotated, Any

import msgspec

from services.gateway.api import goal_actions
from services.gateway.api import goals as goals_api
from services.gateway.api.goal_page import read_goal_page
from services.gateway.call import Call
from services.gateway.conversations import ask as ask_desk
from services.gateway.conversations import follow, read_turn, require_own
from services.gateway.mcp.knowledge import MOST, Arguments, Few, Waiting, view_request
from services.gateway.opened_evidence import read_report
from shared.contracts import TOKEN, Goal, GoalBudget, TaskPriority, generate_id
from shared.queries.progress import follow_to_results
from shared.text.display import count, flatten, shorten
from shared.views.desk import Note, Turn
from shared.views.listed import GOAL_ID, NewGoal, SubmittedGoal
from shared.views.progress import WAITING_NOTE, Progress
from shared.views.timeline import GoalSummary

BEGIN_WAIT = 5.0  # Seconds until the conductor must have taken up a goal
WAIT = 50.0  # Seconds that a call waits if it does not say: many hosts end one after 60

Report = Callable[[float, float, str], Awaitable[None]]
"""Tells a host that a call goes on: how far, of how much (0: not known), and what happens."""
Seconds = Annotated[float, msgspec.Meta(ge=0, le=600)]
Text = Annotated[str, msgspec.Meta(min_length=1)]


class Wish(Arguments, frozen=True, kw_only=True):
    """A goal."""

    text: Text
    context: dict[str, Any] = {}
    priority: TaskPriority = TaskPriority.MEDIUM
    deadline: str = ""
    key: Annotated[str, msgspec.Meta(pattern=rf"^({GOAL_ID})?\Z")] = ""
    tokens: Annotated[int, msgspec.Meta(ge=0)] = 0


async def submit_goal(call: Call, given: Wish) -> SubmittedGoal:
    """Submit a goal in the name of the program."""
    fields = msgspec.structs.asdict(given)
    tokens = fields.pop("tokens")
    budget = GoalBudget(tokens=tokens) if tokens else None
    goal = NewGoal(goal_id=fields.pop("key"), budget=budget, **fields)
    return await goals_api.submit_goal(call, goal)


class WhichGoal(Arguments, frozen=True, kw_only=True):
    """A goal that was submitted."""

    goal_id: str


class WaitedGoal(WhichGoal, frozen=True, kw_only=True):
    """A goal, and how long it is waited for."""

    seconds: Seconds = WAIT


class GoalState(msgspec.Struct, frozen=True, kw_only=True):
    """A goal: what it found, its ``report`` as Markdown, and which approvals it waits for."""

    goal: GoalSummary
    ended: bool
    changed_at: str
    answer: str
    reason: str
    review: str
    patches: tuple[str, ...]
    findings: int
    not_checked: int
    waiting: list[Waiting]
    report: str


async def goal(call: Call, given: WhichGoal) -> GoalState:
    """How a goal stands."""
    page = await read_goal_page(call)
    known = call.gateway.index.store.goal(page.goal_id) or Goal(
        goal_id=page.goal_id,
        text=page.text,
        requester=page.requester,
        person=page.person,
        submitted_at=page.submitted_at,
    )
    report = ""
    if page.has_report:
        report = await asyncio.to_thread(read_report, call.gateway.settings, known)
    return GoalState(
        goal=(await goals_api.summarize_goals(call.gateway, [known]))[0],
        ended=known.status.final,
        changed_at=page.ended_at or (page.messages[-1].time if page.messages else page.submitted_at),
        answer=shorten(page.answer, MOST),
        reason=page.reason,
        review=page.review,
        patches=page.patches,
        findings=page.findings_total,
        not_checked=len(page.not_checked),
        waiting=[view_request(each) for each in page.approvals if each.state == "waiting"],
        report=shorten(report, MOST),
    )


async def wait_for_goal(call: Call, given: WaitedGoal, report: Report) -> GoalState:
    """Wait until a goal has ended or waits for a person's approval, or the time is over."""
    goal_id = (await read_goal_page(call)).goal_id  # one that nobody submitted would never end
    changes = follow_to_results(call.gateway.bus, call.gateway.settings, goal_id)
    try:
        async with asyncio.timeout(given.seconds), aclosing(changes):
            number = 0
            async for each in changes:
                number += 1
                await report(number, 0, _tell(each))
                if any(each.note(task).startswith(WAITING_NOTE) for task in each.tasks):
                    await call.gateway.index.wait_until_complete()
                    if (now := await goal(call, given)).waiting:  # the note stays after the answer
                        return now
    except TimeoutError:
        pass
    await call.gateway.index.wait_until_complete()
    return await goal(call, given)


def _tell(progress: Progress) -> str:
    """A line about how far a goal is."""
    known = progress.goal
    if known is None:
        return "It waits for the conductor"
    done = sum(task.status.final for task in progress.tasks)
    at_work = [task for task in progress.tasks if task.issued and not task.status.final]
    notes = [f"{task.assignee}: {progress.note(task) or task.name}" for task in at_work]
    return flatten(
        f"{known.status}, {done} of {count(len(progress.tasks), 'task')} done. {'; '.join(notes)}", 300
    )


class GoalsWanted(Arguments, frozen=True, kw_only=True):
    """Which goals."""

    text: Annotated[str, msgspec.Meta(max_length=200)] = ""
    status: tuple[str, ...] = ()
    limit: Few = 10


async def goals(call: Call, given: GoalsWanted) -> goals_api.GoalList:
    """The goals, the latest first."""
    query = goals_api.GoalsQuery(**msgspec.structs.asdict(given))
    return await goals_api.list_goals(call, query)


async def _wait_until_begun(call: Call) -> None:
    """Give the conductor time to take up a goal that was just submitted: programs are quick."""
    goal_id, index = (await read_goal_page(call)).goal_id, call.gateway.index
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(BEGIN_WAIT):
            while index.store.goal(goal_id) is None:
                await index.wait_for_change()


class Steering(WhichGoal, frozen=True, kw_only=True):
    """A goal, and what its agents are to mind."""

    text: Text


async def steer_goal(call: Call, given: Steering) -> GoalSummary:
    """Steer a goal, or go on with one that has ended."""
    await _wait_until_begun(call)
    return await goal_actions.say(call, goal_actions.Words(text=given.text))


class Cancelling(WhichGoal, frozen=True, kw_only=True):
    """A goal, and why it is stopped."""

    reason: str = ""


async def cancel_goal(call: Call, given: Cancelling) -> GoalSummary:
    """Stop a goal."""
    await _wait_until_begun(call)
    return await goal_actions.cancel(call, goal_actions.Cancellation(reason=given.reason))


class Applying(WhichGoal, frozen=True, kw_only=True):
    """A goal, and which of its patches."""

    projects: tuple[str, ...] = ()


async def apply_diff(call: Call, given: Applying) -> goal_actions.AppliedPatches:
    """Apply the patches of a goal."""
    return await goal_actions.apply(call, goal_actions.Choice(projects=given.projects))


class Asking(Arguments, frozen=True, kw_only=True):
    """What is said to the front desk."""

    text: Text
    conversation: Annotated[str, msgspec.Meta(pattern=rf"^({TOKEN.pattern})?\Z")] = ""
    message_id: Annotated[str, msgspec.Meta(pattern=rf"^({TOKEN.pattern})?\Z")] = ""
    seconds: Seconds = WAIT


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What the front desk answered; ``state`` is answered, refused (with the ``reason``) or waiting.

    If it ``asks`` something back, the next thing said in the conversation answers that; ``goal_id`` is a goal
    that it began.
    """

    state: str
    conversation: str
    message_id: str
    text: str = ""
    asks: bool = False
    reason: str = ""
    citations: tuple[str, ...] = ()
    goal_id: str = ""


async def ask(call: Call, given: Asking, report: Report) -> Reply:
    """Say something to the front desk, and wait for its answer."""
    gateway, conversation = call.gateway, given.conversation or generate_id()
    message_id = given.message_id or generate_id()
    require_own(gateway, conversation, call.person)
    asked = await ask_desk(gateway, message_id, given.text, call.person.name, conversation, remember=True)
    turn: Turn | None = None
    try:
        async with asyncio.timeout(given.seconds), aclosing(follow(gateway, asked)) as steps:
            number = 0
            async for step in steps:
                if isinstance(step, Turn):
                    turn = step
                elif isinstance(step, Note):
                    number += 1
                    await report(number, 0, flatten(f"{step.agent} {step.step}: {step.text}", 300))
    except TimeoutError:
        turn = await read_turn(gateway, message_id)
    state, reason = (turn.state, turn.reason) if turn else ("waiting", "")
    reply = Reply(state=state, conversation=conversation, message_id=message_id, reason=reason)
    if turn is None or turn.answer is None:
        return reply
    answer = turn.answer
    return msgspec.structs.replace(
        reply,
        text=shorten(answer.text, MOST),
        asks=answer.asks is not None,
        citations=answer.citations,
        goal_id=answer.goal_id,
    )
