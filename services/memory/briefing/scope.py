"""What of memory concerns an agent: its node, what is tied to it, what is near, what it has been doing."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from services.memory.briefing.links import Tie, count_steps, find_links, find_ties
from services.memory.briefing.ranking import MIN_IMPORTANCE, MIN_WEIGHT, changed_at, is_current
from services.memory.local_embedder import Vectors
from shared.contracts import MemoryQuery, Node, Relation
from shared.memory.ownership import find_owner

if TYPE_CHECKING:
    from services.memory.retrieval.view import View

ANCHORS = 10
"""Of how many of its latest nodes an agent's present work is made out."""

SPARE = 6
"""How many more are considered, since some may be no longer valid."""

SUSPECTS = 64
"""How many of its latest nodes, and of those tied to it, are read for what their metadata say."""

RECENT = 48 * 3600.0
"""How far back recent goes, in seconds."""

NEAR = 2
"""The neighbourhood of the agent's node in steps; the other side of a contradiction may be one further."""

WORK = 2
"""Steps from what the agent has been doing within which the graph says that something is about the same."""

MAX_HUBS = 50
"""The most nodes an agent acts through."""

MAX_AGENTS = 1_000
"""The most nodes of the kind agent that are searched for a name."""

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
    hubs = _find_hubs(view, own, moment)
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
    return find_owner(node) not in ("", agent) and agent not in node.tags


def _find_hubs(view: "View", own: list[str], moment: float) -> dict[str, float]:
    kin = find_links(view, own, moment, relations=(Relation.INSTANCE_OF,), floor=MIN_WEIGHT)
    ordered = sorted(kin, key=lambda link: (-link.weight, link.other))[:MAX_HUBS]
    hubs = dict.fromkeys(own, 1.0)
    for link in ordered:
        hubs.setdefault(link.other, link.weight)
    return hubs


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
