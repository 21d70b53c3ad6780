"""The patches of a goal for a person on any machine, and the record of what was applied."""

import asyncio
from collections.abc import Sequence

import msgspec

from services.gateway.api.goals import ONE
from services.gateway.api.inputs import find_source
from services.gateway.call import Call, Gateway
from services.gateway.routing import Endpoint
from shared import subjects
from shared.access.scopes import Scope
from shared.bus import Bus
from shared.bus.entry import seal
from shared.contracts import AgentReport, Goal, generate_task_id
from shared.errors import NotFound
from shared.operations.patches import read_patch
from shared.queries.results import find_goal, read_patches
from shared.views.listed import Applied, DeliveredPatch, GoalPatches, PatchFile


class PatchesQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The names of projects; none named: all."""

    project: tuple[str, ...] = ()


class AppliedElsewhere(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What became of patches that a person applied on their own machine."""

    patches: list[Applied]


async def read_patch_files(call: Call, query: PatchesQuery) -> GoalPatches:
    """The patches of a goal, byte for byte (in Base64); it may be named as commands name it."""
    goal, found = await read_goal_patches(call.gateway, call.path["goal_id"], query.project)
    bus, settings = call.gateway.bus, call.gateway.settings
    files = [
        PatchFile(
            path=each.path,
            folder=await find_source(bus, settings, each.folder),
            data=await asyncio.to_thread(read_patch, each),
        )
        for each in found
    ]
    return GoalPatches(goal_id=goal.goal_id, patches=files)


async def note_applied(call: Call, body: AppliedElsewhere) -> None:
    """Record that the person applied patches of the goal on a machine of their own."""
    goal, _ = await find_goal(call.gateway.bus, call.path["goal_id"])
    await record_applied(call.gateway.bus, goal.goal_id, body.patches, person=call.person.name)


async def read_goal_patches(
    gateway: Gateway, name: str, projects: Sequence[str] = ()
) -> tuple[Goal, list[DeliveredPatch]]:
    """The goal ``name`` and its patches, or those of the projects named; raises NotFound without any."""
    goal, seq = await find_goal(gateway.bus, name)
    found = await read_patches(gateway.bus, goal, seq, gateway.settings)
    if not found:
        more = "" if goal.status.final else f"; it is {goal.status}"
        raise NotFound(
            f"The goal {goal.goal_id} has no patch{more}", f"'mailroom show {goal.goal_id}' shows what it did"
        )
    known = {each.name for each in found}
    if missing := [each for each in projects if each not in known]:
        listed = ", ".join(sorted(known))
        raise NotFound(f"There is no patch for {missing[0][:80]!r}", f"There is one for {listed}")
    return goal, [each for each in found if not projects or each.name in projects]


async def record_applied(bus: Bus, goal_id: str, applied: Sequence[Applied], *, person: str = "") -> None:
    """Record in the trail what ``person`` applied."""
    where = "; ".join(f"{each.patch} to {each.folder}" for each in applied)
    note = AgentReport(
        sender=subjects.USER,
        recipient=subjects.USER,
        goal_id=goal_id,
        report_id=generate_task_id("applied"),
        agent=subjects.USER,
        report_type="applied",
        summary=f"Applied {where}",
        metadata={"patches": [msgspec.to_builtins(each) for each in applied]},
        person=person,
    )
    entry = seal(subjects.mail(subjects.USER, subjects.USER), note)
    await bus.store(entry.subject, entry.payload, headers={"Nats-Msg-Id": note.id})


ENDPOINTS = (
    Endpoint("GET", f"{ONE}/patches", read_patch_files, scope=Scope.READ, tag="goals"),
    Endpoint("POST", f"{ONE}/applied", note_applied, scope=Scope.SUBMIT, tag="goals", status=204),
)
