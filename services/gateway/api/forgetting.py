"""Having a memory forgotten: what that would erase, the order, and how far it is."""

import asyncio
from contextvars import Context
from typing import Annotated

import msgspec

from services.gateway.api.memory import API, node_id_of
from services.gateway.call import Call
from services.gateway.problems import Failure
from services.gateway.routing import Endpoint, require_scope
from shared import subjects
from shared.access.scopes import Scope
from shared.contracts import TOKEN
from shared.memory import Memory
from shared.memory.ownership import find_owner
from shared.operations.erasure.eraser import find_quotations
from shared.operations.erasure.orders import count_orders
from shared.operations.forgetting import (
    ForgettingPlan,
    count_archived,
    find_nodes,
    order_forgetting,
    plan_forgetting,
)

NO_ERASER = (
    "The office's messages still quote it: only the eraser's key erases there. Run 'mailroom provision' "
    "where that key is"
)
PATH = f"{API}/nodes/{{id}}/forgetting"
Id = Annotated[str, msgspec.Meta(pattern=f"^{TOKEN.pattern}$")]
Ids = Annotated[tuple[Id, ...], msgspec.Meta(max_length=100)]


class ForgettingOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The ids of all that is to be forgotten, as the plan has them: what was not seen is not erased."""

    nodes: Ids


class Ordered(msgspec.Struct, frozen=True, kw_only=True):
    """An order that is stored: nothing finds the nodes any more, and their texts are erased soon."""

    order: str
    nodes: tuple[str, ...]


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Whether something is being erased, and how far that is; ``problem`` if it has to wait.

    ``orders`` are those that are not done yet in the office's messages and files, which needs the eraser's
    key: where it is not, nothing is under way, and ``problem`` says what to run.
    """

    under_way: bool = False
    orders: int = 0
    step: str = ""
    done: int = 0
    total: int = 0
    problem: str = ""


async def plan(call: Call) -> ForgettingPlan:
    """What would go if this node were forgotten: itself, what was merged with it, proposals to change it.

    ``sharing`` are other nodes with the same text, which lose it, ``messages`` how many of the office quote
    it and lose it, by what they are, ``short`` texts that are too short to be looked for there, and
    ``common`` parts that many other nodes have: both stay. What models were sent, what left the office,
    workspaces and backups are not erased. It takes the scope admin, but for what is one's own alone, wherever
    its text stands: else a member could have a text of the team erased by remembering the same.
    """
    await _require_own(call)
    return await plan_forgetting(call.gateway.bus, [node_id_of(call)])


async def _require_own(call: Call) -> None:
    """Raise Failure (403) unless an administrator asks, or what would be erased is the person's alone."""
    own = subjects.PERSON + call.person.audience
    if call.person.scope is Scope.ADMIN:
        return
    node_id = node_id_of(call)
    found = await Memory(call.gateway.bus).get(node_id)
    if not call.person.audience or any(find_owner(node) != own for node in found):
        require_scope(call.request, Scope.ADMIN)
    # In a context of its own nothing is withheld: what Ben wrote counts, and Ana is not told what it is.
    if await asyncio.create_task(_stands_elsewhere(call, node_id), context=Context()):
        raise Failure(403, "Its text is not yours alone: it stands elsewhere too", "Ask an administrator")


async def _stands_elsewhere(call: Call, node_id: str) -> bool:
    """Whether more than what is the person's alone would lose a text with a node."""
    bus, person = call.gateway.bus, call.person.audience
    known = await find_nodes(Memory(bus), [node_id])
    if known.sharing or any(find_owner(node) != subjects.PERSON + person for node in known.nodes):
        return True
    if any(map(bool, await count_archived(bus, known.quotations))):
        return True
    return any(
        [
            call.gateway.index.store.audience_of(stored) != person
            async for page in find_quotations(bus, known.quotations)
            for stored in page
        ]
    )


async def forget_node(call: Call, body: ForgettingOrder) -> Ordered:
    """Erase a node for good, with all that its plan names: from memory, its log, the office's messages, and
    files of its folder.

    409 if something else goes with it by now. No rebuild brings the texts back; a backup from before does.
    """
    bus = call.gateway.bus
    await _require_own(call)
    known = await find_nodes(Memory(bus), [node_id_of(call)])
    ids = {node.id for node in known.nodes}
    if ids != set(body.nodes):
        raise Failure(409, "Other memories go with it than the order names", "Read the plan again")
    written = await order_forgetting(bus, known, call.person.name)
    return Ordered(order=written.cause, nodes=tuple(sorted(ids)))


async def read_progress(call: Call) -> Progress:
    """How far the erasing of forgotten texts is."""
    bus = call.gateway.bus
    state, orders = (await Memory(bus).health()).get("forgetting"), await count_orders(bus)
    if state is not None:
        return msgspec.convert({**state, "under_way": True, "orders": orders}, Progress)
    if not orders:
        return Progress()
    if not (call.gateway.settings.keys / f"{subjects.ERASER}.nk").is_file():
        return Progress(orders=orders, problem=NO_ERASER)
    return Progress(under_way=True, orders=orders, step="erasing messages of the office")


ENDPOINTS = (
    Endpoint("GET", PATH, plan, scope=Scope.SUBMIT, tag="memory"),
    Endpoint("POST", PATH, forget_node, scope=Scope.SUBMIT, tag="memory", status=202),
    Endpoint("GET", f"{API}/forgetting", read_progress, scope=Scope.READ, tag="memory"),
)
