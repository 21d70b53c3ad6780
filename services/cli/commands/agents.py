"""``mailroom agents``: what runs, and pausing, resuming and restarting it."""

from typing import Any

import click
from rich.console import Console

from services.cli import api
from services.cli.commands.completion import AgentName
from services.cli.commands.options import json_option
from services.cli.output.console import open_console, print_block, print_json, print_result
from shared import subjects
from shared.contracts import Presence
from shared.text.display import clean, clean_block, count
from shared.views.metrics import Controlled, Processes


class AgentsGroup(click.Group):
    """A group whose first word may also be an agent's name: that agent is shown."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command ``args`` begin with; else the one that shows an agent."""
        return super().resolve_command(ctx, args if args[0] in self.commands else ["show", *args])


name_argument = click.argument("name", type=AgentName())


@click.group(cls=AgentsGroup, invoke_without_command=True)
@json_option
@click.pass_context
def agents(ctx: click.Context, as_json: bool) -> None:
    """Show the agents; pause, resume, restart one.

    'mailroom agents NAME' shows how to write to NAME, and its actions with their parameters.
    """
    if ctx.invoked_subcommand is None:
        _show("", as_json)


@agents.command()
@name_argument
@json_option
def show(name: str, as_json: bool) -> None:
    """Show how to write to NAME, and its actions with their parameters."""
    _show(name, as_json)


@agents.command()
@name_argument
@json_option
def pause(name: str, as_json: bool) -> None:
    """Have NAME take no new tasks.

    Until it is resumed, also after a restart. It finishes what it works on; letters that take work wait too.
    """
    _control(name, "pause", as_json)


@agents.command()
@name_argument
@json_option
def resume(name: str, as_json: bool) -> None:
    """Have NAME take tasks again."""
    _control(name, "resume", as_json)


@agents.command()
@name_argument
@json_option
def restart(name: str, as_json: bool) -> None:
    """Have the processes of NAME start again.

    What they work on is gone on with afterwards.
    """
    _control(name, "restart", as_json)


def _control(name: str, do: str, as_json: bool) -> None:
    control = api.post(f"/agents/{api.segment(name)}/{do}", Controlled)
    state = {"pause": "is paused", "resume": "takes tasks", "restart": "starts again"}[do]
    more = ", paused" if do == "restart" and control.paused else ""
    print_result({"agent": name, "do": do, "paused": control.paused}, f"{name} {state}{more}", as_json)


def _show(name: str, as_json: bool) -> None:
    found = api.get("/processes", Processes, {"agent": name})
    running = found.processes
    if as_json:
        print_json(running)
        return
    console = open_console()
    for agent in dict.fromkeys(presence.agent for presence in running):
        processes = [presence for presence in running if presence.agent == agent]
        _print_agent(processes, console, in_full=bool(name), most=found.most)
    if not running:
        click.echo("No agent is running.")
    elif not name:
        print_block("mailroom agents NAME shows how to write to one, and its actions.", console)


def _print_agent(processes: list[Presence], console: Console, *, in_full: bool, most: int) -> None:
    latest = processes[-1]
    number = count(len(processes), "process", "processes")
    number += " (no more are read)" if len(processes) >= most else ""
    head = f"{latest.agent}  {number}, version {clean(latest.version)}"
    if places := sorted({subjects.host_of(each.instance) for each in processes} - {subjects.OFFICE_HOST}):
        head += f", some on {clean(', '.join(places))}"
    head += ", paused" if any(process.paused for process in processes) else ""
    console.print(head, style="bold")
    _print_indented(clean(latest.description), console)
    if in_full:
        for line in clean_block(latest.instructions).splitlines():
            _print_indented(line, console)
        for action, description in sorted(latest.actions.items()):
            _print_indented(f"{clean(action)}: {clean(description)}", console, hang=2)
            for parameter in _format_parameters(latest.schemas.get(action)):
                _print_indented(parameter, console, hang=6)
        if latest.skills:
            # The skill shared.skills.files.FilesSkill is called "files".
            skills = (name.rpartition(".")[2].removesuffix("Skill").lower() for name in latest.skills)
            _print_indented(f"skills: {clean(', '.join(skills))}", console)
    console.print()


def _format_parameters(schema: Any) -> list[str]:
    """A line for each parameter in an action's JSON schema: name (with ? if optional) and description."""
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
