"""One goal: its page, its report, and what its evidence names."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from starlette.responses import PlainTextResponse, Response

from services.gateway.api.goals import ONE
from services.gateway.call import Call, Gateway
from services.gateway.index.index import LogIndex
from services.gateway.index.reader import read_pieces, read_sent
from services.gateway.opened_evidence import list_evidence, open_evidence, read_report
from services.gateway.problems import not_found
from services.gateway.routing import Endpoint
from services.gateway.waterfall import build_waterfall
from shared import subjects
from shared.access.scopes import Scope
from shared.bus import Bus
from shared.contracts import (
    NAME,
    ApprovalAnswer,
    ApprovalRequest,
    DailySpending,
    Finding,
    Goal,
    Instruction,
    NotChecked,
    TestRun,
)
from shared.operations.approvals import view_request
from shared.queries.pieces import Piece, PieceKind
from shared.queries.results import read_results
from shared.tasks.evidence import format_verdict, verdict_of
from shared.text.display import flatten
from shared.text.times import seconds_between
from shared.trail.archives import Archive, choose_archived, read_archives, read_messages
from shared.views.listed import Approval
from shared.views.timeline import ArchivedPart, GoalResults, MessageRow, Row, RowKind, TaskView

MAX_ROWS = 5_000  # Rows of the waterfall in a page; those of further tasks are left out, and counted
MAX_MESSAGES = 400  # Messages in a page; the rest is read from ``/messages?goal=``
MAX_LISTED = 200  # Findings, and things not checked, in a page
PATIENCE = 0.6  # Seconds for which a goal is waited for that was perhaps just submitted
KEPT = 64  # Goals whose results are kept in memory, so that they are read once
_LAST_ARCHIVE = "SELECT coalesce(max(number), 0) FROM messages WHERE type = 'archive'"
SHOWN_TYPES = (
    "submission", "task", "result", "email", "question", "answer", "report", "discovery", "approval", "dead",
    "memory", "refused", "cancel", "instructions", "given up", "request", "unreadable",
)  # fmt: skip
"""What is sent from one to another; steps, checkpoints and other records are no messages of the diagram."""


class SpentToday(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's model usage today (UTC); ``cost`` in US dollars."""

    agent: str
    tokens: int
    cost: float


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of each task and of each agent a day (0: none), and what the goal's agents spent today."""

    task_tokens: int
    day_tokens: int
    day_cost: float
    today: list[SpentToday]


class GoalPage(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a goal's page shows; ``position`` is up to where of the log it holds.

    ``state`` is planning, working, review, waiting or ended, ``review`` what the critic checked. Tokens and
    cost (US dollars) are of all its tasks and of the conductor's own calls. ``rows_total`` and
    ``messages_total`` count what there is. ``archived`` are the bundles in which messages of its time lie.
    """

    goal_id: str
    text: str
    status: str
    outcome: str
    state: str
    requester: str
    person: str
    priority: str
    playbook: str
    retry_of: str
    submitted_at: str
    ended_at: str
    deadline: str
    seconds: float
    answer: str
    reason: str
    thinking: str
    has_report: bool
    verdict: dict[str, Any]
    review: str
    instructions: tuple[Instruction, ...]
    tests: tuple[TestRun, ...]
    findings: tuple[Finding, ...]
    findings_total: int
    not_checked: tuple[NotChecked, ...]
    patches: tuple[str, ...]
    evidence: list[str]
    tasks: list[TaskView]
    rows: list[Row]
    rows_total: int
    lanes: list[str]
    messages: list[MessageRow]
    messages_total: int
    approvals: list[Approval]
    input_tokens: int
    output_tokens: int
    tokens: int
    cost: float
    budget: Budget
    archived: list[ArchivedPart]
    position: str


class _Kept(msgspec.Struct, frozen=True):
    """What was read of a goal's results, and the last piece of its course by then."""

    number: int
    results: GoalResults
    evidence: tuple[str, ...]
    approvals: tuple[Approval, ...]


class GoalPages:
    """Makes the pages of goals from the index; results are read from the bus once, and kept."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._archives: tuple[int, list[Archive]] = (-1, [])

    async def _read_archives(self, gateway: Gateway) -> list[Archive]:
        """The archives, read again if the log has another order to archive."""
        ((number,),) = gateway.index.store.query(_LAST_ARCHIVE)
        if self._archives[0] != number:
            self._archives = number, await read_archives(gateway.bus)
        return self._archives[1]

    async def make(self, gateway: Gateway, goal_id: str) -> GoalPage:
        """The page of a goal; raises Failure (404) if there is none."""
        goal = await _find_goal(gateway.index, goal_id)
        store, position = gateway.index.store, str(gateway.index.position)
        pieces, last = read_pieces(store, goal_id)
        kept = await self._results(gateway.bus, goal, pieces, last)
        rows = build_waterfall(pieces, goal)
        messages, total = read_sent(store, goal_id, SHOWN_TYPES, MAX_MESSAGES)
        approvals = _approvals(kept, pieces, goal)
        return GoalPage(
            **_goal_fields(goal),
            **_result_fields(kept),
            **_spent_fields(rows, pieces),
            state=_state(goal, approvals),
            tasks=[_view(task) for task in goal.tasks] + [_view(task, earlier=True) for task in goal.earlier],
            rows=rows[:MAX_ROWS],
            rows_total=len(rows),
            lanes=_lanes(messages),
            messages=messages,
            messages_total=total,
            approvals=approvals,
            archived=choose_archived(await self._read_archives(gateway), goal.submitted_at, goal.ended_at),
            budget=await _budget(gateway, {row.agent for row in _calls(rows)}),
            position=position,
        )

    async def _results(self, bus: Bus, goal: Goal, pieces: Sequence[Piece], number: int) -> _Kept:
        kept = self._kept.get(goal.goal_id)
        if kept is None or kept.number != number:
            results = await read_results(bus, goal)
            evidence = tuple(dict.fromkeys(list_evidence(results)))
            kept = _Kept(number, results, evidence, await _read_approvals(bus, goal, pieces))
            self._kept[goal.goal_id] = kept
        self._kept.move_to_end(goal.goal_id)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return kept


def _goal_fields(goal: Goal) -> dict[str, Any]:
    names = (
        "goal_id", "text", "requester", "person", "playbook", "retry_of", "submitted_at", "ended_at",
        "deadline", "answer", "reason", "thinking", "verdict", "instructions",
    )  # fmt: skip
    verdict = verdict_of(goal)
    return {
        **{name: getattr(goal, name) for name in names},
        "review": format_verdict(verdict) if verdict else "",
        "status": str(goal.status),
        "outcome": str(goal.outcome),
        "priority": str(goal.priority),
        "has_report": bool(goal.report_path),
        "seconds": max(0.0, seconds_between(goal.submitted_at, goal.ended_at)),
    }


async def _find_goal(index: LogIndex, goal_id: str) -> Goal:
    """The goal, or what was submitted if the conductor has not taken it up; raises Failure (404).

    Who has just submitted it may ask before the index has it.
    """
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while True:
        goal = index.store.goal(goal_id)
        if goal is None:
            submitted, _ = read_sent(index.store, goal_id, ("submission",), 1)
            goal = next(map(_submitted, submitted), None)
        if goal is not None:
            return goal
        try:
            async with asyncio.timeout_at(deadline):
                await index.wait_for_change()
        except TimeoutError:
            raise not_found(f"goal {goal_id[:130]!r}", "GET /api/v1/goals lists them") from None


def _submitted(row: MessageRow) -> Goal:
    who = row.sender if NAME.fullmatch(row.sender) else subjects.USER
    return Goal(
        goal_id=row.goal_id, text=row.text or "?", requester=who, person=row.person, submitted_at=row.time
    )


def _result_fields(kept: _Kept) -> dict[str, Any]:
    results = kept.results
    return {
        "tests": results.tests,
        "findings": results.findings[:MAX_LISTED],
        "findings_total": len(results.findings),
        "not_checked": results.not_checked[:MAX_LISTED],
        "patches": results.patches,
        "evidence": list(kept.evidence[:MAX_LISTED]),
    }


def _calls(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.kind in (RowKind.MODEL, RowKind.MORE)]


def _spent_fields(rows: Sequence[Row], pieces: Sequence[Piece]) -> dict[str, Any]:
    calls = _calls(rows)
    ended = [piece for piece in pieces if piece.kind is PieceKind.ENDED]
    read, written = sum(row.input_tokens for row in calls), sum(row.output_tokens for row in calls)
    own = sum(row.cost for row in calls if not row.task_id)
    return {
        "input_tokens": read,
        "output_tokens": written,
        # Tasks of earlier versions say in their result what they used, and have no spans.
        "tokens": max(read + written, sum(piece.tokens for piece in ended)),
        "cost": max(sum(row.cost for row in calls), sum(piece.cost for piece in ended) + own),
    }


def _view(task: object, *, earlier: bool = False) -> TaskView:
    names = [name for name in TaskView.__struct_fields__ if name != "earlier"]
    return TaskView(**{name: getattr(task, name) for name in names}, earlier=earlier)


def _state(goal: Goal, approvals: Sequence[Approval]) -> str:
    if goal.status.final:
        return "ended"
    if any(each.state == "waiting" for each in approvals):
        return "waiting"
    if goal.status == "review":
        return "review"
    return "working" if any(task.issued for task in goal.tasks) else "planning"


async def _read_approvals(bus: Bus, goal: Goal, pieces: Sequence[Piece]) -> tuple[Approval, ...]:
    """What people were asked for the goal, each with its answer; without what is archived elsewhere."""
    answers = {piece.id: piece for piece in pieces if piece.kind is PieceKind.ANSWERED}
    asked = [(piece, answers.get(piece.id)) for piece in pieces if piece.kind is PieceKind.ASKED]
    places = [piece.seq for pair in asked for piece in pair if piece]
    read = await read_messages(bus, subjects.OFFICE, places) if places else {}
    found = []
    for piece, answer in asked:
        said = read.get(answer.seq) if answer else None
        if piece.seq in read:
            request = ApprovalRequest.from_json(read[piece.seq].data)
            given = ApprovalAnswer.from_json(said.data) if said else None
            approval = view_request(request, given, answer.status if answer else "waiting")
            found.append(msgspec.structs.replace(approval, goal=flatten(goal.text, 300)))
    return tuple(found)


def _approvals(kept: _Kept, pieces: Sequence[Piece], goal: Goal) -> list[Approval]:
    """The requests of the goal as they are now."""
    ended = {piece.task_id for piece in pieces if piece.kind is PieceKind.ENDED}
    now = datetime.now(UTC).isoformat()
    found = []
    for each in kept.approvals:
        over = goal.status.final or each.task_id in ended
        state = "over" if over else "expired" if each.expires_at < now else each.state
        found.append(msgspec.structs.replace(each, state=state) if each.state == "waiting" else each)
    return found


def _lanes(messages: Sequence[MessageRow]) -> list[str]:
    """Who takes part, people first, in the order of their first message."""
    names = [name for each in messages for name in (each.sender, each.recipient) if name]
    first = [subjects.USER] if subjects.USER in names else []
    return list(dict.fromkeys((*first, *names)))


async def _budget(gateway: Gateway, agents: set[str]) -> Budget:
    config = gateway.settings
    limited = bool(config.day_tokens or config.day_cost)
    return Budget(
        task_tokens=config.task_tokens,
        day_tokens=config.day_tokens,
        day_cost=config.day_cost,
        today=await _read_spending(gateway.bus, sorted(agents)) if limited and agents else [],
    )


async def _read_spending(bus: Bus, agents: Sequence[str]) -> list[SpentToday]:
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    names = [subjects.record(agent, "spending", day) for agent in agents[:50]]
    found = []
    async for stored in bus.read(subjects.OFFICE, {"multi_last": names, "batch": len(names)}):
        try:
            spent = DailySpending.from_json(stored.data)
        except ValueError:
            continue
        tokens = spent.input_tokens + spent.output_tokens
        found.append(SpentToday(agent=stored.subject.split(".")[1], tokens=tokens, cost=spent.cost))
    return found


PLAIN = {"X-Content-Type-Options": "nosniff", "Content-Disposition": "inline", "Cache-Control": "no-store"}
"""Headers of files: whatever an agent wrote is shown as text, never as a page."""
_pages = GoalPages()


def _goal(call: Call) -> Goal:
    goal = call.gateway.index.store.goal(call.path["goal_id"])
    if goal is None:
        raise not_found(f"goal {call.path['goal_id'][:130]!r}", "GET /api/v1/goals lists them")
    return goal


async def read_goal_page(call: Call) -> GoalPage:
    """Everything about a goal: answer, findings, tasks, waterfall, messages, cost, approvals."""
    return await _pages.make(call.gateway, call.path["goal_id"])


async def read_goal_report(call: Call) -> Response:
    """The report of a goal, as Markdown in plain text."""
    text = await asyncio.to_thread(read_report, call.gateway.settings, _goal(call))
    return PlainTextResponse(text, headers=PLAIN)


async def read_evidence(call: Call) -> Response:
    """What a piece of the goal's evidence names: a file, or a memory, as plain text.

    Only what its results name is opened, from its outputs, its workspace and the folders that a person named.
    """
    text = await open_evidence(call.gateway, _goal(call), call.path["ref"])
    return PlainTextResponse(text, headers=PLAIN)


ENDPOINTS = (
    Endpoint("GET", ONE, read_goal_page, scope=Scope.READ, tag="goals"),
    Endpoint("GET", f"{ONE}/report", read_goal_report, scope=Scope.READ, tag="goals"),
    Endpoint("GET", f"{ONE}/evidence/{{ref:path}}", read_evidence, scope=Scope.READ, tag="goals"),
)
