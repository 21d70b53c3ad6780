"""``mailroom memory stats``, ``health``, ``linker``, ``reindex`` and ``rebuild``: looking after memory."""

import asyncio
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from services.cli.commands.memory.session import ask
from services.cli.commands.options import json_option
from services.cli.output.console import clean, open_console, print_json
from services.cli.output.times import format_span

if TYPE_CHECKING:
    from shared.memory import Memory


WIDTH = 22
"""Columns of a name, so that the values stand below each other."""


def render(report: Mapping[str, Any], indent: int = 0) -> Iterator[str]:
    """A line for each value, by its name; what is nested stands below its name, two columns in.

    What is done out of a total is told as a share; seconds are told as a span; what is empty is left out.
    """
    for name, value in report.items():
        label = f"{' ' * indent}{clean(name.removesuffix('_seconds').replace('_', ' '))}"
        if isinstance(value, Mapping) and not _is_progress(value):
            if value:
                yield label
                yield from render(value, indent + 2)
        elif _is_list_of_maps(value):
            yield label
            for entry in value:
                yield from _entry(entry, indent + 2)
        elif value not in ("", None, [], ()):
            yield f"{label:<{WIDTH}} {_show(name, value)}".rstrip()
    if _is_progress(report):
        yield f"{' ' * indent}{'progress':<{WIDTH - indent}} {_progress(report)}"


def _entry(entry: Mapping[str, Any], indent: int) -> Iterator[str]:
    first = True
    for line in render(entry, indent + 2):
        yield f"{line[:indent]}- {line[indent + 2 :]}" if first else line
        first = False


def _show(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return _progress(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return _number(name, value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(clean(str(part)) for part in value)
    return clean(str(value))


def _number(name: str, value: float) -> str:
    if "seconds" in name:
        return format_span(value)
    if isinstance(value, int):
        return str(value) if "version" in name else f"{value:,}"
    return f"{value:,.4g}" if abs(value) < 1_000 else f"{value:,.0f}"


def _is_progress(value: Mapping[str, Any]) -> bool:
    return {"done", "total"} <= value.keys() and all(
        isinstance(value[name], int) for name in ("done", "total")
    )


def _progress(value: Mapping[str, Any]) -> str:
    done, total = value["done"], value["total"]
    share = f" ({100 * done / total:.0f} %)" if total else ""
    return f"{done:,} of {total:,}{share}"


def _is_list_of_maps(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(entry, Mapping) for entry in value)


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

    for line in render(report):
        click.echo(line)
