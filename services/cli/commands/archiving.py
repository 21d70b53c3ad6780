"""``mailroom audit archive``: moving old messages from the server into bundles."""

import asyncio
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec
from rich.filesize import decimal

from services.cli.commands.options import TimeType, format_examples, json_option
from services.cli.connection import run_connected
from services.cli.output.console import open_console, print_result
from services.cli.output.reports import not_written
from shared import subjects
from shared.bus import Bus
from shared.contracts import MessagesArchived
from shared.operations.erasure.orders import count_archives
from shared.operations.erasure.retention import Retention
from shared.queries.records import call_server, count_from, scan
from shared.text.display import clean, count
from shared.text.times import format_span
from shared.trail.archives import READ_TIMEOUT, find_sealed_before, read_archives, write_archive

POLL = 0.5  # Seconds between two looks at what is left
STALLED = 20.0  # Seconds without a deletion after which it is not waited for the eraser any more

Tell = Callable[[str], None]


class Archiving(msgspec.Struct, kw_only=True):
    """What was archived, or would be: ``messages`` with ``size`` bytes into ``bundles``; of these ``deleted``
    are no longer on the server, within ``seconds``, and ``kept`` are, because something needs them.

    ``left`` are orders that the eraser has not carried out.
    """

    messages: int = 0
    size: int = 0
    bundles: list[str] = []
    deleted: int = 0
    kept: int = 0
    seconds: float = 0.0
    left: int = 0


@click.command(
    epilog=format_examples(
        "mailroom audit archive --before 2026-01-01 ~/archive",
        "mailroom audit archive --before 90d ~/archive --dry-run",
    )
)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option(
    "--before",
    type=TimeType(),
    required=True,
    metavar="TIME",
    help="Only messages that were stored before TIME: a span such as 90d, or ISO 8601.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be archived and deleted.")
@json_option
def archive(folder: Path, before: datetime, dry_run: bool, as_json: bool) -> None:
    """Move old messages from the server into bundles in FOLDER.

    A bundle is a compressed file with some 20,000 messages and the seals over them. It is written, read back
    from disk and compared with the seals; only then the eraser deletes these messages on the server, one by
    one. What is still needed stays there too: open goals and tasks, last states, the last step of each task,
    dead letters, seals. MEMORY stays whole: memory is rebuilt from it.

    The order to delete is stored: after Ctrl-C or a crash the eraser goes on by itself. Run the command again
    for what was not written yet. Leave the bundles where they are: 'show', 'audit', the dashboard and 'memory
    forget' read them there.
    """
    if before > datetime.now(UTC):
        raise click.BadParameter(f"{before:%Y-%m-%d} is yet to come: a year too many?", param_hint="--before")
    folder = folder.resolve()
    if dry_run:
        plan = run_connected(lambda bus: _plan(bus, before, _silent))
        print_result(plan, "\n".join(_describe_plan(plan)), as_json)
        return
    done = run_connected(lambda bus: _archive(bus, folder, before))
    print_result(done, "\n".join(_describe(done, folder)), as_json)
    if done.left:
        raise SystemExit(1)


def _silent(_: str) -> None:
    pass


async def _plan(bus: Bus, before: datetime, tell: Tell) -> Archiving:
    """What would be archived, and deleted on the server."""
    plan, seals = Archiving(bundles=[]), await find_sealed_before(bus, before)
    if not seals:
        return plan
    retention = await Retention.read(bus)
    async for page in bus.read_all(subjects.OFFICE, seals[0].first, seals[-1].last, timeout=READ_TIMEOUT):
        stay = await retention.choose(page)
        plan.messages += len(page)
        plan.size += sum(len(each.data) + len(each.block) for each in page)
        plan.kept += len(stay)
        tell(f"Reading {subjects.OFFICE}: {page[-1].seq:,} of {seals[-1].last:,}")
    plan.deleted = plan.messages - plan.kept
    return plan


async def _archive(bus: Bus, folder: Path, before: datetime) -> Archiving:
    with open_console(stderr=True).status("Reading the log") as status:
        done = await _plan(bus, before, status.update)
        seals, orders = await find_sealed_before(bus, before), []
        try:
            async for order in write_archive(bus, folder, seals, status.update):
                done.bundles.append(order.bundle)
                orders.append(order.id)
        except OSError as error:
            raise not_written(folder, error) from None
        done.left = await count_archives(bus)
        if done.left:
            status.update("Waiting for the eraser")
            await _wait(bus, done, status.update)
    done.deleted = done.kept = 0
    async for stored in scan(bus, subjects.OFFICE, subjects.ARCHIVED):
        record = MessagesArchived.from_json(stored.data)
        if record.cause in orders:
            done.deleted += record.deleted
            done.kept += record.kept
    return done


async def _wait(bus: Bus, done: Archiving, tell: Tell) -> None:
    """Wait until the eraser has carried out all orders, or deletes nothing more."""
    last = (await read_archives(bus))[-1].order.last
    begun = moved = time.monotonic()
    first = before = await _count_up_to(bus, last)
    while done.left:
        await asyncio.sleep(POLL)
        now, there, left = time.monotonic(), await _count_up_to(bus, last), await count_archives(bus)
        if there < before or left < done.left:
            moved = now
        before, done.left, done.seconds = there, left, now - begun
        gone = first - there
        rate, still = gone / done.seconds, max(0, done.deleted - gone)
        wait = f", {format_span(still / rate)} left" if rate and still else ""
        tell(f"Deleting on the server: {gone:,} of {done.deleted:,}, {rate:,.0f}/s{wait}")
        if now - moved > STALLED:
            return


async def _count_up_to(bus: Bus, last: int) -> int:
    """How many messages of OFFICE there are up to a sequence."""
    state = (await call_server(bus, f"STREAM.INFO.{subjects.OFFICE}"))["state"]
    assert isinstance(state, dict)
    return int(state["messages"]) - await count_from(bus, subjects.OFFICE, ">", last + 1)


def _describe_plan(plan: Archiving) -> Iterator[str]:
    if not plan.messages:
        yield "Nothing is so old, sealed, and not archived yet."
        return
    yield f"Would be archived: {count(plan.messages, 'message')} of {subjects.OFFICE} ({decimal(plan.size)})"
    yield f"Deleted on the server: {plan.deleted:,}; {plan.kept:,} stay there too, because they are needed"


def _describe(done: Archiving, folder: Path) -> Iterator[str]:
    if not done.bundles and not done.left:
        yield "Nothing is so old, sealed, and not archived yet."
        return
    if done.bundles:
        what = f"{count(done.messages, 'message')} of {subjects.OFFICE} ({decimal(done.size)})"
        yield f"Archived: {what} in {clean(str(folder))}:"
        yield from (f"- {name}" for name in done.bundles)
    if done.left:
        yield f"Not deleted on the server yet: {count(done.left, 'order')} left, which the eraser carries out"
        yield "by itself. Does it run ('mailroom up'), and see this folder? Its log says why it waits."
        return
    rate = f", {done.deleted / done.seconds:,.0f}/s" if done.seconds and done.deleted else ""
    yield f"Deleted on the server: {done.deleted:,} in {format_span(done.seconds)}{rate}"
    yield f"{done.kept:,} stay there too, because they are needed. {subjects.MEMORY} stays whole:"
    yield "memory is rebuilt from it."
