"""The nodes that may have a place in a briefing, found by numbers alone: section, weight, importance, age."""

from collections.abc import Collection, Iterable, Mapping
from itertools import compress
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from services.memory.briefing.page import SECTION
from services.memory.briefing.ranking import (
    BASE_WEIGHT,
    DAILY_RATES,
    DAY,
    LOW,
    MIN_IMPORTANCE,
    OTHER_RATE,
    OWN_WEIGHT,
    REVIEW_TAGS,
    rank_all,
)
from services.memory.briefing.scope import RECENT, AgentScope, find_bound
from services.memory.briefing.sections import (
    ACTIVE,
    CONTEXT,
    EVENTS,
    FAR,
    FLOOR,
    GOALS,
    IDENTITY,
    LASTING,
    ORDER,
    PATTERNS,
    RECENT_EVENTS,
    RELATED,
    RELATIONSHIPS,
    SHARED,
    SLACK,
    UNRESOLVED,
    contain,
    nearness,
)
from services.memory.retrieval.node_index import NodeColumns
from shared.memory.ownership import GLOBAL

if TYPE_CHECKING:
    from services.memory.retrieval.view import View

ENOUGH = SECTION
"""How many nodes of a kind that concern all agents are enough."""

POOL = 128
"""How many nodes of a kind are considered first; more if too many of them are bound to other agents."""

WIDEST = 4_096
"""The most that are considered."""

OWN = 128
"""How many of the agent's own latest nodes are considered."""

SIMILAR = 256
"""How many of the nearest in meaning are considered for Active Context."""

NEIGHBOURS = 1_024
"""How many of the nearest in the graph are."""

Weights = dict[str, float]
Floats = NDArray[np.floating]

KNOWLEDGE = (*LASTING, "fact")
"""Kinds that say what holds."""

_SECTION_OF = {"preference": IDENTITY, "pattern": PATTERNS, "goal": GOALS, "decision": ACTIVE}


class Candidates(msgspec.Struct, frozen=True, kw_only=True):
    """Ids of candidates by section, best first; the ``open`` sections have more that were not considered."""

    ids: Mapping[str, list[str]]
    open: Collection[str]


def find_candidates(view: "View", scope: AgentScope) -> Candidates:
    """The candidates for each section by rank, as far as that is known without reading them."""
    weights: dict[str, Weights] = {title: {} for title in ORDER}
    openings: set[str] = set()
    for source in (_tied, _own, _of_low_importance, _for_review, _recent, _related_to_work):
        for title, more in source(view, scope):
            weights[title].update(
                {key: max(weight, weights[title].get(key, 0.0)) for key, weight in more.items()}
            )
    for kind, (more, is_open) in _shared(view, scope).items():
        title = _SECTION_OF[kind]
        weights[title].update({key: weight for key, weight in more.items() if key not in weights[title]})
        openings.update([title] if is_open else [])
    every = list(dict.fromkeys(key for section in weights.values() for key in section))
    nodes, rows = view.describe(every), dict(zip(every, range(len(every)), strict=True))
    worth, ranks = _worth(nodes, scope.moment), _rank(view, scope, every, nodes)

    def order(section: Weights) -> list[str]:
        places = np.fromiter(map(rows.__getitem__, section), np.intp, len(section))
        values = -np.fromiter(section.values(), np.float64, len(section)) * worth[places]
        ranked = sorted(zip(ranks[places].tolist(), values.tolist(), section, strict=True))
        return [key for _, value, key in ranked if value <= 0]

    return Candidates(ids={title: order(section) for title, section in weights.items()}, open=openings)


def _rank(view: "View", scope: AgentScope, ids: list[str], nodes: NodeColumns) -> NDArray[np.intp]:
    """In which order candidates are read: own and global knowledge, decisions, facts, all else."""
    told = set(view.select(tags=(GLOBAL,), min_importance=MIN_IMPORTANCE, limit=OWN))
    mine = contain({*scope.ties, *_select_own(view, scope, KNOWLEDGE)}, ids)
    first = contain(told, ids) | (mine & nodes.of_kinds(*KNOWLEDGE))
    ranks: NDArray[np.intp] = np.select(
        [first, nodes.of_kinds(*LASTING), nodes.of_kinds("fact")], [0, 1, 2], 3
    )
    return ranks


def _select_own(view: "View", scope: AgentScope, kinds: tuple[str, ...]) -> list[str]:
    """The latest nodes of these kinds that it wrote or that are tagged with its name."""
    by = view.select(agent=scope.agent, kinds=kinds, min_importance=MIN_IMPORTANCE, limit=OWN)
    tagged = view.select(tags=(scope.agent,), kinds=kinds, min_importance=MIN_IMPORTANCE, limit=OWN)
    return list(dict.fromkeys((*by, *tagged)))


Source = Iterable[tuple[str, Weights]]


def _worth(nodes: NodeColumns, moment: float) -> Floats:
    """importance x recency of those that are important enough, -1 of the others."""
    importance = nodes.column("importance")
    return np.where(importance >= MIN_IMPORTANCE, rank_all(nodes, np.ones(len(importance)), moment), -1.0)


def _fade(importance: Floats, changed: Floats, rates: Floats | float, moment: float) -> Floats:
    return np.asarray(importance * np.exp(-rates * np.maximum(0.0, moment - changed) / DAY))


def _tied(view: "View", scope: AgentScope) -> Source:
    ties, nodes = scope.ties, view.describe(scope.ties)
    for title, kinds in (
        (RELATIONSHIPS, RELATED),
        (PATTERNS, ("pattern",)),
        (GOALS, ("goal",)),
        (RECENT_EVENTS, EVENTS),
        (ACTIVE, CONTEXT),
    ):
        yield title, {key: ties[key].weight for key in compress(ties, nodes.of_kinds(*kinds).tolist())}
    applying = compress(ties, nodes.of_kinds("preference", "fact").tolist())
    yield IDENTITY, {key: ties[key].applies for key in applying if ties[key].applies}


def _own(view: "View", scope: AgentScope) -> Source:
    for kind in (*SHARED, "fact"):
        ids = _select_own(view, scope, (kind,))
        yield _SECTION_OF.get(kind, ACTIVE), dict.fromkeys(ids, OWN_WEIGHT)
    kinds = (*CONTEXT, "observation")
    told = view.select(tags=(GLOBAL,), kinds=kinds, min_importance=MIN_IMPORTANCE, limit=OWN)
    yield ACTIVE, dict.fromkeys(told, BASE_WEIGHT)
    tagged = view.select(tags=(scope.agent,), min_importance=MIN_IMPORTANCE, limit=OWN)
    yield RECENT_EVENTS, dict.fromkeys(_of_kinds(view, tagged, EVENTS), OWN_WEIGHT)


def _of_low_importance(view: "View", scope: AgentScope) -> Source:
    """Facts of low importance of its own, tied to it, or near."""
    own = _select_own(view, scope, ("fact",))
    weights = {
        **dict.fromkeys(_of_kinds(view, scope.near, ("fact",)), BASE_WEIGHT),
        **dict.fromkeys(own, OWN_WEIGHT),
        **{key: scope.ties[key].weight for key in _of_kinds(view, scope.ties, ("fact",))},
    }
    low = compress(weights, (view.describe(weights).column("importance") < LOW).tolist())
    yield UNRESOLVED, {key: weights[key] for key in low}


def _for_review(view: "View", scope: AgentScope) -> Source:
    for tag in REVIEW_TAGS:
        marked = view.select(tags=(tag,), min_importance=MIN_IMPORTANCE, limit=WIDEST)
        if marked:
            mine = view.select(tags=(tag,), agent=scope.agent, min_importance=MIN_IMPORTANCE, limit=OWN)
            mine += view.select(tags=(tag, scope.agent), min_importance=MIN_IMPORTANCE, limit=OWN)
            near = [key for key in marked if key in scope.near or key in scope.ties]
            yield UNRESOLVED, {**dict.fromkeys(near, BASE_WEIGHT), **dict.fromkeys(mine, OWN_WEIGHT)}


def _recent(view: "View", scope: AgentScope) -> Source:
    since = scope.moment - RECENT
    near = view.select(kinds=EVENTS, since=since, min_importance=MIN_IMPORTANCE, among=[*scope.near])
    mine = view.select(kinds=EVENTS, agent=scope.agent, since=since, min_importance=MIN_IMPORTANCE, limit=OWN)
    yield RECENT_EVENTS, {**dict.fromkeys(near, BASE_WEIGHT), **dict.fromkeys(mine, OWN_WEIGHT)}


def _related_to_work(view: "View", scope: AgentScope) -> Source:
    """What is near to the agent's work in meaning or in the graph, by 0.5 x near + 0.5 x graph."""
    nearest = sorted(_of_kinds(view, scope.work, CONTEXT), key=lambda key: (scope.work[key], key))[
        :NEIGHBOURS
    ]
    mean = scope.direction
    alike = [] if mean is None else [key for key, _ in view.similar(mean, SIMILAR, FAR, CONTEXT)]
    ids = list(dict.fromkeys((*nearest, *alike)))
    steps = np.array([scope.work.get(key, np.inf) for key in ids], np.float64)
    weights = 0.5 * nearness(view.describe(ids).compare(mean)) + 0.5 / (1 + steps)
    near = zip(ids, weights.tolist(), strict=True)
    yield ACTIVE, {key: weight for key, weight in near if weight >= FLOOR - SLACK}


def _shared(view: "View", scope: AgentScope) -> dict[str, tuple[Weights, bool]]:
    """Enough nodes of each kind that may concern all agents, and whether there are more."""
    found: dict[str, tuple[Weights, bool]] = {}
    kinds: tuple[str, ...] = SHARED
    limit = POOL
    while kinds:
        pools = {kind: _best(view, kind, limit, scope.moment) for kind in kinds}
        bound = find_bound(view, [key for pool in pools.values() for key in pool], scope.moment)
        bound -= set(view.select(tags=(GLOBAL,))) if bound else set()
        for kind, ids in pools.items():
            weights = dict.fromkeys((key for key in ids if key not in bound), BASE_WEIGHT)
            found[kind] = weights, len(ids) == limit
        kinds = tuple(kind for kind in kinds if len(found[kind][0]) < ENOUGH and found[kind][1])
        limit *= 4
        if limit > WIDEST:
            break
    return found


def _best(view: "View", kind: str, limit: int, moment: float) -> list[str]:
    """The nodes of a kind with the highest importance x recency."""

    def order(importance: Floats, changed: Floats) -> Floats:
        return _fade(importance, changed, DAILY_RATES.get(kind, OTHER_RATE), moment)

    return view.select(kinds=(kind,), min_importance=MIN_IMPORTANCE, limit=limit, order=order)


def _of_kinds(view: "View", ids: Iterable[str], kinds: Collection[str]) -> list[str]:
    """Those of the live nodes that are of these kinds."""
    ids = list(ids)
    return [*compress(ids, view.describe(ids).of_kinds(*kinds).tolist())]
