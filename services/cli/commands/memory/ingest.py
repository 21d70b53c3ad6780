"""``mailroom memory ingest``: files into the folder from which memory takes them in, and what came of it."""

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path

import click
import msgspec

from services.cli.commands.options import format_examples, json_option
from services.cli.connection import run_connected
from services.cli.output.console import open_console, print_block, print_json
from shared import settings
from shared.bus import Bus
from shared.contracts import ListQuery
from shared.errors import ActionError, MailroomError
from shared.memory import Memory
from shared.text.phrases import count
from shared.text.printable import clean

WAIT = 300.0
"""Seconds for which the command waits for memory."""
POLL = 0.3
MOST_COUNTED = 200
"""The most files whose memories are counted."""
LATER = "The office does not run: memory takes them in when it starts"


class Ingested(msgspec.Struct, kw_only=True):
    """What became of ``files``: how many ``memories`` they are (None: not counted), why some ``failed``,
    which still ``wait``, and why parts were ``left_out``.
    """

    folder: str
    files: list[str]
    memories: int | None = None
    failed: list[str] = []
    wait: list[str] = []
    left_out: list[str] = []


@click.command(epilog=format_examples("mailroom memory ingest ~/notes"))
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--no-wait", is_flag=True, help="Do not wait until memory has taken them in.")
@json_option
def ingest(paths: tuple[Path, ...], no_wait: bool, as_json: bool) -> None:
    """Have memory take in files, or all files of folders.

    Markdown (with wikilinks), txt, json, yaml, csv and log. They are copied into the folder "ingest" of the
    office. Memory takes them in within seconds while the office runs, else when it starts, and puts what it
    cannot read into the folder "failed" there. A file that is taken in again replaces what it said. Hidden
    files are left out. Exit code 1 if a file could not be taken in.
    """
    folder = settings.load().ingest
    names = {str(name): path for given in paths for name, path in _list_files(given)}
    if not names:
        raise ActionError("There is no file in what was named", "Name files, or a folder that has some")
    begun = time.time()
    _copy(names, folder)
    result = Ingested(folder=str(folder), files=sorted(names), wait=sorted(names))
    note = ""
    if not no_wait:
        try:
            result = run_connected(lambda bus: _follow(bus, folder, sorted(names), begun))
        except MailroomError:
            note = LATER
    if as_json:
        print_json(result)
    else:
        _print_result(result, note)
    if result.failed:
        sys.exit(1)


def _copy(names: dict[str, Path], folder: Path) -> None:
    """Copy the files with the times of their last change: what bears no date in them is of then."""
    try:
        for name, path in names.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, folder / name)
            changed = path.stat().st_mtime_ns
            os.utime(folder / name, ns=(changed, changed))
    except OSError as error:
        raise ActionError(
            f"{error.filename or folder} cannot be copied to {folder}: {error.strerror or error}",
            "Check the rights of both, and the space on the disk",
        ) from None


async def _follow(bus: Bus, folder: Path, names: list[str], begun: float) -> Ingested:
    """What became of the files, as soon as memory has moved them all away, or after WAIT seconds.

    Raises MailroomError if memory does not answer.
    """
    memory = Memory(bus)
    await memory.health()
    waiting = names
    for _ in range(round(WAIT / POLL)):
        waiting = [name for name in waiting if (folder / name).exists()]
        if not waiting:
            break
        await asyncio.sleep(POLL)
    failed = sorted(_read_reasons(folder / "failed", names, begun))
    counted = None
    if len(names) <= MOST_COUNTED:
        queries = (ListQuery(session=name, limit=1_000) for name in names)
        counted = sum([len((await memory.nodes(query)).nodes) for query in queries])
    reasons = (await memory.health()).get("ingest", {}).get("left_out", {})
    return Ingested(
        folder=str(folder),
        files=names,
        memories=counted,
        failed=failed,
        wait=waiting,
        left_out=[f"{name}, {reason}" for name in names for reason in reasons.get(name, ())],
    )


def _read_reasons(folder: Path, names: Collection[str], begun: float) -> Iterator[str]:
    """Why files were not taken in since ``begun``, as memory wrote it beside them."""
    for path in folder.rglob("*.reason.txt"):
        reason = path.read_text("utf-8", "replace").strip()
        if path.stat().st_mtime >= begun - 1 and reason.partition(" was not imported: ")[0] in names:
            yield reason


def _print_result(result: Ingested, note: str) -> None:
    console = open_console()
    click.echo(clean(f"{count(len(result.files), 'file')} copied to {result.folder}"))
    for reason in result.failed:
        print_block(clean(reason), console, hang=2)
    taken = len(result.files) - len(result.failed) - len(result.wait)
    if taken:
        what = "" if result.memories is None else f": {count(result.memories, 'memory', 'memories')}"
        click.echo(f"{count(taken, 'file')} taken in{what}")
    for reason in result.left_out:
        print_block(clean(f"Left out: {reason}"), console, hang=2)
    if note:
        click.echo(note)
    elif result.wait:
        click.echo(f"{count(len(result.wait), 'file')} to be taken in; see: mailroom memory health")


def _list_files(given: Path) -> Iterator[tuple[Path, Path]]:
    """The files of a path with their names beneath it."""
    if given.is_file():
        yield Path(given.name), given
        return
    for path in sorted(given.rglob("*")):
        name = path.relative_to(given)
        if path.is_file() and not any(part.startswith(".") for part in name.parts):
            yield name, path
