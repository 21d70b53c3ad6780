"""Which agents publish more than what they do by themselves may: also those that use no client of ours."""

from collections import Counter, defaultdict
from datetime import UTC, datetime

from shared import subjects
from shared.bus import Bus, Stored
from shared.bus.throttle import RATE
from shared.queries.records import PAGE, last_sequence, scan
from shared.text.times import parse_time

LOOKED_AT = 5_000
"""The most messages of a stream that are looked at: the last ones."""
MAX_BYTES = 16 * 1024 * 1024
"""The bytes of messages after which no more are looked at."""
LEAST = 10.0
"""The shortest time, in seconds, over which a rate is taken."""
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
