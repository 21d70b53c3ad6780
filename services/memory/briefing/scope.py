"""What of memory concerns an agent, by its ties and edges, and what a node is worth to it.

A node is worth importance x weight x recency.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from services.memory.graph.decay import parse_time
from services.memory.graph.network import RELATIONS
from services.memory.local_model import Vectors
from shared.contracts import MemoryQuery, Node, Relation
from shared.contracts.queries import Direction
from shared.memory.ownership import GLOBAL, find_owner, is_person

if TYPE_CHECKING:
    from services.memory.retrieval.node_index import NodeColumns
    from services.memory.retrieval.view import View

MIN_IMPORTANCE = 0.3  # Below this nothing is shown but the agent's own node

MIN_WEIGHT = 0.2  # Edges below this effective weight are not followed

OWN_WEIGHT = 0.5  # The weight of what the agent wrote or is tagged with, if no edge joins the two

BASE_WEIGHT = 0.3  # The weight of what concerns all agents, or is near the agent, if no edge joins the two

LOW = 0.4  # The importance and weight below which, together, a fact is of low confidence

OTHERS_WEIGHT = 0.2  # The weight of what is tagged with other agents' names

DAILY_RATES = {
    "event": 0.05,
    "observation": 0.04,
    "fact": 0.01,
    "decision": 0.005,
    "pattern": 0.005,
    "preference": 0.005,
}
"""The recency that a node of a kind loses a day: events age in weeks, decisions in months."""

OTHER_RATE = 0.02  # The same for all other kinds

DAY = 86_400.0  # Seconds

REVIEW_TAGS = ("review", "needs-review")  # Tags that ask for a review of a node


def rank(node: Node, weight: float, moment: float) -> float:
    """importance x weight x recency, in 0..1; recency is e^(-daily rate of its kind x days since its last
    change).

    How often a node was read counts for nothing here, so that serving a briefing does not change the next
    one.
    """
    days = max(0.0, moment - changed_at(node)) / DAY
    return node.importance * weight * math.exp(-daily_rate(node) * days)


def rank_all(nodes: "NodeColumns", weights: NDArray[np.float64], moment: float) -> NDArray[np.float64]:
    """The same of many, each with its weight."""
    rates = np.full(len(weights), OTHER_RATE)
    for kind, rate in DAILY_RATES.items():
        rates[nodes.of_kinds(kind)] = rate
    days = np.maximum(0.0, moment - nodes.column("changed")) / DAY
    ranks: NDArray[np.float64] = nodes.column("importance") * weights * np.exp(-rates * days)
    return ranks


def daily_rate(node: Node) -> float:
    """How much of its recency it loses a day."""
    return DAILY_RATES.get(node.kind, OTHER_RATE)


def changed_at(node: Node) -> float:
    """When it was last written, in seconds since the epoch."""
    return parse_time(node.updated_at or node.created_at)


def is_current(node: Node, moment: float) -> bool:
    """Whether a node is not retired and ``moment`` lies in the time it is valid for."""
    return (
        not node.retired_version
        and not (node.valid_from and parse_time(node.valid_from) > moment)
        and not (node.valid_to and parse_time(node.valid_to) <= moment)
    )


def is_flagged(node: Node, *, but: str = "") -> bool:
    """Whether its metadata asks for a review: ``review``, ``needs_review`` or (by the linker) ``flag``.

    A value ``but`` does not count.
    """
    values = (node.metadata.get(name) for name in ("review", "needs_review", "flag"))
    return any(_is_set(value) for value in values if not but or value != but)


def is_uncertain(node: Node) -> bool:
    """Whether it is a fact whose metadata say that it is of low ``confidence``: under 0.5, or "low"."""
    confidence = node.metadata.get("confidence")
    if isinstance(confidence, int | float) and not isinstance(confidence, bool):
        return node.kind == "fact" and confidence < 0.5
    return node.kind == "fact" and confidence == "low"


def _is_set(flag: Any) -> bool:
    return bool(flag) and str(flag).lower() not in ("false", "no", "0")


BINDING = tuple(
    relation
    for relation in Relation
    if relation not in (Relation.RELATED_TO, Relation.CONTRADICTS, Relation.SUPERSEDES)
)
"""The relations that, with an agent at the other end, make a node that agent's affair: likeness does not."""

MAX_REACH = 10_000
"""The most nodes that are near to something: a further step that would take in more is not made."""

PHRASES = {
    Relation.INFORMED_BY: ("is informed by {}", "informs {}"),
    Relation.LED_TO: ("led to {}", "{} led to it"),
    Relation.APPLIES_TO: ("applies to {}", "{} applies to it"),
    Relation.CONTRADICTS: ("contradicts {}", "contradicts {}"),
    Relation.SUPERSEDES: ("supersedes {}", "superseded by {}"),
    Relation.DEPENDS_ON: ("depends on {}", "{} depends on it"),
    Relation.RELATED_TO: ("related to {}", "related to {}"),
    Relation.INSTANCE_OF: ("is an instance of {}", "{} is an instance of it"),
}
"""The phrases for a relation with an agent, if the edge leads to the agent and if it comes from the agent."""


class Link(NamedTuple):
    """An edge seen from ``node``: where it leads, whether it comes from there, and its effective weight."""

    node: str
    other: str
    relation: Relation
    incoming: bool
    weight: float


class Tie(NamedTuple):
    """How an agent and a node are joined: the strongest edge, its phrase, and the strongest applies_to."""

    weight: float
    note: str
    applies: float


NO_TIE = Tie(0.0, "", 0.0)


def find_links(
    view: "View",
    ids: Iterable[str],
    moment: float,
    *,
    directions: tuple[Direction, ...] = ("both",),
    relations: Collection[Relation] = (),
    floor: float = 0.0,
    kinds: Collection[str] = (),
) -> list[Link]:
    """The edges of live nodes with other live ones; ``kinds`` are those of the other ends.

    ``incoming`` is only known of edges searched by the direction "in"; "both" is quicker.
    """
    found: list[Link] = []
    places = view.graph.find_places(ids)
    names = list(places)
    for direction in directions if places else ():
        steps = view.graph.steps([*places.values()], direction, relations, floor, moment)
        kept = np.ones(len(steps.rows), np.bool_)
        if kinds:
            kept = view.graph.of_kinds(steps.targets.tolist(), kinds)
        columns = (steps.origins[kept], steps.targets[kept], steps.relations[kept], steps.weights[kept])
        origins, targets, codes, weights = (column.tolist() for column in columns)
        others = view.graph.names(targets)
        for origin, other, code, weight in zip(origins, others, codes, weights, strict=True):
            found.append(Link(names[origin], other, RELATIONS[code], direction == "in", weight))
    return found


def find_bound(view: "View", ids: Iterable[str], moment: float) -> set[str]:
    """Those of the nodes that belong to some agent: bound by an edge, however weak it has become."""
    links = find_links(view, ids, moment, relations=BINDING, kinds=("agent",))
    return {link.node for link in links}


def find_ties(view: "View", hubs: Mapping[str, float], agent: str, moment: float) -> dict[str, Tie]:
    """How nodes are joined with the ``hubs`` (what an agent acts through), whose weights count as factors."""
    ties: dict[str, Tie] = {}
    for link in find_links(view, hubs, moment, directions=("out", "in"), floor=MIN_WEIGHT):
        if link.other in hubs:
            continue
        weight = link.weight * hubs[link.node]
        old = ties.get(link.other, NO_TIE)
        applies = weight if link.relation is Relation.APPLIES_TO and link.incoming else 0.0
        phrase = PHRASES[link.relation][not link.incoming].format(agent)
        best = max((weight, phrase), (old.weight, old.note))
        ties[link.other] = Tie(*best, max(applies, old.applies))
    return ties


def count_steps(view: "View", starts: Iterable[str], depth: int, moment: float) -> dict[str, int]:
    """The steps, of any direction and at least MIN_WEIGHT, from the nearest of ``starts`` to live nodes."""
    located = view.graph.find_places(starts)
    found, places = dict.fromkeys(located, 0), [*located.values()]
    seen = set(places)
    for distance in range(1, depth + 1):
        steps = view.graph.steps(places, "both", (), MIN_WEIGHT, moment)
        places = [place for place in np.unique(steps.targets).tolist() if place not in seen]
        if not places or len(seen) + len(places) > MAX_REACH:
            break
        seen.update(places)
        found.update(dict.fromkeys(view.graph.names(places), distance))
    return found


ANCHORS = 10  # Of how many of its latest nodes an agent's present work is made out

SPARE = 6  # How many more are considered, since some may be no longer valid

SUSPECTS = 64  # How many of its latest nodes, and of those tied to it, are read for what their metadata say

RECENT = 48 * 3600.0  # How far back recent goes, in seconds

NEAR = 2
"""The neighbourhood of the agent's node in steps; the other side of a contradiction may be one further."""

WORK = 2
"""Steps from what the agent has been doing within which the graph says that something is about the same."""

MAX_HUBS = 50  # The most nodes an agent acts through

MAX_AGENTS = 1_000  # The most nodes of the kind agent that are searched for a name

_ACTIVITIES = frozenset("decision event episodic fact goal observation pattern preference task".split())
"""Kinds that are about an agent and never the agent itself, however they are tagged."""


class AgentScope(msgspec.Struct, frozen=True, kw_only=True):
    """What of memory concerns ``agent`` at ``moment``.

    ``node`` is the agent's own node. ``ties`` are the nodes joined with it, with its instances or with what
    it is an instance of. ``near`` has the number of steps from its node. ``anchors`` are its latest nodes,
    ``work`` the steps from those and its node, ``direction`` the mean of their vectors. ``suspects`` are the
    nodes whose metadata may put them under Unresolved. ``others`` are the names of the other agents.
    """

    agent: str
    moment: float
    node: Node | None
    ties: Mapping[str, Tie]
    near: Mapping[str, int]
    anchors: tuple[str, ...]
    work: Mapping[str, int]
    direction: Vectors | None
    suspects: frozenset[str]
    others: frozenset[str]


def find_scope(view: "View", agent: str, moment: float) -> AgentScope:
    """The scope of ``agent`` at ``moment``."""
    node = find_agent(view, agent, moment)
    own = [node.id] if node else []
    kin = find_links(view, own, moment, relations=(Relation.INSTANCE_OF,), floor=MIN_WEIGHT)
    ordered = sorted(kin, key=lambda link: (-link.weight, link.other))[:MAX_HUBS]
    hubs = dict.fromkeys(own, 1.0)
    for link in ordered:
        hubs.setdefault(link.other, link.weight)
    ties = find_ties(view, hubs, agent, moment)
    latest = view.select(agent=agent, min_importance=MIN_IMPORTANCE, limit=SUSPECTS)
    tagged = view.select(tags=(agent,), min_importance=MIN_IMPORTANCE, limit=SUSPECTS)
    work = dict.fromkeys((*latest[: ANCHORS + SPARE], *tagged[: ANCHORS + SPARE]))
    anchors = _find_anchors(view, list(work), moment)
    heaviest = sorted(ties, key=lambda node_id: (-ties[node_id].weight, node_id))[:SUSPECTS]
    return AgentScope(
        agent=agent,
        moment=moment,
        node=node,
        ties=ties,
        near=count_steps(view, own, NEAR, moment),
        anchors=anchors,
        work=count_steps(view, (*anchors, *own), WORK, moment),
        direction=_mean(view, anchors or own),
        suspects=frozenset((*latest, *tagged, *heaviest)),
        others=frozenset(name_agents(view)) - {agent},
    )


def is_known(view: "View", agent: str, moment: float) -> bool:
    """Whether memory has a node of the agent, one by it, or one that is tagged with its name."""
    told = view.select(agent=agent, limit=1) or view.select(tags=(agent,), limit=1)
    return bool(told) or find_agent(view, agent, moment) is not None


def name_agents(view: "View") -> list[str]:
    """The names of the agents that have a node: its ``metadata["name"]``, else its title."""
    nodes = view.nodes(view.select(kinds=("agent",), limit=MAX_AGENTS, order="important"))
    return sorted({str(node.metadata.get("name") or node.title).casefold() for node in nodes})


def find_agent(view: "View", agent: str, moment: float) -> Node | None:
    """The node that represents an agent: the most important one of the first of these groups that has any.

    - of kind agent and with its name as id, ``metadata["name"]`` or title;
    - tagged with its name: of kind agent, else of a kind that is not merely about it;
    - with its name as title.

    Names are compared without regard to case, blanks and punctuation.
    """
    agents = view.nodes(view.select(kinds=("agent",), limit=MAX_AGENTS, order="important"))
    if found := _first((node for node in agents if is_named(node, agent)), moment):
        return found
    tagged = view.nodes(view.select(tags=(agent,), limit=MAX_AGENTS, order="important"))
    things = [node for node in tagged if node.kind not in _ACTIVITIES]
    if found := _first((node for node in things if node.kind == "agent"), moment) or _first(things, moment):
        return found
    hits = view.search(MemoryQuery(text=agent, limit=20), np.zeros(view.dimensions, np.float32), moment)
    titled = (hit.node for hit in hits if _normalise(hit.node.title) == _normalise(agent))
    return _first((node for node in titled if node.kind not in _ACTIVITIES), moment)


def is_named(node: Node, agent: str) -> bool:
    """Whether a node of kind agent has this name."""
    if node.kind != "agent":
        return False
    names = (node.id, node.title, str(node.metadata.get("name", "")))
    return _normalise(agent) in map(_normalise, names)


def is_private(node: Node, agent: str) -> bool:
    """Whether it is from another agent's folder, ``ingest/agents/<name>``, and not tagged for this one."""
    owner = find_owner(node)
    return owner not in ("", agent) and (is_person(owner) or agent not in node.tags)


def _find_anchors(view: "View", latest: list[str], moment: float) -> tuple[str, ...]:
    """Those of its latest nodes that were written in the last 48 hours, or all if none were."""
    nodes = sorted(view.nodes(latest), key=lambda node: (-changed_at(node), node.id))
    current = [node for node in nodes if is_current(node, moment)]
    recent = [node for node in current if changed_at(node) >= moment - RECENT]
    return tuple(node.id for node in (recent or current)[:ANCHORS])


def _mean(view: "View", ids: Iterable[str]) -> Vectors | None:
    vectors = [vector for node_id in ids if (vector := view.vector(node_id)) is not None]
    total = np.sum(np.asarray(vectors, np.float64), axis=0) if vectors else np.zeros(1)
    length = float(np.sqrt(total @ total))
    return np.asarray(total / length, np.float32) if length else None


def _first(nodes: Iterable[Node], moment: float) -> Node | None:
    current = [node for node in nodes if is_current(node, moment)]
    return min(current, key=lambda node: (-node.importance, node.id), default=None)


@lru_cache(10_000)
def _normalise(name: str) -> str:
    return re.sub(r"[\W_]+", "-", name.casefold()).strip("-")


POOL = 128
"""How many nodes of a kind are considered first; more if too many of them are bound to other agents."""

WIDEST = 4_096  # The most that are considered

LATEST = 128  # How many of the agent's own latest nodes are considered


def select_shared(
    view: "View", kinds: Sequence[str], enough: int, moment: float
) -> dict[str, tuple[dict[str, float], bool]]:
    """``enough`` nodes of each kind that may concern all agents, weighed, and whether there are more."""
    found: dict[str, tuple[dict[str, float], bool]] = {}
    limit = POOL
    while kinds:
        pools = {kind: _best(view, kind, limit, moment) for kind in kinds}
        bound = find_bound(view, [key for pool in pools.values() for key in pool], moment)
        bound -= set(view.select(tags=(GLOBAL,))) if bound else set()
        for kind, ids in pools.items():
            weights = dict.fromkeys((key for key in ids if key not in bound), BASE_WEIGHT)
            found[kind] = weights, len(ids) == limit
        kinds = tuple(kind for kind in kinds if len(found[kind][0]) < enough and found[kind][1])
        limit *= 4
        if limit > WIDEST:
            break
    return found


def _best(view: "View", kind: str, limit: int, moment: float) -> list[str]:
    """The nodes of a kind with the highest importance x recency."""

    def order(importance: NDArray[np.floating], changed: NDArray[np.floating]) -> NDArray[np.floating]:
        rate = DAILY_RATES.get(kind, OTHER_RATE)
        return np.asarray(importance * np.exp(-rate * np.maximum(0.0, moment - changed) / DAY))

    return view.select(kinds=(kind,), min_importance=MIN_IMPORTANCE, limit=limit, order=order)


def select_kinds(view: "View", ids: Iterable[str], kinds: Collection[str]) -> list[str]:
    """Those of the live nodes that are of these kinds."""
    ids = list(ids)
    return [*compress(ids, view.describe(ids).of_kinds(*kinds).tolist())]


def select_own(view: "View", scope: AgentScope, kinds: tuple[str, ...]) -> list[str]:
    """The latest nodes of these kinds that it wrote or that are tagged with its name."""
    by = view.select(agent=scope.agent, kinds=kinds, min_importance=MIN_IMPORTANCE, limit=LATEST)
    tagged = view.select(tags=(scope.agent,), kinds=kinds, min_importance=MIN_IMPORTANCE, limit=LATEST)
    return list(dict.fromkeys((*by, *tagged)))


FAR = 0.4  # The cosine of unrelated texts: half of the pairs of such are above .48, a tenth under .39


def nearness(cosines: NDArray[np.float64]) -> NDArray[np.float64]:
    """How near in meaning, 0 to 1, texts of these cosines are."""
    near: NDArray[np.float64] = np.clip((cosines - FAR) / (1 - FAR), 0.0, 1.0)
    return near


def contain(known: Collection[str], ids: Sequence[str]) -> NDArray[np.bool_]:
    """Which of the ids are known."""
    return np.fromiter(map(known.__contains__, ids), np.bool_, len(ids))
