"""``mailroom brief``: the briefing of the morning or evening, or that of an agent from memory."""

from typing import Any

import click
from click.core import ParameterSource

from services.cli import api
from services.cli.commands.memory.nodes import brief_options, print_agent_brief
from services.cli.commands.options import format_examples
from services.cli.output.console import open_console, print_block, print_json
from shared.text.display import clean_block

KINDS = ("morning", "evening")
TIMEOUT = 190.0  # Seconds until a briefing must have been made; the gateway gives up before


@click.command(epilog=format_examples("mailroom brief", "mailroom brief engineer --at 5"))
@click.argument("which", default="", metavar="[morning|evening|AGENT]")
@click.option("--now", is_flag=True, help="Look again, and add what is new to the briefing of today.")
@brief_options
@click.pass_context
def brief(ctx: click.Context, /, which: str, now: bool, **options: Any) -> None:
    """Print today's briefing, or AGENT's from memory.

    It begins with what waits for you, what failed, what is due and what is new, each with its source.
    Without a name it is the morning's until 14:00, then the evening's. It is made if it was not made yet.
    """
    if which not in ("", *KINDS):
        if now:
            raise click.UsageError("--now is for the briefings of morning and evening")
        print_agent_brief(which, **options)
        return
    given = [name for name in options if name != "as_json" and _is_given(ctx, name)]
    if given:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise click.UsageError(f"{named}: only for an agent's briefing, such as 'mailroom brief engineer'")
    text = f"Tell the {which or 'present'} briefing"
    result = api.perform("tell_briefing", {"kind": which, "again": now}, text, timeout=TIMEOUT)
    if options["as_json"]:
        print_json({**result.metadata["briefing"], "added": result.metadata.get("added", [])})
    else:
        print_block(clean_block(result.output).strip(), open_console(), hang=2)


def _is_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is not ParameterSource.DEFAULT
