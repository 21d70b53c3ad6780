"""A plan as a model drafts it: what it says, what is wrong with it, and the tasks it becomes."""

import re
from collections.abc import Collection, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

import msgspec

from services.conductor.course import REVIEW
from services.conductor.yellow_pages import UNPLANNED, Page
from shared.contracts import Goal, GoalTask
from shared.errors import ActionError
from shared.tasks.specialists import name_of

MOST_TASKS = 30
"""Tasks of one plan: more than that no one follows, and a model that writes more has lost the thread."""
LONGEST_TEXT = 8_000
"""Characters of what one task says."""
LONGEST_NAME = 40
MOST_PARAMS = 200_000
"""Bytes of the parameters of one task."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A specialist that the plan needs: its field, and what it has to be able to do."""

    domain: str
    requirements: str


class DraftTask(msgspec.Struct, frozen=True, kw_only=True):
    """One task: a short ``name``, a ``text`` that stands by itself, who does it, and what it builds on.

    ``action`` and ``params`` only where one of the assignee's actions does exactly this; else the assignee
    works out by itself how to do what the text says.
    """

    name: str
    text: str
    assignee: str
    action: str = ""
    params: dict[str, Any] = {}
    depends_on: tuple[str, ...] = ()


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A plan: the fewest tasks that reach the goal; ``specialists`` only where nobody there fits."""

    tasks: tuple[DraftTask, ...]
    specialists: tuple[Wanted, ...] = ()


def find_fault(
    draft: Draft, pages: Mapping[str, Page], kept: Collection[str] = (), room: int = 0
) -> str | None:
    """What is wrong with a draft, in words for the model that made it; None where it can be carried out.

    ``kept`` are the names of tasks that are done already and may be built on, ``room`` is how many
    specialists may be made.
    """
    if not draft.tasks:
        return "the plan is empty: give at least one task"
    if len(draft.tasks) > MOST_TASKS:
        return f"the plan has {len(draft.tasks):,} tasks, and {MOST_TASKS} are allowed"
    names = [plain(task.name) for task in draft.tasks]
    for position, name in enumerate(names):
        if name in names[:position] or name in kept or name == REVIEW:
            return f"the name {draft.tasks[position].name[:60]!r} is taken: each task needs one of its own"
    try:
        wanted = newcomers(draft, pages)
    except ActionError as error:
        return str(error)
    if len(wanted) > room:
        return f"it wants {len(wanted)} specialists, and {room} more may be made: use who is there"
    staff = {**dict.fromkeys(wanted), **pages}
    for task in draft.tasks:
        if fault := _fault_of(task, staff, {*names, *kept}):
            return f"task {task.name[:60]!r}: {fault}"
    try:
        needs = {plain(task.name): set(map(plain, task.depends_on)) for task in draft.tasks}
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        return f"tasks wait for each other in a circle: {', '.join(map(str, error.args[1]))[:300]}"
    return None


def newcomers(draft: Draft, pages: Mapping[str, Page]) -> dict[str, Wanted]:
    """The specialists of a draft that are not there yet, by name; raises ActionError where one gets none."""
    named = {name_of(wanted.domain): wanted for wanted in draft.specialists}
    return {name: wanted for name, wanted in named.items() if name not in pages}


def _fault_of(task: DraftTask, staff: Mapping[str, Page | None], names: Collection[str]) -> str:
    if not task.text.strip() or len(task.text) > LONGEST_TEXT:
        return f"its text must have 1 to {LONGEST_TEXT:,} characters"
    if missing := [name for name in task.depends_on if plain(name) not in names]:
        return f"it depends on {missing[0][:60]!r}, which is no task of the plan"
    assignee = _assignee(task)
    if assignee in UNPLANNED:
        return f"{assignee!r} takes no tasks from a plan"
    if assignee not in staff:
        there = ", ".join(sorted(set(staff) - UNPLANNED))
        return f"there is no agent {task.assignee[:60]!r}; there are {there}"
    if len(msgspec.json.encode(task.params)) > MOST_PARAMS:
        return f"its params have more than {MOST_PARAMS:,} bytes"
    page = staff[assignee]
    if not task.action:
        return "" if page is None or page.thinks else f"{assignee} needs a named action"
    if page is None or not page.at_work:
        return f"nobody knows the actions of {assignee} yet: leave the action out, and say it in the text"
    return _fault_of_action(task, page)


def _fault_of_action(task: DraftTask, page: Page) -> str:
    if task.action not in page.actions:
        there = ", ".join(sorted(page.actions)) or "none"
        return f"{page.name} has no action {task.action[:60]!r}; it has {there}. Or leave the action out"
    schema = page.schemas.get(task.action, {})
    known, required = schema.get("properties", {}), schema.get("required", ())
    if unknown := [name for name in task.params if name not in known]:
        return f"{task.action} has no parameter {unknown[0][:60]!r}; it has {', '.join(known) or 'none'}"
    if missing := [name for name in required if name not in task.params]:
        return f"{task.action} needs the parameter {missing[0]!r}"
    return ""


def tasks_of(draft: Draft, goal: Goal) -> tuple[GoalTask, ...]:
    """The tasks of a draft without faults; those of a later plan have ids of their own."""
    number = "" if not goal.plans else f"p{goal.plans + 1}-"
    return tuple(
        GoalTask(
            name=plain(task.name),
            task_id=f"{goal.goal_id}-{plain(task.name)}-{number}1",
            text=task.text,
            assignee=_assignee(task),
            action=task.action,
            params=task.params if task.action else {},
            depends_on=tuple(dict.fromkeys(map(plain, task.depends_on))),
        )
        for task in draft.tasks
    )


def plain(name: str) -> str:
    """A task's name as it stands in ids: letters, digits and dashes; 'task' where none is left."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-")[:LONGEST_NAME].strip("-").lower() or "task"


def _assignee(task: DraftTask) -> str:
    return task.assignee.strip().lower()
