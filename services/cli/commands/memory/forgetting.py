"""``mailroom memory forget``."""

import asyncio
import glob
import json
import mmap
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from services.cli.commands.memory.nodes import ids_argument
from services.cli.commands.memory.session import call_memory, find_ids
from services.cli.commands.options import json_option
from services.cli.connection import run_connected
from services.cli.output.console import open_console, print_result
from shared import settings, subjects
from shared.bus import Bus
from shared.contracts import Node
from shared.errors import BusUnavailable, MailroomError
from shared.memory import Memory
from shared.operations.forgetting import ForgettingPlan, find_record, plan_forgetting, texts_of
from shared.queries.records import scan
from shared.text.phrases import count
from shared.text.printable import clean

MAX_IDS = 100
"""The most memories that one order names."""
POLL = 0.3
"""Seconds between two looks at the progress."""
INDEX = "index.db"
"""How the files of the gateway's index begin: it has what messages of the office have, as long as these."""
AWAY = 60.0
"""Seconds for which memory may be away or fail meanwhile: an order that is stored is tried again."""


class Forgotten(msgspec.Struct, kw_only=True):
    """What became of an order: its id, the ``nodes`` that were forgotten, how many ``messages`` of the log
    were erased, and where the texts ``remain``.
    """

    order: str
    nodes: list[str]
    messages: int
    remain: list[str]


@click.command()
@ids_argument
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
def forget(ids: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Erase the memories with these IDs for good.

    Their texts are erased from memory, from its log and from the audit of it, wherever they stand there word
    for word; no rebuild brings them back. With them go what was merged with them, and proposals of agents to
    change them. What letters, goals, models and files took from them is not erased: where a text still
    stands is printed.
    """
    if len(set(ids)) > MAX_IDS:
        raise click.UsageError(f"At most {MAX_IDS} memories can be forgotten at once, not {len(set(ids))}")

    async def plan_all(memory: Memory) -> ForgettingPlan:
        return await plan_forgetting(memory, await find_ids(memory, ids))

    plan = call_memory(plan_all)
    nodes = plan.nodes
    if plan.sharing:
        shown = ", ".join(plan.sharing[:5]) + (", ..." if len(plan.sharing) > 5 else "")
        others = count(len(plan.sharing), "other memory", "other memories")
        click.echo(f"{others} with the same text lose it too: {shown}", err=True)
    if not yes:
        for node in nodes:
            click.echo(f"{node.id}  {clean(node.title)}", err=True)
        what = "this memory" if len(nodes) == 1 else f"these {len(nodes)} memories"
        click.confirm(f"Erase {what} for good? Nothing brings a text back.", abort=True, err=True)
    done = run_connected(lambda bus: erase(bus, nodes))
    print_result(done, "\n".join(describe_forgotten(done)), as_json)


def describe_forgotten(done: Forgotten) -> Iterator[str]:
    """What became of an order, in lines."""
    yield f"Forgotten: {', '.join(done.nodes)} ({count(done.messages, 'message')} of the log erased)"
    if done.remain:
        yield "The texts still stand in:"
        yield from (f"- {clean(place)}" for place in done.remain)
        yield "These are not memory's to erase: messages stay, and files are yours to delete."
    else:
        yield "The texts stand in no other message of the office, and in no file of its folder."


async def erase(bus: Bus, nodes: Sequence[Node]) -> Forgotten:
    """Erase memories for good, and look where their texts remain."""
    done = await _order(bus, nodes)
    texts = sorted({text for node in nodes for text in texts_of(node)})
    in_office = await _find_in_office(bus, texts)
    config = settings.load()
    in_files = _find_in_files(config.state_dir, texts)
    done.remain += in_office
    done.remain += [path for path in in_files if not (in_office and Path(path).name.startswith(INDEX))]
    origins = _find_origins(config.ingest, nodes)
    done.remain += [f"{path}, which it was taken from" for path in origins if path not in in_files]
    return done


async def _order(bus: Bus, nodes: Sequence[Node]) -> Forgotten:
    """Order it, and wait until it is done, with a progress bar on a terminal."""
    from rich.progress import Progress

    memory = Memory(bus)
    order, troubled = await memory.forget(*(node.id for node in nodes)), 0.0
    with Progress(console=open_console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as bar:
        task = bar.add_task("Forgetting", total=None)
        while (record := await find_record(bus, order)) is None:
            report = (await _health(memory)).get("forgetting", {})
            problem = report.get("problem")
            troubled += POLL if problem else 0.0
            if troubled > AWAY:
                raise MailroomError(
                    f"The texts are not erased yet: {problem}",
                    "The order is stored and is tried again; 'mailroom memory health' shows how far it is",
                )
            bar.update(
                task,
                description=f"Forgetting: {report.get('step', '')}",
                completed=report.get("done", 0),
                total=report.get("total") or None,
            )
            await asyncio.sleep(POLL)
    remain = [record.remains] if record.remains else []
    return Forgotten(
        order=order.cause, nodes=[node.id for node in nodes], messages=len(record.seqs), remain=remain
    )


async def _health(memory: Memory) -> dict[str, Any]:
    """Memory's health; while it is away for a moment, nothing."""
    until = asyncio.get_running_loop().time() + AWAY
    while True:
        try:
            return await memory.health()
        except BusUnavailable:
            if asyncio.get_running_loop().time() > until:
                raise
            await asyncio.sleep(POLL)


def _patterns(texts: Iterable[str]) -> list[bytes]:
    """The bytes by which texts are found: as they are, and as JSON writes them."""
    forms = ((text, msgspec.json.encode(text).decode()[1:-1], json.dumps(text)[1:-1]) for text in texts)
    return [form.encode() for form in dict.fromkeys(form for each in forms for form in each)]


async def _find_in_office(bus: Bus, texts: Sequence[str]) -> list[str]:
    """How many messages of the office hold one of the texts."""
    patterns, found = _patterns(texts), 0
    async for stored in scan(bus, subjects.OFFICE):
        found += any(pattern in stored.data for pattern in patterns)
    place = f"{subjects.OFFICE}, which its copy {subjects.AUDIT} and the dashboard show"
    return [f"{count(found, 'message')} of {place}"] if found else []


def _find_in_files(folder: Path, texts: Sequence[str]) -> list[str]:
    """The files of the office's folder that hold one of the texts; those of the server are messages."""
    patterns = _patterns(texts)
    paths = (path for path in sorted(folder.rglob("*")) if "jetstream" not in path.parts and path.is_file())
    return [str(path) for path in paths if _holds(path, patterns)]


def _find_origins(folder: Path, nodes: Iterable[Node]) -> list[str]:
    """The files in memory's folder that nodes were taken from: there a row of a table has other words."""
    taken = (node for node in nodes if node.source and node.source.channel == "ingest")
    named = {Path(str(node.metadata.get("file", ""))) for node in taken}
    found = (
        path
        for name in named
        for path in (folder / "processed" / name).parent.glob(f"{glob.escape(name.stem)}*{name.suffix}")
        if re.fullmatch(r"(?:-\d+)?", path.stem.removeprefix(name.stem))
    )
    return sorted(str(path) for path in found if path.is_file())


def _holds(path: Path, patterns: Sequence[bytes]) -> bool:
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return any(data.find(pattern) >= 0 for pattern in patterns)
    except (OSError, ValueError):  # gone meanwhile, not ours to read, or empty
        return False
