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
from shared.contracts import Briefing, BriefQuery
from shared.text.display import clean_block

KINDS = ("morning", "evening")
TIMEOUT = 190.0  # Seconds until a briefing must have been made; the gateway gives up before

agent_options = combine(
    click.option(
        "--compact",
        is_flag=True,
        help="An index of each title's most telling words: some four times as much has room.",
    ),
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
        told = api.get("/memory/prompt", dict[str, Any], {"agent": agent, "at": query.at}, timeout=SLOW)
        text, shown = told["prompt"], {**told["briefing"], "prompt": told["prompt"]}
    else:
        briefing = api.get("/memory/brief", Briefing, msgspec.structs.asdict(query), timeout=SLOW)
        text, shown = briefing.text, briefing.to_dict()
    if as_json:
        print_json(shown)
    else:
        print_block(clean_block(text).strip(), open_console(), hang=2)
