"""``mailroom deliver``: the channels by which people are told what happens, and what they told."""

import asyncio
import secrets
import time
from datetime import UTC, datetime, timedelta

import click
from rich.console import Console
from rich.text import Text

from services.cli.commands.options import json_option, since_option
from services.cli.connection import run_connected
from services.cli.output.console import open_console, print_block, print_json, print_line
from shared import settings
from shared.bus import Bus
from shared.contracts import Delivery, DeliveryKind, DeliveryReply, DeliveryStatus, Urgency
from shared.delivery.channels import (
    AnyChannel,
    Deliver,
    DeliveryError,
    Message,
    Terminal,
    describe,
    read_deliver,
)
from shared.delivery.outlets import make_outlet
from shared.errors import NotFound
from shared.queries.office import read_deliveries, read_replies
from shared.text.display import clean
from shared.text.times import format_date

WEEK = timedelta(days=7)  # How far back the log goes without ``--since``
STYLES = {
    DeliveryStatus.DELIVERED: "green",
    DeliveryStatus.FAILED: "red",
    DeliveryStatus.WAITING: "yellow",
    DeliveryStatus.SENDING: "yellow",
    DeliveryStatus.DROPPED: "dim",
}
NONE = "No channel is set: people are told nothing. docs/delivery.md shows how to set one in mailroom.toml"


@click.group()
def deliver() -> None:
    """Try the channels that tell you what happens.

    They are set in mailroom.toml; the gateway, which 'mailroom up' starts, uses them.
    """


@deliver.command()
@click.argument("channel", default="")
@json_option
def test(channel: str, as_json: bool) -> None:
    """Send a test message by CHANNEL, or by each that is set.

    It is sent from here, also if the office is not running. Exits with 1 if one fails.
    """
    found = read_deliver(settings.load())
    chosen = _choose(found, channel)
    results = asyncio.run(_try_all(chosen))
    if as_json:
        print_json(results)
    else:
        console = open_console()
        for result in results:
            style = "green" if result["delivered"] else "red"
            word = "ok" if result["delivered"] else "failed"
            head = f"{word:<7}{result['channel']:<11}"
            print_block(f"{head}{clean(str(result['what']))}", console, hang=18, lead=7, style=style)
    if not all(result["delivered"] for result in results):
        raise SystemExit(1)


def _choose(found: Deliver, name: str) -> dict[str, AnyChannel]:
    if not found.channels:
        raise NotFound("No channel is set", "docs/delivery.md shows how to set one in mailroom.toml")
    if name and name not in found.channels:
        raise NotFound(f"There is no channel {name[:64]!r}", f"Set: {', '.join(found.channels)}")
    return {each: channel for each, channel in found.channels.items() if name in ("", each)}


async def _try_all(channels: dict[str, AnyChannel]) -> list[dict[str, object]]:
    return list(await asyncio.gather(*(_try(name, channel) for name, channel in channels.items())))


async def _try(name: str, channel: AnyChannel) -> dict[str, object]:
    message = Message(
        id=f"test-{secrets.token_hex(8)}",
        kind=DeliveryKind.ANSWER,
        urgency=Urgency.NORMAL,
        title="Mailroom: a test",
        text="You read this, so this channel works.",
        at=datetime.now(UTC).isoformat(),
    )
    begun, sent = time.monotonic(), ""
    try:
        if isinstance(channel, Terminal):
            click.echo("\aMailroom: a test. 'mailroom up' prints such a line, with the bell.", err=True)
        else:
            await make_outlet(channel).send(message)
        sent = "the test was sent. "
        more = await make_outlet(channel).check()
    except DeliveryError as error:
        return {"channel": name, "delivered": False, "what": f"{describe(channel)}: {sent}{error}"}
    seconds = time.monotonic() - begun
    told = f"{describe(channel)}, taken after {seconds:.1f} s"
    return {"channel": name, "delivered": True, "what": "; ".join(filter(None, (told, more)))}


@deliver.command(name="list")
@json_option
def list_channels(as_json: bool) -> None:
    """List the channels that are set, and what each notifies you of."""
    found = read_deliver(settings.load())
    if as_json:
        print_json([_channel_to_dict(found, name) for name in found.channels])
        return
    if not found.channels:
        click.echo(NONE)
        return
    console = open_console()
    for name, channel in found.channels.items():
        shown = _channel_to_dict(found, name)
        print_line(Text.assemble((name, "bold"), f"  {clean(describe(channel))}"), console)
        kinds = ", ".join(f"{kind} ({found.urgency_of(DeliveryKind(kind))})" for kind in shown["kinds"])
        print_block(f"    notifies of {kinds or 'nothing'}", console, hang=4)
        if shown["quiet_hours"]:
            print_block(
                f"    quiet hours {shown['quiet_hours']}: only urgent notices are sent", console, hang=4
            )


def _channel_to_dict(found: Deliver, name: str) -> dict[str, list[str] | str]:
    channel = found.channels[name]
    own = channel.quiet_hours
    return {
        "channel": name,
        "type": str(channel.__struct_config__.tag),
        "where": describe(channel),
        "kinds": [str(kind) for kind in channel.kinds if found.is_told(channel, kind)],
        "quiet_hours": found.quiet_hours if own is None else own,
    }


@deliver.command()
@since_option
@click.option("--open", "only_open", is_flag=True, help="Only what was not told: waiting, failed, dropped.")
@json_option
def log(since: datetime | None, only_open: bool, as_json: bool) -> None:
    """Show what was told, what failed and why, and what was replied.

    Without --since: of the last seven days.
    """
    begin = since or datetime.now(UTC) - WEEK

    async def read(bus: Bus) -> tuple[list[Delivery], list[DeliveryReply]]:
        return await read_deliveries(bus, begin), await read_replies(bus, begin)

    deliveries, replies = run_connected(read)
    if only_open:
        deliveries = [each for each in deliveries if each.status is not DeliveryStatus.DELIVERED]
        replies = []
    if as_json:
        print_json(
            {
                "deliveries": [each.to_dict() for each in deliveries],
                "replies": [each.to_dict() for each in replies],
            }
        )
        return
    if not deliveries and not replies:
        click.echo("Nothing was told." if not only_open else "All that was to be told was told.")
        return
    console = open_console()
    lines: list[tuple[str, Delivery | DeliveryReply]] = [(each.first_at, each) for each in deliveries]
    lines += [(each.created_at, each) for each in replies]
    for _, each in sorted(lines, key=lambda line: line[0]):
        _print(each, console)


def _print(each: Delivery | DeliveryReply, console: Console) -> None:
    if isinstance(each, DeliveryReply):
        text = clean(each.text or each.reason).replace("\n", " ")
        head = f"{format_date(each.created_at)}  {each.outcome:<10} {each.channel}, {clean(each.address)}: "
        print_block(f"{head}{text}", console, hang=4)
        return
    state = (f"{each.status:<10}", STYLES[each.status])
    what = f" {each.channel}: {clean(each.title)}"
    print_line(Text.assemble(f"{format_date(each.first_at)}  ", state, what), console)
    if each.status is DeliveryStatus.WAITING and each.due_at:
        print_block(f"    not before {format_date(each.due_at)}", console, hang=4)
    if each.reason:
        print_block(f"    {clean(each.reason)}", console, hang=4)
