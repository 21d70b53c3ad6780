"""One goal: its page, its report, and what its evidence names."""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Sequence

import msgspec
from starlette.responses import PlainTextResponse, Response

from services.gateway.api.goals import ONE, state_of
from services.gateway.call import Call, Gateway, Kept
from services.gateway.deciding import scope_for
from services.gateway.inbox import as_of_now
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
    AgentReport,
    ApprovalAnswer,
    ApprovalRequest,
    Goal,
)
from shared.operations.approvals import view_request
from shared.queries.pieces import Piece, PieceKind
from shared.queries.results import read_results
from shared.queries.spending import read_today
from shared.tasks.evidence import format_verdict, verdict_of
from shared.text.display import flatten
from shared.text.times import seconds_between
from shared.trail.archives import choose_archived, read_archives, read_messages
from shared.views.approval import Approval
from shared.views.timeline import (
    Budget,
    Fallback,
    GoalPage,
    GoalResults,
    RowKind,
    SpentToday,
    TaskView,
    first_fallbacks,
)

MAX_ROWS = 5_000  # Rows of the waterfall in a page; those of further tasks are left out, and counted
MAX_MESSAGES = 400  # Messages in a page; the rest is read from ``/messages?goal=``
MAX_LISTED = 200  # Findings, and things not checked, in a page
PATIENCE = 0.6  # Seconds for which a goal is waited for that was perhaps just submitted
MAX_AGENTS = 50  # Agents whose spending today is in a page
KEPT = 64  # Goals whose results are kept in memory, so that they are read once
SHOWN_TYPES = (
    "submission", "task", "result", "email", "question", "answer", "report", "discovery", "approval", "dead",
    "memory", "refused", "cancel", "instructions", "given up", "request", "unreadable",
)  # fmt: skip
"""What is sent from one to another; steps, checkpoints and other records are no messages of the diagram."""


_archives = Kept("archive", lambda gateway: read_archives(gateway.bus))


class _Kept(msgspec.Struct, frozen=True):
    """What was read of a goal's results, and the last piece of its course by then."""

    number: int
    results: GoalResults
    evidence: tuple[str, ...]
    approvals: tuple[Approval, ...]


SAME = (
    "goal_id", "text", "status", "outcome", "requester", "person", "priority", "playbook", "retry_of",
    "submitted_at", "ended_at", "deadline", "answer", "reason", "thinking", "verdict", "instructions",
)  # fmt: skip
"""What a page has from its goal as it is."""


class GoalPages:
    """Makes the pages of goals from the index; results are read from the bus once, and kept."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    async def make(self, gateway: Gateway, goal_id: str) -> GoalPage:
        """The page of a goal; raises Failure (404) if there is none."""
        goal = await _find_goal(gateway.index, goal_id)
        store, position = gateway.index.store, str(gateway.index.position)
        pieces, last = read_pieces(store, goal_id)
        kept = await self._read_results(gateway.bus, goal, pieces, last)
        rows = build_waterfall(pieces, goal)
        calls = [row for row in rows if row.kind in (RowKind.MODEL, RowKind.MORE)]
        ends = [piece for piece in pieces if piece.kind is PieceKind.ENDED]
        read, written = sum(row.input_tokens for row in calls), sum(row.output_tokens for row in calls)
        own = sum(row.cost for row in calls if not row.task_id)
        messages, total = read_sent(store, goal_id, SHOWN_TYPES, MAX_MESSAGES)
        parties = [name for each in messages for name in (each.sender, each.recipient) if name]
        ended = {piece.task_id for piece in ends}
        approvals = [
            msgspec.structs.replace(
                as_of_now(each, goal.status.final or each.task_id in ended),
                needs=scope_for(gateway.settings, each.request),
            )
            for each in kept.approvals
        ]
        verdict = verdict_of(goal)
        return GoalPage(
            **{name: getattr(goal, name) for name in SAME},
            state=state_of(goal, any(each.state == "waiting" for each in approvals)),
            seconds=max(0.0, seconds_between(goal.submitted_at, goal.ended_at)),
            has_report=bool(goal.report_path),
            review=format_verdict(verdict) if verdict else "",
            tests=kept.results.tests,
            findings=kept.results.findings[:MAX_LISTED],
            findings_total=len(kept.results.findings),
            not_checked=kept.results.not_checked[:MAX_LISTED],
            patches=kept.results.patches,
            is_applied=await _is_applied(gateway, goal, len(kept.results.patches)),
            evidence=list(kept.evidence[:MAX_LISTED]),
            tasks=[_view(task) for task in goal.tasks] + [_view(task, earlier=True) for task in goal.earlier],
            rows=rows[:MAX_ROWS],
            rows_total=len(rows),
            lanes=sorted(dict.fromkeys(parties), key=lambda name: name != subjects.USER),  # people first
            messages=messages,
            messages_total=total,
            approvals=approvals,
            input_tokens=read,
            output_tokens=written,
            cached_tokens=sum(row.cached_tokens for row in calls),
            fallbacks=first_fallbacks(
                Fallback(since=row.start, model=row.name, instead_of=row.instead_of)
                for row in calls
                if row.instead_of and row.kind is RowKind.MODEL
            ),
            # Tasks of earlier versions say in their result what they used, and have no spans.
            tokens=max(read + written, sum(piece.tokens for piece in ends)),
            cost=max(sum(row.cost for row in calls), sum(piece.cost for piece in ends) + own),
            budget=await _read_budget(gateway, goal, sorted({row.agent for row in calls})),
            archived=choose_archived(await _archives.find(gateway), goal.submitted_at, goal.ended_at),
            position=position,
        )

    async def _read_results(self, bus: Bus, goal: Goal, pieces: Sequence[Piece], number: int) -> _Kept:
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


async def _find_goal(index: LogIndex, goal_id: str) -> Goal:
    """The goal, or what was submitted if the conductor has not taken it up; raises Failure (404).

    Who has just submitted it may ask before the index has it.
    """
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while True:
        goal = index.store.goal(goal_id)
        if goal is not None:
            return goal
        submitted, _ = read_sent(index.store, goal_id, ("submission",), 1)
        for row in submitted:
            return Goal(
                goal_id=row.goal_id,
                text=row.text or "?",
                requester=row.sender if NAME.fullmatch(row.sender) else subjects.USER,
                person=row.person,
                submitted_at=row.time,
            )
        try:
            async with asyncio.timeout_at(deadline):
                await index.wait_for_change()
        except TimeoutError:
            raise not_found(f"goal {goal_id[:130]!r}", "GET /api/v1/goals lists them") from None


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


async def _is_applied(gateway: Gateway, goal: Goal, patches: int) -> bool:
    """Whether people have applied so many patches since the goal ended, by their own records of it."""
    where = "goal_id = ? AND goal_id != '' AND subject = ? AND time >= ?"
    own = subjects.mail(subjects.USER, subjects.USER)
    rows = (
        gateway.index.store.rows(where, [goal.goal_id, own, goal.ended_at], MAX_MESSAGES) if patches else []
    )
    read = await read_messages(gateway.bus, subjects.OFFICE, [row.seq for row in rows]) if rows else {}
    projects = set()
    for stored in read.values():
        with contextlib.suppress(ValueError, KeyError, TypeError):
            projects |= {each["project"] for each in AgentReport.from_json(stored.data).metadata["patches"]}
    return 0 < patches <= len(projects)


def _view(task: object, *, earlier: bool = False) -> TaskView:
    names = [name for name in TaskView.__struct_fields__ if name != "earlier"]
    return TaskView(**{name: getattr(task, name) for name in names}, earlier=earlier)


async def _read_budget(gateway: Gateway, goal: Goal, agents: Sequence[str]) -> Budget:
    config = gateway.settings
    limited = bool(config.day_tokens or config.day_cost)
    today = await read_today(gateway.bus, agents[:MAX_AGENTS]) if limited else {}
    return Budget(
        goal_tokens=goal.budget.tokens if goal.budget else 0,
        goal_cost=goal.budget.cost if goal.budget else 0.0,
        task_tokens=config.task_tokens,
        day_tokens=config.day_tokens,
        day_cost=config.day_cost,
        today=[
            SpentToday(agent=agent, tokens=spent.input_tokens + spent.output_tokens, cost=spent.cost)
            for agent, spent in today.items()
        ],
    )


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
