"""Goals as lists show them: where they stand, who works, what they cost."""

from collections.abc import Sequence

import msgspec

from services.gateway.call import Gateway
from services.gateway.inbox import read_open_requests
from services.gateway.pages.agents import read_paused
from shared import subjects
from shared.contracts import Goal, TaskStatus
from shared.text.display import flatten
from shared.text.times import seconds_between

MAX_TITLE = 300
MAX_NOTE = 300


class WorkingAgent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that has a task of the goal, which is not ended; ``paused``: it does not begin it."""

    agent: str
    task: str
    since: str
    paused: bool = False


class GoalSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A goal; ``title`` is the person's own words, ``person`` who submitted it (empty if not known).

    ``state`` is planning, working, review, waiting (for a person) or ended. ``workers`` have its open tasks,
    ``waiting_for`` are the requests for approval that wait. Times are ISO 8601, ``seconds`` its duration so
    far; ``cost`` in US dollars.
    """

    goal_id: str
    title: str
    status: str
    outcome: str
    state: str
    requester: str
    person: str
    priority: str
    playbook: str
    tasks_done: int
    tasks_failed: int
    tasks_all: int
    workers: list[WorkingAgent]
    waiting_for: list[str]
    submitted_at: str
    ended_at: str
    deadline: str
    seconds: float
    summary: str
    tokens: int = 0
    cost: float = 0.0
    retry_of: str = ""


async def summarize_goals(gateway: Gateway, goals: Sequence[Goal]) -> list[GoalSummary]:
    """The summaries of goals, in the same order."""
    waiting: dict[str, list[str]] = {}
    for each in await read_open_requests(gateway):
        waiting.setdefault(each.request.goal_id, []).append(each.request.approval_id)
    paused = await read_paused(gateway)
    spent = gateway.index.store.spending([goal.goal_id for goal in goals])
    return [
        _summarize(goal, waiting.get(goal.goal_id, []), spent.get(goal.goal_id), paused) for goal in goals
    ]


def _summarize(
    goal: Goal, waiting: list[str], spent: tuple[int, float] | None, paused: frozenset[str]
) -> GoalSummary:
    tokens, cost = spent or (0, 0.0)
    return GoalSummary(
        goal_id=goal.goal_id,
        title=flatten(goal.text, MAX_TITLE),
        status=str(goal.status),
        outcome=str(goal.outcome),
        state=state_of(goal, bool(waiting)),
        requester=goal.requester,
        person=goal.person,
        priority=str(goal.priority),
        playbook=goal.playbook,
        tasks_done=sum(task.status is TaskStatus.COMPLETED for task in goal.tasks),
        tasks_failed=sum(task.status.final for task in goal.tasks)
        - sum(task.status is TaskStatus.COMPLETED for task in goal.tasks),
        tasks_all=len(goal.tasks),
        workers=[] if goal.status.final else _workers(goal, paused),
        waiting_for=[] if goal.status.final else waiting,
        submitted_at=goal.submitted_at,
        ended_at=goal.ended_at,
        deadline=goal.deadline,
        seconds=max(0.0, seconds_between(goal.submitted_at, goal.ended_at)),
        summary=flatten(goal.reason or goal.answer, MAX_NOTE),
        tokens=tokens,
        cost=cost,
        retry_of=goal.retry_of,
    )


def state_of(goal: Goal, waits: bool) -> str:
    """Where a goal stands, see GoalSummary."""
    if goal.status.final:
        return "ended"
    if waits:
        return "waiting"
    if goal.status is TaskStatus.REVIEW:
        return "review"
    return "working" if any(task.issued for task in goal.tasks) else "planning"


def _workers(goal: Goal, paused: frozenset[str]) -> list[WorkingAgent]:
    at_work = [
        (task.assignee, task.name, task.started_at)
        for task in goal.tasks
        if task.issued and not task.status.final
    ]
    if goal.status is TaskStatus.REVIEW:
        at_work.append((subjects.CRITIC, "review", ""))
    return [
        WorkingAgent(agent=agent, task=task, since=since, paused=agent in paused)
        for agent, task, since in at_work
    ]
