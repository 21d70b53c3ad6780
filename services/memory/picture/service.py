"""The layouts of the graph, one at a time, kept by graph version."""

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

import msgspec

from services.memory.engine import MemoryEngine
from services.memory.picture.drawing import NOTHING, Plan, draw
from services.memory.picture.selection import Selection, select
from shared.contracts import LayoutQuery

if TYPE_CHECKING:
    from services.memory.retrieval.view import View

KEPT = 16
"""Layouts that are kept, as JSON: a large one has 500 kB."""

PLANS = 8
"""Neighbourhoods whose places are kept."""

FREE_ATTEMPTS = 2
"""How often nodes are chosen at the risk that memory is written to meanwhile; then writes have to wait."""


K = TypeVar("K")
V = TypeVar("V")


class LayoutService:
    """Answers where to draw the nodes of a graph version, in a thread, one picture at a time.

    The plan of the last picture begins the next one, of whatever version, so that nodes stay where people saw
    them; that of the present is kept for the past too.
    """

    def __init__(self, engine: MemoryEngine) -> None:
        self._engine = engine
        self._turn = asyncio.Lock()
        self._kept: dict[LayoutQuery, bytes] = {}
        self._plans: dict[str, Plan] = {}

    async def answer(self, query: LayoutQuery) -> bytes:
        """The Layout as JSON. Raises ActionError for a version that has not been, ValueError for an unknown
        anchor.
        """
        async with self._turn:
            view = await self._engine.view_at(query.at)
            key = msgspec.structs.replace(query, at=view.version)
            if key in self._kept:
                self._kept[key] = self._kept.pop(key)
                return self._kept[key]
            is_live = view is self._engine.view
            moment = time.time() if is_live else await self._engine.moment_of(view.version)
            return await self._engine.run_in_reader(self._draw, view, key, moment)

    def _draw(self, view: "View", key: LayoutQuery, moment: float) -> bytes:
        selection = self._select(view, key, moment)
        layout, plan = draw(selection, self._plans.get(key.anchor, NOTHING))
        data = layout.to_json()
        _keep(self._plans, key.anchor, plan, PLANS)
        _keep(self._kept, msgspec.structs.replace(key, at=selection.version), data, KEPT)
        return data

    def _select(self, view: "View", key: LayoutQuery, moment: float) -> Selection:
        """Choose from a view that is not changed meanwhile, if possible without blocking the writer."""
        for _ in range(FREE_ATTEMPTS):
            selection = select(view, key, moment)
            if view.version == selection.version:
                return selection
        with self._engine.lock:
            return select(view, key, moment)


def _keep(cache: dict[K, V], key: K, value: V, most: int) -> None:
    cache.pop(key, None)
    cache[key] = value
    while len(cache) > most:
        del cache[next(iter(cache))]
