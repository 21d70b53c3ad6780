"""Dead letters: the messages that no agent could handle."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from services.gateway.api.messages import API
from services.gateway.call import Call, Gateway
from services.gateway.inbox import read_dead
from services.gateway.problems import Failure
from services.gateway.routing import Endpoint
from shared import subjects
from shared.access.scopes import Scope
from shared.bus import Bus
from shared.contracts import DeadLetter
from shared.operations.dead_letters import (
    drop_dead_letters,
    read_dead_letter,
    resend,
)

MAX_LISTED = 500
MAX_ORIGINAL = 4_000
CONNECT_WAIT = 2.0
"""Seconds until the server must accept the admin."""


class DeadLetterView(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter; ``number`` names it, ``agent`` could not handle the message, for the ``reason``.

    ``original`` is the beginning of the message, which is number ``stream_seq`` of ``stream``.
    """

    number: int
    agent: str
    reason: str
    subject: str
    since: str
    deliveries: int
    goal_id: str
    task_id: str
    stream: str
    stream_seq: int
    original: str
    original_size: int


class DeadLetterList(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters, the latest last; ``total`` is the number of all."""

    dead_letters: list[DeadLetterView]
    total: int


class Resent(msgspec.Struct, frozen=True, kw_only=True):
    """The number under which the message was stored again."""

    number: int
    resent_as: int


async def list_dead_letters(call: Call) -> DeadLetterList:
    """The dead letters, the latest 500."""
    found, total = await read_dead(call.gateway, MAX_LISTED)
    shown = [view_dead_letter(number, letter) for number, letter in found]
    return DeadLetterList(dead_letters=shown, total=total)


def view_dead_letter(number: int, letter: DeadLetter) -> DeadLetterView:
    """A dead letter as it is listed."""
    return DeadLetterView(
        number=number,
        agent=letter.sender,
        reason=letter.reason,
        subject=letter.subject,
        since=letter.created_at,
        deliveries=letter.deliveries,
        goal_id=letter.goal_id,
        task_id=letter.task_id,
        stream=letter.stream,
        stream_seq=letter.stream_seq,
        original=letter.original[:MAX_ORIGINAL],
        original_size=letter.original_size,
    )


async def retry_dead_letter(call: Call) -> Resent:
    """Send the message of a dead letter again; the letter leaves the list. Needs the admin's key."""
    number = await _require_number(call)
    async with _admin(call.gateway, f"mailroom dead retry {number}") as bus:
        return Resent(number=number, resent_as=await resend(bus, number))


async def drop_dead_letter(call: Call) -> None:
    """Remove a dead letter from the list; the log keeps it. Needs the admin's key."""
    number = await _require_number(call)
    async with _admin(call.gateway, f"mailroom dead drop {number}") as bus:
        await drop_dead_letters(bus, [(number, await read_dead_letter(bus, number))])


async def _require_number(call: Call) -> int:
    text = call.path["number"]
    number = int(text) if text.isdecimal() and len(text) <= 18 else 0
    await read_dead_letter(call.gateway.bus, number)
    return number


@asynccontextmanager
async def _admin(gateway: Gateway, command: str) -> AsyncIterator[Bus]:
    """A connection with the admin's key; raises Failure with the command to run if it is not here."""
    key = gateway.settings.keys / f"{subjects.ADMIN}.nk"
    if not key.is_file():
        raise Failure(409, "The gateway does not hold the admin's key, which this needs", f"Run: {command}")
    bus = await Bus.connect(subjects.ADMIN, f"nats://{gateway.bus.url}", key, wait=CONNECT_WAIT)
    try:
        yield bus
    finally:
        await bus.close()


NUMBER = f"{API}/dead-letters/{{number}}"
ENDPOINTS = (
    Endpoint("GET", f"{API}/dead-letters", list_dead_letters, scope=Scope.READ, tag="dead letters"),
    Endpoint("POST", f"{NUMBER}/retry", retry_dead_letter, scope=Scope.ADMIN, tag="dead letters"),
    Endpoint("DELETE", NUMBER, drop_dead_letter, scope=Scope.ADMIN, tag="dead letters"),
)
