"""The dead letters, read again only when one was written or dropped."""

from weakref import WeakKeyDictionary

import msgspec

from services.gateway.context import Gateway
from services.gateway.index.index import LogIndex
from shared import subjects
from shared.contracts import DeadLetter
from shared.operations.dead_letters import read_latest_letters
from shared.queries.records import count_subjects, select_fairly

MOST = 500
"""The most dead letters of one agent that are read."""


class _Known(msgspec.Struct, frozen=True):
    """What was read, the last dead letter of the index by then, and how often some had been dropped."""

    letters: list[tuple[int, DeadLetter]]
    older: dict[str, int]
    number: int
    drops: int


_known: WeakKeyDictionary[LogIndex, _Known] = WeakKeyDictionary()
_LAST = "SELECT coalesce(max(number), 0) FROM messages WHERE type = 'dead'"


async def read_dead(gateway: Gateway, limit: int) -> tuple[list[tuple[int, DeadLetter]], int]:
    """The latest dead letters with their numbers, those of each agent in turn, and how many there are.

    As of what is indexed.
    """
    ((number,),) = gateway.index.store.query(_LAST)
    if not number:
        return [], 0
    drops = sum((await count_subjects(gateway.bus, subjects.OFFICE, subjects.dropped("*"))).values())
    known = _known.get(gateway.index)
    if known is None or (known.number, known.drops) != (number, drops):
        known = _known[gateway.index] = _Known(*await read_latest_letters(gateway.bus, MOST), number, drops)
    shown = select_fairly(known.letters, lambda found: found[1].sender, limit)
    return shown, len(known.letters) + sum(known.older.values())
