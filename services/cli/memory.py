"""``mailroom memory``: remember, search and read as the user."""

import asyncio
import sys
from datetime import datetime
from typing import TYPE_CHECKING

import click
import msgspec
from rich.console import Console
from rich.text import Text

from services.cli.connection import connect
from services.cli.moment import PastType, format_date, to_wire
from services.cli.screen import clean, clean_block, json_option, open_console, print_json, print_line
from services.cli.submission import TextType
from shared import subjects
from shared.contracts import Hit, MemoryWritten, Node, Source
from shared.errors import MailroomError

if TYPE_CHECKING:
    from shared.bus import Bus
    from shared.memory import Memory


@click.group()
def memory() -> None:
    """Remember, search and read what the office knows."""


@memory.command()
@click.argument("title", type=TextType())
@click.option("--body", default="", help="The whole of it; '-' reads it from standard input.")
@click.option(
    "--kind", default="fact", show_default=True, help="fact, decision, preference, ... or a kind of your own."
)
@click.option("--tag", "tags", multiple=True, help="A tag; may be given several times.")
@click.option(
    "--importance", type=click.FloatRange(0, 1), default=0.5, show_default=True, help="How much it matters."
)
@click.option("--insist", is_flag=True, help="Store it even where memory finds it not worth keeping.")
@json_option
def add(
    title: str, body: str, kind: str, tags: tuple[str, ...], importance: float, insist: bool, as_json: bool
) -> None:
    """Remember a sentence, TITLE, and print its id."""
    try:
        node = Node(
            title=title.strip(),
            body=sys.stdin.read() if body == "-" else body,
            kind=kind,
            tags=tags,
            importance=importance,
            source=Source(agent=subjects.USER, channel="command line"),
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    written = asyncio.run(_add(node, insist))
    if as_json:
        print_json(written)
    else:
        click.echo(f"Remembered as {', '.join(written.ids)} (graph version {written.version})")


async def _add(node: Node, insist: bool) -> MemoryWritten:
    async with connect() as bus:
        written = await _memory(bus).add(node, insist=insist)
    # Memory remembers for long that a write was applied, not under which ids.
    return msgspec.structs.replace(written, ids=written.ids or (node.id,))


def _memory(bus: "Bus") -> "Memory":
    from shared.memory import Memory

    return Memory(bus)


@memory.command()
@click.argument("text", type=TextType())
@click.option("--limit", type=click.IntRange(1, 100), default=10, show_default=True, help="The most to show.")
@click.option("--kind", "kinds", multiple=True, help="Only of this kind; may be given several times.")
@click.option("--tag", "tags", multiple=True, help="Only with this tag; may be given several times.")
@click.option("--agent", default="", help="Only what this agent remembered.")
@click.option(
    "--since", type=PastType(), metavar="TIME", help="Only what came since: 10m ago, or an ISO 8601 time."
)
@json_option
def search(
    text: str,
    limit: int,
    kinds: tuple[str, ...],
    tags: tuple[str, ...],
    agent: str,
    since: datetime | None,
    as_json: bool,
) -> None:
    """Show what memory holds nearest to TEXT, best first."""

    async def find() -> list[Hit]:
        async with connect() as bus:
            moment = to_wire(since) if since else ""
            return await _memory(bus).search(
                text, limit=limit, kinds=kinds, tags=tags, agent=agent, since=moment
            )

    hits = asyncio.run(find())
    if as_json:
        print_json(hits)
        return
    console = open_console()
    for hit in hits:
        _print_hit(hit, console)
    if not hits:
        click.echo("Memory holds nothing about it.")


def _print_hit(hit: Hit, console: Console) -> None:
    node = hit.node
    print_line(
        Text.assemble((f"{hit.score:.2f} ", "cyan"), (f"{node.kind:<11} ", "dim"), clean(node.title)), console
    )
    source = f"     {node.id}  {clean(node.source.agent)}  {format_date(node.created_at)}"
    print_line(Text(source, style="dim"), console)


@memory.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@json_option
def get(ids: tuple[str, ...], as_json: bool) -> None:
    """Show the whole of what is stored under each ID."""

    async def read() -> list[Node]:
        async with connect() as bus:
            return await _memory(bus).get(*ids)

    nodes = asyncio.run(read())
    if as_json:
        print_json(nodes)
    else:
        for node in nodes:
            _print_node(node)
    missing = sorted(set(ids) - {node.id for node in nodes})
    if missing:
        raise MailroomError(
            f"Memory holds nothing under {', '.join(missing)}", "'mailroom memory search' finds ids"
        )


def _print_node(node: Node) -> None:
    click.secho(clean(node.title), bold=True)
    source = " ".join(filter(None, (node.source.agent, node.source.session, node.source.channel)))
    origin = clean(source) or "somebody"
    click.echo(f"{node.kind}, importance {node.importance:g}, {format_date(node.created_at)}, from {origin}")
    if node.tags:
        click.echo(f"tags: {clean(', '.join(node.tags))}")
    for key, value in node.metadata.items():
        click.echo(clean(f"{key}: {value}"))
    click.echo(f"id: {node.id}")
    if node.body:
        click.echo(f"\n{clean_block(node.body)}")
    click.echo()
