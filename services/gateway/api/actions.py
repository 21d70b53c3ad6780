"""Actions of nexus and cortex that a person has done at once, each as a task whose result is waited for."""

from typing import Annotated, Any, NamedTuple

import msgspec
from starlette.responses import Response as HttpResponse

from services.gateway.call import Call
from services.gateway.problems import not_found
from services.gateway.routing import JSON, Endpoint
from shared import subjects
from shared.access.scopes import Scope
from shared.bus.records import read_task, submission_entry, task_steps
from shared.contracts import Task, TaskResult
from shared.errors import BusUnavailable
from shared.memory.ownership import audience_read_for
from shared.queries.records import Listener

POLL_INTERVAL = 0.5  # seconds between reads if no message arrives


class Action(NamedTuple):
    """Whose it is, and the seconds until its result must be there."""

    agent: str = subjects.NEXUS
    timeout: float = 20.0  # an agent that runs takes a tenth of a second


ACTIONS = {
    **{f"{verb}_reminder": Action() for verb in ("set", "finish", "snooze", "cancel")},
    **{f"{verb}_schedule": Action() for verb in ("show", "remove", "pause", "resume", "run")},
    "schedule_goal": Action(),
    "list_schedules": Action(),
    # Frontier asks several services, one after another.
    "tell_briefing": Action(timeout=180.0),
    **{
        name: Action(subjects.CORTEX)
        for name in ("queue_status", "queue_job", "move_job", "cancel_job", "run_job")
    },
}
"""What may be asked for: what the timetable and the briefings of the day consist of."""


class ActionRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The parameters of an action, and in words what is wanted."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=101_000)]
    params: dict[str, Any] = {}


async def perform(call: Call, body: ActionRequest) -> HttpResponse:
    """Have an action done, and answer with its TaskResult, whether it is completed or not.

    The Idempotency-Key becomes the id of the task, which is given once. 503 if the agent does not answer in
    time; the task stays in its mailbox.
    """
    name = call.path["action"]
    action = ACTIONS.get(name)
    if action is None:
        raise not_found(f"action {name[:60]!r}", f"There are {', '.join(ACTIONS)}")
    task = Task(
        task_id=call.message_id(),
        text=body.text,
        assignee=action.agent,
        requester=subjects.USER,
        audience=audience_read_for(),
        context={
            "action": name,
            "params": body.params,
            **({"person": call.person.name} if call.person.name else {}),  # a task has no field for it
        },
    )
    bus = call.gateway.bus

    async def read_result() -> TaskResult | None:
        state = await read_task(bus, task)
        return state.result if state else None

    listener = Listener(bus, POLL_INTERVAL)
    try:
        await listener.subscribe(task_steps(task))
        if await read_task(bus, task) is None:
            await bus.commit([submission_entry(task)])
        result = await listener.wait_for(read_result, action.timeout)
    except TimeoutError:
        raise BusUnavailable(
            f"{action.agent} has not answered within {action.timeout:g} s; the task stays in its mailbox",
            "See with 'mailroom status' whether it runs",
        ) from None
    finally:
        await listener.close()
    return HttpResponse(result.to_json(), 200, media_type=JSON)


ENDPOINTS = (
    Endpoint(
        "POST",
        "/api/v1/actions/{action}",
        perform,
        scope=Scope.SUBMIT,
        tag="timetable",
        contracts=(TaskResult,),
    ),
)
