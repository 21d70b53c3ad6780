"""How far the messages of OFFICE have reached those they are for."""

import json
from collections.abc import Sequence
from typing import NamedTuple, Self

from shared import subjects
from shared.bus import Bus
from shared.bus.replacement import HANDLED, WAITING

BUSY = "busy"
"""The state of a message that somebody may be acting on."""
_PEOPLE = subjects.mailboxes(subjects.USER)
"""The durables of people, which no process takes messages of."""


class _Reached(NamedTuple):
    filters: tuple[str, ...]
    delivered: int
    floor: int
    pending: int

    def state_of(self, seq: int) -> str:
        if seq <= self.floor:
            return HANDLED
        if seq > self.delivered:
            return WAITING
        return BUSY if self.pending else HANDLED


class Positions:
    """How far each durable of OFFICE is."""

    def __init__(self, reached: Sequence[_Reached]) -> None:
        self._reached = reached

    @classmethod
    async def read(cls, bus: Bus) -> Self:
        """The present ones, as the admin."""
        found: list[_Reached] = []
        while True:
            request = json.dumps({"offset": len(found)}).encode()
            answer = json.loads(await bus.request(f"$JS.API.CONSUMER.LIST.{subjects.OFFICE}", request))
            page = answer.get("consumers") or []
            found += [_read(each) for each in page]
            if not page or len(found) >= answer["total"]:
                return cls(found)

    def state_of(self, subject: str, seq: int) -> str:
        """HANDLED if all have acted on a message, WAITING if somebody has not got it, else BUSY."""
        states = {
            each.state_of(seq) for each in self._reached if any(_fits(f, subject) for f in each.filters)
        }
        return next((state for state in (BUSY, WAITING) if state in states), HANDLED)


def _read(info: dict[str, dict[str, object]]) -> _Reached:
    config, pending = info["config"], info["num_ack_pending"]
    assert isinstance(pending, int)
    named = config.get("filter_subjects") or [config.get("filter_subject") or ">"]
    filters = tuple(map(str, named)) if config.get("durable_name") not in _PEOPLE else ()
    delivered, floor = info["delivered"]["stream_seq"], info["ack_floor"]["stream_seq"]
    return _Reached(filters, int(str(delivered)), int(str(floor)), pending)


def _fits(pattern: str, subject: str) -> bool:
    wanted, tokens = pattern.split("."), subject.split(".")
    return len(wanted) == len(tokens) and all(w in ("*", t) for w, t in zip(wanted, tokens, strict=True))
