"""Having memories forgotten: what goes with them, the order, and the record that it is done."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Sequence

import msgspec

from shared import subjects
from shared.bus import Bus, Stored
from shared.contracts import (
    EdgesQuery,
    HistoryQuery,
    MemoryForgotten,
    MemoryWrite,
    MemoryWritten,
    Node,
    Relation,
)
from shared.errors import MailroomError, NotFound
from shared.memory import Memory
from shared.operations.erasure.eraser import Report, find_quotations
from shared.operations.erasure.orders import leave_order
from shared.operations.erasure.redaction import quotes, texts_of_nodes
from shared.queries.records import scan
from shared.text.quotations import Quotations, find_common, find_short
from shared.trail.archives import pages_of, read_archives

SHOWN_SHORT = 5  # The most texts that are named as too short to be looked for
_PLACES = {
    "mail": "letters, questions and answers",
    "task": "steps and results of tasks",
    "tasks": "goals as they were submitted",
    "state": "states of goals",
    "dead": "dead letters",
    "event": "events",
    "approval": "requests for approval",
    "record": "records of agents, such as conversations",
}


class ForgettingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What an order would erase: the ``nodes``, first those that were named, then what was merged with them
    and proposals to change them; ``earlier`` is what these said before they were changed. ``sharing`` are the
    ids of others that have a text of these, and lose it.

    ``messages`` are how many of the office quote them, by what they are, also in bundles of the archive;
    ``away`` is which bundles could not be read. ``short`` are the texts of them that are too short to be
    looked for there, and ``common`` the parts that many other memories have: they stay wherever they stand.
    """

    nodes: list[Node]
    sharing: list[str]
    earlier: list[str] = []
    messages: dict[str, int] = {}
    away: list[str] = []
    short: list[str] = []
    common: list[str] = []

    @property
    def texts(self) -> list[str]:
        """What the nodes say and said."""
        return [*texts_of_nodes(self.nodes), *self.earlier]

    @property
    def quotations(self) -> Quotations:
        """What is looked for in the office's messages and files."""
        return Quotations(self.texts, self.common)


async def count_messages(
    bus: Bus, quotations: Quotations, report: Report = lambda *_: None
) -> dict[str, int]:
    """How many messages of the office on the server quote what is to be forgotten, by what they are."""
    found: Counter[str] = Counter()
    async for page in find_quotations(bus, quotations, report=report):
        found.update(_place_of(stored) for stored in page)
    return dict(found)


async def count_archived(bus: Bus, quotations: Quotations) -> tuple[dict[str, int], list[str]]:
    """The same of messages that are in bundles alone, and which bundles could not be read."""
    found, away = Counter[str](), list[str]()
    for archive in await read_archives(bus) if quotations else ():
        first, last = archive.order.first, archive.order.last
        there = {stored.seq async for stored in scan(bus, subjects.OFFICE, seq=first, until=last)}
        try:
            archive.require_here()
            async for page in pages_of(archive.path):
                messages = [each for each in page if isinstance(each, Stored) and each.seq not in there]
                found.update(_place_of(each) for each in messages if quotes(each.data, quotations))
                await asyncio.sleep(0)
        except MailroomError as error:
            away.append(error.cause)
    return dict(found), away


def _place_of(stored: Stored) -> str:
    return _PLACES.get(stored.subject.partition(".")[0], "other messages")


async def order_forgetting(bus: Bus, plan: ForgettingPlan, person: str = "") -> MemoryWritten:
    """Order that the nodes of a plan be forgotten, as a person: by memory now, in the office soon after.

    The texts are left for the eraser first, so that no crash keeps quotations that nobody looks for.
    """
    order = MemoryWrite(sender=subjects.USER, person=person, forget=tuple(node.id for node in plan.nodes))
    await leave_order(bus, order, plan.texts, plan.common)
    return await Memory(bus).write(order)


async def plan_forgetting(bus: Bus, ids: Sequence[str]) -> ForgettingPlan:
    """What an order to forget ``ids`` would erase; raises NotFound if memory lacks one of them."""
    plan = await find_nodes(Memory(bus), ids)
    archived, away = await count_archived(bus, plan.quotations)
    messages = Counter(await count_messages(bus, plan.quotations)) + Counter(archived)
    return msgspec.structs.replace(plan, messages=dict(messages), away=away)


async def find_nodes(memory: Memory, ids: Sequence[str]) -> ForgettingPlan:
    """The same without the office's messages, whose reading takes a while.

    Raises NotFound if memory lacks one of them.
    """
    found = {node.id: node for node in await memory.get(*ids)}
    if missing := [each for each in ids if each not in found]:
        raise NotFound(
            f"{', '.join(missing)} is not in memory, so nothing was forgotten",
            "'mailroom memory search' finds ids",
        )
    merged = {each for node in found.values() for each in _merged_from(node)}
    others: dict[str, str] = {}
    async for node in memory.iterate_nodes():
        if found.keys() & set(_merged_from(node)):
            merged.add(node.id)
        elif node.id not in found:
            others[node.id] = f"{node.title}\n{node.body}"
    for node_id in ids:
        for edge in (await memory.edges(EdgesQuery(node=node_id))).edges:
            is_proposal = edge.relation is Relation.CONTRADICTS and edge.from_id.startswith("proposal-")
            if is_proposal and edge.to_id == node_id:
                merged.add(edge.from_id)
    nodes = [*found.values(), *await memory.get(*sorted(merged - found.keys()))]
    for each in merged:
        others.pop(each, None)
    earlier = await _read_earlier(memory, nodes)
    texts = [*texts_of_nodes(nodes), *earlier]
    plan = ForgettingPlan(
        nodes=nodes,
        sharing=[],
        earlier=earlier,
        short=find_short(line for text in texts for line in text.splitlines())[:SHOWN_SHORT],
        common=find_common(texts, others.values()),
    )
    known = plan.quotations
    sharing = [each for each, text in others.items() if known.may_be_in(text.encode()) and known.are_in(text)]
    return msgspec.structs.replace(plan, sharing=sharing)


async def _read_earlier(memory: Memory, nodes: Sequence[Node]) -> list[str]:
    """What nodes said before they were changed."""
    now, found = set(texts_of_nodes(nodes)), dict[str, None]()
    for node in nodes:
        states = (await memory.history(HistoryQuery(id=node.id, limit=100))).states
        found |= dict.fromkeys(texts_of_nodes(state.node for state in states))
    return [text for text in found if text not in now]


async def find_record(bus: Bus, order: MemoryWritten) -> MemoryForgotten | None:
    """The record that an order is done; None until it is."""
    own = subjects.memory_write(subjects.MEMORY_DAEMON)
    async for stored in scan(bus, subjects.MEMORY, own, seq=order.version + 1):
        if b'"memory_forgotten.v1"' in stored.data:
            with contextlib.suppress(ValueError):
                record = MemoryForgotten.from_json(stored.data)
                if order.cause in record.orders:
                    return record
    return None


def _merged_from(node: Node) -> list[str]:
    merged = node.metadata.get("merged_from", [])
    return [each for each in merged if isinstance(each, str)] if isinstance(merged, list) else []
