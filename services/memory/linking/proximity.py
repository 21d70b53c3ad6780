"""The nodes near a node in time, in its session, and by its tags."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from services.memory.graph.decay import parse_time
from services.memory.linking.rules import MIN_TAGS, MOST_TAGGED, NEAREST, WINDOW
from shared.contracts import ListQuery, Node
from shared.contracts.queries import MAX_PAGE

if TYPE_CHECKING:
    from services.memory.retrieval.view import View

MAX_TAGS = 8  # The most tags of a node that are looked up

MAX_TAGGED = 200
"""The most nodes of a tag that are considered, the latest first: a tag that all have says nothing."""

Entry = tuple[float, str, Node]


class Proximity:
    """Looks up neighbours for a cycle, each session, half hour and tag once.

    Of a session, and of an agent's half hour, the first thousand nodes and those of the cycle's own ``batch``
    are seen: that bounds the work, and what comes later in a longer one comes in a batch with its neighbours.
    """

    def __init__(self, view: "View", batch: Sequence[Node]) -> None:
        self._view = view
        self._own: dict[tuple[str, str], list[Node]] = defaultdict(list)
        for node in batch:
            self._own["session", node.source.session].append(node)
            self._own["agent", node.source.agent].append(node)
        self._sessions: dict[str, list[Entry]] = {}
        self._agents: dict[tuple[str, int], list[Entry]] = {}
        self._tagged: dict[str, list[str]] = {}

    def in_session(self, node: Node) -> list[tuple[Node, float]]:
        """The nearest nodes of its session, three before and three after, and how many seconds later they
        came.
        """
        session = node.source.session
        if not session:
            return []
        if session not in self._sessions:
            self._sessions[session] = self._fetch(self._own["session", session], session=session)
        return _nearest(self._sessions[session], node)

    def of_agent(self, node: Node) -> list[tuple[Node, float]]:
        """The same of what its agent remembered within 30 minutes."""
        agent, moment = node.source.agent, parse_time(node.created_at)
        if not agent:
            return []
        place = int(moment // WINDOW)
        entries = sorted(
            {
                entry[1]: entry for at in range(place - 1, place + 2) for entry in self._half_hour(agent, at)
            }.values()
        )
        return [(other, seconds) for other, seconds in _nearest(entries, node) if abs(seconds) <= WINDOW]

    def tagged(self, node: Node) -> list[str]:
        """Ids of nodes that share at least two tags with it, those that share most first; at most five."""
        shared: Counter[str] = Counter()
        for tag in node.tags[:MAX_TAGS]:
            if tag not in self._tagged:
                self._tagged[tag] = self._view.select(tags=(tag,), limit=MAX_TAGGED)
            shared.update(self._tagged[tag])
        del shared[node.id]
        return [node_id for node_id, count in shared.most_common(MOST_TAGGED) if count >= MIN_TAGS]

    def _half_hour(self, agent: str, place: int) -> list[Entry]:
        if (agent, place) not in self._agents:
            begin, end = place * WINDOW, (place + 1) * WINDOW
            own = [n for n in self._own["agent", agent] if begin <= parse_time(n.created_at) < end]
            self._agents[agent, place] = self._fetch(own, agent=agent, since=_text(begin), until=_text(end))
        return self._agents[agent, place]

    def _fetch(self, own: Sequence[Node], **filters: Any) -> list[Entry]:
        page = self._view.list(ListQuery(limit=MAX_PAGE, **filters)).nodes
        nodes = {node.id: node for node in (*page, *own)}
        return sorted((parse_time(node.created_at), node.id, node) for node in nodes.values())


def _nearest(entries: Sequence[Entry], node: Node) -> list[tuple[Node, float]]:
    moment = parse_time(node.created_at)
    place = bisect_left(entries, (moment, node.id), key=lambda entry: entry[:2])
    before = entries[max(0, place - NEAREST) : place]
    after = [entry for entry in entries[place : place + NEAREST + 1] if entry[1] != node.id][:NEAREST]
    return [(entry[2], entry[0] - moment) for entry in (*before, *after)]


def _text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
