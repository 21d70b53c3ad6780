"""Agents: how they are, what they may do, and pausing, resuming and restarting them."""

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import UTC, datetime

import msgspec

from services.gateway.call import Call
from services.gateway.metrics.reading import read_lanes
from services.gateway.problems import Failure
from services.gateway.routing import API, Endpoint
from shared import subjects
from shared.access.scopes import Scope
from shared.agent.process import UNPAUSABLE
from shared.bus.identity import Rights, rights_of
from shared.bus.records import MAX_PROCESSES, read_presences
from shared.contracts import (
    AgentControl,
    DailySpending,
    Presence,
)
from shared.operations.goals import Do, control_agent, read_controls
from shared.queries.processes import find_late, find_troubled
from shared.queries.records import unknown_agent_error
from shared.queries.spending import read_today
from shared.queries.status import read_machine, read_within
from shared.settings import Settings
from shared.views.metrics import (
    AgentList,
    AgentRights,
    AgentView,
    Controlled,
    LaneDepth,
    Processes,
    ProcessView,
)
from shared.views.status import Process, SystemStatus

API_PREFIX = "$JS.API."
READ_PREFIX = f"{API_PREFIX}DIRECT.GET.{subjects.OFFICE}."


async def read_status(call: Call) -> SystemStatus:
    """The status of everything: processes, mailboxes, budgets, what waits for a person, and what is wrong."""
    settings = call.gateway.settings
    machine = await asyncio.to_thread(read_machine, settings)
    return await read_within(nullcontext(call.gateway.bus), settings, machine)


async def list_agents(call: Call) -> AgentList:
    """Every agent: its processes, load, mailbox by lane, spending today, and what it may publish and read."""
    settings, bus = call.gateway.settings, call.gateway.bus
    presences, controls, here = await asyncio.gather(
        read_presences(bus), read_controls(bus), asyncio.to_thread(find_troubled, settings)
    )
    troubled = [*here, *find_late(presences)]
    running: dict[str, list[Presence]] = {name: [] for name in list_keys(settings)}
    for presence in presences:
        running.setdefault(presence.agent, []).append(presence)
    names = sorted(running)
    lanes = await asyncio.gather(*(read_lanes(bus, name) for name in names))
    spent = await read_today(bus, names)
    return AgentList(
        agents=[
            _view_agent(
                name,
                running[name],
                [each for each in troubled if each.agent == name],
                controls.get(name),
                [
                    LaneDepth(lane=lane, waiting=waiting, in_hand=in_hand)
                    for lane, depth in depths.items()
                    for waiting, in_hand in [depth or (0, 0)]
                ],
                spent.get(name) or DailySpending(day=f"{datetime.now(UTC):%Y-%m-%d}"),
                rights_of(name, names),
            )
            for name, depths in zip(names, lanes, strict=True)
        ]
    )


def list_keys(settings: Settings) -> list[str]:
    """The agents that have a key on this machine: a stopped one too."""
    people = {subjects.USER, subjects.ADMIN, subjects.ERASER}
    return sorted({path.stem for path in settings.keys.glob("*.nk")} - people)


def _view_agent(
    name: str,
    processes: Sequence[Presence],
    troubled: Sequence[Process],
    control: AgentControl | None,
    lanes: list[LaneDepth],
    spent: DailySpending,
    rights: Rights,
) -> AgentView:
    latest = processes[-1] if processes else None
    reads = [each.removeprefix(READ_PREFIX) for each in rights.publish if each.startswith(READ_PREFIX)]
    return AgentView(
        name=name,
        state=_state_of(processes, troubled, control),
        troubled=[str(each) for each in troubled],
        description=latest.description if latest else "",
        instructions=latest.instructions if latest else "",
        version=latest.version if latest else "",
        processes=[msgspec.convert(each, ProcessView, from_attributes=True) for each in processes],
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
        tokens_today=spent.input_tokens + spent.output_tokens,
        cost_today=spent.cost,
        calls_today=spent.calls,
        rights=AgentRights(
            publish=[each for each in rights.publish if not each.startswith("$")],
            read=sorted({*reads, *rights.subscribe}),
            ask=[*rights.request, *rights.signed_request],
            serve=list(rights.serve),
        ),
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


class ProcessesQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Of which agent; empty: of all."""

    agent: str = ""


async def list_processes(call: Call, query: ProcessesQuery) -> Processes:
    """What each process says of itself: its instructions, actions with their schemas, skills."""
    presences = await read_presences(call.gateway.bus)
    named = [presence for presence in presences if query.agent in ("", presence.agent)]
    if query.agent and not named:
        raise unknown_agent_error(query.agent, presences)
    return Processes(processes=named, most=MAX_PROCESSES)


async def pause_agent(call: Call) -> Controlled:
    """Have an agent take no new tasks, also after a restart; it finishes what it works on."""
    return await _control(call, "pause")


async def resume_agent(call: Call) -> Controlled:
    """Have an agent take tasks again."""
    return await _control(call, "resume")


async def restart_agent(call: Call) -> Controlled:
    """Have all processes of an agent end and start again; another one goes on with what they worked on."""
    return await _control(call, "restart")


async def _control(call: Call, do: Do) -> Controlled:
    name = call.path["name"]
    if len(name) > 64:
        raise Failure(404, f"No agent is named {name[:64]!r}", "The list of agents has their names")
    control = await control_agent(call.gateway.bus, name, do, person=call.person.name, key=call.key)
    return Controlled(
        agent=control.agent, do=control.do, paused=control.paused, by=control.asked_by, at=control.created_at
    )


ONE = f"{API}/agents/{{name}}"
ENDPOINTS = (
    Endpoint("GET", f"{API}/agents", list_agents, scope=Scope.READ, tag="agents"),
    Endpoint("GET", f"{API}/status", read_status, scope=Scope.READ, tag="agents"),
    Endpoint("GET", f"{API}/processes", list_processes, scope=Scope.READ, tag="agents"),
    Endpoint("POST", f"{ONE}/pause", pause_agent, scope=Scope.ADMIN, tag="agents"),
    Endpoint("POST", f"{ONE}/resume", resume_agent, scope=Scope.ADMIN, tag="agents"),
    Endpoint("POST", f"{ONE}/restart", restart_agent, scope=Scope.ADMIN, tag="agents"),
)
