"""The status of everything, as far as this machine and the server know it."""

import asyncio
import contextlib
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec

from shared import subjects
from shared.bus import Bus
from shared.bus.records import read_presences, read_record
from shared.clock import utc_now
from shared.contracts import OfficeState, Presence, StateChanged
from shared.errors import BusError, BusUnavailable, MailroomError
from shared.queries.checks import ANSWER_WAIT, KNOWN_WAIT, check_disk, may_answer, read_free
from shared.queries.office import OfficeReader, count_dead_letters
from shared.queries.people import list_standings
from shared.queries.processes import find_late, find_troubled
from shared.queries.records import call_server, read_goals, read_latest_goals
from shared.queries.replicas import read_replicas
from shared.queries.spending import format_left, format_night, read_night_state, read_today
from shared.settings import Settings
from shared.tasks.installed_agents import InstalledAgent, load_specialists, read_agents
from shared.views.status import AgentStatus, SystemStatus, Waiting

ALARMS = "run/servers.json"  # The file with what is wrong with the servers, in the state folder
LATEST = 1_000  # The goals that changed last, of which those that failed are counted
NEWEST = 200  # The requests and letters of each agent that are looked at, the newest ones


def read_machine(config: Settings) -> SystemStatus:
    """What this machine knows without the server: its disk, and the processes of the office."""
    disk = check_disk(config)
    return SystemStatus(
        state_dir=str(config.state_dir),
        free=read_free(config),
        problems=(
            *((f"{disk.finding}. {disk.fix}",) if disk.verdict == "fail" else ()),
            *read_alarms(config),
        ),
        troubled=tuple(find_troubled(config)),
    )


def read_alarms(config: Settings) -> tuple[str, ...]:
    """What who watches the servers of this machine's office has found wrong with them."""
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode((config.state_dir / ALARMS).read_bytes(), type=tuple[str, ...])
    return ()


async def read_status(bus: Bus, config: Settings, machine: SystemStatus) -> SystemStatus:
    """``machine`` with what the server knows."""
    installed, kept_out = read_agents(config)
    presences = await read_presences(bus)
    (record, dead, account), (agents, writes, night), waiting = await asyncio.gather(
        asyncio.gather(
            read_record(bus, subjects.OFFICE_STATE, StateChanged),
            count_dead_letters(bus),
            call_server(bus, "INFO"),
        ),
        asyncio.gather(
            _read_agents(bus, [*installed, *load_specialists(config)], presences),
            _read_durable(bus, subjects.MEMORY, subjects.MEMORY_DAEMON),
            read_night_state(bus),
        ),
        _read_waiting(bus),
    )
    change = record.value if record else StateChanged(state=OfficeState.IDLE)
    spent, servers, people = await asyncio.gather(
        read_today(bus, [each.agent for each in agents]), read_replicas(bus), list_standings(bus)
    )
    return msgspec.structs.replace(
        machine,
        url=bus.url,
        server_version=bus.server_version,
        servers=servers,
        state=change.state,
        active=change.active,
        agents=agents,
        memory_writes_pending=sum(writes),
        dead_letters=dead,
        stored=int(str(account["storage"])),
        spent=spent,
        left=format_left(config, spent),
        night=format_night(config, night, utc_now()),
        people=people,
        waiting=waiting,
        kept_out=kept_out,
        troubled=(*machine.troubled, *find_late(presences)),
    )


async def _read_waiting(bus: Bus) -> Waiting:
    reader, (goals, others) = OfficeReader(bus, NEWEST), await read_latest_goals(bus, LATEST)
    waiting = await reader.waiting(goals)
    asked = {each.goal_id for each in (*waiting.approvals, *waiting.questions)}
    if older := asked - {"", *(goal.goal_id for goal in goals)} if others else set():
        waiting = await reader.waiting([*await read_goals(bus, older), *goals])
    return waiting


async def _read_agents(
    bus: Bus, installed: Iterable[InstalledAgent], presences: Iterable[Presence]
) -> tuple[AgentStatus, ...]:
    running: dict[str, list[Presence]] = {agent.name: [] for agent in installed}
    for presence in presences:
        running.setdefault(presence.agent, []).append(presence)

    async def read(agent: str, processes: list[Presence]) -> AgentStatus:
        durables = (_read_durable(bus, subjects.OFFICE, name) for name in subjects.mailboxes(agent))
        counts = await asyncio.gather(*durables)
        return AgentStatus(
            agent=agent,
            processes=tuple(processes),
            pending=sum(waiting for waiting, _ in counts),
            in_hand=sum(taken for _, taken in counts),
        )

    return tuple(await asyncio.gather(*(read(*each) for each in sorted(running.items()))))


async def _read_durable(bus: Bus, stream: str, durable: str) -> tuple[int, int]:
    """The numbers of waiting and of unacknowledged messages; 0 without such a durable."""
    try:
        info: dict[str, Any] = await call_server(bus, f"CONSUMER.INFO.{stream}.{durable}")
    except BusUnavailable:
        raise
    except BusError:
        return 0, 0
    return int(info["num_pending"]), int(info["num_ack_pending"])


async def read_within(
    connection: AbstractAsyncContextManager[Bus], config: Settings, machine: SystemStatus
) -> SystemStatus:
    """As ``read_status``; if the server does not answer, ``machine`` with the reason in ``unread``."""
    wait = ANSWER_WAIT if may_answer(config, machine.troubled) else KNOWN_WAIT
    try:
        async with asyncio.timeout(wait), connection as bus:
            return await read_status(bus, config, machine)
    except TimeoutError:
        return msgspec.structs.replace(machine, unread=f"The server does not answer within {wait:g} s")
    except MailroomError as error:
        return msgspec.structs.replace(machine, unread=str(error))
