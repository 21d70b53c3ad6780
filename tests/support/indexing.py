"""What the gateway reads from its index, without one: the log is put into tables for each question."""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from services.gateway.api import tasks
from services.gateway.index.facts import facts_of
from services.gateway.index.rows import Indexed, Position, goal_record, make_row
from services.gateway.index.store import Store
from services.gateway.metrics import targets
from shared import subjects
from shared.bus import Bus, Stored
from shared.bus.client import restored
from shared.trail.archives import scan_log
from shared.views.metrics import Metrics
from shared.views.timeline import GoalTimeline, TaskTimeline


async def read_metrics(bus: Bus) -> Metrics:
    """The metrics of all that OFFICE holds."""
    return compute_metrics(await _read_log(bus))


async def read_timeline(bus: Bus, name: str) -> GoalTimeline | TaskTimeline:
    """The timeline of a goal or task."""
    with _indexed(await _read_log(bus)) as store:
        return await tasks.read_timeline(bus, store, name)


def compute_metrics(messages: Iterable[Stored], since: str = "2000-01-01") -> Metrics:
    """The metrics of messages, in the order of their numbers."""
    with _indexed(messages) as store:
        return targets.read_figures(store, targets.Period.make(since)).metrics


async def _read_log(bus: Bus) -> list[Stored]:
    return [restored(stored) async for stored in scan_log(bus, subjects.OFFICE)]


@contextmanager
def _indexed(messages: Iterable[Stored]) -> Iterator[Store]:
    with tempfile.TemporaryDirectory(prefix="mailroom-index-") as folder:
        store = Store(Path(folder, "index.db"))
        rows = [(make_row(stored, Position(stored.seq, 0)), stored) for stored in messages]
        store.add([Indexed(row, goal=goal_record(each), facts=facts_of(each)) for row, each in rows])
        yield store
        store.close()
