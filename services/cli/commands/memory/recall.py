"""``mailroom memory search``: what is nearest to some words, and why."""

import asyncio
from typing import TYPE_CHECKING, Any

import click

from services.cli.commands.memory.session import ask, ask_back, at_option, filter_options
from services.cli.commands.options import NumberType, TextType, json_option
from services.cli.output.console import clean, clean_block, open_console, print_block, print_json, print_line
from services.cli.output.times import format_date
from shared.contracts import BriefQuery

if TYPE_CHECKING:
    from rich.console import Console

    from shared.contracts import Briefing, Hit


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


@click.command()
@click.argument("agent")
@click.option("--compact", is_flag=True, help="Titles alone.")
@at_option
@click.option("--prompt", is_flag=True, help="The whole system prompt: who the agent is, then the briefing.")
@json_option
def brief(agent: str, compact: bool, at: int, prompt: bool, as_json: bool) -> None:
    """Print what AGENT needs to know now.

    Or, with --at, what it was told at a graph version.
    """
    try:
        query = BriefQuery(agent=agent, compact=compact, at=at)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    briefing, system = asyncio.run(_brief(query, prompt))
    if as_json:
        print_json({**briefing.to_dict(), "prompt": system} if prompt else briefing)
        return
    console = open_console()
    print_block(clean_block(system if prompt else briefing.text).strip(), console, hang=2)


async def _brief(query: BriefQuery, prompt: bool) -> "tuple[Briefing, str]":
    from services.cli.connection import connect
    from shared.memory import Memory

    async with connect() as bus:
        briefing = await Memory(bus).brief(query.agent, compact=query.compact, at=query.at)
    return briefing, await _compose(query.agent, briefing.text) if prompt else ""


async def _compose(agent: str, text: str) -> str:
    """The SOUL as the agent would fetch it, from PromptForge or its profile, with the briefing."""
    from services.cli.roster import load_roster
    from shared import settings
    from shared.reasoning.persona import compose_prompt, fetch_soul

    config = settings.load()
    own = next((member.profile.prompt for member in load_roster(config) if member.name == agent), "")
    return compose_prompt(await fetch_soul(agent, config, own), text)
