"""Agents as the dashboard shows them: processes, mailboxes, spending, rights, paused ones, single actions."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from services.gateway.call import Call, Gateway
from services.gateway.index.index import LogIndex
from services.gateway.index.rows import MessageRow, Position
from services.gateway.index.store import Filter
from shared import subjects
from shared.agent.process import UNPAUSABLE
from shared.bus import Bus
from shared.bus.identity import rights_of
from shared.bus.records import read_presences, read_record
from shared.contracts import (
    TOKEN,
    AgentControl,
    DailySpending,
    Goal,
    Presence,
    TaskResult,
    TaskStatus,
    generate_id,
)
from shared.errors import BusError
from shared.operations.goals import read_controls
from shared.operations.submission import make_body, submit_once
from shared.queries.processes import Process, find_late, find_troubled
from shared.queries.records import call_server
from shared.trail.archives import read_message

KEY_ENDING = ".nk"
API_PREFIX = "$JS.API."
READ_PREFIX = f"{API_PREFIX}DIRECT.GET.{subjects.OFFICE}."


class LaneDepth(msgspec.Struct, frozen=True, kw_only=True):
    """A durable of an agent: ``waiting`` messages, and those ``in_hand`` that are being handled."""

    lane: str
    waiting: int
    in_hand: int


class ProcessView(msgspec.Struct, frozen=True, kw_only=True):
    """One process of an agent."""

    instance: str
    pid: int
    host: str
    version: str
    started_at: str
    load: int
    concurrency: int
    handled: int
    failed: int
    paused: bool


class AgentRights(msgspec.Struct, frozen=True, kw_only=True):
    """The subjects it may publish, those it may read, what it may ask of memory, and answers."""

    publish: list[str]
    read: list[str]
    ask: list[str]
    serve: list[str]


class AgentView(msgspec.Struct, frozen=True, kw_only=True):
    """An agent; ``state`` is running, paused, starting, starting again (asked for, no process yet), not
    responding (one of its processes) or stopped. ``troubled`` says it of processes, each in a sentence.

    The numbers are sums over its processes and ``lanes``. ``why_not_paused`` is empty if it can be paused.
    ``changed_by`` and ``changed_at`` are who last paused, resumed or restarted it, and when. Tokens and cost
    (US dollars) are those of today, UTC.
    """

    name: str
    state: str
    troubled: list[str]
    description: str
    instructions: str
    version: str
    processes: list[ProcessView]
    load: int
    concurrency: int
    waiting: int
    in_hand: int
    handled: int
    failed: int
    lanes: list[LaneDepth]
    actions: dict[str, str]
    skills: tuple[str, ...]
    why_not_paused: str
    last_control: str
    changed_by: str
    changed_at: str
    tokens_today: int
    cost_today: float
    calls_today: int
    rights: AgentRights


async def read_agents(gateway: Gateway) -> list[AgentView]:
    """Every agent that has a key or a process, by name."""
    bus = gateway.bus
    presences, controls, here = await asyncio.gather(
        read_presences(bus), read_controls(bus), asyncio.to_thread(find_troubled, gateway.settings)
    )
    troubled = [*here, *find_late(presences)]
    running: dict[str, list[Presence]] = {name: [] for name in _installed(gateway)}
    for presence in presences:
        running.setdefault(presence.agent, []).append(presence)
    names = sorted(running)
    return list(
        await asyncio.gather(
            *(
                _read_agent(
                    bus,
                    name,
                    running[name],
                    [each for each in troubled if each.agent == name],
                    controls.get(name),
                    names,
                )
                for name in names
            )
        )
    )


def _installed(gateway: Gateway) -> list[str]:
    """The agents that have a key on this machine, so that a stopped one is shown too."""
    people = (subjects.USER, subjects.ADMIN, subjects.ERASER)
    names = [path.name.removesuffix(KEY_ENDING) for path in gateway.settings.keys.glob(f"*{KEY_ENDING}")]
    return [name for name in names if name not in people]


async def _read_agent(
    bus: Bus,
    name: str,
    processes: Sequence[Presence],
    troubled: Sequence[Process],
    control: AgentControl | None,
    agents: Sequence[str],
) -> AgentView:
    lanes, spending = await asyncio.gather(_read_lanes(bus, name), _read_spending(bus, name))
    latest = processes[-1] if processes else None
    return AgentView(
        name=name,
        state=_state_of(processes, troubled, control),
        troubled=[str(each) for each in troubled],
        description=latest.description if latest else "",
        instructions=latest.instructions if latest else "",
        version=latest.version if latest else "",
        processes=[_view_process(each) for each in processes],
        load=sum(each.load for each in processes),
        concurrency=sum(each.concurrency for each in processes),
        waiting=sum(each.waiting for each in lanes),
        in_hand=sum(each.in_hand for each in lanes),
        handled=sum(each.handled for each in processes),
        failed=sum(each.failed for each in processes),
        lanes=lanes,
        actions=latest.actions if latest else {},
        skills=latest.skills if latest else (),
        why_not_paused=UNPAUSABLE.get(name, ""),
        last_control=control.do if control else "",
        changed_by=control.asked_by if control else "",
        changed_at=control.created_at if control else "",
        tokens_today=spending.input_tokens + spending.output_tokens,
        cost_today=spending.cost,
        calls_today=spending.calls,
        rights=_view_rights(name, agents),
    )


def _state_of(
    processes: Sequence[Presence], troubled: Sequence[Process], control: AgentControl | None
) -> str:
    if any(each.state != "starting" for each in troubled):
        return "not responding"
    if control is not None and control.paused:
        return "paused"
    if processes:
        return "running"
    if troubled:
        return "starting"
    return "starting again" if control is not None and control.do == "restart" else "stopped"


def _view_process(presence: Presence) -> ProcessView:
    return ProcessView(
        instance=presence.instance,
        pid=presence.pid,
        host=presence.host,
        version=presence.version,
        started_at=presence.started_at,
        load=presence.load,
        concurrency=presence.concurrency,
        handled=presence.handled,
        failed=presence.failed,
        paused=presence.paused,
    )


async def _read_lanes(bus: Bus, name: str) -> list[LaneDepth]:
    durables = list(subjects.mailboxes(name))
    depths = await asyncio.gather(*(_read_durable(bus, durable) for durable in durables))
    lanes = ["mail", *(durable.removeprefix(f"{name}_") for durable in durables[1:])]
    return [
        LaneDepth(lane=lane, waiting=waiting, in_hand=in_hand)
        for lane, (waiting, in_hand) in zip(lanes, depths, strict=False)
    ]


async def _read_durable(bus: Bus, durable: str) -> tuple[int, int]:
    """The numbers of waiting and of unacknowledged messages; 0 without such a durable."""
    try:
        info = await call_server(bus, f"CONSUMER.INFO.{subjects.OFFICE}.{durable}")
    except BusError:
        return 0, 0
    return int(str(info["num_pending"])), int(str(info["num_ack_pending"]))


async def _read_spending(bus: Bus, name: str) -> DailySpending:
    day = datetime.now(UTC).date().isoformat()
    try:
        record = await read_record(bus, subjects.record(name, "spending", day), DailySpending)
    except ValueError:
        record = None
    return record.value if record else DailySpending(day=day)


def _view_rights(name: str, agents: Sequence[str]) -> AgentRights:
    rights = rights_of(name, agents)
    reads = [each.removeprefix(READ_PREFIX) for each in rights.publish if each.startswith(READ_PREFIX)]
    return AgentRights(
        publish=[each for each in rights.publish if not each.startswith("$")],
        read=sorted({*reads, *rights.subscribe}),
        ask=[*rights.request, *rights.signed_request],
        serve=list(rights.serve),
    )


class _Known(msgspec.Struct, frozen=True):
    """What was read, and the number of the last message of the index that could change it."""

    paused: frozenset[str]
    number: int


_known: WeakKeyDictionary[LogIndex, _Known] = WeakKeyDictionary()
_LAST = "SELECT coalesce(max(number), 0) FROM messages WHERE type = 'control'"


async def read_paused(gateway: Gateway) -> frozenset[str]:
    """The names of the agents that are paused."""
    ((number,),) = gateway.index.store.query(_LAST)
    known = _known.get(gateway.index)
    if known is None or known.number != number:
        controls = await read_controls(gateway.bus)
        paused = frozenset(name for name, control in controls.items() if control.paused)
        known = _known[gateway.index] = _Known(paused, number)
    return known.paused


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
