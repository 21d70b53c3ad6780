"""``mailroom status``: who is at work, what waits, what could not be done."""

import asyncio
import shutil
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click
import msgspec
from rich.console import Console
from rich.filesize import decimal
from rich.text import Text

from services.cli.commands.options import json_option
from services.cli.connection import connect
from services.cli.output.console import (
    clean,
    clean_block,
    make_table,
    open_console,
    print_block,
    print_json,
    shorten,
)
from services.cli.output.times import format_span, seconds_between
from services.cli.queries.records import call_server
from shared import settings, subjects
from shared.contracts import OfficeState, Presence, StateChanged
from shared.errors import BusError

if TYPE_CHECKING:
    from shared.bus import Bus


class Post(msgspec.Struct, frozen=True, kw_only=True):
    """An agent: its processes, and its mailbox (``pending`` waits, ``in_hand`` is being handled)."""

    agent: str
    processes: tuple[Presence, ...]
    pending: int = 0
    in_hand: int = 0


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """The office as it stands; ``stored`` and ``free`` are bytes (``free`` of the state directory's disk)."""

    url: str
    server_version: str
    state: OfficeState
    active: dict[str, OfficeState]
    agents: tuple[Post, ...]
    memory_writes_pending: int
    dead_letters: dict[str, int]
    stored: int
    state_dir: str
    free: int


@click.command()
@json_option
def status(as_json: bool) -> None:
    """Show who is at work, what waits, and what failed."""
    overview = asyncio.run(_look())
    if as_json:
        print_json(overview)
    else:
        _print(overview, open_console())


async def _look() -> Overview:
    from services.cli.queries.records import count_subjects

    config = settings.load()
    async with connect() as bus:
        board = await bus.last(subjects.OFFICE, subjects.OFFICE_STATE)
        change = StateChanged.from_json(board.data) if board else StateChanged(state=OfficeState.IDLE)
        dead = await count_subjects(bus, subjects.OFFICE, subjects.dead("*"))
        account: dict[str, Any] = await call_server(bus, "INFO")
        return Overview(
            url=bus.url,
            server_version=bus.server_version,
            state=change.state,
            active=change.active,
            agents=await _read_posts(bus),
            memory_writes_pending=sum(await _mailbox(bus, subjects.MEMORY, subjects.MEMORY_DAEMON)),
            dead_letters={subject.partition(".")[2]: count for subject, count in dead.items()},
            stored=int(account["storage"]),
            state_dir=str(config.state_dir),
            free=shutil.disk_usage(config.state_dir).free if config.state_dir.is_dir() else 0,
        )


async def _read_posts(bus: "Bus") -> tuple[Post, ...]:
    from services.cli.queries.records import read_presences

    present: dict[str, list[Presence]] = {name: [] for name in _roster()}
    for presence in await read_presences(bus):
        present.setdefault(presence.agent, []).append(presence)
    posts = []
    for agent, processes in sorted(present.items()):
        pending, in_hand = await _mailbox(bus, subjects.OFFICE, agent)
        posts.append(Post(agent=agent, processes=tuple(processes), pending=pending, in_hand=in_hand))
    return tuple(posts)


def _roster() -> list[str]:
    from services.cli.roster import load_roster, load_specialists

    config = settings.load()
    return [member.name for member in (*load_roster(config), *load_specialists(config))]


async def _mailbox(bus: "Bus", stream: str, durable: str) -> tuple[int, int]:
    """Messages that wait and messages that are being handled; none where there is no such mailbox."""
    try:
        info: dict[str, Any] = await call_server(bus, f"CONSUMER.INFO.{stream}.{durable}")
    except BusError:
        return 0, 0
    return int(info["num_pending"]), int(info["num_ack_pending"])


# --- for people ----------------------------------------------------------------------------------


def _print(overview: Overview, console: Console) -> None:
    console.print(Text.assemble("office  ", (str(overview.state), "bold"), f"  {_goals(overview)}"))
    console.print(f"server  nats://{overview.url}, nats-server {overview.server_version}", soft_wrap=True)
    disk = (
        f"disk    {decimal(overview.stored)} stored, {decimal(overview.free)} free for {overview.state_dir}"
    )
    console.print(disk, soft_wrap=True)
    console.print()
    console.print(_table_of(overview))
    console.print()
    _print_dead(overview, console)
    if overview.memory_writes_pending:
        console.print(
            f"{overview.memory_writes_pending} memory writes wait for the memory daemon", style="yellow"
        )


def _goals(overview: Overview) -> str:
    count = len(overview.active)
    return "no goal is open" if not count else f"{count} goal{'s' * (count != 1)} open"


def _table_of(overview: Overview) -> Any:
    numbers = ("load", "waiting", "in hand", "handled", "buried", "up")
    versions = _versions([process for post in overview.agents for process in post.processes])
    # On a screen of 80 columns there is room for what differs.
    mixed = ["version"] if len(versions) > 1 else []
    table = make_table("agent", "processes", *mixed, *numbers, right=("processes", *numbers))
    for post in overview.agents:
        count, *figures = _cells(post)
        version = [clean(", ".join(_versions(post.processes)))] if mixed else []
        style = "" if post.processes else "red"
        table.add_row(shorten(post.agent, 16), count, *version, *figures, style=style)
    return table


def _versions(processes: Iterable[Presence]) -> list[str]:
    return sorted({process.version for process in processes})


def _cells(post: Post) -> list[str]:
    boxes = [str(post.pending), str(post.in_hand)]
    if not post.processes:
        return ["none", "", *boxes, "", "", ""]
    processes = post.processes
    return [
        str(len(processes)),
        f"{sum(process.load for process in processes)}/{sum(process.concurrency for process in processes)}",
        *boxes,
        str(sum(process.handled for process in processes)),
        str(sum(process.failed for process in processes)),
        format_span(max(seconds_between(process.started_at or process.created_at) for process in processes)),
    ]


def _print_dead(overview: Overview, console: Console) -> None:
    count = sum(overview.dead_letters.values())
    if not count:
        console.print("no dead letters")
        return
    where = ", ".join(f"{agent} {number}" for agent, number in sorted(overview.dead_letters.items()))
    console.print(
        f"{count} dead letter{'s' * (count != 1)} ({where}): mailroom dead list", style="red", soft_wrap=True
    )


@click.command()
@click.argument("name", required=False, default="")
@json_option
def agents(name: str, as_json: bool) -> None:
    """Show who can do what, and how to write to them.

    Of everybody who is at work in short, or of NAME with all its actions and their parameters.
    """
    present = asyncio.run(_read(name))
    if as_json:
        print_json(present)
        return
    console = open_console()
    for agent in dict.fromkeys(presence.agent for presence in present):
        _print_agent([presence for presence in present if presence.agent == agent], console, whole=bool(name))
    if not present:
        click.echo("Nobody is at work.")


async def _read(name: str) -> list[Presence]:
    """The processes of ``name``, or of everybody; raises MailroomError where there is none of that name."""
    from services.cli.queries.records import absent, read_presences

    async with connect() as bus:
        present = await read_presences(bus)
    named = [presence for presence in present if name in ("", presence.agent)]
    if name and not named:
        raise absent(name, present)
    return named


def _print_agent(processes: list[Presence], console: Console, *, whole: bool) -> None:
    latest = processes[-1]
    count = len(processes)
    console.print(
        f"{latest.agent}  {count} process{'es' * (count != 1)}, version {clean(latest.version)}", style="bold"
    )
    _print_indented(clean(latest.description), console)
    for line in clean_block(latest.instructions).splitlines():
        _print_indented(line, console)
    if not whole:
        if latest.actions:
            _print_indented(f"actions: {clean(', '.join(sorted(latest.actions)))}", console)
        console.print()
        return
    for action, description in sorted(latest.actions.items()):
        _print_indented(f"{clean(action)}: {clean(description)}", console, hang=2)
        for parameter in _parameters(latest.schemas.get(action)):
            _print_indented(parameter, console, hang=6)
    if latest.skills:
        _print_indented(f"skills: {clean(', '.join(map(_skill, latest.skills)))}", console)
    console.print()


def _skill(mixin: str) -> str:
    """``shared.skills.files.FilesSkillMixin`` as people call it."""
    return mixin.rpartition(".")[2].removesuffix("SkillMixin").lower()


def _parameters(schema: Any) -> list[str]:
    """A line for each parameter in an action's JSON schema: name (? where it may be left out) and meaning."""
    if not isinstance(schema, dict):
        return []
    required = schema.get("required", ())
    described = {n: a for n, a in schema.get("properties", {}).items() if isinstance(a, dict)}
    return [
        f"{clean(name)}{'' if name in required else '?'}: {clean(str(about.get('description', '')))}"
        for name, about in described.items()
    ]


def _print_indented(text: str, console: Console, hang: int = 0) -> None:
    if text.strip():
        print_block(f"{'':{2 + hang}}{text}", console, hang=2 + hang)
