"""Having a memory forgotten: what that would erase, the order, and how far it is."""

from typing import Annotated

import msgspec

from services.gateway.api.memory import API, node_id_of
from services.gateway.call import Call
from services.gateway.problems import Failure
from services.gateway.routing import Endpoint
from shared import subjects
from shared.access.scopes import Scope
from shared.contracts import TOKEN
from shared.memory import Memory
from shared.operations.erasure.orders import count_orders
from shared.operations.forgetting import ForgettingPlan, find_nodes, order_forgetting, plan_forgetting

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
    workspaces and backups are not erased.
    """
    return await plan_forgetting(call.gateway.bus, [node_id_of(call)])


async def forget_node(call: Call, body: ForgettingOrder) -> Ordered:
    """Erase a node for good, with all that its plan names: from memory, its log, the office's messages, and
    files of its folder.

    409 if something else goes with it by now. No rebuild brings the texts back; a backup from before does.
    """
    bus = call.gateway.bus
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
    Endpoint("GET", PATH, plan, scope=Scope.ADMIN, tag="memory"),
    Endpoint("POST", PATH, forget_node, scope=Scope.ADMIN, tag="memory", status=202),
    Endpoint("GET", f"{API}/forgetting", read_progress, scope=Scope.READ, tag="memory"),
)
