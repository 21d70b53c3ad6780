"""Requests for approval: what waits for a person, and answering it."""

from collections import Counter
from typing import Annotated

import msgspec

from services.gateway.api.messages import API
from services.gateway.call import Call, Gateway
from services.gateway.inbox import forget_requests, read_requests
from services.gateway.routing import Endpoint
from shared.access.scopes import Scope
from shared.operations.approvals import (
    MOST,
    Grade,
    agent_of,
    answer_request,
    describe_no,
    describe_yes,
    find_approvals,
    grade_risk,
    read_approvals,
)
from shared.queries.records import select_fairly
from shared.text.display import escape_invisible, flatten
from shared.views.listed import Approval, Decision

MAX_LIMIT = 2_000


class ApprovalView(Approval, frozen=True, kw_only=True):
    """A request as people decide about it.

    ``what`` is the whole of what it asks for, invisible characters as their code points; ``rule`` and ``why``
    say why it is asked, ``reach`` what a grant opens of the network, ``on_yes`` and ``on_no`` what follows.
    ``risk`` grades how bad it can get if it is granted, ``risk_reason`` says why. ``needs_hosts``: a grant
    must name hosts.
    """

    approval_id: str
    agent: str
    what: str
    rule: str
    why: str
    risk: Grade
    risk_reason: str
    reach: tuple[str, ...]
    needs_hosts: bool
    on_yes: str
    on_no: str
    goal_id: str
    goal: str
    task_id: str
    asked_at: str
    expires_at: str


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


async def list_approvals(call: Call, query: ApprovalsQuery) -> ApprovalList:
    """The requests for approval that wait; with ``all`` the latest whatever their state."""
    if query.limit > MOST:
        found, older = await read_approvals(call.gateway.bus, query.limit)
    else:
        found, older = await read_requests(call.gateway)
    chosen = [each for each in found if query.all or each.state == "waiting"]
    chosen = [each for each in chosen if query.goal in ("", each.request.goal_id)]
    chosen = [each for each in chosen if query.agent in ("", each.request.sender)]
    shown = select_fairly(chosen, agent_of, query.limit)
    if query.agent:
        older = {name: number for name, number in older.items() if name == query.agent}
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
    request = approval.request
    goal = gateway.index.store.goal(request.goal_id) if request.goal_id else None
    risk = grade_risk(request)
    return ApprovalView(
        request=request,
        answer=approval.answer,
        state=approval.state,
        opens=approval.opens,
        approval_id=request.approval_id,
        agent=request.sender,
        what=escape_invisible(request.what),
        rule=request.rule,
        why=request.why,
        risk=risk.grade,
        risk_reason=risk.reason,
        reach=request.reach,
        needs_hosts="network" in request.reach,
        on_yes=describe_yes(request),
        on_no=describe_no(request),
        goal_id=request.goal_id,
        goal=flatten(goal.text, 300) if goal else "",
        task_id=request.task_id,
        asked_at=request.created_at,
        expires_at=request.expires_at,
    )


ENDPOINTS = (
    Endpoint("GET", f"{API}/approvals", list_approvals, scope=Scope.READ, tag="approvals"),
    Endpoint(
        "POST", f"{API}/approvals/{{approval_id}}", answer_approval, scope=Scope.APPROVE, tag="approvals"
    ),
)
