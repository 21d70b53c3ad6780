"""Goals: the list, each in a line, and submitting one."""

import re
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from services.gateway.api.limits import require_room
from services.gateway.call import Call, Gateway, Kept
from services.gateway.inbox import read_open_requests
from services.gateway.metrics.drilldown import CONDITIONS
from services.gateway.metrics.figures import KINDS
from services.gateway.metrics.targets import Period
from services.gateway.problems import Failure
from services.gateway.routing import API, Endpoint
from shared import subjects
from shared.access.scopes import Scope
from shared.contracts import Goal, TaskStatus
from shared.operations.goals import read_controls
from shared.operations.submission import derive_goal_id, make_body, submit_once
from shared.tasks.submission import MAX_BYTES
from shared.text.display import flatten
from shared.text.times import format_utc, parse_time, seconds_between
from shared.views.listed import LatestGoals, NewGoal, SubmittedGoal
from shared.views.timeline import GoalSummary, WorkingAgent

ONE = f"{API}/goals/{{goal_id}}"
MAX_LIMIT = 200
_RELATIVE = re.compile(
    r"""(?<![^\s"'`(\[{=:,])(?:\.{1,2}|~[\w-]*)/[^\s"'`]*"""
    r"""|(?<=\b(?:of|in|at|on)\s)\.{1,2}(?=[\s,;:!?)\]}]|$)""",
    re.IGNORECASE,
)
"""``./x``, ``../x`` and ``~/x``, and ``.`` where a folder is named."""
_WHOLE = re.compile(r"(?<![\w.~/-])/\w|\w://")  # What begins a whole path, or an address


MAX_TITLE = 300
MAX_NOTE = 300


async def summarize_goals(gateway: Gateway, goals: Sequence[Goal]) -> list[GoalSummary]:
    """The summaries of goals, in the same order."""
    waiting: dict[str, list[str]] = {}
    for each in await read_open_requests(gateway):
        waiting.setdefault(each.request.goal_id, []).append(each.request.approval_id)
    paused = await _paused.find(gateway)
    spent = gateway.index.store.spending([goal.goal_id for goal in goals])
    return [
        _summarize(goal, waiting.get(goal.goal_id, []), spent.get(goal.goal_id), paused) for goal in goals
    ]


def _summarize(
    goal: Goal, waiting: list[str], spent: tuple[int, float] | None, paused: frozenset[str]
) -> GoalSummary:
    tokens, cost = spent or (0, 0.0)
    completed = sum(task.status is TaskStatus.COMPLETED for task in goal.tasks)
    at_work = [
        (task.assignee, task.name, task.started_at)
        for task in goal.tasks
        if task.issued and not task.status.final
    ]
    if goal.status is TaskStatus.REVIEW:
        at_work.append((subjects.CRITIC, "review", ""))
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
        tasks_done=completed,
        tasks_failed=sum(task.status.final for task in goal.tasks) - completed,
        tasks_all=len(goal.tasks),
        workers=[
            WorkingAgent(agent=agent, task=task, since=since, paused=agent in paused)
            for agent, task, since in at_work
            if not goal.status.final
        ],
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


async def _read_paused(gateway: Gateway) -> frozenset[str]:
    controls = await read_controls(gateway.bus)
    return frozenset(name for name, control in controls.items() if control.paused)


_paused = Kept("control", _read_paused)


class GoalsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which goals, the latest submitted first: of a status (several: repeat it), an outcome, an agent, with
    these words, submitted from ``since`` on until before ``until`` (ISO 8601). With the name of a ``figure``
    those that it counts in this period. ``before`` is ``next`` of the page before.
    """

    status: tuple[str, ...] = ()
    outcome: str = ""
    agent: str = ""
    text: Annotated[str, msgspec.Meta(max_length=200)] = ""
    figure: str = ""
    since: str = ""
    until: str = ""
    before: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_LIMIT)] = 50


class GoalList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of goals; ``next`` goes into ``before`` for the following one, 0 at the end.

    ``counts`` are the numbers of all goals by status, ``figure`` is the title of the one that was asked for.
    """

    goals: list[GoalSummary]
    next: int
    counts: dict[str, int]
    figure: str = ""


async def list_goals(call: Call, query: GoalsQuery) -> GoalList:
    """Goals, the latest first, with what they are at."""
    also: tuple[str, Sequence[Any]] = ("", ())
    if query.figure or query.since or query.until:
        if query.figure not in CONDITIONS:
            raise ValueError(f"there are no goals of a figure {query.figure[:40]!r}")
        also = CONDITIONS[query.figure], Period.make(query.since, query.until).bounds
    found = call.gateway.index.store.goals(
        statuses=query.status,
        outcome=query.outcome,
        agent=query.agent,
        text=query.text,
        also=also,
        before=query.before,
        limit=query.limit,
    )
    return GoalList(
        goals=await summarize_goals(call.gateway, [goal for _, goal in found]),
        next=found[-1][0] if len(found) == query.limit else 0,
        counts=call.gateway.index.store.count_goals(),
        figure=KINDS[query.figure].title if query.figure else "",
    )


class LatestQuery(msgspec.Struct, frozen=True, kw_only=True):
    """How many."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 30


async def list_latest_goals(call: Call, query: LatestQuery) -> LatestGoals:
    """The records of the goals that are open, and of those that changed last."""
    store = call.gateway.index.store
    found = sorted(store.latest_goals(query.limit), key=lambda goal: parse_time(goal.submitted_at))
    return LatestGoals(goals=found, others=sum(store.count_goals().values()) - len(found))


def require_whole_paths(text: str, context: dict[str, Any]) -> None:
    """Raise Failure if a goal names its folder relative to one that the office does not know.

    A text that names a whole path or an address too may mean a path within that: "run ./build.sh in /srv/x".
    With an action, or the folder in the context, it only says what is done.
    """
    params = context.get("params")
    given = [context.get("repo"), params.get("repo") if isinstance(params, dict) else None]
    wrong = next((each for each in given if isinstance(each, str) and each and not each.startswith("/")), "")
    is_told = context.get("action") or context.get("repo") or context.get("folder")
    if not (wrong or is_told or _WHOLE.search(text)) and (found := _RELATIVE.search(text)):
        wrong = found[0]
    if wrong:
        raise Failure(
            422,
            f"{wrong[:100]!r} is a relative path, and the office does not know relative to what",
            "Write the whole path of the folder on the machine of the office, from / on",
        )


async def submit_goal(call: Call, body: NewGoal) -> SubmittedGoal:
    """Submit a goal.

    The same Idempotency-Key, or the same id of your own, begins nothing twice.
    """
    if not any(letter.isprintable() and not letter.isspace() for letter in body.text):
        raise ValueError("text must be a non-empty string")
    if not body.is_resolved:
        require_whole_paths(body.text, body.context)
    bus, person = call.gateway.bus, call.person.name
    goal_id = body.goal_id or derive_goal_id(bus, person, call.key)
    submission = make_body(body.text, body.context, goal_id, person=person)
    submission["priority"] = body.priority
    submission |= {"context_refs": body.context_refs, "evidence_refs": body.evidence_refs}
    if body.budget:
        submission["budget"] = body.budget
    if body.deadline:
        submission["deadline"] = format_utc(parse_time(body.deadline))
    if (size := len(msgspec.json.encode(submission))) > MAX_BYTES:
        raise Failure(
            413,
            f"The goal has {size:,} bytes; the limit is {MAX_BYTES:,}",
            "Put what it needs into files, and name their paths",
        )
    await require_room(call.gateway, person, goal_id)
    return await submit_once(bus, submission, "" if body.goal_id else call.key)


ENDPOINTS = (
    Endpoint("GET", f"{API}/goals", list_goals, scope=Scope.READ, tag="goals"),
    Endpoint("GET", f"{API}/latest-goals", list_latest_goals, scope=Scope.READ, tag="goals"),
    Endpoint("POST", f"{API}/goals", submit_goal, scope=Scope.SUBMIT, tag="goals", status=202, location=ONE),
)
