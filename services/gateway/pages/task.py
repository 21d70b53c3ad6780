"""Single actions of an agent that people ask for: submitted as goals that name the action."""

import asyncio
from contextlib import aclosing
from typing import Any

import msgspec

from services.gateway.context import Call, Gateway
from services.gateway.index.rows import MessageRow, Position
from services.gateway.index.store import Filter
from shared import subjects
from shared.contracts import TOKEN, Goal, TaskResult, TaskStatus, generate_id
from shared.operations.submission import make_body, submit_once
from shared.trail.archives import read_message

REASONLESS = "It ended without a reason"


def message_id_of(call: Call) -> str:
    """The id of what a request sends: its Idempotency-Key, so that it is sent once, or a new one."""
    return call.key if TOKEN.fullmatch(call.key) else generate_id()


async def submit_action(
    call: Call, goal_id: str, agent: str, text: str, context: dict[str, Any], **more: Any
) -> Position:
    """Have an agent do what the context says, unless that was asked for before under this id.

    ``more`` are further fields of the submission. Returns the position of the log from which to follow it.
    Raises Refused if the id is that of another goal.
    """
    position = call.gateway.index.position
    body = make_body(text, {**context, "assignee": agent}, goal_id, person=call.person.name)
    await submit_once(call.gateway.bus, body | more)
    return position


async def wait_for_result(
    gateway: Gateway, goal_id: str, after: Position, seconds: float
) -> TaskResult | None:
    """The result of the one task of a goal; None if it has not ended within so many seconds."""
    if result := await read_result(gateway, goal_id):
        return result
    try:
        async with asyncio.timeout(seconds):
            async with aclosing(gateway.index.events(after, Filter(goal=goal_id))) as events:
                async for _ in events:
                    if result := await read_result(gateway, goal_id):
                        return result
    except TimeoutError:
        pass
    return None


async def read_result(gateway: Gateway, goal_id: str) -> TaskResult | None:
    """The result of the one task of a goal, under the goal's id, if it has ended; else None.

    If the goal ended without one, such as when it was refused, a result with its reason.
    """
    for row in gateway.index.store.all_of_goal(goal_id):
        if _ends_first_task(row):
            stored = await read_message(gateway.bus, row.stream, row.seq)
            if stored is not None:
                result = TaskResult.from_json(stored.data)
                return msgspec.structs.replace(result, task_id=goal_id, spans=())
    goal = gateway.index.store.goal(goal_id)
    return _result_of(goal) if goal is not None and goal.status.final else None


def _ends_first_task(row: MessageRow) -> bool:
    match row.subject.split("."):
        case ["task", assignee, subjects.CONDUCTOR, _, step]:
            return step in subjects.FINAL_STEPS and assignee != subjects.CRITIC
    return False


def _result_of(goal: Goal) -> TaskResult:
    failed = goal.status is not TaskStatus.COMPLETED
    return TaskResult(
        task_id=goal.goal_id,
        agent=subjects.CONDUCTOR,
        status=goal.status,
        output=goal.answer,
        error_message=(goal.reason or REASONLESS) if failed else "",
        goal_id=goal.goal_id,
    )
