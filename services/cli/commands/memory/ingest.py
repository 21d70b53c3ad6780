"""``mailroom memory ingest``: files into the folder from which memory takes them in, and what came of it."""

import asyncio
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from services.cli.commands.memory.sources import copy_files, find_files
from services.cli.commands.options import format_examples, json_option
from services.cli.connection import run_connected
from services.cli.output.console import open_console, print_block, print_json
from shared import settings
from shared.bus import Bus
from shared.contracts import ListQuery
from shared.contracts.queries import MAX_PAGE
from shared.errors import ActionError, MailroomError
from shared.memory import Memory
from shared.text.display import clean, count
from shared.text.times import format_span

WAIT = 300.0  # Seconds for which the command waits for memory while nothing comes of it
POLL = 0.3
ASK_EVERY = 1.0
TELL_EVERY = 10.0
"""Seconds between two looks at how far memory is, and between two lines of it where no bar can be shown."""
MOST_COUNTED = 200  # The most files whose memories are counted
SHOWN = 5  # The most parts that are named as left out
LATER = "The office does not run: memory takes them in when it starts"
GOES_ON = "Memory goes on taking them in; see: mailroom memory health"


class Ingested(msgspec.Struct, kw_only=True):
    """What became of ``files``: how many ``memories`` they are (None: not counted), why some ``failed``,
    which still ``wait``, why files or parts were ``left_out``, and which files are ``gone`` from the folders
    since they were taken in.
    """

    folder: str
    files: list[str]
    memories: int | None = None
    failed: list[str] = []
    wait: list[str] = []
    left_out: list[str] = []
    gone: list[str] = []


@click.command(epilog=format_examples("mailroom memory ingest ~/notes"))
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--no-wait", is_flag=True, help="Do not wait until memory has taken them in.")
@json_option
def ingest(paths: tuple[Path, ...], no_wait: bool, as_json: bool) -> None:
    """Have memory take in files, or all files of folders.

    Markdown (with wikilinks), reStructuredText, Org, text, logs and chats, JSON, YAML and tables (csv), web
    pages, PDF, Word files (docx), mails (eml, mbox) and calendars (ics). They are copied into the folder
    "ingest" of the office. Memory takes them in within seconds while the office runs, else when it starts,
    and puts what it cannot read into the folder "failed" there. A file that is taken in again replaces what
    it said. Hidden files are left out. Exit code 1 if a file could not be taken in.
    """
    folder = settings.load().ingest
    found = find_files(paths, folder)
    if not found.files:
        raise ActionError("There is no file in what was named", "Name files, or a folder that has some")
    begun = time.time()
    copy_files(found, folder)
    names = sorted(found.files)
    result = Ingested(folder=str(folder), files=names, wait=names)
    note = ""
    if not no_wait:
        try:
            result = run_connected(lambda bus: _follow(bus, folder, names, begun, as_json=as_json))
        except MailroomError:
            note = LATER
        except KeyboardInterrupt:
            note = GOES_ON
    result.left_out[:0] = found.left_out
    result.gone = found.gone
    if as_json:
        print_json(result)
    else:
        _print_result(result, note)
    if result.failed or note == GOES_ON:
        sys.exit(1)


class TakenIn(msgspec.Struct, frozen=True, kw_only=True):
    """How far memory is: of ``files`` so many are ``done``; of the ``passages`` of those under way so many
    are ``stored``, which are found by words, and ``embedded``, which are found by meaning.

    ``seconds_left`` is how long that takes at the present rate; None if it is not known.
    """

    files: int
    done: int
    passages: int = 0
    stored: int = 0
    embedded: int = 0
    seconds_left: float | None = None

    def __str__(self) -> str:
        left = f", {format_span(self.seconds_left)} left" if self.seconds_left is not None else ""
        told = f"{self.done:,} of {count(self.files, 'file')} taken in"
        if not self.passages:
            return told
        stored = f"{self.stored:,} of {self.passages:,} passages stored"
        return f"{told}: {stored}, {self.embedded:,} embedded{left}"


async def _follow(bus: Bus, folder: Path, names: list[str], begun: float, *, as_json: bool) -> Ingested:
    """What became of the files, as soon as memory has moved them all away, or stood still for WAIT seconds.

    Raises MailroomError if memory does not answer.
    """
    memory = Memory(bus)
    await memory.health()
    waiting = await _wait(memory, folder, names, as_json=as_json)
    failed = sorted(_read_reasons(folder / "failed", names, begun))
    counted = None
    if len(names) <= MOST_COUNTED:
        queries = (ListQuery(session=name, limit=MAX_PAGE) for name in names)
        counted = sum([1 for query in queries async for _ in memory.iterate_nodes(query)])
    reasons = (await memory.health()).get("ingest", {}).get("left_out", {})
    return Ingested(
        folder=str(folder),
        files=names,
        memories=counted,
        failed=failed,
        wait=waiting,
        left_out=[f"{name}, {reason}" for name in names for reason in reasons.get(name, ())],
    )


async def _wait(memory: Memory, folder: Path, names: list[str], *, as_json: bool) -> list[str]:
    """Wait until memory has moved the files away, and show how far it is; returns those it has not.

    On a terminal with a bar, else with a line every TELL_EVERY seconds on stderr, as JSON if it is asked for.
    """
    from rich.progress import Progress

    waiting, begun, moved = names, time.monotonic(), time.monotonic()
    asked = told = begun
    far = TakenIn(files=len(names), done=0)
    with Progress(console=open_console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as bar:
        task = bar.add_task(str(far), total=None)
        while time.monotonic() - moved < WAIT:
            waiting = [name for name in waiting if (folder / name).exists()]
            if not waiting:
                break
            await asyncio.sleep(POLL)
            now = time.monotonic()
            if now - asked < ASK_EVERY:
                continue
            asked, before = now, far
            far = _measure(await memory.health(), names, waiting, now - begun, before)
            if (far.done, far.stored, far.embedded) != (before.done, before.stored, before.embedded):
                moved = now
            bar.update(task, description=str(far), completed=far.embedded, total=far.passages or None)
            if bar.disable and now - told >= TELL_EVERY:
                told = now
                click.echo(msgspec.json.encode(far) if as_json else str(far), err=True)
    return waiting


def _measure(
    health: Mapping[str, Any], names: list[str], waiting: list[str], seconds: float, before: TakenIn
) -> TakenIn:
    """How far memory is with the files after so many seconds, by its health; no less far than ``before``."""
    under_way = health.get("ingest", {}).get("under_way", {})
    far = [under_way[name] for name in waiting if name in under_way]
    stored = sum(each["stored"] for each in far)
    embedded = max(0, stored - health.get("not_embedded", 0))
    passages = sum(each["of"] for each in far)
    if passages == before.passages:
        # What others write meanwhile waits for its vectors too, and is counted with what is not embedded.
        embedded = max(embedded, before.embedded)
    left = (passages - embedded) * seconds / embedded if embedded else None
    return TakenIn(
        files=len(names),
        done=len(names) - len(waiting),
        passages=passages,
        stored=stored,
        embedded=embedded,
        seconds_left=left,
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
    for reason in result.left_out[:SHOWN]:
        print_block(clean(f"Left out: {reason}"), console, hang=2)
    if (more := len(result.left_out) - SHOWN) > 0:
        click.echo(f"Left out: {more} more; --json names all")
    for name in result.gone:
        gone = f"{name} is gone, and its memories stay; retire them: mailroom memory retire --file '{name}'"
        print_block(clean(gone), console, hang=2)
    if note:
        click.echo(note)
    elif result.wait:
        click.echo(f"{count(len(result.wait), 'file')} to be taken in; see: mailroom memory health")
