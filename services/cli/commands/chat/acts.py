"""What only a person may do, done from the chat after a yes: answering a request, erasing a memory.

The front desk names the command and can do neither. What is shown is read here, and not from its words.
"""

import re
from collections.abc import Awaitable, Callable

import click
import msgspec

from services.cli.commands.approvals import print_approval
from services.cli.commands.memory.forgetting import describe_forgotten, describe_plan, erase, with_files
from services.cli.output.console import open_console
from shared.bus import Bus
from shared.contracts import Response
from shared.operations.approvals import answer_request, find_approvals
from shared.operations.forgetting import plan_forgetting

Ask = Callable[[str], Awaitable[bool]]
"""Asks a person, and tells whether the answer was yes."""
_OFFERED = re.compile(
    r"\bmailroom (?:approvals (?P<verb>grant|refuse) (?P<approval>[0-9a-f-]{12,36})"
    r"|memory forget (?P<memory>[\w-]+))"
)
ROUTES = frozenset({"tool:approve", "tool:forget"})
"""The answers after which it is asked whether what they name is to be done."""


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """One act of a person: ``verb`` is grant, refuse or forget, ``ref`` the id of what it is about."""

    verb: str
    ref: str


def find_offers(answer: Response) -> list[Offer]:
    """The acts whose commands an answer names; of several memories none, for a person is to choose one."""
    if answer.route_used not in ROUTES:
        return []
    offers = [
        Offer(verb=found["verb"] or "forget", ref=found["approval"] or found["memory"])
        for found in _OFFERED.finditer(answer.text)
    ]
    return [] if len(offers) > 1 and offers[0].verb == "forget" else offers


async def carry_out(bus: Bus, offer: Offer, ask: Ask) -> None:
    """Show what an act is about as it is stored, ask, and do it after a yes."""
    await (_forget(bus, offer, ask) if offer.verb == "forget" else _answer(bus, offer, ask))


async def _answer(bus: Bus, offer: Offer, ask: Ask) -> None:
    found = [
        each
        for each in await find_approvals(bus, offer.ref)
        if each.request.approval_id.startswith(offer.ref)
    ]
    if len(found) != 1 or found[0].state != "waiting":
        return
    print_approval(found[0], open_console())
    if not await ask(f"{offer.verb.capitalize()} it?"):
        click.echo("It waits on.")
        return
    request = await answer_request(bus, found[0].request.approval_id, offer.verb == "grant", "")
    may = "granted: {} may do it" if offer.verb == "grant" else "refused: {} may not do it"
    click.echo(f"{request.approval_id[:12]} {may.format(request.sender)}.")


async def _forget(bus: Bus, offer: Offer, ask: Ask) -> None:
    plan = with_files(await plan_forgetting(bus, [offer.ref]))
    click.echo("\n".join(describe_plan(plan)))
    if not plan.nodes or not await ask("Erase it for good? Nothing brings a text back."):
        click.echo("It is kept.")
        return
    click.echo("\n".join(describe_forgotten(await erase(bus, plan))))
