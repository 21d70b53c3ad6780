"""Requests for approval: what waits for a person, and answering it."""

from collections import Counter
from typing import Annotated

import msgspec

from services.gateway.api.messages import API
from services.gateway.context import Call, Gateway
from services.gateway.inbox.open_requests import forget_requests, read_requests
from services.gateway.routing import Endpoint
from services.gateway.security.scopes import Scope
from shared.contracts import ApprovalAnswer
from shared.operations.approvals import (
    Approval,
    agent_of,
    answer_request,
    describe_no,
    describe_reach,
    describe_yes,
    find_approvals,
)
from shared.operations.approvals import Scope as Reaching
from shared.operations.risk import Grade, grade_risk
from shared.queries.records import select_fairly
from shared.text.printable import escape_invisible
from shared.text.shorten import flatten

MAX_LIMIT = 200


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A person's answer; ``by`` is empty if it came with the key of ``user``."""

    granted: bool
    by: str
    at: str
    note: str
    scope: str
    hosts: tuple[str, ...]


class ApprovalView(msgspec.Struct, frozen=True, kw_only=True):
    """A request; ``state`` is waiting, granted, refused, expired, over (its goal ended), or changed: its text
    is not the one that was asked first, and it cannot be granted.

    ``what`` is the whole of what it asks for, invisible characters as their code points; ``rule`` and ``why``
    say why it is asked, ``reach`` what a grant opens of the network, ``on_yes`` and ``on_no`` what follows.
    ``risk`` grades how bad it can get if it is granted, ``risk_reason`` says why. ``needs_hosts``: a grant
    must name hosts.
    """

    approval_id: str
    agent: str
    state: str
    what: str
    rule: str
    why: str
    risk: Grade
    risk_reason: str
    reach: tuple[str, ...]
    opens: str
    needs_hosts: bool
    on_yes: str
    on_no: str
    goal_id: str
    goal: str
    task_id: str
    asked_at: str
    expires_at: str
    answer: Answer | None = None


class ApprovalsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which requests: those that wait, or all of the latest; those of each agent come in turn."""

    all: bool = False
    goal: str = ""
    agent: str = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_LIMIT)] = 100


class ApprovalList(msgspec.Struct, frozen=True, kw_only=True):
    """Requests, the latest last, and how many more there are of each agent that has such."""

    approvals: list[ApprovalView]
    more: dict[str, int]


class Decision(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer: ``scope`` is how far a grant of reach goes, ``hosts`` are opened beside what was asked."""

    granted: bool
    note: Annotated[str, msgspec.Meta(max_length=2_000)] = ""
    scope: Reaching = "command"
    hosts: tuple[str, ...] = ()


async def list_approvals(call: Call, query: ApprovalsQuery) -> ApprovalList:
    """The requests for approval that wait; with ``all`` the latest whatever their state."""
    found, older = await read_requests(call.gateway)
    chosen = [each for each in found if query.all or each.state == "waiting"]
    chosen = [each for each in chosen if query.goal in ("", each.request.goal_id)]
    chosen = [each for each in chosen if query.agent in ("", each.request.sender)]
    shown = select_fairly(chosen, agent_of, query.limit)
    more = Counter(map(agent_of, chosen)) - Counter(map(agent_of, shown)) + Counter(older)
    return ApprovalList(approvals=[view_approval(call.gateway, each) for each in shown], more=dict(more))


async def answer_approval(call: Call, body: Decision) -> ApprovalView:
    """Grant or refuse a request, in the name of the person.

    The first answer counts; a second gets 409 and who was first.
    """
    request = await answer_request(
        call.gateway.bus,
        call.path["approval_id"],
        body.granted,
        body.note,
        body.scope,
        body.hosts,
        person=call.person.name,
    )
    forget_requests(call.gateway)
    (found,) = await find_approvals(call.gateway.bus, request.approval_id)
    return view_approval(call.gateway, found)


def view_approval(gateway: Gateway, approval: Approval) -> ApprovalView:
    """A request as people decide about it."""
    request, given = approval.request, approval.answer
    goal = gateway.index.store.goal(request.goal_id) if request.goal_id else None
    risk = grade_risk(request)
    return ApprovalView(
        approval_id=request.approval_id,
        agent=request.sender,
        state=approval.state,
        what=escape_invisible(request.what),
        rule=request.rule,
        why=request.why,
        risk=risk.grade,
        risk_reason=risk.reason,
        reach=request.reach,
        opens=describe_reach(request.reach),
        needs_hosts="network" in request.reach,
        on_yes=describe_yes(request),
        on_no=describe_no(request),
        goal_id=request.goal_id,
        goal=flatten(goal.text, 300) if goal else "",
        task_id=request.task_id,
        asked_at=request.created_at,
        expires_at=request.expires_at,
        answer=_view_answer(given) if given else None,
    )


def _view_answer(given: ApprovalAnswer) -> Answer:
    return Answer(
        granted=given.granted,
        by=given.person,
        at=given.created_at,
        note=given.note,
        scope=given.scope,
        hosts=given.hosts,
    )


ENDPOINTS = (
    Endpoint("GET", f"{API}/approvals", list_approvals, scope=Scope.READ, tag="approvals"),
    Endpoint(
        "POST", f"{API}/approvals/{{approval_id}}", answer_approval, scope=Scope.APPROVE, tag="approvals"
    ),
)
