"""``mailroom memory import``: nodes and edges from JSON lines or Parquet."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from services.cli.memory.exports import is_parquet
from services.cli.memory.intake import Intake
from services.cli.memory.session import ask
from services.cli.screen import clean, json_option, open_console, print_json
from shared.errors import ActionError

if TYPE_CHECKING:
    from shared.memory import Memory

SHOWN = 20
"""The most refused lines that are told one by one."""


@click.command(name="import")
@click.argument("path", metavar="FILE", type=click.Path())
@click.option(
    "--rejects", metavar="FILE", type=click.File("wb", lazy=True), help="Write the refused lines there."
)
@json_option
def import_records(path: str, rejects: BinaryIO | None, as_json: bool) -> None:
    """Store the nodes and edges of FILE.

    FILE holds JSON lines, or is a Parquet file or a folder of them; '-' is standard input. Ids are kept, so
    doing it twice adds nothing. A line without "record" is a node with a title or a text, or an edge if it
    has "from" and "to". A line that is wrong is told with its number, and the others are stored.
    """
    with _open_lines(path) as lines:
        result = ask(lambda memory: _import(memory, lines))
    for problem in result.problems:
        if rejects is not None:
            rejects.write(problem.line.rstrip(b"\n") + b"\n")
    _tell(result, as_json)
    if result.problems:
        sys.exit(1)


async def _import(memory: "Memory", lines: Iterator[bytes]) -> Intake:
    from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn())
    console = open_console(stderr=True)
    await memory.health()  # a daemon that is away is told at once, not after many tries
    with Progress(*columns, console=console, disable=not sys.stderr.isatty(), transient=True) as bar:
        task = bar.add_task("Storing", total=None)
        intake = Intake(memory, lambda done: bar.update(task, completed=done))
        await intake.run(lines)
    return intake


def _tell(result: Intake, as_json: bool) -> None:
    if as_json:
        problems = [{"line": problem.number, "reason": problem.reason} for problem in result.problems]
        counts = {"nodes": result.nodes, "edges": result.edges, "version": result.version}
        print_json({**counts, "problems": problems})
        return
    click.echo(
        f"Stored {result.nodes:,} nodes and {result.edges:,} edges (graph version {result.version})"
        if result.version
        else "Nothing was stored."
    )
    for problem in result.problems[:SHOWN]:
        click.echo(f"line {problem.number}: {clean(problem.reason)}", err=True)
    rest = len(result.problems) - SHOWN
    if rest > 0:
        click.echo(f"and {rest:,} lines more; --json tells all, --rejects FILE keeps them", err=True)


@contextlib.contextmanager
def _open_lines(path: str) -> Iterator[Iterator[bytes]]:
    from services.cli.memory.parquet import reading

    if path == "-":
        yield sys.stdin.buffer
        return
    if is_parquet(path):
        with reading(Path(path)) as lines:
            yield lines
        return
    try:
        with Path(path).open("rb") as file:
            yield file
    except OSError as error:
        raise ActionError(f"{path} cannot be read: {error.strerror}", "Name a file that is there") from None
