"""Which clients leave atomic commits open, which keeps all others from committing several messages."""

import asyncio
from collections import Counter
from collections.abc import Mapping

from shared import subjects
from shared.bus import Bus
from shared.errors import MailroomError
from shared.settings import Settings

WATCHED = 1.2
"""Seconds of watching: a batch of which nothing is heard for half a second is given up by the server."""
COMMITTED_WITHIN = 0.3
"""Seconds after which a batch counts as left open: agents write one in a single piece."""


def format_open_batches(left: Mapping[str, int], seconds: float) -> str:
    """Who left how many commits open, in one sentence."""
    who = ", ".join(f"{name} {number:,}" for name, number in left.items())
    return f"commits left open within {seconds:g} s, which keep others from committing: {who}"


async def find_open_batches(config: Settings, url: str, seconds: float = WATCHED) -> dict[str, int] | None:
    """How many atomic commits each identity left open while this watched, the most first.

    It watches as the admin what is published; the subject, which the broker checked, names the sender. None
    if the admin's key is not here, as in the container of an agent.
    """
    key = config.keys / f"{subjects.ADMIN}.nk"
    try:
        bus = await Bus.connect(subjects.ADMIN, url, key, wait=0.0)
    except MailroomError:
        return None
    began: dict[tuple[str, str], float] = {}
    committed: set[tuple[str, str]] = set()
    clock = asyncio.get_running_loop().time

    async def note(subject: str, _: bytes, headers: Mapping[str, str]) -> None:
        if batch := headers.get("Nats-Batch-Id"):
            name = (_sender(subject), batch)
            began.setdefault(name, clock())
            if "Nats-Batch-Commit" in headers:
                committed.add(name)

    try:
        for pattern in (*subjects.OFFICE_SUBJECTS, *subjects.MEMORY_SUBJECTS):
            await bus.subscribe(pattern, note)
        await asyncio.sleep(seconds)
    finally:
        await bus.close(flush=0)
    limit = clock() - min(COMMITTED_WITHIN, seconds / 4)
    left = Counter(
        name for (name, batch), at in began.items() if (name, batch) not in committed and at < limit
    )
    return dict(left.most_common())


def _sender(subject: str) -> str:
    return subjects.Address.of(subject).sender or subject
