"""What one of the people may see: the index and the log without what is another's alone.

Whatever a handler asks, it gets no more: the tables are views (index/store.py), messages that are read from
the log are withheld (shared/bus/entry.py), and memory is asked in that person's name.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from weakref import WeakKeyDictionary

import msgspec

from services.gateway.call import Gateway, Thoughts
from services.gateway.index.index import LogIndex, Recent
from services.gateway.index.rows import Position
from services.gateway.index.store import Filter, Store
from shared import subjects
from shared.bus.entry import withheld
from shared.contracts import TaskThoughts
from shared.memory.ownership import reads_for


class SeenIndex(LogIndex):
    """The index as one of the people sees it; it follows the log no more than the whole one does."""

    def __init__(self, whole: LogIndex, reader: str) -> None:
        self._whole, self._reader = whole, reader
        self.made_from = whole.store.made
        self.store = Store(whole.store.path, reader=reader)
        self.listeners = whole.listeners

    @property
    def behind(self) -> int:  # type: ignore[override]  # read, never set
        """As of the whole index, as all that follows."""
        return self._whole.behind

    @property
    def problem(self) -> str:  # type: ignore[override]  # the same
        """Why nothing can be indexed."""
        return self._whole.problem

    @property
    def position(self) -> Position:
        """How far the log is indexed."""
        return self._whole.position

    async def wait_for_change(self) -> None:
        """Return when more is indexed."""
        await self._whole.wait_for_change()

    async def wait_until_complete(self) -> None:
        """Return when all is indexed."""
        await self._whole.wait_until_complete()

    async def events(self, after: Position, wanted: Filter) -> AsyncGenerator[list[Recent], None]:
        """As of the whole index, but for what is another's."""
        async with aclosing(self._whole.events(after, wanted)) as pages:
            async for page in pages:
                if found := [each for each in page if each.row.audience in ("", self._reader)]:
                    yield found


class SeenThoughts(Thoughts):
    """What models write for the tasks that one of the people may see."""

    def __init__(self, whole: Thoughts, store: Store) -> None:
        self._whole, self._store = whole, store

    async def follow(self, goal_id: str = "") -> AsyncGenerator[list[TaskThoughts], None]:
        """As of the whole, but for what is another's."""
        async with aclosing(self._whole.follow(goal_id)) as batches:
            async for batch in batches:
                if found := [each for each in batch if self._store.all_of_task(each.task_id, 1)]:
                    yield found


_known: WeakKeyDictionary[LogIndex, dict[str, Gateway]] = WeakKeyDictionary()


def see_as(gateway: Gateway, audience: str) -> Gateway:
    """The gateway as one of the people sees it (empty: as everybody does who is alone), for this task."""
    if not audience:
        return gateway
    known = _known.setdefault(gateway.index, {})
    seen = known.get(audience)
    if (
        seen is None
        or not isinstance(seen.index, SeenIndex)
        or seen.index.made_from != gateway.index.store.made
    ):
        index = SeenIndex(gateway.index, audience)
        thoughts = SeenThoughts(gateway.thoughts, index.store)
        seen = known[audience] = msgspec.structs.replace(gateway, index=index, thoughts=thoughts)
    withheld.set(seen.index.store.hides)
    reads_for.set(subjects.PERSON + audience)
    return seen
