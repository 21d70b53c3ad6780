"""The agents that are paused, read again only when the log has something about them."""

from weakref import WeakKeyDictionary

import msgspec

from services.gateway.context import Gateway
from services.gateway.index.index import LogIndex
from shared.operations.control import read_controls


class _Known(msgspec.Struct, frozen=True):
    """What was read, and the number of the last message of the index that could change it."""

    paused: frozenset[str]
    number: int


_known: WeakKeyDictionary[LogIndex, _Known] = WeakKeyDictionary()
_LAST = "SELECT coalesce(max(number), 0) FROM messages WHERE type = 'control'"


async def read_paused(gateway: Gateway) -> frozenset[str]:
    """The names of the agents that are paused."""
    ((number,),) = gateway.index.store.query(_LAST)
    known = _known.get(gateway.index)
    if known is None or known.number != number:
        controls = await read_controls(gateway.bus)
        paused = frozenset(name for name, control in controls.items() if control.paused)
        known = _known[gateway.index] = _Known(paused, number)
    return known.paused
