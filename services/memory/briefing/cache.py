"""The briefings that are ready to be sent, for as long as they hold."""

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from services.memory.briefing.access import Readings
from services.memory.briefing.composing import Draft, draft, finish
from services.memory.briefing.footprint import Footprint
from services.memory.briefing.touch import touch
from services.memory.graph.decay import parse_moment
from services.memory.writes.change import Change

if TYPE_CHECKING:
    from services.memory.retrieval.view import View

MAX_AGENTS = 256
"""How many agents' briefings are kept; beyond that the one that was made first goes."""

AHEAD = 0.1
"""The part of its time before the end of which a briefing is made anew for agents that are kept ready."""


MAX_EXAMINED = 500
"""Nodes and edges of a change that are looked at one by one; of a larger one something is taken to show:
whoever waits for it to be stored would wait longer for that than for the storing."""


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """A Briefing as JSON, made at graph version ``version`` and ``moment`` (seconds since the epoch)."""

    data: bytes
    version: int
    moment: float


class _Kept(msgspec.Struct, kw_only=True):
    draft: Draft
    footprint: Footprint
    ends: float
    forms: dict[bool, tuple[Ready, tuple[str, ...]]]


class Briefings:
    """Every agent's briefing, as Markdown and compact, kept for ``ttl`` seconds or until a change could
    show in it.

    ``cached`` may be called in the event loop: it is a look into a dictionary. The others take milliseconds
    and belong into a thread; who calls ``make`` or ``prepare`` sees to it that the view stays as it is
    meanwhile. Whoever commits a change tells it by ``changed``. Access counts and reinforcement end no
    briefing. ``readings`` counts what was served.
    """

    def __init__(self, ttl: float) -> None:
        self.readings = Readings()
        self._ttl = ttl
        self._kept: dict[str, _Kept] = {}
        self._lock = threading.Lock()

    def cached(self, agent: str, compact: bool, now: float) -> Ready | None:
        """The briefing where it is ready and holds; counts as read. ``now`` is in seconds since the epoch."""
        kept = self._kept.get(agent)
        if kept is None or now >= kept.ends or compact not in kept.forms:
            return None
        ready, ids = kept.forms[compact]
        self.readings.count(ids)
        return ready

    def make(self, view: "View", agent: str, compact: bool, moment: float) -> Ready:
        """The briefing, made from the live ``view`` where it is not ready; counts as read."""
        kept = self._kept.get(agent)
        if kept is None or moment >= kept.ends:
            kept = self._make(view, agent, moment)
        ready, ids = _form(kept, compact)
        self.readings.count(ids)
        return ready

    def prepare(self, view: "View", agent: str, moment: float) -> Ready:
        """Make the briefing anew and in both forms, so that ``cached`` has it; does not count as read."""
        kept = self._make(view, agent, moment)
        _form(kept, True)
        return _form(kept, False)[0]

    def discard(self, agent: str) -> None:
        """Let go of an agent's briefing."""
        with self._lock:
            self._kept.pop(agent, None)

    def stale(self, agents: Iterable[str], now: float) -> list[str]:
        """Those of the agents whose briefings are not ready, or will soon be no longer."""
        with self._lock:
            kept = dict(self._kept)
        soon = now + AHEAD * self._ttl
        return [agent for agent in agents if agent not in kept or soon >= kept[agent].ends]

    def changed(self, view: "View", change: Change) -> list[str]:
        """Let go of the briefings in which ``change``, which ``view`` has taken in, could show; returns
        their agents.

        What counts as showing is told at Footprint.
        """
        with self._lock:
            older = [
                (agent, kept)
                for agent, kept in self._kept.items()
                if kept.draft.page.version < change.version
            ]
            if len(change.nodes) + len(change.edges) > MAX_EXAMINED:
                self._kept.clear()
                return [agent for agent, _ in older]
        touched = touch(view, change) if older else None
        if touched is None:
            return []
        gone = [(agent, kept) for agent, kept in older if kept.footprint.is_changed_by(view, touched)]
        with self._lock:
            for agent, kept in gone:
                if self._kept.get(agent) is kept:
                    del self._kept[agent]
        return [agent for agent, _ in gone]

    def _make(self, view: "View", agent: str, moment: float) -> _Kept:
        made = draft(view, agent, moment)
        fresh = _Kept(draft=made, footprint=Footprint(made), ends=_end(made, self._ttl), forms={})
        with self._lock:
            self._kept.pop(agent, None)
            self._kept[agent] = fresh
            while len(self._kept) > MAX_AGENTS:
                del self._kept[next(iter(self._kept))]
        return fresh


def _form(kept: _Kept, compact: bool) -> tuple[Ready, tuple[str, ...]]:
    if compact not in kept.forms:
        briefing = finish(kept.draft, compact=compact)
        page = kept.draft.page
        ready = Ready(data=briefing.to_json(), version=page.version, moment=page.moment)
        ids = tuple(node.id for section in briefing.sections for node in section.nodes)
        kept.forms[compact] = (ready, ids)
    return kept.forms[compact]


def _end(made: Draft, ttl: float) -> float:
    """When it holds no longer: after ``ttl`` seconds, or earlier where something that it shows expires."""
    start = made.page.moment
    items = (item for section in made.page.sections for item in section.items)
    ends = (parse_moment(item.node.valid_to) for item in items if item.node.valid_to)
    return min(start + ttl, *(end for end in ends if end > start), start + ttl)
