"""``mailroom status`` and ``mailroom agents``: what runs, what waits, what failed; and who can do what."""

from collections.abc import Iterable

import click
import msgspec
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from services.cli import api
from services.cli.commands.options import json_option
from services.cli.output.console import make_table, open_console, print_block, print_json, shorten
from shared import settings, subjects
from shared.contracts import Presence
from shared.errors import BusUnavailable, Denied, MailroomError
from shared.settings import Settings
from shared.text.display import clean, count
from shared.text.times import format_span, seconds_between
from shared.views.status import AgentStatus, SystemStatus, Waiting
from shared.views.timeline import format_spent

GATEWAY_WAIT = 2.5  # Seconds until a gateway of this machine must answer: after that the bus is asked


@click.command()
@json_option
def status(as_json: bool) -> None:
    """Show which agents run, what waits and what failed.

    If the gateway cannot be reached the server is asked; if that does not answer, this is what the machine
    knows: its disk, and the office's processes.
    """
    config = settings.load()
    system = _read(config)
    if as_json:
        problems = (*system.problems, system.unread) if system.unread else system.problems
        print_json(msgspec.structs.replace(system, problems=problems))
    else:
        _print_status(system, open_console())
    if system.unread:
        raise BusUnavailable(system.unread)


def _read(config: Settings) -> SystemStatus:
    """The status as the gateway has it; of an office on this machine without one, as its bus has it."""
    if api.find_office_elsewhere(config):
        return api.get("/status", SystemStatus)
    try:
        login = api.find_login(config, wait=0)
        return api.get("/status", SystemStatus, timeout=GATEWAY_WAIT, login=login, is_fresh=False)
    except Denied:
        raise
    except MailroomError as error:
        from services.cli.bus_status import read_from_bus

        system = read_from_bus(config)
        if not system.unread:
            click.echo(f"{error.cause}; this works on the bus instead.", err=True)
        return system


def _print_status(system: SystemStatus, console: Console) -> None:
    for text in (*system.problems, *map(str, system.troubled)):
        console.print(clean(text), style="red", soft_wrap=True)
    if system.state is None:
        console.print(f"disk    {decimal(system.free)} free for {system.state_dir}", soft_wrap=True)
        return
    goals = f"{count(len(system.active), 'goal')} open" if system.active else "no goal is open"
    console.print(Text.assemble("office  ", (str(system.state), "bold"), f"  {goals}"))
    console.print(f"server  nats://{system.url}, nats-server {system.server_version}", soft_wrap=True)
    if system.servers:
        print_block(f"log     {'; '.join(map(str, system.servers))}", console, hang=8)
    disk = f"{decimal(system.stored)} stored, {decimal(system.free)} free for {system.state_dir}"
    print_block(f"disk    {disk}", console, hang=8)
    tokens = sum(each.input_tokens + each.output_tokens for each in system.spent.values())
    used = format_spent(tokens, sum(each.cost for each in system.spent.values()))
    print_block(f"models  {used} today{f'; {system.left}' if system.left else ''}", console, hang=8)
    print_block(f"night   {system.night}", console, hang=8)
    if system.people:
        said = "; ".join(f"{clean(each.person)}: {each}" for each in system.people)
        print_block(f"people  {said}", console, hang=8)
    if system.waiting.count:
        print_block(f"waits   {_format_waiting(system.waiting)}", console, hang=8)
    console.print()
    console.print(_make_table(system, console.width < NARROW))
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


NARROW = 64  # Columns below which the table has the most important ones alone
WIDE_ONLY = ("load", "in hand", "handled")


def _make_table(system: SystemStatus, narrow: bool) -> Table:
    named = ("load", "waiting", "in hand", "handled", "dead", "up")
    kept = [at for at, name in enumerate(named) if not (narrow and name in WIDE_ONLY)]
    numbers = [named[at] for at in kept]
    running = [process for each in system.agents for process in each.processes]
    # These columns are only needed if versions or hosts differ; 80 columns have no space for them otherwise.
    mixed = {name: read for name, read in MIXED.items() if len(read(running)) > 1}
    table = make_table("agent", "processes", *mixed, *numbers, right=("processes", *numbers))
    for each in system.agents:
        number, *cells = _format_cells(each)
        told = [clean(", ".join(read(each.processes))) for read in mixed.values()]
        style = "" if each.processes else "red"
        shown = [cells[at] for at in kept]
        table.add_row(shorten(each.agent, 16), number, *told, *shown, style=style)
    return table


def _versions(processes: Iterable[Presence]) -> list[str]:
    return sorted({process.version for process in processes})


def _hosts(processes: Iterable[Presence]) -> list[str]:
    return sorted({subjects.host_of(process.instance) for process in processes})


MIXED = {"version": _versions, "host": _hosts}


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
