"""``mailroom memory add``, ``get``, ``list`` and ``retire``: what is remembered, one node at a time."""

from typing import TYPE_CHECKING, Any

import click

from services.cli.commands.memory.session import ask, ask_back, at_option, filter_options, meant_kind, store
from services.cli.commands.options import NumberType, TextType, json_option, parse_context, read_stdin
from services.cli.output.console import (
    clean,
    clean_block,
    colour,
    open_console,
    print_block,
    print_json,
    print_line,
)
from services.cli.output.times import format_date
from shared import subjects
from shared.contracts import KINDS, ListQuery, Node, Source
from shared.errors import MailroomError

if TYPE_CHECKING:
    from rich.console import Console

    from shared.contracts import MemoryWritten
    from shared.memory import Memory


@click.command()
@click.argument("title", type=TextType())
@click.option("--body", default="", help="The whole of it; '-' reads it from standard input.")
@click.option(
    "--kind", default="fact", show_default=True, help=f"One of {', '.join(KINDS)}; or a kind of your own."
)
@click.option("--tag", "tags", multiple=True, help="A tag; may be given several times.")
@click.option(
    "--importance",
    type=NumberType(0, 1, whole=False),
    default=0.5,
    show_default=True,
    help="How much it matters.",
)
@click.option(
    "-m",
    "--metadata",
    metavar="KEY=VALUE",
    multiple=True,
    callback=parse_context,
    help="Something to keep with it; an object or a list in JSON is taken as such.",
)
@click.option("--session", default="", metavar="ID", help="The session it comes from.")
@click.option("--insist", is_flag=True, help="Store it even where memory finds it not worth keeping.")
@json_option
def add(title: str, body: str, session: str, insist: bool, as_json: bool, **fields: Any) -> None:
    """Remember a sentence, TITLE, and print its id."""
    if not insist and (meant := meant_kind(fields["kind"])):
        raise click.UsageError(
            f"{fields['kind']!r} is no kind that the office knows; did you mean {meant!r}? With --insist it "
            "is a kind of your own"
        )
    try:
        node = Node(
            title=title.strip(),
            body=read_stdin() if body == "-" else body,
            source=Source(agent=subjects.USER, session=session, channel="command line"),
            **fields,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    written = store(
        lambda memory: _add(memory, node, insist), as_json=as_json, insist="the same command with --insist"
    )
    if as_json:
        print_json(written)
    else:
        click.echo(f"Remembered as {', '.join(written.ids)} (graph version {written.version})")


async def _add(memory: "Memory", node: Node, insist: bool) -> "MemoryWritten":
    import msgspec

    written = await memory.add(node, insist=insist)
    # Memory remembers for long that a write was applied, not under which ids.
    return msgspec.structs.replace(written, ids=written.ids or (node.id,))


@click.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@at_option
@json_option
def get(ids: tuple[str, ...], at: int, as_json: bool) -> None:
    """Show the whole of what is stored under each ID."""
    nodes = ask(lambda memory: memory.get(*ids, at=at))
    if as_json:
        print_json(nodes)
    else:
        console = open_console()
        for node in nodes:
            _print_node(node, console)
    missing = sorted(set(ids) - {node.id for node in nodes})
    if missing:
        raise MailroomError(
            f"Memory holds nothing under {', '.join(missing)}", "'mailroom memory search' finds ids"
        )


def _print_node(node: Node, console: "Console") -> None:
    click.secho(clean(node.title), bold=True)
    source = " ".join(filter(None, (node.source.agent, node.source.session, node.source.channel)))
    origin = clean(source) or "somebody"
    click.echo(f"{node.kind}, importance {node.importance:g}, {format_date(node.created_at)}, from {origin}")
    if node.retired_version:
        click.echo(colour(f"retired at graph version {node.retired_version}", "yellow"))
    if node.tags:
        click.echo(f"tags: {clean(', '.join(node.tags))}")
    for key, value in node.metadata.items():
        click.echo(clean(f"{key}: {value}"))
    click.echo(f"id: {node.id}")
    if node.body:
        click.echo()
        print_block(clean_block(node.body), console)
    click.echo()


@click.command(name="list")
@click.option("--limit", type=NumberType(1, 1_000), default=20, show_default=True, help="The most to show.")
@click.option("--after", default="", metavar="ID", help="Those after this id.")
@filter_options
@click.option(
    "--changed-since",
    type=NumberType(),
    default=0,
    metavar="VERSION",
    help="Only what was written after this graph version.",
)
@click.option("--retired", is_flag=True, help="Those that were retired too.")
@at_option
@json_option
def list_nodes(as_json: bool, **options: Any) -> None:
    """List what memory holds, by id: oldest first."""
    try:
        query = ListQuery(**options)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    page = ask(lambda memory: memory.nodes(query))
    if as_json:
        print_json(page)
        return
    console = open_console()
    for node in page.nodes:
        _print_line(node, console)
    if not page.nodes:
        click.echo(f"Memory holds nothing of that kind.{ask_back(query.kinds)}")
    if page.next:
        click.echo(f"\nThere are more: --after {page.next}")


def _print_line(node: Node, console: "Console") -> None:
    from rich.text import Text

    retired = f"  retired at {node.retired_version}" if node.retired_version else ""
    print_line(Text.assemble((f"{node.kind:<11} ", "dim"), clean(node.title), (retired, "yellow")), console)
    source = f"            {node.id}  {clean(node.source.agent)}  {format_date(node.created_at)}"
    print_line(Text(source, style="dim"), console)


@click.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@json_option
def retire(ids: tuple[str, ...], as_json: bool) -> None:
    """Forget what is stored under each ID.

    It is found no longer; 'mailroom memory get' still shows it.
    """
    written = ask(lambda memory: memory.retire(*ids))
    if as_json:
        print_json(written)
    else:
        click.echo(f"Retired {', '.join(ids)} (graph version {written.version})")
