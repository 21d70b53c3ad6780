"""What a goal's tasks found and delivered: test runs, findings, what was not checked, patches."""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import TypeVar

import msgspec

from shared import subjects
from shared.bus import Bus
from shared.contracts import (
    TOKEN,
    Finding,
    Goal,
    Inspection,
    NotChecked,
    ResultOutcome,
    TaskResult,
    TaskStatus,
    TestRun,
)
from shared.contracts.base import Contract
from shared.errors import MailroomError, NotFound
from shared.queries.records import (
    count_subjects,
    end_of_search,
    read_goal,
    read_goals,
    read_tasks,
)
from shared.queries.spending import read_goal_spending, read_left
from shared.settings import Settings
from shared.tasks.context import localiser
from shared.text.times import parse_time
from shared.trail.archives import scan_log
from shared.views.listed import DeliveredPatch
from shared.views.timeline import GoalResults

C = TypeVar("C", bound=Contract)
PARTS = frozenset({"tests", "inspection"})
"""The data of tasks that check something; what they could not check is named in it."""
MARGIN = timedelta(seconds=1)
"""Patches are searched from this much before the submission: the clocks of processes differ."""


async def read_results(bus: Bus, goal: Goal) -> GoalResults:
    """The results of a goal's tasks."""
    states = await read_tasks(bus, [task for task in goal.tasks if task.issued])
    results = {
        task.name: state.result
        for task in goal.tasks
        if (state := states.get(task.task_id)) and state.result is not None
    }
    return collect_results(goal, results)


async def add_spending(bus: Bus, settings: Settings, goal: Goal, results: GoalResults) -> GoalResults:
    """``results`` with what the goal used of models, and what is left of the budgets."""
    spent = await read_goal_spending(bus, goal)
    left = await read_left(bus, settings, goal.budget, (spent.tokens, spent.cost), spent.agents)
    return msgspec.structs.replace(results, spent=spent, left=left)


async def read_patches(
    bus: Bus, goal: Goal, end: int, settings: Settings | None = None
) -> list[DeliveredPatch]:
    """The patches of a goal, those of delegated tasks included; ``end`` is the sequence of its record.

    With ``settings`` their paths are those of this host.

    They are in the order of the plan. Of several that were merged only the merged one counts, of several from
    one workspace the last, and of what was done again only the last time.
    """
    ended = subjects.task("*", "*", "*", subjects.ENDED)
    since, until = parse_time(goal.submitted_at) - MARGIN, await end_of_search(bus, end)
    merged, current = _merged_paths(goal), {task.task_id for task in goal.tasks}
    found: dict[tuple[str, str], DeliveredPatch] = {}
    here = localiser(settings, goal.goal_id) if settings else None
    async for stored in scan_log(bus, subjects.OFFICE, ended, since=since, until=until):
        if goal.goal_id.encode() not in stored.data:
            continue
        try:
            result = TaskResult.from_json(stored.data)
        except ValueError:
            continue
        result = here(result) if here else result
        is_own = result.recipient == subjects.CONDUCTOR and result.task_id.startswith(f"{goal.goal_id}-")
        outdated = is_own and result.task_id not in current
        if result.goal_id == goal.goal_id and not outdated:
            merged |= set(map(str, result.metadata.get("merged") or ()))  # in a part of the goal
            for each in _patches_of(result):
                place = str(result.metadata.get("workspace") or each.path), each.folder or each.path
                found.pop(place, None)
                found[place] = each
    plan = [change.path for task in goal.tasks for change in task.changes]
    # By their paths, since a task can report what its subtasks changed
    kept = {each.path: each for each in found.values() if each.path not in merged}
    return sorted(kept.values(), key=lambda each: plan.index(each.path) if each.path in plan else len(plan))


def _merged_paths(goal: Goal) -> set[str]:
    """The paths of patches that are part of others."""
    return {path for task in goal.tasks if task.changes for path in task.merges}


def _patches_of(result: TaskResult) -> list[DeliveredPatch]:
    targets = result.metadata.get("patch_targets") or ()
    folders = {each["path"]: each["folder"] for each in targets if {"path", "folder"} <= each.keys()}
    return [
        DeliveredPatch(path=str(path), folder=str(folders.get(path, "")))
        for path in result.metadata.get("patches") or ()
    ]


def collect_results(goal: Goal, results: dict[str, TaskResult]) -> GoalResults:
    """The same from the results by the names of the tasks."""
    merged = _merged_paths(goal)
    tests = tuple(_decode(results.values(), "tests", TestRun))
    inspections = tuple(_decode(results.values(), "inspection", Inspection))
    broken = [task for task in goal.tasks if task.status in (TaskStatus.FAILED, TaskStatus.TIMEOUT)]
    return GoalResults(
        tests=tests,
        inspections=inspections,
        findings=tuple(finding for each in inspections for finding in _findings(each)),
        not_checked=(
            *(NotChecked(what=task.name, why=task.summary or str(task.status)) for task in broken),
            *(each for run in tests for each in _not_run(run)),
            *(each for inspection in inspections for each in _not_inspected(inspection)),
            *(
                NotChecked(what=name, why=result.output.partition("\n")[0] or "it says no reason")
                for name, result in results.items()
                if result.outcome is ResultOutcome.NOT_CHECKED and not PARTS & result.metadata.keys()
            ),
        ),
        patches=tuple(
            str(path)
            for result in results.values()
            for path in result.metadata.get("patches") or ()
            if path not in merged
        ),
        unchecked=any(map(_is_unchecked_part, results.values()))
        or any(run.problem or run.incomplete for run in tests),
    )


def _is_unchecked_part(result: TaskResult) -> bool:
    """Whether it should have run tests or checked a folder, and could not."""
    return result.outcome is ResultOutcome.NOT_CHECKED and bool(PARTS & result.metadata.keys())


def _decode(results: Iterable[TaskResult], key: str, kind: type[C]) -> Iterator[C]:
    for result in results:
        value = result.metadata.get(key)
        if isinstance(value, dict):
            try:
                yield kind.from_dict(value)
            except ValueError:
                continue  # of another version, or a model's own


def _findings(inspection: Inspection) -> list[Finding]:
    """All findings, the worst first."""
    broken = [violation for rule in inspection.drift for violation in rule.violations]
    order = ("high", "medium", "low")
    return sorted((*inspection.findings, *broken), key=lambda each: order.index(each.severity))


def _not_run(run: TestRun) -> Iterator[NotChecked]:
    if run.problem:
        yield NotChecked(what="tests", why=run.problem, cure=run.cure)
    yield from run.not_run


def _not_inspected(inspection: Inspection) -> Iterator[NotChecked]:
    yield from inspection.not_checked
    named = {each.what for each in inspection.not_checked}
    for tool in inspection.tools:
        if tool.problem and tool.name not in named:
            yield NotChecked(what=tool.name, why=tool.problem)
    for rule in inspection.drift:
        if rule.not_checked and rule.rule not in named:
            yield NotChecked(what=f"{rule.rule} ({rule.source})", why=rule.not_checked)


# --- which goal -------------------------------------------------------------------------------------

LAST = ("last", "-")  # The latest goal, whichever way it was submitted
CURE = "'mailroom tasks --all' lists the goals"


class _Submission(msgspec.Struct):
    goal_id: str = ""


async def find_goal(bus: Bus, name: str) -> tuple[Goal, int]:
    """The goal that ``name`` means, and the sequence of its record.

    Raises NotFound if there is none, MailroomError if there are several.
    """
    goal_id = await expand_goal_id(bus, name) if (name in LAST or TOKEN.fullmatch(name) is not None) else ""
    found = await read_goal(bus, goal_id) if goal_id else None
    if found is None and name in LAST:
        problem = f"The conductor has not begun the latest goal, {goal_id}"
        raise NotFound(problem, "Try again in a moment; 'mailroom status' shows whether it runs")
    if found is None:
        raise NotFound(f"There is no goal {name[:130]!r}", CURE)
    return found


async def expand_goal_id(bus: Bus, name: str) -> str:
    """The id that ``name`` is, begins or ends; ``name`` itself if there is none.

    Raises MailroomError if it may mean several.
    """
    if name in LAST:
        return await _find_latest(bus)
    if not TOKEN.fullmatch(name) or await bus.last(subjects.OFFICE, subjects.goal(name)) is not None:
        return name
    recorded = await count_subjects(bus, subjects.OFFICE, subjects.goal("*"))
    ids = [subject.removeprefix(subjects.goal("")) for subject in recorded]
    found = [each for each in ids if each.startswith((name, f"goal_{name}")) or each.endswith(name)]
    if len(found) > 1:
        shown = ", ".join(sorted(found)[-3:])
        raise MailroomError(f"{name!r} may mean {len(found)} goals, such as {shown}", "Write more of its id")
    return found[0] if found else name


async def _find_latest(bus: Bus) -> str:
    """The goal that was submitted last, also if the conductor has not begun it."""
    submitted = [
        (stored.seq, name)
        for door in (*subjects.SUBMIT_AS.values(), *map(subjects.submitted_by, subjects.SUBMITTING))
        if (stored := await bus.last(subjects.OFFICE, door)) and (name := _submitted_id(stored.data))
    ]
    goals = await read_goals(bus)
    waiting = max(submitted, default=(0, ""))[1]
    if waiting and not any(goal.goal_id == waiting for goal in goals):
        return waiting
    if not goals:
        raise NotFound("There is no goal yet", 'Submit one: mailroom submit "..."')
    return goals[-1].goal_id


def _submitted_id(data: bytes) -> str:
    """The id under which a goal was submitted; empty if it has none yet, and for other orders."""
    try:
        return msgspec.json.decode(data, type=_Submission).goal_id
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""
