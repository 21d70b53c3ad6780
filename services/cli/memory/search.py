"""``mailroom memory search``: what is nearest to some words, and why."""

from typing import TYPE_CHECKING, Any

import click

from services.cli.memory.filters import filter_options
from services.cli.memory.kinds import ask_back
from services.cli.memory.session import ask, at_option
from services.cli.moment import format_date
from services.cli.numbers import NumberType
from services.cli.screen import clean, json_option, open_console, print_json, print_line
from services.cli.submission import TextType

if TYPE_CHECKING:
    from rich.console import Console

    from shared.contracts import Hit


@click.command()
@click.argument("text", type=TextType())
@click.option("--limit", type=NumberType(1, 100), default=10, show_default=True, help="The most to show.")
@filter_options
@click.option(
    "--anchor",
    "anchors",
    metavar="ID",
    multiple=True,
    help="What is near this node in the graph counts more.",
)
@click.option("--deep", is_flag=True, help="Have the best read once more: better and slower.")
@click.option("--why", is_flag=True, help="Show the parts of each score.")
@at_option
@json_option
def search(text: str, why: bool, as_json: bool, **options: Any) -> None:
    """Show what memory holds nearest to TEXT, best first."""
    hits = ask(lambda memory: memory.search(text, **options))
    if as_json:
        print_json(hits)
        return
    console = open_console()
    for hit in hits:
        _print_hit(hit, console, why)
    if not hits:
        click.echo(f"Memory holds nothing about it.{ask_back(options['kinds'])}")


def _print_hit(hit: "Hit", console: "Console", why: bool) -> None:
    from rich.text import Text

    node = hit.node
    print_line(
        Text.assemble((f"{hit.score:.2f} ", "cyan"), (f"{node.kind:<11} ", "dim"), clean(node.title)), console
    )
    source = f"     {node.id}  {clean(node.source.agent)}  {format_date(node.created_at)}"
    print_line(Text(source, style="dim"), console)
    if why:
        parts = sorted(hit.why.items(), key=lambda part: -abs(part[1]))
        told = "  ".join(f"{clean(name)} {part:.3f}" for name, part in parts)
        console.print(Text(f"     = {told}", style="cyan"), soft_wrap=not console.is_terminal)
