"""``mailroom status`` and ``mailroom agents``: what runs, what waits, what failed; and who can do what."""

import asyncio
import shutil
from collections.abc import Iterable
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from services.cli.agents import InstalledAgent, load_specialists, read_agents
from services.cli.commands.options import json_option
from services.cli.connection import connect
from services.cli.output.console import make_table, open_console, print_block, print_json, shorten
from shared import settings, subjects
from shared.bus import Bus
from shared.bus.records import read_presences, read_record
from shared.clock import utc_now
from shared.contracts import DailySpending, OfficeState, Presence, StateChanged
from shared.errors import BusError
from shared.queries.open_batches import find_open_batches, format_open_batches
from shared.queries.records import call_server, count_subjects
from shared.queries.spending import (
    format_left,
    format_night,
    format_spent,
    read_night_state,
    read_today,
)
from shared.text.phrases import count
from shared.text.printable import clean
from shared.text.times import format_span, seconds_between

WATCHED = 0.6
"""Seconds of watching for commits that are left open."""


class AgentStatus(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's processes, and its mailbox: ``pending`` messages wait, ``in_hand`` are being handled."""

    agent: str
    processes: tuple[Presence, ...]
    pending: int = 0
    in_hand: int = 0


class SystemStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of everything; ``stored`` and ``free`` (on the state directory's disk) are bytes.

    ``open_commits`` are the atomic commits that were left open while it was read, by who did. ``spent`` is
    what models used today (UTC) by agent, ``left`` what is left of budgets, ``night`` how the night stands.
    ``kept_out`` are folders of ``agents_dir`` whose agent is not started, and why.
    """

    url: str
    server_version: str
    state: OfficeState
    active: dict[str, OfficeState]
    agents: tuple[AgentStatus, ...]
    memory_writes_pending: int
    dead_letters: dict[str, int]
    stored: int
    state_dir: str
    free: int
    open_commits: dict[str, int] = {}
    spent: dict[str, DailySpending] = {}
    left: str = ""
    night: str = ""
    kept_out: dict[str, str] = {}


@click.command()
@json_option
def status(as_json: bool) -> None:
    """Show which agents run, what waits and what failed."""
    system = asyncio.run(_read_status())
    if as_json:
        print_json(system)
    else:
        _print_status(system, open_console())


async def _read_status() -> SystemStatus:
    config = settings.load()
    installed, kept_out = read_agents(config)
    async with connect() as bus:
        watching = asyncio.create_task(find_open_batches(config, f"nats://{bus.url}", WATCHED))
        record = await read_record(bus, subjects.OFFICE_STATE, StateChanged)
        change = record.value if record else StateChanged(state=OfficeState.IDLE)
        dead = await count_subjects(bus, subjects.OFFICE, subjects.dead("*"))
        account: dict[str, Any] = await call_server(bus, "INFO")
        agents = await _read_agents(bus, [*installed, *load_specialists(config)])
        spent = await read_today(bus, [each.agent for each in agents])
        return SystemStatus(
            url=bus.url,
            server_version=bus.server_version,
            state=change.state,
            active=change.active,
            agents=agents,
            memory_writes_pending=sum(await _read_durable(bus, subjects.MEMORY, subjects.MEMORY_DAEMON)),
            dead_letters={subject.partition(".")[2]: count for subject, count in dead.items()},
            stored=int(account["storage"]),
            state_dir=str(config.state_dir),
            free=shutil.disk_usage(config.state_dir).free if config.state_dir.is_dir() else 0,
            open_commits=await watching or {},
            spent=spent,
            left=format_left(config, spent),
            night=format_night(config, await read_night_state(bus), utc_now()),
            kept_out=kept_out,
        )


async def _read_agents(bus: Bus, installed: Iterable[InstalledAgent]) -> tuple[AgentStatus, ...]:
    running: dict[str, list[Presence]] = {agent.name: [] for agent in installed}
    for presence in await read_presences(bus):
        running.setdefault(presence.agent, []).append(presence)
    found = []
    for agent, processes in sorted(running.items()):
        counts = [await _read_durable(bus, subjects.OFFICE, name) for name in subjects.mailboxes(agent)]
        status = AgentStatus(
            agent=agent,
            processes=tuple(processes),
            pending=sum(waiting for waiting, _ in counts),
            in_hand=sum(taken for _, taken in counts),
        )
        found.append(status)
    return tuple(found)


async def _read_durable(bus: Bus, stream: str, durable: str) -> tuple[int, int]:
    """The numbers of waiting and of unacknowledged messages; 0 without such a durable."""
    try:
        info: dict[str, Any] = await call_server(bus, f"CONSUMER.INFO.{stream}.{durable}")
    except BusError:
        return 0, 0
    return int(info["num_pending"]), int(info["num_ack_pending"])


def _print_status(system: SystemStatus, console: Console) -> None:
    goals = f"{count(len(system.active), 'goal')} open" if system.active else "no goal is open"
    console.print(Text.assemble("office  ", (str(system.state), "bold"), f"  {goals}"))
    console.print(f"server  nats://{system.url}, nats-server {system.server_version}", soft_wrap=True)
    disk = f"{decimal(system.stored)} stored, {decimal(system.free)} free for {system.state_dir}"
    console.print(f"disk    {disk}", soft_wrap=True)
    tokens = sum(each.input_tokens + each.output_tokens for each in system.spent.values())
    used = format_spent(tokens, sum(each.cost for each in system.spent.values()))
    print_block(f"models  {used} today{f'; {system.left}' if system.left else ''}", console, hang=8)
    print_block(f"night   {system.night}", console, hang=8)
    console.print()
    console.print(_make_table(system))
    console.print()
    for name, reason in system.kept_out.items():
        console.print(clean(f"{name} is kept out: {reason}"), style="red", soft_wrap=True)
    _print_dead_letters(system.dead_letters, console)
    if system.open_commits:
        console.print(clean(format_open_batches(system.open_commits, WATCHED)), style="red", soft_wrap=True)
    if system.memory_writes_pending:
        console.print(f"{count(system.memory_writes_pending, 'memory write')} pending", style="yellow")


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
