"""Requests for approval: what waits for a person, and answering it."""

from collections import Counter
from typing import Annotated

import msgspec

from services.gateway.call import Call, Gateway
from services.gateway.deciding import check_person, scope_for
from services.gateway.inbox import forget_requests, read_requests
from services.gateway.routing import API, Endpoint
from shared.access.scopes import Scope
from shared.operations.approvals import (
    MOST,
    agent_of,
    answer_request,
    find_approvals,
    read_approvals,
)
from shared.queries.records import select_fairly
from shared.text.display import flatten
from shared.views.approval import Approval, Approvals, Decision

MAX_LIMIT = 2_000


class ApprovalsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which requests: those that wait, or all of the latest; those of each agent come in turn."""

    all: bool = False
    goal: str = ""
    agent: str = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_LIMIT)] = 100


async def list_approvals(call: Call, query: ApprovalsQuery) -> Approvals:
    """The requests for approval that wait; with ``all`` the latest whatever their state."""
    if query.limit > MOST:
        found, older = await read_approvals(call.gateway.bus, query.limit)
    else:
        found, older = await read_requests(call.gateway)
    chosen = [each for each in found if query.all or each.state == "waiting"]
    chosen = [each for each in chosen if query.goal in ("", each.goal_id)]
    chosen = [each for each in chosen if query.agent in ("", each.agent)]
    shown = select_fairly(chosen, agent_of, query.limit)
    if query.agent:
        older = {name: number for name, number in older.items() if name == query.agent}
    more = Counter(map(agent_of, chosen)) - Counter(map(agent_of, shown)) + Counter(older)
    return Approvals(approvals=[with_goal(call.gateway, each) for each in shown], more=dict(more))


async def answer_approval(call: Call, body: Decision) -> Approval:
    """Grant or refuse a request, in the name of the person, who has the role that this takes (403).

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
        check=check_person(call.gateway, call.person),
    )
    forget_requests(call.gateway)
    (found,) = await find_approvals(call.gateway.bus, request.approval_id)
    return with_goal(call.gateway, found)


def with_goal(gateway: Gateway, approval: Approval) -> Approval:
    """A request with the text of its goal, and who may answer it."""
    goal = gateway.index.store.goal(approval.goal_id) if approval.goal_id else None
    text = flatten(goal.text, 300) if goal else approval.goal
    return msgspec.structs.replace(approval, goal=text, needs=scope_for(gateway.settings, approval.request))


ENDPOINTS = (
    Endpoint("GET", f"{API}/approvals", list_approvals, scope=Scope.READ, tag="approvals"),
    Endpoint(
        "POST", f"{API}/approvals/{{approval_id}}", answer_approval, scope=Scope.SUBMIT, tag="approvals"
    ),
)
