"""``mailroom brief``: the briefing of the morning or evening, or that of an agent from memory."""

from typing import Any

import click
import msgspec
from click.core import ParameterSource

from services.cli import api
from services.cli.commands.completion import AgentName
from services.cli.commands.memory.session import SLOW, at_option
from services.cli.commands.options import build, combine, format_examples, json_option
from services.cli.output.console import open_console, print_block, print_json
from shared import settings
from shared.contracts import Briefing, BriefQuery
from shared.text.display import clean_block

KINDS = ("morning", "evening")
TIMEOUT = 190.0  # Seconds until a briefing must have been made; the gateway gives up before

agent_options = combine(
    click.option("--compact", is_flag=True, help="Titles only, so that about four times as many have room."),
    click.option(
        "--max-chars", type=int, default=8_000, show_default=True, help="The most characters of it."
    ),
    click.option("--per-section", type=int, default=0, help="The most nodes of a section (0: any)."),
    click.option("--no-contradictions", is_flag=True, help="Without the contradictions under Unresolved."),
    at_option,
    click.option(
        "--prompt",
        is_flag=True,
        help="The whole prompt as the agent's model gets it: persona and briefing, sized to the model.",
    ),
    json_option,
)
"""The options of an agent's briefing from memory."""


@click.command(epilog=format_examples("mailroom brief", "mailroom brief engineer --at 5"))
@click.argument("which", default="", metavar="[morning|evening|AGENT]")
@click.option("--now", is_flag=True, help="Look again, and add what is new to the briefing of today.")
@agent_options
@click.pass_context
def brief(ctx: click.Context, /, which: str, now: bool, **options: Any) -> None:
    """Print today's briefing, or AGENT's from memory.

    It begins with what waits for you, what failed, what is due and what is new, each with its source.
    Without a name it is the morning's until 14:00, then the evening's. It is made if it was not made yet.
    """
    if which not in ("", *KINDS):
        if now:
            raise click.UsageError("--now is for the briefings of morning and evening")
        _print_agent_brief(which, **options)
        return
    is_given = ctx.get_parameter_source
    given = [name for name in options if name != "as_json" and is_given(name) is not ParameterSource.DEFAULT]
    if given:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise click.UsageError(f"{named}: only for an agent's briefing, such as 'mailroom brief engineer'")
    text = f"Tell the {which or 'present'} briefing"
    result = api.perform("tell_briefing", {"kind": which, "again": now}, text, timeout=TIMEOUT)
    if options["as_json"]:
        print_json({**result.metadata["briefing"], "added": result.metadata.get("added", [])})
    else:
        print_block(clean_block(result.output).strip(), open_console(), hang=2)


@click.command(name="brief")
@click.argument("agent", type=AgentName())
@agent_options
def agent_brief(agent: str, **options: Any) -> None:
    """Print AGENT's briefing from memory."""
    _print_agent_brief(agent, **options)


def _print_agent_brief(
    agent: str, *, no_contradictions: bool, prompt: bool, as_json: bool, **fields: Any
) -> None:
    """Print the briefing of an agent from memory, or the prompt of its model."""
    query = build(BriefQuery, agent=agent, include_contradictions=not no_contradictions, **fields)
    if prompt:
        if query != BriefQuery(agent=agent, at=query.at):
            raise click.UsageError("--prompt shows what the model gets: leave out --compact and the limits")
        query = _fit_prompt(query)
    briefing = api.get("/memory/brief", Briefing, msgspec.structs.asdict(query), timeout=SLOW)
    text = _compose_prompt(briefing) if prompt else briefing.text
    if as_json:
        print_json({**briefing.to_dict(), "prompt": text} if prompt else briefing)
    else:
        print_block(clean_block(text).strip(), open_console(), hang=2)


def _fit_prompt(query: BriefQuery) -> BriefQuery:
    """The query with the size that the agents' model has room for; raises MailroomError elsewhere."""
    from shared.reasoning.recall import briefing_size

    config = settings.load()
    api.require_here(config, f"The profile of {query.agent}", "Use --prompt there, or leave it out")
    return msgspec.structs.replace(query, max_chars=briefing_size(config))


def _compose_prompt(briefing: Briefing) -> str:
    """The system prompt of an agent, with the persona that its profile has here."""
    import asyncio

    from shared.reasoning.prompts import compose_prompt, fetch_soul, format_day, own_soul
    from shared.tasks.installed_agents import load_agents, load_specialists

    config, agent = settings.load(), briefing.agent
    profiles = (each.profile for each in (*load_agents(config), *load_specialists(config)))
    own = next((own_soul(profile) for profile in profiles if profile.name == agent), "")
    soul = asyncio.run(fetch_soul(agent, config, own))
    return "\n\n".join(filter(None, compose_prompt(soul, briefing.text, day=format_day(config))))
