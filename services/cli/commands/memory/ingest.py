"""``mailroom memory ingest``: files into the folder from which memory takes them in, and what came of it.

A file is known by its path in the ingest folder, and one that is taken in again replaces what it said. So
README.md of one project must not be README.md of another: ``SOURCES`` says where each name came from.
"""

import itertools
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from services.cli import api
from services.cli.commands.memory.session import ask, read_pages
from services.cli.commands.options import format_examples, json_option
from services.cli.output.console import open_console, open_progress, print_block, print_json
from shared import settings
from shared.contracts import ListQuery, NodePage
from shared.contracts.queries import MAX_PAGE
from shared.errors import ActionError, MailroomError
from shared.text.display import clean, count
from shared.text.times import format_span

WAIT = 300.0  # Seconds for which the command waits for memory while nothing comes of it
POLL = 0.3
ASK_EVERY = 1.0
TELL_EVERY = 10.0
"""Seconds between two looks at how far memory is, and between two lines of it where no bar can be shown."""
MOST_COUNTED = 200  # The most files whose memories are counted
SHOWN = 5  # The most parts that are named as left out
LATER = "memory takes them in when it runs"
GOES_ON = "Memory goes on taking them in; see: mailroom memory health"
SOURCES = ".sources.json"
"""The file in the ingest folder with the path that each name stands for; memory ignores what is hidden."""


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
    config = settings.load()
    cure = "Take it in there, or send records with 'mailroom memory import'"
    api.require_here(config, str(paths[0].absolute()), cure)
    found = find_files(paths, config.ingest)
    if not found.files:
        raise ActionError("There is no file in what was named", "Name files, or a folder that has some")
    begun = time.time()
    copy_files(found, config.ingest)
    names = sorted(found.files)
    result = Ingested(folder=str(config.ingest), files=names, wait=names, gone=found.gone)
    note = ""
    if not no_wait:
        try:
            _follow(result, begun, as_json=as_json)
        except MailroomError as error:
            note = f"{error.cause}: {LATER}"
        except KeyboardInterrupt:
            note = GOES_ON
    result.left_out[:0] = found.left_out
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


def _follow(result: Ingested, begun: float, *, as_json: bool) -> None:
    """Note what became of the files, as soon as memory has moved them all away, or stood still for WAIT
    seconds; raises MailroomError if memory does not answer.
    """
    names, folder = result.files, Path(result.folder)
    _read_health()
    result.wait = _wait(folder, names, as_json=as_json)
    for path in (folder / "failed").rglob("*.reason.txt"):
        # why a file was not taken in, as memory wrote it beside it
        reason = path.read_text("utf-8", "replace").strip()
        if path.stat().st_mtime >= begun - 1 and reason.partition(" was not imported: ")[0] in names:
            result.failed.append(reason)
    result.failed.sort()
    if len(names) <= MOST_COUNTED:
        queries = (ListQuery(session=name, limit=MAX_PAGE) for name in names)
        pages = (page for query in queries for page in read_pages("list", query, NodePage))
        result.memories = sum(len(page.nodes) for page in pages)
    reasons = _read_health().get("ingest", {}).get("left_out", {})
    result.left_out = [f"{name}, {reason}" for name in names for reason in reasons.get(name, ())]


def _read_health() -> dict[str, Any]:
    return ask("health", None, dict[str, Any])


def _wait(folder: Path, names: list[str], *, as_json: bool) -> list[str]:
    """Wait until memory has moved the files away, and show how far it is; returns those it has not.

    On a terminal with a bar, else with a line every TELL_EVERY seconds on stderr, as JSON if it is asked for.
    """
    waiting, begun, moved = names, time.monotonic(), time.monotonic()
    asked = told = begun
    far = TakenIn(files=len(names), done=0)
    with open_progress() as bar:
        task = bar.add_task(str(far), total=None)
        while time.monotonic() - moved < WAIT:
            waiting = [name for name in waiting if (folder / name).exists()]
            if not waiting:
                break
            time.sleep(POLL)
            now = time.monotonic()
            if now - asked < ASK_EVERY:
                continue
            asked, before = now, far
            far = _measure(_read_health(), names, waiting, now - begun, before)
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


# --- which files ------------------------------------------------------------------------------------


class Found(msgspec.Struct, kw_only=True):
    """The ``files`` to take in by the names memory is to know them by, why others are ``left_out``, and the
    names of those that were taken in earlier and are ``gone`` from the folders.
    """

    files: dict[str, Path] = {}
    left_out: list[str] = []
    gone: list[str] = []


def find_files(given: Sequence[Path], folder: Path) -> Found:
    """The files of the paths that were ``given``: those of folders with their places in these.

    Hidden files are left out, and so are empty ones and symbolic links, which may lead out of the folder;
    of these it is said. If a name stands for another file already, all of the path gets that of its folder
    before it, with a number if need be.
    """
    found, taken = Found(), _read_sources(folder)
    for path in given:
        files = dict(_list_files(path, found.left_out))
        names = _choose_names(path, files, taken)
        found.files |= {names[name]: file for name, file in files.items()}
        taken |= {names[name]: str(file.resolve()) for name, file in files.items()}
        place = path.resolve()
        mine = {name: Path(source) for name, source in taken.items() if Path(source).is_relative_to(place)}
        found.gone += [name for name, source in mine.items() if not source.exists()]
    return found


def copy_files(found: Found, folder: Path) -> None:
    """Copy the files with the times of their last change: what bears no date in them is of then.

    Raises ActionError if that fails, or while the disk is full.
    """
    try:
        for name, path in found.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            hidden = (folder / name).with_name(f".{os.getpid()}.part")
            try:
                shutil.copyfile(path, hidden)
                changed = path.stat().st_mtime_ns
                os.utime(hidden, ns=(changed, changed))
                hidden.replace(folder / name)
            finally:
                hidden.unlink(missing_ok=True)
        sources = _read_sources(folder) | {name: str(path.resolve()) for name, path in found.files.items()}
        sources = {name: source for name, source in sources.items() if name not in found.gone}
        part = folder / f"{SOURCES}.part"
        part.write_bytes(msgspec.json.format(msgspec.json.encode(sources)))
        part.replace(folder / SOURCES)
    except OSError as error:
        raise ActionError(
            f"{error.filename or folder} cannot be copied to {folder}: {error.strerror or error}",
            "Check the rights of both, and the space on the disk",
        ) from None


def _list_files(given: Path, left_out: list[str]) -> Iterator[tuple[str, Path]]:
    """The files of a path with their names beneath it."""
    if given.is_file():
        yield given.name, given
        return
    for path in sorted(given.rglob("*")):
        name = path.relative_to(given)
        if any(part.startswith(".") for part in name.parts):
            continue
        if path.is_symlink():
            left_out.append(f"{name} is a symbolic link to {path.readlink()}: name that to take it in")
        elif path.is_file() and not path.stat().st_size:
            left_out.append(f"{name} is empty")
        elif path.is_file():
            yield str(name), path


def _choose_names(given: Path, files: Mapping[str, Path], taken: Mapping[str, str]) -> dict[str, str]:
    """The name of each file, by its name beneath ``given``: the first of these that stand for no other."""
    place = given.resolve()
    base = (place.parent if given.is_file() else place).name
    folders = itertools.chain(["", base], (f"{base}-{number}" for number in itertools.count(2)))
    for folder in folders:
        names = {name: f"{folder}/{name}" if folder else name for name in files}
        if all(
            taken.get(names[name], str(path.resolve())) == str(path.resolve()) for name, path in files.items()
        ):
            return names
    raise AssertionError("numbers have no end")


def _read_sources(folder: Path) -> dict[str, str]:
    try:
        return msgspec.json.decode((folder / SOURCES).read_bytes(), type=dict[str, str])
    except (OSError, msgspec.DecodeError):
        return {}
