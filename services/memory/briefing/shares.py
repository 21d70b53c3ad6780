"""What everybody may know, shared out: each agent is told what is near to its trade and its work."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from services.memory.briefing.scope import (
    DAY,
    MIN_IMPORTANCE,
    RECENT,
    AgentScope,
    is_current,
    select_shared,
)
from shared import subjects
from shared.contracts import Node
from shared.text.display import count

if TYPE_CHECKING:
    from services.memory.retrieval.view import View

SHARED = ("preference", "pattern", "goal", "decision")  # Kinds that may concern all agents

EVENTS = ("event", "episodic")

STATED = ("fact", "observation", "task", "question")  # Kinds that are told to those whose work they are

RELATED = tuple(
    "agent person people human user contact customer team group organization organisation company"
    " project repository system service server database device tool api".split()
)
"""People, agents and systems, by the names that these kinds have."""

CURATED = "MEMORY.md"  # The file of what its owners want all agents to have at hand

CORE = 2  # So many preferences, open questions and events of late concern all agents: the best of them

FEW = 3  # Among fewer agents nothing is shared out

LITTLE = 10  # Nor are so many nodes of SHARED kinds: all agents are told all of them

PART = 3
"""A node is told to the agent that is nearest to it, and to others of the nearest one in so many if it is
CLEAR that it concerns them.
"""

CLEAR = 0.5  # How far above the mean of all agents, in standard deviations

LEAST = 10  # Each agent is told at least so many of the nodes that are shared out, those nearest to it

PEERS = 32  # The most agents among whom knowledge is shared out

DONE_LAST = 10  # By how many of its latest nodes it is told what an agent works at

MORE = 128  # The most nodes of STATED kinds, and the most recent events, that are shared out

TOGETHER = 14 * DAY  # How far back it is looked at who worked with whom, in seconds

_SERVING = frozenset({subjects.MEMORY_DAEMON, subjects.GATEWAY})  # Agents that no model is briefed for


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent is told of what everybody may know.

    ``pools`` are the nodes of SHARED kinds, weighed, and whether there are more. ``told`` are those of them
    and of other kinds that it is told, ``common`` those of them that are
    nearer to another agent, ``questions`` the open ones, ``relations`` those of CURATED that say who and what
    there is; ``colleagues`` say of the nodes of other agents on how many goals both worked.
    """

    pools: Mapping[str, tuple[dict[str, float], bool]]
    told: Collection[str]
    common: Collection[str]
    questions: Collection[str]
    relations: Collection[str]
    colleagues: Mapping[str, str]


def share_out(view: "View", scope: AgentScope, enough: int) -> Share:
    """The share of an agent; of each of the SHARED kinds ``enough`` nodes are looked for."""
    pools = select_shared(view, SHARED, enough, scope.moment)
    curated = view.nodes(view.select(session=CURATED, min_importance=MIN_IMPORTANCE, limit=MORE))
    related = _find_related(curated)
    stated = view.select(kinds=STATED, min_importance=MIN_IMPORTANCE, limit=MORE)
    since = scope.moment - RECENT
    news = view.select(
        kinds=EVENTS, since=since, min_importance=MIN_IMPORTANCE, limit=MORE, order="important"
    )
    agents = _find_agents(view, scope)
    stated, news = (_told_by_people(view, ids) for ids in (stated, news))
    notes = {node.id: node for node in (*curated, *view.nodes(stated))}
    questions = _find_questions(notes.values())
    told = {*related, *(node.id for node in curated if node.kind in STATED), *news[:CORE], *questions[:CORE]}
    told.update([*pools["preference"][0]][:CORE])
    shared = [key for weights, _ in pools.values() for key in weights]
    if len(agents) < FEW or scope.node is None or len(shared) <= LITTLE:
        told.update(shared, news)
    nearest = set[str]()
    if len(agents) >= FEW and scope.node:
        ids = dict.fromkeys((*shared, *stated, *news))
        fitting, nearest = _find_fitting(view, scope, ids, agents)
        told |= fitting
    return Share(
        pools=pools,
        told=told,
        common=told - nearest,
        questions=set(questions),
        relations=related,
        colleagues=_count_colleagues(view, scope, agents),
    )


def _heading(node: Node) -> str:
    return str(node.metadata.get("heading", ""))


def _find_related(curated: Iterable[Node]) -> list[str]:
    """What stands under headings below which facts are told most: owners, contacts, systems."""
    headed: dict[str, list[Node]] = {}
    for node in curated:
        headed.setdefault(_heading(node), []).append(node)
    facts = {heading: sum(node.kind == "fact" for node in under) for heading, under in headed.items()}
    related = (under for heading, under in headed.items() if heading and 2 * facts[heading] >= len(under))
    return [node.id for under in related for node in under]


def _find_agents(view: "View", scope: AgentScope) -> dict[str, str]:
    """The agents that are briefed, their names by their nodes; the one of the scope comes first."""
    nodes = view.nodes(view.select(kinds=("agent",), limit=PEERS, order="important"))
    own = [scope.node] if scope.node else []
    return {
        node.id: str(node.metadata.get("name") or node.title)
        for node in (*own, *nodes)
        if node.title not in _SERVING and is_current(node, scope.moment)
    }


def _told_by_people(view: "View", ids: Sequence[str]) -> list[str]:
    """Those of the nodes that people or their files told; what agents wrote is theirs."""
    nodes = view.describe(ids)
    told = np.any([nodes.by("agent", name) for name in ("", *subjects.PEOPLE)], axis=0)
    return [*compress(ids, told.tolist())]


def _find_questions(notes: Iterable[Node]) -> list[str]:
    """What asks; and what stands among such under one heading, as "It is unclear who pays"."""
    asking, headed = [], dict[tuple[str, str], list[bool]]()
    for node in notes:
        asks = node.kind == "question" or (node.body or node.title).rstrip().endswith(("?", "？"))
        under = (node.source.session, _heading(node))
        headed.setdefault(under, []).append(asks)
        asking.append((node.id, asks, under))
    most = {under for under, each in headed.items() if all(under) and 1 < len(each) <= 2 * sum(each)}
    return [key for key, asks, under in asking if asks or under in most]


def _find_fitting(
    view: "View", scope: AgentScope, ids: Iterable[str], agents: Mapping[str, str]
) -> tuple[set[str], set[str]]:
    """Those of the nodes that are nearer to this agent than to most others, in what they mean, and those to
    which it is the nearest.

    An agent is where its node and its latest work are. How near a node is to it counts beyond how near nodes
    are to it in general, and beyond how near this one is to all agents. Without vectors all fit.
    """
    ids = list(ids)
    nodes = view.describe(ids)
    places = [_locate(view, key, name) for key, name in agents.items()]
    near = np.stack([nodes.compare(place) for place in places])
    unknown = ~near.any(axis=0)
    near -= near.mean(axis=1, keepdims=True)
    near /= near.std(axis=1, keepdims=True) + 1e-9
    nearer, beyond = (near > near[0]).sum(axis=0), near[0] - near.mean(axis=0)
    fits = unknown | (nearer == 0) | ((beyond > CLEAR) & (nearer < len(agents) // PART))
    fits[np.argsort(-beyond, kind="stable")[:LEAST]] = True
    return {*compress(ids, fits.tolist())}, {*compress(ids, (nearer == 0).tolist())}


def _locate(view: "View", key: str, name: str) -> NDArray[np.float32]:
    done = dict.fromkeys(
        (*view.select(agent=name, limit=DONE_LAST), *view.select(tags=(name,), limit=DONE_LAST))
    )
    done.pop(key, None)
    own, work = view.vectors([key])[0], view.vectors([*done]).sum(axis=0)
    place: NDArray[np.float32] = own + work / (np.linalg.norm(work) or 1)
    return place / (np.linalg.norm(place) or 1)


def _count_colleagues(view: "View", scope: AgentScope, agents: Mapping[str, str]) -> dict[str, str]:
    since = scope.moment - TOGETHER
    events = view.describe(view.select(tags=(scope.agent,), kinds=EVENTS, since=since, limit=MORE))
    others = {key: name.casefold() for key, name in agents.items() if name.casefold() != scope.agent}
    counts = {key: int(events.named({name}).sum()) for key, name in others.items()}
    return {key: f"on {count(number, 'goal')} with {scope.agent}" for key, number in counts.items() if number}
