"""Briefings: composed of what has a place in them, cached while memory is unchanged; accesses counted."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from math import inf
from typing import TYPE_CHECKING, Any

import msgspec

from services.memory.briefing.gathering import add_evidence, find_disputes, find_earlier, gather_by_heading
from services.memory.briefing.page import (
    EARLIER_NOTE,
    REST,
    SECTION,
    Item,
    Limits,
    Page,
    Section,
    Unit,
    precedence,
    render_compact,
    render_markdown,
)
from services.memory.briefing.page import SHARED as FOR_ALL
from services.memory.briefing.scope import find_scope, is_known, name_agents
from services.memory.briefing.sections import (
    ACTIVE,
    GOALS,
    LASTING,
    ORDER,
    PATTERNS,
    RECENT_EVENTS,
    RELATIONSHIPS,
    UNRESOLVED,
    Placement,
    Selection,
    select_nodes,
)
from services.memory.briefing.shares import EVENTS
from services.memory.engine import MemoryEngine
from services.memory.graph import decay
from services.memory.writes.change import Change, key_of
from shared.contracts import Briefing, BriefingSection, BriefQuery, Edge, MemoryWrite, Node
from shared.errors import ActionError
from shared.settings import Settings
from shared.subjects import MEMORY_DAEMON
from shared.tasks.profiles import read_names
from shared.text.display import flatten

if TYPE_CHECKING:
    from services.memory.retrieval.view import View

BODY = 1_000  # The most characters of a node's body within a briefing; the whole of it is to be had by its id
METADATA = 1_000  # The most characters of its metadata, as JSON; longer ones are left out
EMPTY = (
    "Memory holds nothing to tell yet. It fills with what agents remember, with files put into the ingest"
    " folder, and with `mailroom memory add`."
)

NODELESS = "Memory has no node for this agent: here is what it wrote itself and what concerns everybody."
MANY = 200  # Beyond so many nodes a briefing has their bodies shortened to BRIEF_BODY, and no metadata
BRIEF_BODY = 200
CROWD = 15
"""How many of a kind get room by their tier; further ones are the REST, but for decisions and preferences."""

SAID = {PATTERNS: ("pattern",), GOALS: ("goal",), UNRESOLVED: ("task", "question"), RECENT_EVENTS: EVENTS}
# The kinds that the heading of a section says already
PASSING = {"event": 5, "task": 5, "observation": 10}  # The most of these in Active Context, not recent ones


def compose(view: "View", agent: str, moment: float, query: BriefQuery | None = None) -> Briefing:
    """The briefing of ``agent`` from ``view`` at ``moment`` (seconds since the epoch), its text included.

    Depends on these and the limits of ``query`` alone: at another time, from another view of the same
    version, the text is the same to the letter.
    """
    query = query or BriefQuery(agent=agent)
    return render(draft(view, agent, moment, contradictions=query.include_contradictions), query)


def draft(view: "View", agent: str, moment: float, *, contradictions: bool = True) -> Page:
    """Choose what the briefing of ``agent`` may show; the view is not to change meanwhile."""
    scope = find_scope(view, agent, moment)
    choice = select_nodes(view, scope)
    tiers = {key: spot.tier for key, spot in choice.places.items()}
    disputes = find_disputes(view, choice.contradictions, tiers, scope) if contradictions else []
    disputed = frozenset(item.node.id for unit in disputes for item in unit.items)
    told = {key: choice.nodes[key] for key in choice.places if key not in disputed}
    sections = _make_sections(agent, choice, disputes, find_earlier(view, told))
    evidence = add_evidence(view, sections[PATTERNS], scope, {*choice.places, *disputed})
    sections[PATTERNS] = evidence
    filled = tuple(section for section in sections.values() if section.units)
    return Page(
        agent=agent,
        version=view.version,
        moment=moment,
        consulted=choice.consulted,
        preface=EMPTY if not filled else "" if scope.node else NODELESS,
        sections=filled,
    )


def render(page: Page, query: BriefQuery) -> Briefing:
    """The page as a briefing within the limits of ``query``, in Markdown or as titles alone.

    Its sections hold what the text shows.
    """
    limits = Limits(characters=query.max_chars, section=query.per_section or SECTION)
    result = render_compact(page, limits) if query.compact else render_markdown(page, limits)
    many = sum(len(section.items) for section in result.sections) > MANY
    stamp = datetime.fromtimestamp(page.moment, UTC).isoformat(timespec="microseconds")
    return Briefing(
        created_at=stamp,
        agent=page.agent,
        version=page.version,
        sections=tuple(
            BriefingSection(
                title=section.title,
                nodes=tuple(_shorten_node(item.node, many=many) for item in section.items),
                omitted=section.omitted,
            )
            for section in result.sections
        ),
        nodes_consulted=page.consulted,
        generated_at=stamp,
        text=result.text,
    )


def _make_sections(
    agent: str, choice: Selection, disputes: Sequence[Unit], later: Mapping[str, str]
) -> dict[str, Section]:
    """All sections in order, each with all of its units, best first; equal ones by their ids.

    What has a ``later`` state stands behind that.
    """
    units: dict[str, list[Unit]] = {title: [] for title in ORDER}
    disputed = {item.node.id for unit in disputes for item in unit.items}
    items = {
        key: _make_item(agent, choice.nodes[key], spot)
        for key, spot in choice.places.items()
        if key not in disputed
    }
    for key, item in items.items():
        if key not in later:
            earlier = [each for each, newer in later.items() if newer == key]
            before = (msgspec.structs.replace(items[each], note=EARLIER_NOTE) for each in earlier)
            units[choice.places[key].section].append(Unit(items=(item, *before)))
    units = {title: _demote_crowds(each) for title, each in units.items()}
    units[ACTIVE] = _limit_passing(units[ACTIVE])
    units[UNRESOLVED] = [*disputes, *units[UNRESOLVED]]
    return {
        title: Section(
            title=title,
            units=tuple(gather_by_heading(units[title])),
            omitted=choice.left[title],
            open=title in choice.open,
        )
        for title in ORDER
    }


def _make_item(agent: str, node: Node, spot: Placement) -> Item:
    """The item of a node: of an event its day if it does not say it, of a goal what the agent did for it."""
    is_dated = node.kind in EVENTS and spot.section != RELATIONSHIPS
    day = (node.valid_from or node.created_at)[:10] if is_dated else ""
    note = spot.note or ("" if day in node.title else day)
    is_plain = node.kind in SAID.get(spot.section, ())
    work = node.metadata.get("work")
    body = str(work.get(agent, "")) if isinstance(work, dict) else ""
    return Item(
        node=node,
        score=spot.score,
        note=note,
        tier=spot.tier,
        is_common=spot.is_common,
        is_plain=is_plain,
        body=body,
    )


def _in_order(units: Iterable[Unit]) -> list[Unit]:
    return sorted(units, key=lambda unit: precedence(unit.items[0]))


def _demote_crowds(units: Iterable[Unit]) -> list[Unit]:
    """The units in order, those beyond CROWD of a kind among the REST: a thousand facts displace nothing."""
    counts: Counter[str] = Counter()
    placed, demoted = [], False
    for unit in _in_order(units):
        item, *more = unit.items
        counts[item.node.kind] += 1
        if item.tier != REST and item.node.kind not in LASTING and counts[item.node.kind] > CROWD:
            unit, demoted = Unit(items=(msgspec.structs.replace(item, tier=REST), *more)), True
        placed.append(unit)
    return _in_order(placed) if demoted else placed


def _limit_passing(units: Iterable[Unit]) -> list[Unit]:
    """The units without those beyond PASSING of a kind."""
    counts: Counter[str] = Counter()
    kept = []
    for unit in units:
        item = unit.items[0]
        kind = "event" if item.node.kind in EVENTS else item.node.kind
        counts[kind] += item.tier > FOR_ALL
        if item.tier <= FOR_ALL or counts[kind] <= PASSING.get(kind, inf):
            kept.append(unit)
    return kept


def _shorten_node(node: Node, *, many: bool) -> Node:
    short = not many and len(msgspec.json.encode(node.metadata)) <= METADATA
    return msgspec.structs.replace(
        node,
        body=flatten(node.body, BRIEF_BODY if many else BODY),
        metadata=node.metadata if short else {},
        embedding=(),
    )


MAX_AGENTS = 256  # How many agents' briefings are cached; beyond that the oldest one is dropped
AHEAD = 0.1  # Briefings that are kept ready are made again when less than this part of their time is left
IDLE = 5.0  # Seconds without a write or a query after which briefings are made ahead: one computes for 50 ms
AHEAD_EVERY = 60.0  # Seconds after which the briefing of an agent may be made ahead again
CHECK_EVERY = 1.0  # Seconds between two looks at whether memory is idle
FREE_ATTEMPTS = 2
"""How often a briefing is made at the risk that memory is written to meanwhile; then writes have to wait."""

MAX_FORMS = 8  # How many forms of an agent's briefing are cached: each model asks for one
MAX_LISTS = 1_000
"""How many different briefings are counted between two writes; accesses beyond that are not counted."""

MAX_NODES = 2_000  # The most nodes of one write of access counts, the most often accessed first
MAX_EDGES = 1_000  # The most edges that one write reinforces


class CachedBriefing(msgspec.Struct, frozen=True, kw_only=True):
    """A Briefing as JSON, made at graph version ``version`` and ``moment`` (seconds since the epoch)."""

    data: bytes
    version: int
    moment: float
    ids: tuple[str, ...]


class _Entry(msgspec.Struct, kw_only=True):
    page: Page
    ends: float
    forms: dict[BriefQuery, CachedBriefing]


class BriefingCache:
    """The latest briefing of each agent, as Markdown and compact, valid for ``ttl`` seconds while memory is
    unchanged.

    Writes that only count accesses leave briefings valid: serving one would otherwise invalidate all. Safe in
    any thread. ``get`` is a dictionary lookup; ``make`` composes and takes milliseconds.
    """

    def __init__(self, ttl: float) -> None:
        self.accesses = AccessCounts()
        self._ttl = ttl
        self._entries: dict[_Key, _Entry] = {}
        self._lock = threading.Lock()
        self._changed = 0

    def get(self, query: BriefQuery, now: float) -> CachedBriefing | None:
        """The briefing, if it is cached and valid; counts as an access of its nodes."""
        entry = self._find(_key(query), now)
        if entry is None or query not in entry.forms:
            return None
        self.accesses.count(entry.forms[query].ids)
        return entry.forms[query]

    def make(self, query: BriefQuery, now: float, compose: Callable[[], Page]) -> CachedBriefing:
        """The briefing, composed unless it is cached and valid; not counted as an access."""
        entry = self._find(_key(query), now) or self._put(_key(query), compose())
        made = entry.forms.get(query) or _render(entry.page, query)
        with self._lock:
            entry.forms[query] = made
            while len(entry.forms) > MAX_FORMS:
                del entry.forms[next(iter(entry.forms))]
        return made

    def moment(self, agent: str, now: float) -> float:
        """When a valid briefing of the agent was made, so that all its forms are of one moment; or now."""
        entries = (self._find((agent, told), now) for told in (True, False))
        return next((entry.page.moment for entry in entries if entry), now)

    def find_stale(self, agents: Iterable[str], now: float) -> list[str]:
        """The agents whose briefings are not cached or will soon be invalid."""
        later = now + AHEAD * self._ttl
        return [agent for agent in agents if self._find(_key(BriefQuery(agent=agent)), later) is None]

    def apply(self, change: Change) -> None:
        """Note that memory changed; to be called before the change is answered."""
        counts = all(write_id == self.accesses.write_id for write_id, _ in change.writes)
        if (change.nodes or change.edges) and not counts:
            self._changed = change.version

    def _find(self, key: "_Key", now: float) -> _Entry | None:
        entry = self._entries.get(key)
        valid = entry is not None and now < entry.ends and entry.page.version >= self._changed
        return entry if valid else None

    def _put(self, key: "_Key", page: Page) -> _Entry:
        entry = _Entry(page=page, ends=_end(page, self._ttl), forms={})
        with self._lock:
            self._entries.pop(key, None)
            self._entries[key] = entry
            while len(self._entries) > MAX_AGENTS:
                del self._entries[next(iter(self._entries))]
        return entry


_Key = tuple[str, bool]  # An agent, and whether contradictions are included


def _key(query: BriefQuery) -> _Key:
    return query.agent, query.include_contradictions


class AccessCounts:
    """How often nodes were shown, by the list of node ids of each briefing. Safe in any thread."""

    def __init__(self) -> None:
        self.write_id = ""
        """The id of the last write that ``take`` made."""
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, ...]] = Counter()

    def count(self, ids: tuple[str, ...]) -> None:
        """These nodes were shown in a briefing."""
        with self._lock:
            if ids and (ids in self._counts or len(self._counts) < MAX_LISTS):
                self._counts[ids] += 1

    def take(self, view: "View", moment: float) -> MemoryWrite | None:
        """The accesses since the last call as a write to be published; None if there were none.

        Each node is counted as often as it was shown. Edges of at least decay.HIDDEN between nodes shown
        together are reinforced once, at most once a day (see ``decay.reinforce``). Retired nodes are left
        out.
        """
        with self._lock:
            counts, self._counts = self._counts, Counter()
        accessed: Counter[str] = Counter()
        for ids, count in counts.items():
            for node_id in ids:
                accessed[node_id] += count
        live = {node_id: count for node_id, count in accessed.most_common(MAX_NODES) if view.is_live(node_id)}
        if not live:
            return None
        shown = ([node_id for node_id in ids if node_id in live] for ids in counts)
        write = MemoryWrite(sender=MEMORY_DAEMON, accessed=live, edges=_reinforce(view, shown, moment))
        self.write_id = write.id
        return write


class BriefingService:
    """Answers requests for briefings, and records when each was made so that it can be reproduced exactly."""

    def __init__(self, engine: MemoryEngine, settings: Settings) -> None:
        self._engine = engine
        self._settings = settings
        self._kept_ready = settings.briefed_agents
        self._cache = BriefingCache(settings.briefing_ttl)
        self._counts = {"served": 0, "made": 0}
        engine.watch(self._cache.apply)

    async def answer(self, query: BriefQuery) -> bytes:
        """The briefing as JSON; see ``compose``.

        Raises ActionError for an agent that neither memory nor this machine knows.
        """
        self._counts["served"] += 1
        form = msgspec.structs.replace(query, at=0)
        ready = None if query.at else self._cache.get(form, time.time())
        if ready is None:
            await self._require_known(query.agent)
            if query.at:
                # The briefing that was served at that version; if none was, the one of the time it was
                # reached
                view = await self._engine.view_at(query.at)
                moment = await self._engine.briefing_moment(query.agent, query.at)
                return (await self._engine.run_in_reader(self._compose, view, query, moment)).to_json()
            ready = await self._make(form)
            self._cache.accesses.count(ready.ids)
        return ready.data

    async def _require_known(self, agent: str) -> None:
        view = self._engine.view
        if await self._engine.run_in_reader(is_known, view, agent, time.time()):
            return
        installed = await asyncio.to_thread(read_names, self._settings)
        if agent not in installed:
            told = await self._engine.run_in_reader(name_agents, view)
            names = ", ".join(sorted({*installed, *told}))
            raise ActionError(f"There is no agent {agent!r}, and memory knows none", f"There are {names}")

    async def take_accesses(self) -> MemoryWrite | None:
        """The accesses since the last call, as a write for the log; None if there were none."""
        return await self._engine.run_in_reader(self._cache.accesses.take, self._engine.view, time.time())

    async def keep_ready(self) -> None:
        """Make the briefings of the agents in ``settings.briefed_agents`` ahead, until cancelled.

        Only if memory has been idle for IDLE seconds, and each at most every AHEAD_EVERY seconds: one that is
        stale before that is made when it is asked for.
        """
        made: dict[str, float] = {}
        while True:
            now = time.monotonic()
            due = [agent for agent in self._kept_ready if now >= made.get(agent, -inf) + AHEAD_EVERY]
            for agent in self._cache.find_stale(due, time.time()):
                if self._engine.idle < IDLE:
                    break
                await self._make(BriefQuery(agent=agent))
                made[agent] = time.monotonic()
            await asyncio.sleep(CHECK_EVERY)

    def stats(self) -> dict[str, Any]:
        """How many briefings were served and made since the start."""
        return dict(self._counts)

    async def _make(self, query: BriefQuery) -> CachedBriefing:
        def make() -> CachedBriefing:
            return self._cache.make(query, time.time(), lambda: self._draft(query))

        ready = await self._engine.run_in_reader(make)
        self._counts["made"] += 1
        await self._engine.record_briefing(query.agent, ready.version, ready.moment)
        return ready

    def _draft(self, query: BriefQuery) -> Page:
        """Compose from a view that is not changed meanwhile, if possible without blocking the writer."""
        told, moment = query.include_contradictions, self._cache.moment(query.agent, time.time())
        for _ in range(FREE_ATTEMPTS):
            view = self._engine.view
            edition = view.edition
            if edition % 2:  # a write is under way
                break
            made = draft(view, query.agent, moment, contradictions=told)
            if view.edition == edition:
                return made
        with self._engine.lock:
            return draft(self._engine.view, query.agent, moment, contradictions=told)

    def _compose(self, view: "View", query: BriefQuery, moment: float) -> Briefing:
        if view is not self._engine.view:
            return compose(view, query.agent, moment, query)
        with self._engine.lock:
            return compose(view, query.agent, moment, query)


def _render(page: Page, query: BriefQuery) -> CachedBriefing:
    briefing = render(page, query)
    return CachedBriefing(
        data=briefing.to_json(),
        version=page.version,
        moment=page.moment,
        ids=tuple(node.id for section in briefing.sections for node in section.nodes),
    )


def _end(page: Page, ttl: float) -> float:
    """When a briefing expires: after ``ttl`` seconds, or earlier if something that it shows expires."""
    start = page.moment
    items = (item for section in page.sections for item in section.items)
    ends = (decay.parse_time(item.node.valid_to) for item in items if item.node.valid_to)
    return min(start + ttl, *(end for end in ends if end > start), start + ttl)


def _reinforce(view: "View", lists: Iterable[list[str]], moment: float) -> tuple[Edge, ...]:
    reinforced: dict[tuple[str, str, str], Edge] = {}
    for ids in lists:
        importance = {node.id: node.importance for node in view.nodes(ids)}
        edges = view.graph.between(view.graph.locate(ids), (), decay.HIDDEN, moment, MAX_EDGES) if ids else []
        for edge in edges:
            highest = max(importance.get(edge.from_id, 0.0), importance.get(edge.to_id, 0.0))
            key = key_of(edge)
            if key not in reinforced and (stronger := decay.reinforce(edge, highest, moment)):
                reinforced[key] = stronger
        if len(reinforced) >= MAX_EDGES:
            break
    return tuple(reinforced.values())[:MAX_EDGES]
