"""Agents: how they are, what they may do, and pausing, resuming and restarting them."""

import msgspec

from services.gateway.api.messages import API
from services.gateway.call import Call
from services.gateway.pages.agents import AgentView, read_agents
from services.gateway.problems import Failure
from services.gateway.routing import Endpoint
from shared.access.scopes import Scope
from shared.bus.records import MAX_PROCESSES, read_presences
from shared.operations.goals import Do, control_agent
from shared.queries.records import unknown_agent_error
from shared.views.listed import Controlled, Processes


class AgentList(msgspec.Struct, frozen=True, kw_only=True):
    """Every agent that has an inbox or a process, by name."""

    agents: list[AgentView]


class ProcessesQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Of which agent; empty: of all."""

    agent: str = ""


async def list_agents(call: Call) -> AgentList:
    """Every agent: its processes, load, mailbox by lane, spending today, and what it may publish and read."""
    return AgentList(agents=await read_agents(call.gateway))


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
        agent=control.agent,
        do=control.do,
        paused=control.paused,
        by=control.asked_by,
        at=control.created_at,
    )


ONE = f"{API}/agents/{{name}}"
ENDPOINTS = (
    Endpoint("GET", f"{API}/agents", list_agents, scope=Scope.READ, tag="agents"),
    Endpoint("GET", f"{API}/processes", list_processes, scope=Scope.READ, tag="agents"),
    Endpoint("POST", f"{ONE}/pause", pause_agent, scope=Scope.ADMIN, tag="agents"),
    Endpoint("POST", f"{ONE}/resume", resume_agent, scope=Scope.ADMIN, tag="agents"),
    Endpoint("POST", f"{ONE}/restart", restart_agent, scope=Scope.ADMIN, tag="agents"),
)
