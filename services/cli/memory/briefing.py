"""``mailroom brief``: what an agent needs to know now."""

import asyncio
from typing import TYPE_CHECKING

import click

from services.cli.memory.session import at_option
from services.cli.screen import clean_block, json_option, open_console, print_block, print_json
from shared.contracts import BriefQuery

if TYPE_CHECKING:
    from shared.contracts import Briefing


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
