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
from shared.trail.archives import read_messages

INDEX_WAIT = 0.5
"""Seconds that a request waits at most until the index has what it sent."""
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
    known = _known.setdefault(gateway.index, OrderedDict())
    missing = [number for number in numbers if number not in known]
    found = await read_messages(gateway.bus, subjects.OFFICE, missing)
    known |= {number: parse_mail(stored) for number, stored in found.items()}
    mails = [known.get(number) for number in reversed(numbers)]
    while len(known) > KEPT:
        known.popitem(last=False)
    return [mail for mail in mails if mail is not None]


async def wait_until_indexed(gateway: Gateway, number: int) -> None:
    """Return once the index has a message of OFFICE, so that who sent it finds it; INDEX_WAIT at most."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(INDEX_WAIT):
            while gateway.index.position.office < number:
                await gateway.index.wait_for_change()
