"""The dead letters, read again only when one was written or removed."""

from weakref import WeakKeyDictionary

import msgspec

from services.gateway.context import Gateway
from services.gateway.index.index import LogIndex
from shared import subjects
from shared.contracts import DeadLetter
from shared.operations.dead_letters import read_dead_letters
from shared.queries.records import call_server


class _Known(msgspec.Struct, frozen=True):
    """What was read, the last dead letter of the index by then, and how many messages OFFICE had lost."""

    letters: list[tuple[int, DeadLetter]]
    number: int
    deleted: int


_known: WeakKeyDictionary[LogIndex, _Known] = WeakKeyDictionary()
_LAST = "SELECT coalesce(max(number), 0) FROM messages WHERE type = 'dead'"


async def read_all_dead(gateway: Gateway) -> list[tuple[int, DeadLetter]]:
    """The dead letters with their numbers, the latest last; as of what is indexed."""
    ((number,),) = gateway.index.store.query(_LAST)
    if not number:
        return []
    # The log has no message about the removal of one, but the stream counts what was deleted.
    state = (await call_server(gateway.bus, f"STREAM.INFO.{subjects.OFFICE}"))["state"]
    assert isinstance(state, dict)
    deleted = int(state["last_seq"]) - int(state["messages"])
    known = _known.get(gateway.index)
    if known is None or (known.number, known.deleted) != (number, deleted):
        known = _known[gateway.index] = _Known(await read_dead_letters(gateway.bus), number, deleted)
    return known.letters
