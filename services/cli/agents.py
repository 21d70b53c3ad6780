"""``mailroom agents``: the yellow pages."""

import asyncio
from typing import Any

import click
from rich.console import Console

from services.cli.connection import connect
from services.cli.screen import clean, clean_block, json_option, open_console, print_block, print_json
from shared.contracts import Presence


@click.command()
@click.argument("name", required=False, default="")
@json_option
def agents(name: str, as_json: bool) -> None:
    """Show who can do what, and how to write to them.

    Of everybody who is at work in short, or of NAME with all its actions and their parameters.
    """
    present = asyncio.run(_read(name))
    if as_json:
        print_json(present)
        return
    console = open_console()
    for agent in dict.fromkeys(presence.agent for presence in present):
        _print([presence for presence in present if presence.agent == agent], console, whole=bool(name))
    if not present:
        click.echo("Nobody is at work.")


async def _read(name: str) -> list[Presence]:
    """The processes of ``name``, or of everybody; raises MailroomError where there is none of that name."""
    from services.cli.records import absent, read_presences

    async with connect() as bus:
        present = await read_presences(bus)
    named = [presence for presence in present if name in ("", presence.agent)]
    if name and not named:
        raise absent(name, present)
    return named


def _print(processes: list[Presence], console: Console, *, whole: bool) -> None:
    latest = processes[-1]
    count = len(processes)
    console.print(
        f"{latest.agent}  {count} process{'es' * (count != 1)}, version {clean(latest.version)}", style="bold"
    )
    _print_indented(clean(latest.description), console)
    for line in clean_block(latest.instructions).splitlines():
        _print_indented(line, console)
    if not whole:
        if latest.actions:
            _print_indented(f"actions: {clean(', '.join(sorted(latest.actions)))}", console)
        console.print()
        return
    for action, description in sorted(latest.actions.items()):
        _print_indented(f"{clean(action)}: {clean(description)}", console, hang=2)
        for parameter in _parameters(latest.schemas.get(action)):
            _print_indented(parameter, console, hang=6)
    if latest.skills:
        _print_indented(f"skills: {clean(', '.join(map(_skill, latest.skills)))}", console)
    console.print()


def _skill(mixin: str) -> str:
    """``shared.skills.files.FilesSkillMixin`` as people call it."""
    return mixin.rpartition(".")[2].removesuffix("SkillMixin").lower()


def _parameters(schema: Any) -> list[str]:
    """A line for each parameter in an action's JSON schema: name (? where it may be left out) and meaning."""
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
