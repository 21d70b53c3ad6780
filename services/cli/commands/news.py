"""``mailroom news``: the papers and news that frontier told; keep or dismiss them."""

import click

from services.cli.commands.options import NumberType, json_option
from services.cli.connection import run_connected
from services.cli.output.console import open_console, print_block, print_json
from shared import subjects
from shared.bus import Bus
from shared.bus.entry import seal
from shared.operations.news import (
    FRONTIER,
    SHORT_ID,
    VERDICTS,
    ToldItem,
    find_told_item,
    judging_report,
    read_told_items,
)
from shared.text.printable import clean
from shared.text.times import format_date

id_argument = click.argument("item", metavar="ID")


@click.group()
def news() -> None:
    """List what was told of papers and news; keep or dismiss it.

    What you keep and dismiss changes what is told next; it fades within some months.
    """


@news.command(name="list")
@click.option("--limit", type=NumberType(1, 1_000), default=20, show_default=True, help="The most items.")
@json_option
def list_news(limit: float, as_json: bool) -> None:
    """List the papers and news that were told, latest first."""
    found = run_connected(read_told_items)[: int(limit)]
    if as_json:
        print_json(found)
        return
    if not found:
        click.echo('Nothing was told yet.\nmailroom ask "what is new in AI?"')
        return
    console = open_console()
    for each in found:
        print_block(f"{each.id[:SHORT_ID]}  {clean(each.title)}\n    {clean(each.link)}", console, hang=4)
    click.echo("\nmailroom news show|keep|dismiss ID")


@news.command()
@id_argument
@json_option
def show(item: str, as_json: bool) -> None:
    """Show an item: its title, its text, its address."""
    found = run_connected(lambda bus: find_told_item(bus, item))
    if as_json:
        print_json(found)
        return
    told = (
        f"{clean(found.title)}\n{clean(found.text)}\n{clean(found.link)}\nTold {format_date(found.told_at)}"
    )
    print_block(told, open_console())


@news.command()
@id_argument
@json_option
def keep(item: str, as_json: bool) -> None:
    """Mark an item as interesting: you are told more like it."""
    _judge(item, "keep", as_json)


@news.command()
@id_argument
@json_option
def dismiss(item: str, as_json: bool) -> None:
    """Mark an item as not interesting: you are told less like it."""
    _judge(item, "dismiss", as_json)


def _judge(prefix: str, verdict: str, as_json: bool) -> None:
    found = run_connected(lambda bus: _send(bus, prefix, verdict))
    if as_json:
        print_json({"verdict": verdict, "item": found})
    else:
        click.echo(f"{VERDICTS[verdict].capitalize()}: {clean(found.title)}")


async def _send(bus: Bus, prefix: str, verdict: str) -> ToldItem:
    item = await find_told_item(bus, prefix)
    await bus.commit([seal(subjects.mail(FRONTIER, subjects.USER), judging_report(item, verdict))])
    return item
