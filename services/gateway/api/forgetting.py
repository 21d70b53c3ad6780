"""Having a memory forgotten: what that would erase, the order, and how far it is."""

from typing import Annotated

import msgspec

from services.gateway.api.memory import API, node_id_of
from services.gateway.context import Call
from services.gateway.problems import Failure
from services.gateway.routing import Endpoint
from services.gateway.security.scopes import Scope
from shared.contracts import TOKEN
from shared.memory import Memory
from shared.operations.forgetting import ForgettingPlan, plan_forgetting

PATH = f"{API}/nodes/{{id}}/forgetting"
Id = Annotated[str, msgspec.Meta(pattern=f"^{TOKEN.pattern}$")]
Ids = Annotated[tuple[Id, ...], msgspec.Meta(max_length=100)]


class ForgettingOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of all that is to be forgotten, as the plan has them: what was not seen is not erased."""

    nodes: Ids


class Ordered(msgspec.Struct, frozen=True, kw_only=True):
    """An order that is stored: nothing finds the nodes any more, and their texts are erased soon."""

    order: str
    nodes: tuple[str, ...]


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Whether something is being erased, and how far that is; ``problem`` if it has to wait."""

    under_way: bool = False
    step: str = ""
    done: int = 0
    total: int = 0
    problem: str = ""


async def plan(call: Call) -> ForgettingPlan:
    """What would go if this node were forgotten: itself, what was merged with it, proposals to change it.

    ``sharing`` are other nodes with the same text, which lose it. Letters, goals, files, backups and what
    models were sent are not erased.
    """
    return await plan_forgetting(Memory(call.gateway.bus), [node_id_of(call)])


async def forget_node(call: Call, body: ForgettingOrder) -> Ordered:
    """Erase a node for good, with all that its plan names: from memory, its log, and the audit of it.

    409 if something else goes with it by now. No rebuild brings the texts back; a backup from before does.
    """
    memory, node_id = Memory(call.gateway.bus), node_id_of(call)
    ids = {node.id for node in (await plan_forgetting(memory, [node_id])).nodes}
    if ids != set(body.nodes):
        raise Failure(409, "Other memories go with it than the order names", "Read the plan again")
    written = await memory.forget(*sorted(ids), person=call.person.name)
    return Ordered(order=written.cause, nodes=tuple(sorted(ids)))


async def read_progress(call: Call) -> Progress:
    """How far the erasing of forgotten texts is."""
    state = (await Memory(call.gateway.bus).health()).get("forgetting")
    return Progress() if state is None else msgspec.convert({**state, "under_way": True}, Progress)


ENDPOINTS = (
    Endpoint("GET", PATH, plan, scope=Scope.ADMIN, tag="memory"),
    Endpoint("POST", PATH, forget_node, scope=Scope.ADMIN, tag="memory", status=202),
    Endpoint("GET", f"{API}/forgetting", read_progress, scope=Scope.READ, tag="memory"),
)
