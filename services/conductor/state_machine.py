"""The states of a goal: pure functions from a goal and an event to what it is then and comes to."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from services.conductor.merging import add_merges, ancestors, explain_failure, read_changes, resolving_task
from shared import subjects
from shared.contracts import (
    Goal,
    GoalTask,
    OfficeState,
    ResultOutcome,
    Setback,
    StateChanged,
    Task,
    TaskResult,
    TaskStatus,
    generate_iso_timestamp,
)
from shared.contracts.base import TOKEN
from shared.contracts.records import MAX_SETBACKS
from shared.contracts.task import worst_of
from shared.plans import StepOutput, fill_references, number_of
from shared.reasoning.prompts import FEEDBACK_KINDS
from shared.reasoning.recall import FACT
from shared.tasks.evidence import verdict_of
from shared.text.display import count, shorten

CHECKUP = "checkup"
"""The playbook whose tasks look at one repository independently: one that fails leaves the others whole."""
HISTORY = "read_history"  # The action of a check-up that reads a repository's history, if there is one
LISTED = 3  # Tasks that a sentence names; the others are counted


def outcome_of_result(result: TaskResult) -> ResultOutcome:
    """What a task came to; results of earlier versions say it by their status alone."""
    if result.status is not TaskStatus.COMPLETED:
        return ResultOutcome.FAILED
    return result.outcome or ResultOutcome.DONE


def decision_of(goal: Goal) -> str:
    """The critic's last decision about a goal; empty if there is none."""
    verdict = verdict_of(goal)
    return verdict.decision if verdict else ""


def outcome_of_goal(goal: Goal) -> ResultOutcome:
    """What an ended goal came to; NONE for one that has not ended.

    It is *done* only if every task did what was asked for, and the critic found that true or had nothing to
    check; a part is judged by who submitted it. It *failed* if it ended as anything but completed, if what
    its results say does not hold, or if a task of it failed; of a check-up, whose tasks do not build on each
    other, that part is *not checked* instead. With something left out, or a question to the person, it is at
    best *not checked*.
    """
    if not goal.status.final:
        return ResultOutcome.NONE
    if goal.status is not TaskStatus.COMPLETED or decision_of(goal) == "sent_back":
        return ResultOutcome.FAILED
    outcomes: set[ResultOutcome] = set()
    for task in goal.tasks:
        if task.status is TaskStatus.COMPLETED:
            # A project need not be in a git repository to be checked.
            without = goal.playbook == CHECKUP and task.action == HISTORY
            outcomes.add(ResultOutcome.DONE if without else task.outcome or ResultOutcome.DONE)
        else:
            is_part = goal.playbook == CHECKUP
            outcomes.add(ResultOutcome.NOT_CHECKED if is_part else ResultOutcome.FAILED)
    is_judged = goal.part_of or decision_of(goal) in ("approved", "nothing_checked")
    if goal.left_out or not is_judged:
        outcomes.add(ResultOutcome.NOT_CHECKED)
    return worst_of(outcomes)


def format_left_out(goal: Goal) -> str:
    """Which parts of the request are not done, in a sentence; empty for none."""
    quoted = ", ".join(f"'{part}'" for part in goal.left_out)
    return f"left out: {quoted}" if quoted else ""


def format_undone(goal: Goal) -> str:
    """Which parts and tasks were not done, and why, in a sentence; empty for none."""
    left = [task for task in goal.tasks if task.status is not TaskStatus.COMPLETED]
    named = [f"{task.name} was not done: {task.summary or task.status}" for task in left[:LISTED]]
    more = [f"{count(len(left) - LISTED, 'more task')} not done"] if len(left) > LISTED else []
    return shorten("; ".join(filter(None, [format_left_out(goal), *named, *more])), 2_000)


OVERDUE = "its deadline passed before it was done"  # Why a goal ended at its deadline
MAX_PATTERNS = 20  # Patterns that are counted as used for one goal: the first ones
FAILED = (TaskStatus.FAILED, TaskStatus.TIMEOUT)
MAX_REPAIRS = 2  # How often another plan is asked for after the first; a failure after that is reported

ALLOWED: Mapping[OfficeState, frozenset[OfficeState]] = {
    **dict.fromkeys(OfficeState, frozenset(OfficeState)),
    OfficeState.IDLE: frozenset({OfficeState.PLANNING, OfficeState.EXECUTING}),
}
"""Which state may follow which; a goal may end (IDLE) at any time. A state is recorded again while a model is
asked."""

GIVEN = "given plan"  # The ``playbook`` of a goal that was submitted with its plan
REVIEW = "review"  # The name of the review among a goal's results
BY_MODEL = "brain"  # The ``playbook`` of a goal that a model planned
PLAN, REPAIR, ANSWER = "plan", "repair", "answer"
"""What a model can be asked for about a goal, its ``thinking``: a plan, another plan, an answer."""


def state_of(goal: Goal) -> OfficeState:
    """The state of a goal, which follows from the goal alone."""
    if goal.status.final:
        return OfficeState.IDLE
    if not goal.tasks or goal.thinking == REPAIR:
        return OfficeState.PLANNING
    return OfficeState.REVIEW if goal.status is TaskStatus.REVIEW else OfficeState.EXECUTING


def state_change(goal: Goal, before: Goal | None) -> StateChanged:
    """The record of ``goal``, which was ``before``; None for a new goal."""
    return StateChanged(
        sender=subjects.CONDUCTOR,
        goal_id=goal.goal_id,
        state=state_of(goal),
        previous=state_of(before) if before else OfficeState.IDLE,
        goal=goal,
    )


def needs_plan(goal: Goal) -> bool:
    """Whether a goal has neither ended nor a plan, and no model is being asked for one."""
    return not goal.status.final and not goal.tasks and not goal.thinking


def record_result(goal: Goal, result: TaskResult) -> Goal:
    """``goal`` after one of its tasks ended; the same object if the result changes nothing.

    Only the assignee's result counts, since any agent may send one to the conductor.
    """
    key = (result.task_id, result.sender)
    ours = [task for task in goal.tasks if (task.task_id, task.assignee) == key and not task.status.final]
    if not ours or not result.status.final:
        return goal
    if result.status in FAILED and (both := resolving_task(goal, ours[0], result)):
        return msgspec.structs.replace(
            goal, tasks=tuple(both if task in ours else task for task in goal.tasks)
        )
    summary = (result.error_message or result.output).strip().partition("\n")[0]
    tasks = [
        _end(task, result.status, summary, outcome_of_result(result)) if task in ours else task
        for task in goal.tasks
    ]
    more: dict[str, Any] = {}
    if result.status is TaskStatus.COMPLETED:
        more = {"changes": read_changes(result)}
    elif ours[0].merges:
        more = {"summary": explain_failure(goal, ours[0], summary)}
    tasks = [msgspec.structs.replace(task, **more) if task.name == ours[0].name else task for task in tasks]
    ended = msgspec.structs.replace(goal, tasks=skip_blocked(tasks))
    if result.status in FAILED:
        ended = with_setbacks(ended, ours, summary)
    return with_patterns(ended, result.metadata.get(FACT))


def with_setbacks(goal: Goal, tasks: Iterable[GoalTask], reason: str, *, review: bool = False) -> Goal:
    """``goal`` with a note that ``tasks`` failed, or that the ``review`` sent them back."""
    more = [
        Setback(
            task=task.name,
            agent=task.assignee,
            action=task.action,
            params=task.params,
            reason=reason[:1_000],
            review=review,
            plan=goal.plans,
            told=len(goal.instructions),
        )
        for task in tasks
    ]
    return msgspec.structs.replace(goal, setbacks=(*goal.setbacks, *more)[:MAX_SETBACKS])


def with_patterns(goal: Goal, ids: Any) -> Goal:
    """``goal`` with the patterns that were used for it; what is no list of ids adds none."""
    given = ids if isinstance(ids, list | tuple) else ()
    found = [each for each in given if isinstance(each, str) and TOKEN.fullmatch(each)]
    used = tuple(dict.fromkeys((*goal.patterns, *found)))[:MAX_PATTERNS]
    return goal if used == goal.patterns else msgspec.structs.replace(goal, patterns=used)


def skip_blocked(tasks: Sequence[GoalTask]) -> tuple[GoalTask, ...]:
    """``tasks``, those cancelled whose dependencies did not complete, and those that depend on them."""
    lost: dict[str, str] = {}
    result = []
    for task in tasks:
        blocker = next((name for name in task.depends_on if name in lost), None)
        if blocker is not None and not task.status.final:
            task = _end(task, TaskStatus.CANCELLED, f"skipped: it needs {blocker!r}, which {lost[blocker]}")
        if task.status.final and task.status is not TaskStatus.COMPLETED:
            lost[task.name] = f"ended as {task.status}"
        result.append(task)
    return tuple(result)


def add_dependents(goal: Goal, names: Iterable[str]) -> set[str]:
    """``names`` of tasks, and of those that build on them."""
    found = set(names)
    for task in goal.tasks:
        if found & set(task.depends_on):
            found.add(task.name)
    return found


def begin_again(goal: Goal, names: Collection[str], attempt: str) -> tuple[GoalTask, ...]:
    """The tasks of ``goal``, those named as if they had not begun; ``attempt`` makes their ids new.

    They go on in their workspaces, unless what they began with is done again too. Merges of what is done
    again are left out: they are made when they are due.
    """
    names = set(names)
    left_out = {task.name for task in goal.tasks if task.merges and names & set(task.depends_on)}
    tasks = [
        msgspec.structs.replace(
            task,
            task_id=f"{goal.goal_id}-{task.name}-{attempt}",
            status=TaskStatus.PENDING,
            issued=False,
            started_at="",
            ended_at="",
            summary="",
            outcome=ResultOutcome.NONE,
            depends_on=tuple(name for name in task.depends_on if name not in left_out),
            changes=(),
            workspace="" if names & set(task.depends_on) else task.workspace or task.task_id,
            continues="",
        )
        if task.name in names
        else task
        for task in goal.tasks
        if task.name not in left_out
    ]
    return skip_blocked(tasks)


def ready_tasks(goal: Goal) -> list[GoalTask]:
    """Tasks that can be assigned now: not yet issued, and all they depend on is completed."""
    done = {task.name for task in goal.tasks if task.status is TaskStatus.COMPLETED}
    return [
        task
        for task in goal.tasks
        if not task.issued and not task.status.final and done >= set(task.depends_on)
    ]


def mark_issued(goal: Goal, issued: Sequence[GoalTask]) -> Goal:
    """``goal`` with these tasks issued to their assignees."""
    names, now = {task.name for task in issued}, generate_iso_timestamp()
    tasks = tuple(
        msgspec.structs.replace(task, issued=True, status=TaskStatus.IN_PROGRESS, started_at=now)
        if task.name in names
        else task
        for task in goal.tasks
    )
    return msgspec.structs.replace(goal, tasks=tasks, status=TaskStatus.IN_PROGRESS)


def all_ended(goal: Goal) -> bool:
    """Whether every task has ended."""
    return all(task.status.final for task in goal.tasks)


class Advance(NamedTuple):
    """What follows for a goal: issue ``issued``, plan again, review, end, or, if none of these, wait."""

    goal: Goal
    issued: tuple[GoalTask, ...] = ()
    repair: bool = False
    review: bool = False
    over: bool = False


def advance(goal: Goal, *, repair: bool = False) -> Advance:
    """What is to be done about a planned goal now, and the goal as it is then; ``repair`` if a model can."""
    if repair and needs_repair(goal):
        return Advance(goal, repair=True)
    goal = add_merges(goal)
    if ready := ready_tasks(goal):
        return Advance(mark_issued(goal, ready), issued=tuple(ready))
    if not all_ended(goal):
        return Advance(goal)
    if goal.part_of or all(task.status is TaskStatus.CANCELLED for task in goal.tasks):
        return Advance(goal, over=True)
    number = goal.reviews + 1
    review_id = f"{goal.goal_id}-{REVIEW}-{number}"
    reviewed = msgspec.structs.replace(
        goal, status=TaskStatus.REVIEW, reviews=number, review_task_id=review_id
    )
    return Advance(reviewed, review=True)


def end(goal: Goal, status: TaskStatus, reason: str = "", **changes: Any) -> Goal:
    """``goal`` ended, with what it came to; its open tasks are cancelled."""
    now = generate_iso_timestamp()
    tasks = tuple(
        task if task.status.final else _end(task, TaskStatus.CANCELLED, reason) for task in goal.tasks
    )
    ended = msgspec.structs.replace(goal, status=status, reason=reason, ended_at=now, tasks=tasks, **changes)
    return msgspec.structs.replace(ended, outcome=outcome_of_goal(ended))


def _end(
    task: GoalTask, status: TaskStatus, summary: str, outcome: ResultOutcome = ResultOutcome.FAILED
) -> GoalTask:
    now = generate_iso_timestamp()
    return msgspec.structs.replace(task, status=status, ended_at=now, summary=summary[:200], outcome=outcome)


def status_of(goal: Goal) -> tuple[TaskStatus, str]:
    """The status and reason of a goal whose tasks have ended: it failed if no task completed."""
    failed = [task for task in goal.tasks if task.status is not TaskStatus.COMPLETED]
    if len(failed) < len(goal.tasks):
        return TaskStatus.COMPLETED, ""
    return TaskStatus.FAILED, "; ".join(f"{task.name}: {task.summary}" for task in failed)


def is_overdue(goal: Goal, now: datetime) -> bool:
    """Whether the goal's deadline has passed."""
    return bool(goal.deadline) and now >= datetime.fromisoformat(goal.deadline)


def fail_task(goal: Goal, name: str, reason: str) -> Goal:
    """``goal`` after the task ``name`` could not be assigned for ``reason``."""
    tasks = [_end(task, TaskStatus.FAILED, reason) if task.name == name else task for task in goal.tasks]
    return msgspec.structs.replace(goal, tasks=skip_blocked(tasks))


def task_for(goal: Goal, task: GoalTask, inputs: Mapping[str, Any]) -> Task:
    """The task for its assignee, with the results it builds on.

    In the params of a given plan, references to steps are replaced with what these brought. Raises
    ActionError for one that brought no such thing.
    """
    context: dict[str, Any] = {"inputs": dict(inputs)} if inputs else {}
    params = task.params
    if goal.playbook == GIVEN:
        outputs = {name: msgspec.convert(result, StepOutput) for name, result in inputs.items()}
        params = fill_references(params, {number_of(name): left for name, left in outputs.items()})
    if task.action:
        context["action"] = task.action
    elif task.assignee == subjects.CORTEX and (goal.part_of or len(goal.tasks) > 1):
        context["mode"] = "simple"  # it is planned already
    if task.action or params:
        context["params"] = params
    if goal.depth:
        context["hops"] = goal.depth
    if task.success_criteria:
        context["success_criteria"] = task.success_criteria
    if not task.action and (goal.part_of or goal.requester in subjects.PEOPLE):
        words = {"request": goal.text if goal.text != task.text else "", "thread": goal.context.get("thread")}
        context |= {key: said for key, said in words.items() if said}
    if objections := goal.verdict.get("objections") or goal.verdict.get("reasons"):
        own = [each for each in objections if str(each).startswith(f"{task.name}: ")]
        context["feedback"] = own or objections
        if kinds := goal.verdict.get("kinds"):  # unknown otherwise
            context[FEEDBACK_KINDS] = kinds
    if told := [each.text for each in goal.instructions if each.text.strip()]:
        context["instructions"] = told
    return Task(
        task_id=task.task_id,
        parent_goal_id=goal.goal_id,
        goal_id=goal.part_of or goal.goal_id,
        cause=goal.cause,
        text=task.text,
        assignee=task.assignee,
        requester=subjects.CONDUCTOR,
        priority=goal.priority,
        context=context,
        context_refs=goal.context_refs,
        evidence_refs=goal.evidence_refs,
        depends_on=tuple(other.task_id for other in goal.tasks if other.name in task.depends_on),
        deadline=goal.deadline,
        said=goal.said,
        asker=goal.asker or goal.requester,
        workspace=task.workspace,
        starts_from=workspaces_before(goal, task),
        continues=task.continues,
        budget=goal.budget,
    )


def workspaces_before(goal: Goal, task: GoalTask) -> tuple[str, ...]:
    """The workspaces of all tasks that ``task`` builds on, in the order of the plan; of none if it merges."""
    if task.merges:
        return ()
    before = ancestors(goal, task)
    own = (each.workspace or each.task_id for each in goal.tasks if each.name in before)
    return (*goal.starts_from, *own)


# --- when a model is asked -----------------------------------------------------------------------


def ask_model_about(goal: Goal, what: str) -> Goal:
    """``goal`` while a model is asked for ``what``: PLAN, REPAIR or ANSWER."""
    return msgspec.structs.replace(goal, thinking=what, playbook=goal.playbook or BY_MODEL)


def may_repair(goal: Goal) -> bool:
    """Whether another plan may be asked for: a model made the last one, and the limit is not reached."""
    return goal.playbook == BY_MODEL and 0 < goal.plans <= MAX_REPAIRS and not goal.status.final


def needs_repair(goal: Goal) -> bool:
    """Whether all tasks of a plan ended, and at least one failed that is no merge."""
    failed = any(task.status in FAILED and not task.merges for task in goal.tasks)
    return may_repair(goal) and all_ended(goal) and failed


def review_needs_repair(goal: Goal) -> bool:
    """Whether the critic sent something back, and nothing that it names can be done again."""
    return may_repair(goal) and decision_of(goal) == "sent_back" and all_ended(goal)


def apply_plan(goal: Goal, tasks: Sequence[GoalTask], left_out: Sequence[str] = ()) -> Goal:
    """``goal`` with a plan's ``tasks``: completed ones and merges stay, the others become ``earlier``."""
    done = tuple(task for task in goal.tasks if task.status is TaskStatus.COMPLETED or task.merges)
    given_up = tuple(task for task in goal.tasks if task not in done)
    return msgspec.structs.replace(
        goal,
        tasks=skip_blocked((*done, *tasks)),
        earlier=(*goal.earlier, *given_up),
        plans=goal.plans + 1,
        left_out=tuple(dict.fromkeys((*goal.left_out, *left_out))),
        thinking="",
        status=TaskStatus.IN_PROGRESS,
        review_task_id="",
    )


def adopt_playbook(goal: Goal, planned: Goal, left_out: Sequence[str] = ()) -> Goal:
    """``goal`` with the playbook, and its tasks, of ``planned``."""
    taken = {name: getattr(planned, name) for name in ("playbook", "parameters", "tasks")}
    left = tuple(left_out) or planned.left_out
    return msgspec.structs.replace(goal, **taken, left_out=left, thinking="", status=TaskStatus.IN_PROGRESS)


def ask_back(goal: Goal, question: str) -> Goal:
    """``goal`` ended with a question to the person; what the person answers has it go on."""
    how = f"Answer with: mailroom resume {goal.goal_id} --say '...'"
    reason = f"it asks: {question}"[:2_000]
    asked = {"question": question, "answer": f"{question}\n\n{how}", "thinking": ""}
    return end(goal, TaskStatus.COMPLETED, reason, **asked)


def give_up_repair(goal: Goal, reason: str) -> Goal:
    """``goal`` as it continues after no other plan could be made."""
    note = f"it could not be planned again: {reason}"
    return msgspec.structs.replace(goal, thinking="", plans=MAX_REPAIRS + 1, reason=note[:2_000])


def apply_answer(goal: Goal, answer: str) -> Goal:
    """``goal`` with its answer; if it is empty the report's headline becomes the answer."""
    return msgspec.structs.replace(goal, thinking="", answer=answer)
