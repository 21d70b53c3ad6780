"""Which clients hinder others: by publishing too much, or by atomic commits that they leave open."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime

from shared import subjects
from shared.bus import Bus, Stored
from shared.bus.commit import RATE
from shared.errors import MailroomError
from shared.queries.records import PAGE, last_sequence, scan
from shared.settings import Settings
from shared.text.times import parse_time

LOOKED_AT = 5_000  # The most messages of a stream that are looked at: the last ones
MAX_BYTES = 16 * 1024 * 1024  # The bytes of messages after which no more are looked at
LEAST = 10.0  # The shortest time, in seconds, over which a rate is taken
WORK = (subjects.CLAIMED, subjects.ENDED, subjects.CANCELLED)
"""Steps of tasks that follow from the work that others gave, and do not count."""


async def find_floods(bus: Bus) -> dict[str, float]:
    """The messages a second of each agent that published more than RATE of late, the most first.

    Lately is since the first of the last LOOKED_AT messages of OFFICE and of MEMORY. What the conductor hands
    out and records does not count, nor do the ends of tasks.
    """
    rates: dict[str, float] = defaultdict(float)
    for stream in (subjects.OFFICE, subjects.MEMORY):
        found = await _read_end(bus, stream)
        if found:
            seconds = max(LEAST, (datetime.now(UTC) - parse_time(found[0].time)).total_seconds())
            for name, number in Counter(filter(None, map(_publisher, found))).items():
                rates[name] += number / seconds
    over = {name: rate for name, rate in rates.items() if rate > RATE}
    return dict(sorted(over.items(), key=lambda each: -each[1]))


async def _read_end(bus: Bus, stream: str) -> list[Stored]:
    """The last LOOKED_AT messages of a stream; fewer if they have more than MAX_BYTES."""
    end, found, size = await last_sequence(bus, stream), list[Stored](), 0
    while end and len(found) < LOOKED_AT and size < MAX_BYTES:
        begin = max(1, end - PAGE + 1)
        page = [each async for each in scan(bus, stream, seq=begin, until=end)]
        size += sum(len(each.data) for each in page)
        found, end = page + found, begin - 1
    return found


def _publisher(stored: Stored) -> str:
    """Who published a message by itself; empty if it follows from work, or is no agent's."""
    address = subjects.Address.of(stored.subject)
    handed_out = address.sender == subjects.CONDUCTOR and address.step in subjects.NEW.values()
    follows = address.kind == "state" or handed_out or address.step in WORK
    return "" if address.sender in subjects.PEOPLE or follows else address.sender


WATCHED = 1.2
"""Seconds of watching: a batch of which nothing is heard for half a second is given up by the server."""
COMMITTED_WITHIN = 0.3  # Seconds after which a batch counts as left open: agents write one in a single piece


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
