"""Asking memory from a command, and telling people why it would not take something."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click

from services.cli.connection import connect
from services.cli.numbers import NumberType
from services.cli.screen import clean, print_json
from shared.errors import Refused

if TYPE_CHECKING:
    from shared.contracts import Rejection
    from shared.memory import Memory, WriteRefused

T = TypeVar("T")

UNKNOWN = "not in memory"
"""What memory says of an id that it does not hold."""

at_option = click.option(
    "--at",
    type=NumberType(),
    default=0,
    metavar="VERSION",
    help="As memory was at this graph version.",
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
