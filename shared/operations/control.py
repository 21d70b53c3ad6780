"""Pausing, resuming and restarting agents."""

from typing import Literal

from shared import subjects
from shared.agent.control import UNPAUSABLE, read_control
from shared.bus import Bus
from shared.bus.records import read_presences
from shared.contracts import AgentControl, generate_task_id
from shared.errors import BusUnavailable, Refused, TooLate
from shared.operations.submission import publish, with_person
from shared.queries.dead_letters import find_dead_letter
from shared.queries.records import (
    Listener,
    count_subjects,
    read_last,
    unknown_agent_error,
)

Do = Literal["pause", "resume", "restart"]
ACCEPT_TIMEOUT = 20.0
"""Seconds until the conductor must have recorded it."""
POLL_INTERVAL = 1.0


async def control_agent(bus: Bus, agent: str, do: Do, *, person: str = "", key: str = "") -> AgentControl:
    """Have ``agent`` paused, resumed or restarted; returns what holds from now on, for all its processes.

    Raises NotFound for an agent that neither runs nor was ever controlled, TooLate for one that cannot be
    paused, Refused and BusUnavailable if the conductor does not record it.
    """
    if do == "pause" and (why := UNPAUSABLE.get(agent)):
        raise TooLate(f"{agent} cannot be paused: {why}", "It can be restarted")
    presences = await read_presences(bus)
    if agent not in {presence.agent for presence in presences} and await read_control(bus, agent) is None:
        raise unknown_agent_error(agent, presences)
    request_id = bus.derive_id("control", person, agent, do, key) if key else generate_task_id("control")
    listener = Listener(bus, POLL_INTERVAL)
    await listener.subscribe(subjects.control(agent), subjects.dead(subjects.CONDUCTOR))
    body = {"control": {"agent": agent, "do": do}, "request_id": request_id, "requester": subjects.USER}
    seq = await publish(bus, with_person(body, person))

    async def read_answer() -> AgentControl | None:
        control = await read_control(bus, agent)
        if control is not None and control.request_id == request_id:
            return control
        if letter := await find_dead_letter(bus, subjects.CONDUCTOR, seq):
            raise Refused(f"The conductor refuses it: {letter.reason}")
        return None

    try:
        return await listener.wait_for(read_answer, ACCEPT_TIMEOUT)
    except TimeoutError:
        raise BusUnavailable(
            f"The conductor has not answered within {ACCEPT_TIMEOUT:g} s; the request stays in its mailbox",
            "'mailroom status' shows whether it runs",
        ) from None


async def read_controls(bus: Bus) -> dict[str, AgentControl]:
    """What people want of agents, by agent, of those that were ever controlled."""
    names = await count_subjects(bus, subjects.OFFICE, subjects.control("*"))
    found = {}
    for subject, stored in (await read_last(bus, subjects.OFFICE, names)).items():
        try:
            found[subject.rpartition(".")[2]] = AgentControl.from_json(stored.data)
        except ValueError:
            continue
    return found
