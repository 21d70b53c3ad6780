"""Asking memory from a command, and telling people why it would not take something."""

import asyncio
import difflib
import sys
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from services.cli.commands.options import NumberType, PastType
from services.cli.connection import connect
from services.cli.output.console import clean, print_json
from services.cli.output.times import to_wire
from shared.contracts import KINDS
from shared.errors import Refused

if TYPE_CHECKING:
    from shared.contracts import Rejection
    from shared.memory import Memory, WriteRefused


Command = TypeVar("Command", bound=Callable[..., Any])


def _as_wire(_: click.Context, __: click.Parameter, moment: datetime | None) -> str:
    return to_wire(moment) if moment else ""


_OPTIONS = (
    click.option("--kind", "kinds", multiple=True, help="Only of this kind; may be given several times."),
    click.option("--tag", "tags", multiple=True, help="Only with this tag; may be given several times."),
    click.option("--agent", default="", metavar="NAME", help="Only what this agent remembered."),
    click.option("--session", default="", metavar="ID", help="Only what came from this session."),
    click.option(
        "--since",
        type=PastType(),
        callback=_as_wire,
        metavar="TIME",
        help="Only what changed since: 10m ago, or an ISO 8601 time.",
    ),
    click.option(
        "--until", type=PastType(), callback=_as_wire, metavar="TIME", help="Only what changed before that."
    ),
)


def filter_options(command: Command) -> Command:
    """The options kinds, tags, agent, session, since and until; times arrive as the contracts want them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


ALIKE = 0.8
"""How much a kind is like one of the office's own to be taken for a slip: 'decison' and 'facts' are."""


def meant_kind(kind: str) -> str:
    """The kind of the office's own that ``kind`` is a slip of; empty where it is none."""
    if kind in KINDS:
        return ""
    return next(iter(difflib.get_close_matches(kind.lower(), KINDS, n=1, cutoff=ALIKE)), "")


def ask_back(kinds: Iterable[str]) -> str:
    """A question to end a sentence with, where one of ``kinds`` is a slip."""
    meant = [found for found in map(meant_kind, kinds) if found]
    return f" Did you mean --kind {meant[0]}?" if meant else ""


T = TypeVar("T")

UNKNOWN = "not in memory"
"""What memory says of an id that it does not hold."""

at_option = click.option(
    "--at", type=NumberType(), default=0, metavar="VERSION", help="As memory was at this graph version."
)
"""The option of every command that can look at the past."""


def ask(work: "Callable[[Memory], Awaitable[T]]") -> T:
    """Do ``work`` with memory, as the user; raises MailroomError with what to do about it."""
    from shared.memory import Memory

    async def connected() -> T:
        async with connect() as bus:
            return await work(Memory(bus))

    try:
        return asyncio.run(connected())
    except Refused as refused:
        if UNKNOWN not in refused.cause or refused.cure:
            raise
        raise Refused(refused.cause, "'mailroom memory search' finds ids") from None


def store(work: "Callable[[Memory], Awaitable[T]]", *, as_json: bool, insist: str = "") -> T:
    """Like ``ask``, for what the write gate may refuse: that is told whole, and ends the command with 1.

    ``insist`` says how it can be stored all the same.
    """
    from shared.memory import WriteRefused

    try:
        return ask(work)
    except WriteRefused as refused:
        if refused.rejection is None:
            raise
        _tell(refused, refused.rejection, as_json, insist)
        sys.exit(1)


def _tell(refused: "WriteRefused", rejection: "Rejection", as_json: bool, insist: str) -> None:
    if as_json:
        print_json({"error": str(refused), "rejection": rejection})
        return
    click.echo(f"Error: not stored: {clean(rejection.reason).rstrip('.')}.", err=True)
    facts = {"Check": rejection.check, "Suggestion": rejection.suggestion}
    if rejection.existing is not None:
        facts["There already"] = f"{rejection.existing.id}, {rejection.existing.title}"
    if "--insist" not in rejection.suggestion:
        facts["Store it all the same"] = insist
    for name, fact in facts.items():
        if fact:
            click.echo(f"{name}: {clean(fact)}", err=True)
