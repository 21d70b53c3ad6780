"""``mailroom memory forget``."""

import asyncio
import glob
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from services.cli.commands.memory.session import ids_argument
from services.cli.commands.options import json_option
from services.cli.connection import connect, run_connected
from services.cli.output.console import open_progress, print_result
from shared import settings, subjects
from shared.bus import Bus
from shared.contracts import MemoryForgotten, MemoryWritten, Node
from shared.errors import BusUnavailable, MailroomError
from shared.memory import Memory
from shared.operations.erasure.archiving import read_unsearched
from shared.operations.erasure.orders import carry_out_orders, count_orders, find_erased, has_work
from shared.operations.erasure.redaction import find_quoting_files
from shared.operations.forgetting import (
    ForgettingPlan,
    count_messages,
    find_record,
    order_forgetting,
    plan_forgetting,
)
from shared.text.display import clean, count

if TYPE_CHECKING:
    from rich.progress import Progress

MAX_IDS = 100  # The most memories that one order names
POLL = 0.3  # Seconds between two looks at the progress
SHOWN = 3  # The most parts that are shown of those that many memories have
IN_HAND = "what agents have in hand, if they quote it yet: it is erased when they are done"
AWAY = 60.0  # Seconds for which memory may be away or fail meanwhile: an order that is stored is tried again
ERASER_AWAY = 30.0
"""Seconds for which it is waited for another process with the eraser's key, such as 'mailroom up'."""


class Planned(ForgettingPlan, frozen=True, kw_only=True):
    """What an order would erase, with the ``files`` of the office's folder that quote it."""

    files: list[str] = []


class Forgotten(msgspec.Struct, kw_only=True):
    """What became of an order: its id, the ``nodes`` that were forgotten, how many ``messages`` of memory's
    log were erased, how many of the office were (``erased``) and in the place of how many of these what is
    left was stored (``replaced``), the ``files`` in which the texts were overwritten, where they ``remain``,
    and which were too ``short`` to be looked for, or ``common`` to many memories.
    """

    order: str
    nodes: list[str]
    messages: int
    erased: int = 0
    replaced: int = 0
    files: list[str] = []
    remain: list[str] = []
    short: list[str] = []
    common: list[str] = []


@click.command()
@ids_argument
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Only show what would be erased.")
@json_option
def forget(ids: tuple[str, ...], yes: bool, dry_run: bool, as_json: bool) -> None:
    """Erase the memories with these IDs for good.

    Their texts are erased from memory and its log, and wherever answers, letters, goals, results
    and the files of the office's folder quote them; no rebuild brings them back. With them go what was merged
    with them, and proposals of agents to change them. What models were sent, letters that left the office,
    agents' workspaces and backups are not erased: where a text still stands is printed.
    """
    if len(set(ids)) > MAX_IDS:
        raise click.UsageError(f"At most {MAX_IDS} memories can be forgotten at once, not {len(set(ids))}")
    plan = run_connected(lambda bus: _plan(bus, ids))
    if dry_run:
        print_result(plan, "\n".join(describe_plan(plan)), as_json)
        return
    if not yes:
        click.echo("\n".join(describe_plan(plan)), err=True)
        what = "this memory" if len(plan.nodes) == 1 else f"these {len(plan.nodes)} memories"
        click.confirm(f"Erase {what} for good? Nothing brings a text back.", abort=True, err=True)
    elif plan.sharing:
        click.echo(_describe_sharing(plan), err=True)
    done = run_connected(lambda bus: erase(bus, plan))
    print_result(done, "\n".join(describe_forgotten(done)), as_json)


async def _plan(bus: Bus, ids: Sequence[str]) -> Planned:
    plan = await plan_forgetting(bus, await Memory(bus).find_ids(ids))
    return with_files(plan)


def with_files(plan: ForgettingPlan) -> Planned:
    """A plan with the files that quote the texts."""
    files = find_quoting_files(settings.load(), plan.quotations)
    return Planned(**msgspec.structs.asdict(plan), files=[str(path) for path in files])


def describe_plan(plan: Planned) -> Iterator[str]:
    """What an order would erase, in lines."""
    if plan.sharing:
        yield _describe_sharing(plan)
    for node in plan.nodes:
        yield f"{node.id}  {clean(node.title)}"
    if total := sum(plan.messages.values()):
        yield f"{count(total, 'message')} of the office {'quotes' if total == 1 else 'quote'} this:"
        yield from (f"- {kind}: {number:,}" for kind, number in sorted(plan.messages.items()))
    yield from (f"Quoted in the file {clean(path)}" for path in plan.files)
    yield from (f"Not counted, and erased once it can be read: {clean(each)}" for each in plan.away)
    yield from _describe_left(plan.short, plan.common)


def _describe_sharing(plan: ForgettingPlan) -> str:
    shown = ", ".join(plan.sharing[:5]) + (", ..." if len(plan.sharing) > 5 else "")
    others = count(len(plan.sharing), "other memory", "other memories")
    return f"{others} with the same text lose it too: {shown}"


def _describe_left(short: Sequence[str], common: Sequence[str]) -> Iterator[str]:
    for what, texts in (
        ("Too short to be looked for elsewhere", short),
        ("In many other memories too, and left", common[:SHOWN]),
    ):
        if texts:
            quoted = ", ".join(f"'{clean(text)}'" for text in texts)
            yield f"{what}: {quoted}"


def describe_forgotten(done: Forgotten) -> Iterator[str]:
    """What became of an order, in lines."""
    yield f"Forgotten: {', '.join(done.nodes)} ({count(done.messages, 'message')} of the log erased)"
    if done.erased:
        kept = f"; what is left of {done.replaced:,} is stored in their place" if done.replaced else ""
        yield f"Erased with it: {count(done.erased, 'message')} of the office that quoted it{kept}."
    if done.files:
        yield "Overwritten in:"
        yield from (f"- {clean(path)}" for path in done.files)
    if done.remain:
        yield "The texts still stand in:"
        yield from (f"- {clean(place)}" for place in done.remain)
    else:
        yield "The texts stand in no message of the office, and in no file of its folder."
    yield from _describe_left(done.short, done.common)
    yield "Not erased: what models were sent, what left the office (mail, patches), git, and backups."


async def erase(bus: Bus, plan: Planned) -> Forgotten:
    """Erase memories for good, and look where their texts remain."""
    nodes, config = plan.nodes, settings.load()
    with open_progress() as bar:
        order = await order_forgetting(bus, plan)
        async with _eraser() as eraser:
            record = await _wait_for_memory(bus, order, bar, eraser)
            where = await _erase_in_office(bus, order.cause, bar, eraser)
        left = await count_messages(bus, plan.quotations)
    messages = [message for each in await find_erased(bus, order.cause) for message in each.messages]
    in_files = find_quoting_files(config, plan.quotations)
    done = Forgotten(
        order=order.cause,
        nodes=[node.id for node in nodes],
        messages=len(record.seqs),
        erased=len(messages),
        replaced=sum(message.replaced for message in messages),
        files=[path for path in plan.files if Path(path) not in in_files],
        remain=[],
        short=plan.short,
        common=plan.common,
    )
    away = [each.absence for each in await read_unsearched(bus, order.cause) if not each.is_here]
    if away:
        done.remain += [f"{each}: it is erased there once it is back" for each in away]
    elif await count_orders(bus, order.cause):
        done.remain.append(IN_HAND)
    if total := sum(left.values()):
        done.remain.append(f"{count(total, 'message')} of {subjects.OFFICE}{where}")
    done.remain += map(str, in_files)
    told = {*done.files, *map(str, in_files)}
    origins = [path for path in _find_origins(config.ingest, nodes) if path not in told]
    done.remain += [f"{path}, which it was taken from" for path in origins]
    return done


@asynccontextmanager
async def _eraser() -> AsyncIterator[Bus | None]:
    """A connection as the eraser, if its key is here; another process does it otherwise."""
    if not (settings.load().keys / f"{subjects.ERASER}.nk").exists():
        yield None
        return
    async with connect(subjects.ERASER) as bus:
        yield bus


async def _erase_in_office(bus: Bus, cause: str, bar: "Progress", eraser: Bus | None) -> str:
    """Erase what quotes in OFFICE and files, if the eraser's key is here; why something may be left."""
    if eraser is None:
        until = asyncio.get_running_loop().time() + ERASER_AWAY
        while not await find_erased(bus, cause):
            if asyncio.get_running_loop().time() > until:
                return ", until 'mailroom provision' runs where the eraser's key is: it erases them"
            await asyncio.sleep(POLL)
        return ""
    task = bar.add_task("Forgetting", total=None)

    def report(step: str, done: int, total: int) -> None:
        bar.update(task, description=f"Forgetting: {step}", completed=done, total=total)

    await carry_out_orders(eraser, settings.load(), report=report)
    return ""


async def _wait_for_memory(
    bus: Bus, order: MemoryWritten, bar: "Progress", eraser: Bus | None
) -> MemoryForgotten:
    """Wait until memory has carried out an order, with a progress bar; erase what it waits for."""
    memory, troubled = Memory(bus), 0.0
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
        if eraser is not None and "waiting" in str(report.get("step")) and await has_work(eraser):
            await carry_out_orders(eraser, settings.load(), patience=0)
        await asyncio.sleep(POLL)
    bar.remove_task(task)
    return record


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
