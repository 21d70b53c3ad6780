"""Three agents directly: nexus, cortex and frontier take a TaskRequest and answer with their contracts."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Annotated, Any, Literal

import msgspec
from starlette.responses import Response as HttpResponse

from services.gateway.call import Call, Gateway
from services.gateway.conversations import ask, read_response, read_turn, wait_for_answer
from services.gateway.index.rows import Position
from services.gateway.index.store import Filter
from services.gateway.problems import Failure, not_found
from services.gateway.routing import JSON, Endpoint
from shared import subjects
from shared.access.scopes import Scope
from shared.contracts import (
    TOKEN,
    AgentReport,
    Contract,
    DiscoveryResult,
    Response,
    TaskPlan,
    TaskPriority,
    TaskResult,
    TaskStatus,
)
from shared.operations.submission import make_body, submit_once
from shared.tasks.submission import MAX_GOAL_ID
from shared.trail.archives import read_message

API = "/api"
FRONTIER = "frontier"
LONGEST_WAIT = 300.0  # Seconds that a request may wait for an answer
MADE: dict[str, type[Contract]] = {"plan": TaskPlan, "discovery": DiscoveryResult, "report": AgentReport}
"""The contracts that results carry, by their key in the metadata."""


class AgentRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A TaskRequest; or, for short, a text as ``task`` or ``message``.

    ``context`` may name an ``action`` of the agent and its ``params``; ``context_refs`` and ``evidence_refs``
    name memories, files and tasks that it is shown. The requester is who is signed in, whatever ``requester``
    says; ``created_at`` is not used.
    """

    type: Literal["task_request.v1"] = "task_request.v1"
    task_id: Annotated[str, msgspec.Meta(pattern=f"^({TOKEN.pattern})?$")] = ""
    created_at: str = ""
    requester: str = ""
    task_description: Annotated[str, msgspec.Meta(max_length=100_000)] = ""
    task: Annotated[str, msgspec.Meta(max_length=100_000)] = ""
    message: Annotated[str, msgspec.Meta(max_length=100_000)] = ""
    priority: TaskPriority = TaskPriority.MEDIUM
    context: dict[str, Any] = {}
    context_refs: tuple[str, ...] = ()
    evidence_refs: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """What is wanted; raises Failure if nothing is."""
        text = self.task_description or self.task or self.message
        if not text.strip():
            raise Failure(422, "The request says nothing", "Give it a task_description")
        return text


class PatienceQuery(msgspec.Struct, frozen=True, kw_only=True):
    """How many seconds to wait for the answer; after that it is 202 with its Location."""

    wait: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_WAIT)] = 30.0


async def ask_nexus(call: Call, query: PatienceQuery, body: AgentRequest) -> HttpResponse:
    """Ask the front desk: a Response with its citations.

    It starts work and tools as ``mailroom ask`` does. A question has a text, and no priority.
    """
    for name in ("context", "context_refs", "evidence_refs"):
        if getattr(body, name):
            raise Failure(422, f"The front desk takes no {name}", "Write it into the text, or ask cortex")
    question_id = body.task_id or call.message_id()
    asked = await ask(call.gateway, question_id, body.text, call.person.name)
    await wait_for_answer(call.gateway, asked, query.wait)
    return await _nexus_answer(call, question_id)


async def have_cortex_work(call: Call, query: PatienceQuery, body: AgentRequest) -> HttpResponse:
    """Have cortex carry a request out: a TaskResult, or the contract that the named action makes."""
    context = body.context
    if "action" not in context:
        # The text, and what the context says about it: such as the language or the framework
        said = [f"{name}: {value}" for name, value in body.context.items() if name != "mode"]
        context = {
            "action": "work_out",
            "params": {"task": "\n".join([body.text, *said]), "mode": str(context.get("mode", "auto"))},
        }
    return await _give(call, query, subjects.CORTEX, body, context)


async def have_cortex_plan(call: Call, query: PatienceQuery, body: AgentRequest) -> HttpResponse:
    """Have cortex plan a request, without carrying it out: a TaskPlan."""
    request = {"task_description": body.text, "context": body.context}
    context = {"action": "generate_plan", "params": {"request": request}}
    return await _give(call, query, subjects.CORTEX, body, context)


async def have_frontier_discover(call: Call, query: PatienceQuery, body: AgentRequest) -> HttpResponse:
    """Have frontier look for papers and news on what the request names: a DiscoveryResult.

    With ``generate_research_brief`` as the context's action, and its params, an AgentReport.
    """
    params = {**body.context, "topics": body.context.get("topics") or [body.text]}
    topics = {"action": "daily_discovery", "params": params}
    return await _give(call, query, FRONTIER, body, body.context if "action" in body.context else topics)


async def read_answer_of_nexus(call: Call) -> HttpResponse:
    """The Response to an earlier request, once it is there; until then 202."""
    return await _nexus_answer(call, call.token("task_id", "request"))


async def read_answer_of_cortex(call: Call) -> HttpResponse:
    """The contract that an earlier request brought, once it is there; until then 202."""
    return await _read_result(call, subjects.CORTEX)


async def read_answer_of_frontier(call: Call) -> HttpResponse:
    """The contract that an earlier request brought, once it is there; until then 202."""
    return await _read_result(call, FRONTIER)


async def _read_result(call: Call, agent: str) -> HttpResponse:
    task_id = call.token("task_id", "request")
    goal = call.gateway.index.store.goal(task_id)
    if goal is None and call.gateway.index.store.all_of_goal(task_id, limit=1):
        return _later(agent, task_id)  # submitted, and not yet planned
    if goal is None or goal.context.get("assignee") != agent:
        raise not_found(f"request {task_id!r} to {agent}")
    result = await read_result(call.gateway, task_id)
    return _contract(result) if result else _later(agent, task_id)


async def _give(
    call: Call, query: PatienceQuery, agent: str, body: AgentRequest, context: dict[str, Any]
) -> HttpResponse:
    task_id = body.task_id or call.message_id()
    if len(task_id) > MAX_GOAL_ID:
        raise Failure(422, f"The task_id is longer than {MAX_GOAL_ID} characters", "Choose a shorter one")
    refs = {"context_refs": body.context_refs, "evidence_refs": body.evidence_refs}
    after = await submit_action(
        call, task_id, agent, body.text, context, priority=body.priority.value, **refs
    )
    result = await wait_for_result(call.gateway, task_id, after, query.wait)
    return _contract(result) if result else _later(agent, task_id)


async def _nexus_answer(call: Call, question_id: str) -> HttpResponse:
    turn = await read_turn(call.gateway, question_id)
    if turn is not None and turn.state == "refused":
        raise Failure(422, f"The front desk could not handle it: {turn.reason}")
    response = await read_response(call.gateway, question_id)
    if response is None and turn is None and call.request.method != "POST":
        raise not_found(f"request {question_id!r} to {subjects.NEXUS}")
    return (
        HttpResponse(response[0].to_json(), 200, media_type=JSON)
        if response
        else _later(subjects.NEXUS, question_id)
    )


def _contract(result: TaskResult) -> HttpResponse:
    """The contract that a result carries, if it is completed; else the result."""
    content: Contract = result
    for key, kind in MADE.items() if result.status is TaskStatus.COMPLETED else ():
        if isinstance(made := result.metadata.get(key), dict):
            content = kind.from_dict(made)
            break
    return HttpResponse(content.to_json(), 200, media_type=JSON)


def _later(agent: str, task_id: str) -> HttpResponse:
    location = f"{API}/{agent}/{task_id}"
    waiting = {"task_id": task_id, "status": TaskStatus.IN_PROGRESS.value}
    return HttpResponse(msgspec.json.encode(waiting), 202, {"Location": location}, JSON)


def _endpoint(
    method: str, path: str, handler: Callable[..., Awaitable[HttpResponse]], *contracts: type[Contract]
) -> Endpoint:
    scope = Scope.READ if method == "GET" else Scope.SUBMIT
    return Endpoint(
        method, path, handler, scope=scope, tag="agents directly", contracts=contracts, may_wait=True
    )


REASONLESS = "It ended without a reason"


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
        match row.subject.split("."):
            case ["task", assignee, subjects.CONDUCTOR, _, step]:
                is_end = step in subjects.FINAL_STEPS and assignee != subjects.CRITIC
            case _:
                is_end = False
        if is_end and (stored := await read_message(gateway.bus, row.stream, row.seq)):
            result = TaskResult.from_json(stored.data)
            if result.parent_goal_id not in ("", goal_id):  # a step of a plan that the task made
                continue
            return msgspec.structs.replace(result, task_id=goal_id, spans=())
    goal = gateway.index.store.goal(goal_id)
    if goal is None or not goal.status.final:
        return None
    failed = goal.status is not TaskStatus.COMPLETED
    return TaskResult(
        task_id=goal.goal_id,
        agent=subjects.CONDUCTOR,
        status=goal.status,
        output=goal.answer,
        error_message=(goal.reason or REASONLESS) if failed else "",
        goal_id=goal.goal_id,
    )


_WORK: tuple[type[Contract], ...] = (TaskResult, *MADE.values())
ENDPOINTS = (
    _endpoint("POST", f"{API}/{subjects.NEXUS}", ask_nexus, Response),
    _endpoint("POST", f"{API}/{subjects.CORTEX}", have_cortex_work, *_WORK),
    _endpoint("POST", f"{API}/{subjects.CORTEX}/plan", have_cortex_plan, TaskPlan, TaskResult),
    _endpoint("POST", f"{API}/{FRONTIER}", have_frontier_discover, *_WORK),
    _endpoint("GET", f"{API}/{subjects.NEXUS}/{{task_id}}", read_answer_of_nexus, Response),
    _endpoint("GET", f"{API}/{subjects.CORTEX}/{{task_id}}", read_answer_of_cortex, *_WORK),
    _endpoint("GET", f"{API}/{FRONTIER}/{{task_id}}", read_answer_of_frontier, *_WORK),
)
