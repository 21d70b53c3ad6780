"""Making one patch of what several tasks changed of one project: when, and what a conflict becomes.

The engineer merges (``merge_changes``), before a task that builds on several and when all have ended. Where
two do not go together, the merge becomes a task for the engineer, who has both sides: once for a pair.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from shared import subjects
from shared.contracts import Change, Goal, GoalTask, TaskResult, TaskStatus
from shared.text.display import format_list, shorten

MERGE = "merge_changes"  # The engineer's action
QUOTED = 1_000  # Characters of a task's text that are quoted to who makes both sides one
LISTED = 5  # Tasks and files that a sentence names; the others are counted


class Made(NamedTuple):
    """A patch that is there to be delivered, and the task that made it."""

    path: str
    task: GoalTask


def read_changes(result: TaskResult) -> tuple[Change, ...]:
    """What a completed task changed, as its result says; what is malformed counts as nothing."""
    try:
        return msgspec.convert(result.metadata.get("patch_targets") or (), tuple[Change, ...])
    except msgspec.ValidationError:
        return ()


def list_made(goal: Goal, names: Collection[str] | None = None) -> dict[str, list[Made]]:
    """The patches for each folder that are not part of others, in the order of the plan.

    ``names`` are the tasks that count, by default all. A change is left out if it could not be made one with
    those before it.
    """
    found: dict[str, list[Made]] = {}
    for task in goal.tasks:
        if names is not None and task.name not in names:
            continue
        for change in task.changes:
            rows = found.setdefault(change.folder, [])
            at = next((at for at, row in enumerate(rows) if row.path in task.merges), len(rows))
            rows[:] = [row for row in rows if row.path not in task.merges]
            rows.insert(at, Made(change.path, task))
        if task.merges and not task.changes and task.status is TaskStatus.COMPLETED:
            for rows in found.values():  # together they change nothing
                rows[:] = [row for row in rows if row.path not in task.merges]
        if is_given_up(task):
            for rows in found.values():
                rows[:] = [row for row in rows if row.path != task.merges[-1]]
    return found


def is_given_up(task: GoalTask) -> bool:
    """Whether both sides of a conflict were to be made one, and were not."""
    is_over = task.status.final and task.status is not TaskStatus.COMPLETED
    return bool(task.merges) and task.action != MERGE and is_over


def ancestors(goal: Goal, task: GoalTask) -> set[str]:
    """The names of the tasks that ``task`` builds on, those that these build on included."""
    tasks = {each.name: each for each in goal.tasks}
    found: set[str] = set()
    waiting = list(task.depends_on)
    while waiting:
        name = waiting.pop()
        if name in tasks and name not in found:
            found.add(name)
            waiting += tasks[name].depends_on
    return found


def add_merges(goal: Goal) -> Goal:
    """``goal`` with the merges that are due: before a task that can begin, or at the end."""
    done = {task.name for task in goal.tasks if task.status is TaskStatus.COMPLETED}
    for task in goal.tasks:
        can_begin = not (task.issued or task.status.final or task.merges) and done >= set(task.depends_on)
        if can_begin:
            names = ancestors(goal, task)
            for folder, rows in list_made(goal, names).items():
                if len(_latest(goal, rows)) > 1:
                    goal = _with_merge(goal, folder, rows, before=task.name)
    if all(task.status.final for task in goal.tasks):
        for folder, rows in list_made(goal).items():
            if len(rows) > 1 or any(row.task.merges and not is_tested(row.task) for row in rows):
                goal = _with_merge(goal, folder, rows)
    return goal


def is_tested(task: GoalTask) -> bool:
    """Whether a task is a merge with which the tests were run."""
    return task.action == MERGE and bool(task.params.get("test"))


def _latest(goal: Goal, rows: Sequence[Made]) -> list[Made]:
    """Those of ``rows`` that no other of them began with."""
    held = {name for row in rows for name in ancestors(goal, row.task)}
    return [row for row in rows if row.task.name not in held]


def _with_merge(goal: Goal, folder: str, rows: Sequence[Made], before: str = "") -> Goal:
    """``goal`` with a merge of ``rows``, for which the task ``before`` waits; the tests run at the end."""
    paths, test = tuple(row.path for row in rows), not before
    known = next((each for each in goal.tasks if each.merges == paths), None)
    if known is not None:
        is_of_use = before and (not known.status.final or known.status is TaskStatus.COMPLETED)
        return _wait_for(goal, before, known.name) if is_of_use else goal
    digest = hashlib.sha256("\0".join((*paths, str(test))).encode()).hexdigest()[:12]
    taken = {task.name for task in (*goal.tasks, *goal.earlier)}
    name = next(name for n in range(1, 1_000) if (name := f"merge-{n}" if n > 1 else "merge") not in taken)
    merge = GoalTask(
        name=name,
        task_id=f"{goal.goal_id}-patches-{digest}",
        text=f"Make one patch for {folder} of what {_list_tasks(rows)} changed",
        assignee=subjects.ENGINEER,
        action=MERGE,
        params={"repo": folder, "patches": list(paths), "test": test},
        depends_on=tuple(dict.fromkeys(row.task.name for row in rows)),
        merges=paths,
    )
    # One that failed is done with by this one, which has more to merge.
    left = [task for task in goal.tasks if not (task.action == MERGE and _failed_for(task, folder))]
    if test:
        return msgspec.structs.replace(goal, tasks=(*left, merge))
    at = next(at for at, task in enumerate(left) if task.name == before)
    with_merge = msgspec.structs.replace(goal, tasks=(*left[:at], merge, *left[at:]))
    return _wait_for(with_merge, before, name)


def _failed_for(task: GoalTask, folder: str) -> bool:
    return task.status is TaskStatus.FAILED and task.params.get("repo") == folder


def _wait_for(goal: Goal, name: str, needed: str) -> Goal:
    tasks = tuple(
        msgspec.structs.replace(task, depends_on=(*task.depends_on, needed)) if task.name == name else task
        for task in goal.tasks
    )
    return msgspec.structs.replace(goal, tasks=tasks)


def resolving_task(goal: Goal, merge: GoalTask, result: TaskResult) -> GoalTask | None:
    """What ``merge`` becomes if its ``result`` names a conflict: a task with both sides; else None."""
    found = result.metadata.get("conflicts")
    if merge.action != MERGE or not isinstance(found, Mapping) or found.get("patch") not in merge.merges:
        return None
    at = merge.merges.index(found["patch"])
    authors = {change.path: task for task in goal.tasks for change in task.changes}
    *first, second = [authors[path] for path in merge.merges[: at + 1] if path in authors] or [merge]
    files = format_list([str(each) for each in found.get("files") or ()], LISTED)
    place = str(found.get("folder") or "the project")
    told = "\n".join(f"- {task.name}: {shorten(task.text, QUOTED)}" for task in (*first, second))
    return GoalTask(
        name=merge.name,
        task_id=f"{merge.task_id}-both",
        text=f"Make both sides of a conflict one. Tasks of this goal changed the same lines of "
        f"{merge.params.get('repo', 'a project')}. Their changes are merged in the folder {place} of your "
        f"workspace, except in {files}: there git's conflict marks stand, with what {_list_names(first)} "
        f"made of it first (<<<<<<<), then how it was (|||||||), then what {second.name} made of it "
        f"(=======). Change these files so that both do what they were for, leave no marks, and run the "
        f"tests (test_changes, folder {place}). What the tasks were for:\n{told}",
        assignee=merge.assignee,
        depends_on=merge.depends_on,
        success_criteria="No conflict marks are left\nWhat both tasks were for works",
        workspace=merge.workspace or merge.task_id,
        merges=merge.merges[: at + 1],
    )


def explain_failure(goal: Goal, task: GoalTask, why: str) -> str:
    """That changes could not be merged, and ``why``; of a conflict, which change the goal's patch lacks."""
    authors = {change.path: other.name for other in goal.tasks for change in other.changes}
    *first, second = [authors.get(path, path) for path in task.merges]
    if task.action == MERGE:
        return (
            f"what {format_list([*first, second], LISTED)} changed could not be merged: {shorten(why, 300)}"
        )
    names = format_list(list(dict.fromkeys(first)), LISTED)
    return (
        f"what {second} changed could not be merged with {names}, and its patch is left as it is, "
        f"{task.merges[-1]}: {shorten(why, 300)}"
    )


def authors_of(goal: Goal, names: Collection[str]) -> set[str]:
    """``names`` without merges; if nothing else is among them, the tasks whose changes those merged."""
    merges = {task.name: task for task in goal.tasks if task.action == MERGE and task.name in names}
    others = {name for name in names if name not in merges}
    return others or {name for task in merges.values() for name in task.depends_on}


def without_merged(goal: Goal, results: Mapping[str, Any]) -> dict[str, Any]:
    """Results without the files of patches that are part of others: what is judged is what is delivered."""
    merged = {path for task in goal.tasks if task.changes for path in task.merges}
    return {
        name: {**result, "output_paths": [path for path in result["output_paths"] if path not in merged]}
        if result.get("output_paths")
        else result
        for name, result in results.items()
    }


def _list_tasks(rows: Sequence[Made]) -> str:
    return _list_names([row.task for row in rows])


def _list_names(tasks: Sequence[GoalTask]) -> str:
    return format_list(list(dict.fromkeys(task.name for task in tasks)), LISTED)
