"""``mailroom status`` and ``mailroom agents``: what runs, what waits, what failed; and who can do what."""

import asyncio
from collections.abc import Iterable
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from services.cli.commands.options import json_option
from services.cli.connection import connect
from services.cli.installed_agents import InstalledAgent, load_specialists, read_agents
from services.cli.output.console import make_table, open_console, print_block, print_json, shorten
from shared import settings, subjects
from shared.bus import Bus
from shared.bus.records import read_presences, read_record
from shared.clock import utc_now
from shared.contracts import DailySpending, OfficeState, Presence, StateChanged
from shared.errors import BusError, BusUnavailable, MailroomError
from shared.queries.checks import ANSWER_WAIT, KNOWN_WAIT, check_disk, may_answer, read_free
from shared.queries.office import OfficeReader, Waiting, count_dead_letters
from shared.queries.processes import Process, find_late, find_troubled
from shared.queries.records import call_server, read_goals, read_latest_goals
from shared.queries.spending import (
    format_left,
    format_night,
    read_night_state,
    read_today,
)
from shared.settings import Settings
from shared.text.display import clean, count
from shared.text.times import format_span, seconds_between
from shared.views.timeline import format_spent

LATEST = 1_000  # The goals that changed last, of which those that failed are counted
NEWEST = 200  # The requests and letters of each agent that are looked at, the newest ones


class AgentStatus(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's processes, and its mailbox: ``pending`` messages wait, ``in_hand`` are being handled."""

    agent: str
    processes: tuple[Presence, ...]
    pending: int = 0
    in_hand: int = 0


class SystemStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of everything; ``stored`` and ``free`` (on the state directory's disk) are bytes.

    ``spent`` is what models used today (UTC) by agent, ``left`` what is left of budgets, ``night`` how the
    night stands. ``waiting`` is what waits for a person, as the page of the inbox has it.
    ``kept_out`` are folders of ``agents_dir`` whose agent is not started, and why. ``troubled`` are processes
    that do not run as they should. ``problems`` are what is wrong with this machine's disk or with the
    server: then what only the server knows has its default.
    """

    state_dir: str
    free: int
    problems: tuple[str, ...] = ()
    troubled: tuple[Process, ...] = ()
    url: str = ""
    server_version: str = ""
    state: OfficeState | None = None
    active: dict[str, OfficeState] = {}
    agents: tuple[AgentStatus, ...] = ()
    memory_writes_pending: int = 0
    dead_letters: dict[str, int] = {}
    stored: int = 0
    spent: dict[str, DailySpending] = {}
    left: str = ""
    night: str = ""
    waiting: Waiting = Waiting()
    kept_out: dict[str, str] = {}


@click.command()
@json_option
def status(as_json: bool) -> None:
    """Show which agents run, what waits and what failed.

    If the server does not answer, what this machine knows: its disk, and the office's processes.
    """
    asyncio.run(_show_status(as_json))


async def _show_status(as_json: bool) -> None:
    """Print the status; raises MailroomError afterwards if the server did not answer."""
    config = settings.load()
    problem: MailroomError | None = None
    system = await asyncio.to_thread(_read_machine, config)
    wait = ANSWER_WAIT if may_answer(config, system.troubled) else KNOWN_WAIT
    try:
        async with asyncio.timeout(wait), connect(wait=0, answer=1, flush=0) as bus:
            system = await _read_office(bus, config, system)
    except TimeoutError:
        problem = BusUnavailable(f"The server does not answer within {wait:g} s")
    except MailroomError as error:
        problem = error
    if as_json:
        problems = system.problems if problem is None else (*system.problems, str(problem))
        print_json(msgspec.structs.replace(system, problems=problems))
    else:
        _print_status(system, open_console())
    if problem is not None:
        raise problem


def _read_machine(config: Settings) -> SystemStatus:
    disk = check_disk(config)
    return SystemStatus(
        state_dir=str(config.state_dir),
        free=read_free(config),
        problems=(f"{disk.finding}. {disk.fix}",) if disk.verdict == "fail" else (),
        troubled=tuple(find_troubled(config)),
    )


async def _read_office(bus: Bus, config: Settings, machine: SystemStatus) -> SystemStatus:
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
    spent = await read_today(bus, [each.agent for each in agents])
    return msgspec.structs.replace(
        machine,
        url=bus.url,
        server_version=bus.server_version,
        state=change.state,
        active=change.active,
        agents=agents,
        memory_writes_pending=sum(writes),
        dead_letters=dead,
        stored=int(str(account["storage"])),
        spent=spent,
        left=format_left(config, spent),
        night=format_night(config, night, utc_now()),
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


def _print_status(system: SystemStatus, console: Console) -> None:
    for text in (*system.problems, *map(str, system.troubled)):
        console.print(clean(text), style="red", soft_wrap=True)
    if system.state is None:
        console.print(f"disk    {decimal(system.free)} free for {system.state_dir}", soft_wrap=True)
        return
    goals = f"{count(len(system.active), 'goal')} open" if system.active else "no goal is open"
    console.print(Text.assemble("office  ", (str(system.state), "bold"), f"  {goals}"))
    console.print(f"server  nats://{system.url}, nats-server {system.server_version}", soft_wrap=True)
    disk = f"{decimal(system.stored)} stored, {decimal(system.free)} free for {system.state_dir}"
    console.print(f"disk    {disk}", soft_wrap=True)
    tokens = sum(each.input_tokens + each.output_tokens for each in system.spent.values())
    used = format_spent(tokens, sum(each.cost for each in system.spent.values()))
    print_block(f"models  {used} today{f'; {system.left}' if system.left else ''}", console, hang=8)
    print_block(f"night   {system.night}", console, hang=8)
    if system.waiting.count:
        print_block(f"waits   {_format_waiting(system.waiting)}", console, hang=8)
    console.print()
    console.print(_make_table(system))
    console.print()
    for name, reason in system.kept_out.items():
        console.print(clean(f"{name} is kept out: {reason}"), style="red", soft_wrap=True)
    _print_dead_letters(system.dead_letters, console)
    if system.memory_writes_pending:
        console.print(f"{count(system.memory_writes_pending, 'memory write')} pending", style="yellow")


def _format_waiting(waiting: Waiting) -> str:
    """``2 approvals (mailroom approvals list), 1 failed goal``: what waits for the person."""
    dead = sum(each.count for each in waiting.dead_letters)
    parts = (
        (len(waiting.approvals), "approval", " (mailroom approvals list)"),
        (len(waiting.questions), "question", " (mailroom mail list)"),
        (dead, "dead letter", " (mailroom dead list)"),
        (len(waiting.failed_goals), "failed goal", " (mailroom tasks)"),
    )
    told = ", ".join(f"{count(number, what)}{where}" for number, what, where in parts if number)
    return f"{told}; older ones may wait too" if waiting.bounded else told


def _make_table(system: SystemStatus) -> Table:
    numbers = ("load", "waiting", "in hand", "handled", "dead", "up")
    versions = _versions([process for each in system.agents for process in each.processes])
    # The column is only needed if versions differ; 80 columns have no space for it otherwise.
    mixed = ["version"] if len(versions) > 1 else []
    table = make_table("agent", "processes", *mixed, *numbers, right=("processes", *numbers))
    for each in system.agents:
        running, *cells = _format_cells(each)
        version = [clean(", ".join(_versions(each.processes)))] if mixed else []
        style = "" if each.processes else "red"
        table.add_row(shorten(each.agent, 16), running, *version, *cells, style=style)
    return table


def _versions(processes: Iterable[Presence]) -> list[str]:
    return sorted({process.version for process in processes})


def _format_cells(each: AgentStatus) -> list[str]:
    mailbox = [str(each.pending), str(each.in_hand)]
    if not each.processes:
        return ["none", "", *mailbox, "", "", ""]
    processes = each.processes
    return [
        f"{len(processes)} paused" if any(process.paused for process in processes) else str(len(processes)),
        f"{sum(process.load for process in processes)}/{sum(process.concurrency for process in processes)}",
        *mailbox,
        str(sum(process.handled for process in processes)),
        str(sum(process.failed for process in processes)),
        format_span(max(seconds_between(process.started_at or process.created_at) for process in processes)),
    ]


def _print_dead_letters(letters: dict[str, int], console: Console) -> None:
    if not letters:
        console.print("no dead letters")
        return
    where = ", ".join(f"{agent} {number}" for agent, number in sorted(letters.items()))
    text = f"{count(sum(letters.values()), 'dead letter')} ({where}): mailroom dead list"
    console.print(text, style="red", soft_wrap=True)
