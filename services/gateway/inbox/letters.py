"""Mail read by the index: which messages, and each of them whole."""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Sequence
from weakref import WeakKeyDictionary

from services.gateway.context import Gateway
from services.gateway.index.index import LogIndex
from shared import subjects
from shared.operations.letters import Mail, parse_mail
from shared.trail.archives import read_message

INDEX_WAIT = 0.5
"""Seconds that a request waits at most until the index has what it sent."""
AT_ONCE = 20
"""Messages that are read from the bus at the same time."""
KEPT = 2_000
"""Messages that are kept as they were read; they never change."""

_known: WeakKeyDictionary[LogIndex, OrderedDict[int, Mail | None]] = WeakKeyDictionary()


async def read_letters(gateway: Gateway, where: str, values: Sequence[object], limit: int) -> list[Mail]:
    """The last mail that a condition on the index's messages admits, the latest last."""
    sql = (
        f"SELECT office FROM messages WHERE stream = 0 AND subject GLOB 'mail.*' AND ({where}) "  # noqa: S608 - constants
        "ORDER BY number DESC LIMIT ?"
    )
    numbers = [int(row[0]) for row in gateway.index.store.query(sql, [*values, limit])]
    gate = asyncio.Semaphore(AT_ONCE)
    found = await asyncio.gather(*(_read(gateway, number, gate) for number in reversed(numbers)))
    return [mail for mail in found if mail is not None]


async def wait_until_indexed(gateway: Gateway, number: int) -> None:
    """Return once the index has a message of OFFICE, so that who sent it finds it; INDEX_WAIT at most."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(INDEX_WAIT):
            while gateway.index.position.office < number:
                await gateway.index.wait_for_change()


async def _read(gateway: Gateway, number: int, gate: asyncio.Semaphore) -> Mail | None:
    """A message of a mailbox by its number in OFFICE; None for what is no mail."""
    known = _known.setdefault(gateway.index, OrderedDict())
    if number not in known:
        async with gate:
            stored = await read_message(gateway.bus, subjects.OFFICE, number)
        known[number] = parse_mail(stored) if stored else None
        while len(known) > KEPT:
            known.popitem(last=False)
    return known[number]
