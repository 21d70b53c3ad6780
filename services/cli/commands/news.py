"""``mailroom news``: the papers and news that frontier told; keep or dismiss them."""

from typing import Any

import click

from services.cli import api
from services.cli.commands.options import NumberType, json_option
from services.cli.output.console import open_console, print_block, print_json
from shared.text.display import clean
from shared.text.times import format_date
from shared.views.listed import NewsList, ToldItem

SHORT_ID = 10  # Characters of an id that are shown
id_argument = click.argument("item", metavar="ID")

VERDICTS = {"keep": "Kept", "dismiss": "Dismissed"}


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
    found = api.get("/news", NewsList, {"limit": int(limit)}).news
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
    found = api.get(f"/news/{api.segment(item)}", ToldItem)
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
    found = api.get(f"/news/{api.segment(prefix)}", ToldItem)
    api.post(f"/news/{api.segment(found.id)}", Any, {"verdict": verdict})
    if as_json:
        print_json({"verdict": verdict, "item": found})
    else:
        click.echo(f"{VERDICTS[verdict]}: {clean(found.title)}")
