"""What people do to a goal: stop it, do it again, steer it, read and apply its patches."""

import asyncio
from pathlib import Path
from typing import Annotated

import msgspec

from services.gateway.api.goals import ONE, summarize_goals
from services.gateway.api.limits import require_room
from services.gateway.api.patches import read_goal_patches, record_applied
from services.gateway.call import Call
from services.gateway.routing import Endpoint
from shared.access.scopes import Scope
from shared.contracts import Goal, GoalBudget, TaskStatus
from shared.contracts.records import MAX_INSTRUCTION
from shared.errors import TooLate
from shared.operations.goals import cancel_goal, find_ended, make_retry, resume_goal
from shared.operations.patches import (
    PatchView,
    apply_fitting,
    describe_patch,
    fit_delivered,
)
from shared.operations.submission import derive_goal_id, submit_once
from shared.queries.results import find_goal
from shared.tasks.submission import parse_budget
from shared.views.listed import Applied, DeliveredPatch, SubmittedGoal
from shared.views.timeline import GoalSummary


class Cancellation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a goal is stopped; if it ``must_be_open``, one that is cancelled already is a conflict."""

    reason: Annotated[str, msgspec.Meta(max_length=2_000)] = ""
    must_be_open: bool = False


class Nothing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """No fields."""


class Words(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the agents are to mind; a goal that has ended goes on also without words.

    ``budget`` is what models may use for the goal in all, with what they have used, also as text such as
    ``300k,$2``; as before without one. A goal that runs may get it without words.
    """

    text: Annotated[str, msgspec.Meta(max_length=MAX_INSTRUCTION)] = ""
    budget: GoalBudget | str | None = None


class Choice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which patches, by the names of their projects; none named: all."""

    projects: tuple[str, ...] = ()


class PatchState(PatchView, frozen=True, kw_only=True):
    """A patch and how it fits its folder now.

    ``fit`` is fits, merges (the folder changed, and git can merge it), applied (the folder has it already) or
    refused, for the reason in ``problem``. ``undo`` is the command that takes it out.
    """

    fit: str
    undo: str = ""
    problem: str = ""
    cure: str = ""


class Patches(msgspec.Struct, frozen=True, kw_only=True):
    """The patches of a goal."""

    goal_id: str
    patches: list[PatchState]


class AppliedPatches(msgspec.Struct, frozen=True, kw_only=True):
    """What became of each patch."""

    goal_id: str
    patches: list[Applied]


async def cancel(call: Call, body: Cancellation) -> GoalSummary:
    """Stop a goal and its open tasks: running commands end within two seconds.

    A goal that is cancelled already stays so; one that has ended otherwise is a conflict.
    """
    name = call.path["goal_id"]
    try:
        goal = await cancel_goal(call.gateway.bus, name, body.reason, person=call.person.name)
    except TooLate:
        goal, _ = await find_goal(call.gateway.bus, name)
        if body.must_be_open or goal.status is not TaskStatus.CANCELLED:
            raise
    return (await summarize_goals(call.gateway, [goal]))[0]


async def retry(call: Call, body: Nothing) -> SubmittedGoal:
    """Do a goal that has ended again from the beginning, as a new goal, whose id is returned."""
    bus, person = call.gateway.bus, call.person.name
    goal = await find_ended(bus, call.path["goal_id"])
    key = call.key and f"retry {goal.goal_id} {call.key}"
    goal_id = derive_goal_id(bus, person, key)
    await require_room(call.gateway, person, goal_id)
    return await submit_once(bus, make_retry(goal, goal_id, person=person), key)


async def say(call: Call, body: Words) -> GoalSummary:
    """Steer a goal that runs, or go on with one that has ended, minding the words."""
    goal = await resume_goal(
        call.gateway.bus,
        call.path["goal_id"],
        body.text,
        budget=parse_budget(body.budget) if isinstance(body.budget, str) else body.budget,
        person=call.person.name,
        key=call.key,
    )
    return (await summarize_goals(call.gateway, [goal]))[0]


async def diff(call: Call) -> Patches:
    """The patches of a goal, and how they fit their folders now."""
    goal, patches = await read_goal_patches(call.gateway, call.path["goal_id"])
    states = [await asyncio.to_thread(_examine, patch, goal) for patch in patches]
    return Patches(goal_id=goal.goal_id, patches=states)


def _examine(patch: DeliveredPatch, goal: Goal) -> PatchState:
    fitting = fit_delivered(patch, None, goal.goal_id)
    shown = msgspec.structs.asdict(describe_patch(patch))
    if refused := fitting.refused:
        return PatchState(**shown, fit="refused", problem=refused.problem, cure=refused.cure)
    fit = "applied" if fitting.fit.applied else "merges" if fitting.fit.adapted else "fits"
    return PatchState(**shown, fit=fit, undo=fitting.undo)


async def apply(call: Call, body: Choice) -> AppliedPatches:
    """Apply the patches of a goal to the folders they were made for, and record who did.

    One that does not fit is merged if git can do that without conflicts, else refused with the reason.
    """
    goal, patches = await read_goal_patches(call.gateway, call.path["goal_id"], body.projects)

    def apply_one(patch: DeliveredPatch) -> Applied:
        folder = Path(patch.folder) if patch.folder else None
        return apply_fitting(fit_delivered(patch, folder, goal.goal_id))

    done = [await asyncio.to_thread(apply_one, patch) for patch in patches]
    if applied := [each for each in done if each.done == "applied"]:
        await record_applied(call.gateway.bus, goal.goal_id, applied, person=call.person.name)
    return AppliedPatches(goal_id=goal.goal_id, patches=done)


ENDPOINTS = (
    Endpoint("POST", f"{ONE}/cancel", cancel, scope=Scope.SUBMIT, tag="goals"),
    Endpoint("POST", f"{ONE}/retry", retry, scope=Scope.SUBMIT, tag="goals", status=202, location=ONE),
    Endpoint("POST", f"{ONE}/say", say, scope=Scope.SUBMIT, tag="goals"),
    Endpoint("GET", f"{ONE}/diff", diff, scope=Scope.READ, tag="goals"),
    Endpoint("POST", f"{ONE}/apply", apply, scope=Scope.APPROVE, tag="goals"),
)
