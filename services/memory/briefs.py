"""Briefings as the daemon serves them: ready-made, made on demand, or made again as of an older version."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from services.memory.briefing.cache import Briefings, Ready
from services.memory.briefing.composing import compose
from services.memory.daemon import MemoryDaemon
from services.memory.writes.change import Change
from shared.contracts import Briefing, BriefQuery, MemoryWrite
from shared.settings import Settings

if TYPE_CHECKING:
    from services.memory.retrieval.view import View

SETTLE = 5.0
"""Seconds after a change until briefings are made ready again: changes come in bursts."""

FREE_ATTEMPTS = 2
"""How often a briefing is made at the risk that memory is written to meanwhile; then writing has to wait."""

LOOK = 15.0
"""Seconds between two looks for briefings whose time ends soon."""


class Briefs:
    """Answers for briefings from the cache where it can; remembers when each was made, so that it can be
    made again to the letter.
    """

    def __init__(self, daemon: MemoryDaemon, settings: Settings) -> None:
        self._daemon = daemon
        self._ready_for = settings.briefed_agents
        self._briefings = Briefings(settings.briefing_ttl)
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._counts = {"served": 0, "made": 0}
        daemon.watch(self._changed)

    async def answer(self, query: BriefQuery) -> bytes:
        """The briefing as JSON; see ``briefing.composing.compose``."""
        self._counts["served"] += 1
        if query.at:
            return (await self._as_of(query)).to_json()
        ready = self._briefings.cached(query.agent, query.compact, time.time())
        return ready.data if ready else await self._make(query)

    async def accesses(self) -> MemoryWrite | None:
        """What was shown since the last call, as a write for the log; None where that was nothing."""
        taking = self._briefings.readings.take
        return await self._daemon.run_in_reader(taking, self._daemon.view, time.time())

    async def keep_ready(self) -> None:
        """Make briefings ahead for the agents the settings name, until cancelled."""
        while True:
            for agent in self._briefings.stale(self._ready_for, time.time()):
                await self._note(agent, await self._daemon.run_in_reader(self._prepare, agent))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK):
                    await self._ended.wait()
                await asyncio.sleep(SETTLE)
            self._ended.clear()

    def stats(self) -> dict[str, Any]:
        """How many briefings were served and made since the start."""
        return dict(self._counts)

    def _changed(self, view: "View", change: Change) -> None:
        """Let go of what the change could show in; in the writer's thread, before the write is answered."""
        if self._briefings.changed(view, change):
            self._loop.call_soon_threadsafe(self._ended.set)

    async def _make(self, query: BriefQuery) -> bytes:
        ready = await self._daemon.run_in_reader(self._make_now, query)
        await self._note(query.agent, ready)
        return ready.data

    async def _note(self, agent: str, ready: Ready) -> None:
        self._counts["made"] += 1
        ledger = self._daemon.ledger
        await self._daemon.run_in_reader(ledger.note_briefing, agent, ready.version, ready.moment)

    async def _as_of(self, query: BriefQuery) -> Briefing:
        """As it was told at that version; where it never was, as it would have been when that was reached."""
        ledger, read = self._daemon.ledger, self._daemon.run_in_reader
        view = await self._daemon.at(query.at)
        told = await read(ledger.briefing_moment, query.agent, query.at)
        moment = told if told is not None else await read(ledger.moment_of, query.at)
        return await read(self._compose, view, query, moment)

    def _compose(self, view: "View", query: BriefQuery, moment: float) -> Briefing:
        if view is not self._daemon.view:
            return compose(view, query.agent, moment, compact=query.compact)
        with self._daemon.still:
            return compose(view, query.agent, moment, compact=query.compact)

    def _make_now(self, query: BriefQuery) -> Ready:
        def make(view: "View") -> Ready:
            return self._briefings.make(view, query.agent, query.compact, time.time())

        return self._undisturbed(query.agent, make)

    def _prepare(self, agent: str) -> Ready:
        return self._undisturbed(agent, lambda view: self._briefings.prepare(view, agent, time.time()))

    def _undisturbed(self, agent: str, make: "Callable[[View], Ready]") -> Ready:
        """Make a briefing while memory is not written to: tried without holding up the writer first."""
        view = self._daemon.view
        for _ in range(FREE_ATTEMPTS):
            version = view.version
            ready = make(view)
            if view.version == version:
                return ready
            self._briefings.discard(agent)
        with self._daemon.still:
            return make(view)
