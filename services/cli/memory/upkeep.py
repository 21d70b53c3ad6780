"""``mailroom memory stats``, ``health``, ``linker``, ``reindex`` and ``rebuild``: looking after memory."""

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from services.cli.memory.session import ask
from services.cli.screen import clean, json_option, open_console, print_json

if TYPE_CHECKING:
    from shared.memory import Memory

LOOK_EVERY = 0.3
"""Seconds between looks at how far a rebuild is."""
BEGIN_WAIT = 3.0
"""Seconds a rebuild may take to begin; one that cannot be seen at work after that has ended already."""
CATCHING_UP = "catching up"
"""What health says of itself while the store is made anew from the log."""


@click.command()
@json_option
def stats(as_json: bool) -> None:
    """Count what memory holds and what it has done."""
    _print(ask(lambda memory: memory.stats()), as_json)


@click.command()
@json_option
def health(as_json: bool) -> None:
    """Tell whether memory can read and write.

    Ends with 1 where it cannot.
    """
    report = ask(lambda memory: memory.health())
    _print(report, as_json)
    if report.get("status") not in ("ok", CATCHING_UP):
        sys.exit(1)


@click.command()
@click.argument("action", type=click.Choice(["status", "trigger"]), default="status")
@json_option
def linker(action: str, as_json: bool) -> None:
    """Tell how the linker does, or 'trigger' a round now."""
    if action == "trigger":
        _print(ask(lambda memory: memory.linker_trigger()), as_json)
    else:
        _print(ask(lambda memory: memory.linker_status()), as_json)


@click.command()
@json_option
def reindex(as_json: bool) -> None:
    """Make the indices of searching anew from what is stored."""
    _print(ask(lambda memory: memory.reindex()), as_json)


@click.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--force", is_flag=True, help="Even where the log has lost its beginning.")
@json_option
def rebuild(yes: bool, force: bool, as_json: bool) -> None:
    """Make memory anew from the log of all writes.

    It answers no questions meanwhile, and keeps what is written for afterwards.
    """
    if not yes:
        click.confirm("Make the whole memory anew from its log?", abort=True, err=True)
    report = ask(lambda memory: _rebuild(memory, force))
    if as_json:
        print_json(report)
    else:
        click.echo(f"Memory was made anew, at graph version {report.get('version')}.")
    if report.get("status") != "ok":
        click.echo(f"Error: {clean(str(report.get('problem') or report.get('status')))}", err=True)
        sys.exit(1)


async def _rebuild(memory: "Memory", force: bool) -> dict[str, Any]:
    """Have it made, showing how far it is on a terminal; returns the health afterwards."""
    from rich.progress import Progress

    await memory.rebuild(force=force)
    begun = time.monotonic()
    seen = False
    with Progress(console=open_console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as bar:
        task = bar.add_task("Making memory anew", total=None)
        while True:
            report = await memory.health()
            if report.get("status") == CATCHING_UP:
                seen = True
                bar.update(task, completed=report.get("done", 0), total=report.get("total"))
            elif seen or time.monotonic() - begun > BEGIN_WAIT:
                return report
            await asyncio.sleep(LOOK_EVERY)


def _print(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    from services.cli.memory.report import render

    for line in render(report):
        click.echo(line)
