"""``mailroom models``: which models the agents ask, and what leaves for them."""

from collections.abc import Iterator

import click

from services.cli import api
from services.cli.commands.options import format_examples, json_option
from services.cli.output.console import open_console, print_block, print_json
from shared.llm.sent import AgentModels, ModelList, SentSum
from shared.setting_values import KINDS
from shared.text.display import clean, count


@click.command(epilog=format_examples("mailroom models", "mailroom models --json"))
@json_option
def models(as_json: bool) -> None:
    """Show which models the agents ask, and what leaves for them.

    For each model it says where it is, which kinds of text may go there (setting 'leaves', docs/models.md),
    and what went today (UTC). 'mailroom show ID --sent' prints the texts.
    """
    agents = api.get("/models", ModelList).agents
    if as_json:
        print_json({"agents": agents})
        return
    console = open_console()
    for agent in agents:
        local = ", which asks local models alone" if agent.local_only else ""
        print_block(f"{clean(agent.agent)}{local}", console, lead=len(agent.agent), style="bold")
        for line in _lines_of(agent):
            print_block(f"  {line}", console, hang=6)
    if not agents:
        console.print("No agent has begun yet that tells of its models.")


def _lines_of(agent: AgentModels) -> Iterator[str]:
    """A line for each model of an agent and for what it got today, also for one that it no longer has."""
    today = {(each.model, each.place): each for each in agent.today}
    for use in agent.models:
        kinds = "all" if len(use.kinds) == len(KINDS) else ", ".join(use.kinds) or "none beside the task"
        place = f"{use.place} (local)" if use.is_local else use.place
        yield clean(f"{use.name} at {place}, {use.role}; kinds of text: {kinds}")
        if each := today.pop((use.name, use.place), None):
            yield f"  {_format_sum(each)}"
    for each in today.values():
        yield clean(f"{each.model} at {each.place}, asked before")
        yield f"  {_format_sum(each)}"
    if not (agent.models or agent.today):
        yield "no model"


def _format_sum(each: SentSum) -> str:
    failed = f" ({each.failed:,} failed)" if each.failed else ""
    cost = f", ${each.cost:.4f}" if each.cost else ""
    masked = f", {count(each.masked, 'secret')} masked" if each.masked else ""
    withheld = "".join(f", {size:,} characters of {kind} withheld" for kind, size in each.withheld.items())
    tokens = f"{each.input_tokens:,} tokens in, {each.output_tokens:,} out"
    return f"today: {count(each.requests, 'request')}{failed}, {tokens}{cost}{masked}{withheld}"
