"""Tools of memory, agents, approvals, the timetable and the log."""

from typing import Annotated, Literal

import msgspec

from services.gateway.api import agents as agents_api
from services.gateway.api import approvals as approvals_api
from services.gateway.api import memory, messages, timetable
from services.gateway.call import Call
from shared.contracts import BriefQuery, Node
from shared.contracts import Source as Origin
from shared.errors import MailroomError
from shared.text.display import shorten
from shared.views.approval import Approval, Decision
from shared.views.memory_change import MemoryChange, author_of

MOST = 60_000  # Characters of a report, an answer or a memory
Few = Annotated[int, msgspec.Meta(ge=1, le=50)]


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a tool is called with."""


class Search(Arguments, frozen=True, kw_only=True):
    """What to look for in memory."""

    text: memory.Words
    kinds: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    limit: Few = 10
    at: memory.Version = 0
    deep: bool = False


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """A memory: ``author`` said it; ``superseded_by`` is the id of what took its place."""

    id: str
    kind: str
    title: str
    body: str
    tags: tuple[str, ...]
    author: str
    created_at: str
    superseded_by: str = ""
    score: float = 0.0


class Memories(msgspec.Struct, frozen=True, kw_only=True):
    """Memories, the best first."""

    memories: list[Remembered]


async def search_memory(call: Call, given: Search) -> Memories:
    """The memories that fit some words best."""
    fields = msgspec.structs.asdict(given)
    query = memory.MemorySearch(q=fields.pop("text"), **fields)
    hits = (await memory.search_memory(call, query)).hits
    return Memories(
        memories=[
            _remembered(each.node, superseded_by=each.superseded_by, score=each.score, most=2_000)
            for each in hits
        ]
    )


def _remembered(node: Node, *, superseded_by: str = "", score: float = 0.0, most: int = MOST) -> Remembered:
    same = {name: getattr(node, name) for name in ("id", "kind", "title", "tags", "created_at")}
    body, rounded = shorten(node.body, most), round(score, 4)
    return Remembered(**same, body=body, author=author_of(node), superseded_by=superseded_by, score=rounded)


class WhichMemory(Arguments, frozen=True, kw_only=True):
    """A memory."""

    id: str
    at: memory.Version = 0


class Related(msgspec.Struct, frozen=True, kw_only=True):
    """A memory at the other end of an edge; ``direction`` is out if the edge begins at the one asked for."""

    relation: str
    direction: str
    id: str
    title: str


class MemoryDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A memory, and what it is related to, at a version of the graph."""

    memory: Remembered
    version: int
    related: list[Related]


async def read_memory(call: Call, given: WhichMemory) -> MemoryDetails:
    """One memory with its relations."""
    found = await memory.read_node(call, memory.VersionQuery(at=given.at))
    newer = found.superseded_by[0].id if found.superseded_by else ""
    related = [
        Related(
            relation=each.edge.relation.value,
            direction=each.direction,
            id=each.node.id,
            title=each.node.title,
        )
        for each in found.edges
    ]
    return MemoryDetails(
        memory=_remembered(found.node, superseded_by=newer), version=found.version, related=related
    )


class NewMemory(Arguments, frozen=True, kw_only=True):
    """What is to be remembered."""

    title: Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
    body: Annotated[str, msgspec.Meta(max_length=MOST)] = ""
    kind: str = "fact"
    tags: Annotated[tuple[str, ...], msgspec.Meta(max_length=32)] = ()


class KeptMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of what was remembered, and the version of the graph since."""

    ids: tuple[str, ...]
    version: int


async def remember(call: Call, given: NewMemory) -> KeptMemory:
    """Add a memory."""
    node = Node(**msgspec.structs.asdict(given), source=Origin(channel="mcp"))
    written = await memory.write_memory(call, MemoryChange(nodes=(node,)))
    if written.error:
        raise MailroomError(written.error, written.rejection.suggestion if written.rejection else "")
    return KeptMemory(ids=written.ids or (node.id,), version=written.version)


class WhoseBriefing(Arguments, frozen=True, kw_only=True):
    """Whose briefing, of which version."""

    agent: memory.AgentName
    at: memory.Version = 0


class BriefingText(msgspec.Struct, frozen=True, kw_only=True):
    """The briefing of an agent, made from so many memories at a version of the graph."""

    agent: str
    version: int
    memories: int
    text: str


async def brief(call: Call, given: WhoseBriefing) -> BriefingText:
    """What an agent is told before it works."""
    found = await memory.read_briefing(call, BriefQuery(agent=given.agent, at=given.at))
    return BriefingText(
        agent=found.agent, version=found.version, memories=found.nodes_consulted, text=found.text
    )


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A request for approval, as a person decides about it."""

    approval_id: str
    state: str
    agent: str
    what: str
    why: str
    risk: str
    risk_reason: str
    opens: str
    needs_hosts: bool
    on_yes: str
    on_no: str
    goal_id: str
    goal: str
    asked_at: str
    expires_at: str


def view_request(approval: Approval) -> Waiting:
    """A request, shortened."""
    return msgspec.convert(approval, Waiting, from_attributes=True)


class Nothing(Arguments, frozen=True, kw_only=True):
    """No arguments."""


class AgentLine(msgspec.Struct, frozen=True, kw_only=True):
    """An agent: how it is, and how much it has to do and has used today (US dollars)."""

    name: str
    state: str
    description: str
    load: int
    waiting: int
    handled: int
    failed: int
    tokens_today: int
    cost_today: float


class Agents(msgspec.Struct, frozen=True, kw_only=True):
    """The agents by name."""

    agents: list[AgentLine]


async def agents(call: Call, given: Nothing) -> Agents:
    """Every agent of the office."""
    found = await agents_api.list_agents(call)
    return Agents(agents=[msgspec.convert(each, AgentLine, from_attributes=True) for each in found.agents])


class ApprovalsWanted(Arguments, frozen=True, kw_only=True):
    """Which requests for approval."""

    goal: str = ""
    agent: str = ""
    limit: Few = 20


class Requests(msgspec.Struct, frozen=True, kw_only=True):
    """Requests, the latest last, and how many more each agent has."""

    approvals: list[Waiting]
    more: dict[str, int]


async def approvals(call: Call, given: ApprovalsWanted) -> Requests:
    """What waits for a person's approval."""
    query = approvals_api.ApprovalsQuery(goal=given.goal, agent=given.agent, limit=given.limit)
    found = await approvals_api.list_approvals(call, query)
    return Requests(approvals=[view_request(each) for each in found.approvals], more=found.more)


class Answering(Decision, frozen=True, kw_only=True):
    """Which request, and the answer."""

    approval_id: str


async def answer_approval(call: Call, given: Answering) -> Waiting:
    """Grant or refuse a request."""
    return view_request(await approvals_api.answer_approval(call, given))


class Tail(messages.MessagesQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which messages."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 30


async def tail(call: Call, given: Tail) -> messages.MessagePage:
    """Messages of the log, the latest first."""
    return await messages.list_messages(call, given)


class ItemsWanted(Arguments, frozen=True, kw_only=True):
    """What of the timetable."""

    what: Literal["", "mail", "goal", "briefing", "job", "deadline"] = "mail"


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """What happens at ``at``, and how often; mail is a reminder."""

    id: str
    what: str
    text: str
    at: str
    status: str
    every: str


class Timetable(msgspec.Struct, frozen=True, kw_only=True):
    """What happens by itself, the next first, and the time zone of the office."""

    time_zone: str
    items: list[Planned]
    problem: str


async def reminders(call: Call, given: ItemsWanted) -> Timetable:
    """What the office does by itself later."""
    page = await timetable.read_page(call, timetable.TimetableQuery(what=given.what))
    items = [msgspec.convert(each, Planned, from_attributes=True) for each in page.items]
    return Timetable(time_zone=page.time_zone, items=items, problem=page.problem)
