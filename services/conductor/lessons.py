"""What goals teach: pure functions from an ended goal, or the result of a task, to patterns."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from services.conductor.review import REPOSITORY
from shared.contracts import (
    Failure,
    Goal,
    GoalTask,
    Pattern,
    PatternOrigin,
    ResultOutcome,
    Setback,
    TaskStatus,
)
from shared.text.display import count, shorten
from shared.text.prose import PATH_IN_TEXT

WELL = (ResultOutcome.DONE, ResultOutcome.FINDINGS)  # Outcomes of goals that ended well
REPEATED = 3
"""Failures of one kind, of one action, from which a pattern is made although nothing has helped yet."""
KEPT = 10  # Failures that are remembered of an agent and an action
OTHER = "other"
ERRORS = (
    ("timeout", r"timed out|time-?out|longer than|within \d|deadline"),
    ("refused", r"refused|denied|not allowed|not permitted|permission|forbidden|policy"),
    ("unavailable", r"does not answer|unavailable|unreachable|connection|network"),
    ("not installed", r"not installed|command not found|no module named|no test runner"),
    ("not found", r"no such|not found|does not exist|there is no"),
    ("bad input", r"must be|invalid|required|expected|cannot be read"),
)
"""Kinds of failure, by what their reasons say; the first that fits."""
_NAMES = re.compile(r"'[^']*'|\"[^\"]*\"|\S*[\d/]\S*")
OF_GOAL = "(as the goal says)"
"""What a strategy has in the place of a value that its goal names, such as a folder."""
PLAIN = re.compile(r"[\w.-]{1,40}")
"""Texts that may be learned as parameters: names and numbers, no paths, addresses or commands."""


def error_kind(reason: str) -> str:
    """The kind of failure that a reason tells of."""
    found = (kind for kind, words in ERRORS if re.search(words, reason, re.IGNORECASE))
    return next(found, OTHER)


# --- what an ended goal teaches ------------------------------------------------------------------


def lessons_of(goal: Goal) -> list[Pattern]:
    """What ``goal`` teaches, which went wrong at first and ended well; nothing otherwise."""
    if goal.outcome not in WELL or not goal.setbacks:
        return []
    first = goal.setbacks[0]
    if told := [each.text for each in goal.instructions[first.told :] if each.text.strip()]:
        words = f"A person said: {shorten(' '.join(told), 1_000)}"
        return [_lesson(goal, first, PatternOrigin.CORRECTION, words)]
    failed = [each for each in goal.setbacks if not each.review]
    lessons = []
    if instead := _planned_since(goal, failed):
        lessons.append(_lesson(goal, failed[0], PatternOrigin.REPAIR, f"Plan instead: {instead}"))
    for setback in (each for each in goal.setbacks if each.review):
        words = f"See to it before it is handed in: {shorten(setback.reason, 1_000)}"
        lessons.append(_lesson(goal, setback, PatternOrigin.REVIEW, words))
    return lessons


def _planned_since(goal: Goal, failed: Sequence[Setback]) -> str:
    """The tasks of later plans that completed, as text; empty if the failure was not planned around."""
    if not failed or goal.plans <= failed[0].plan:
        return ""
    done = [
        task
        for task in goal.tasks
        if task.status is TaskStatus.COMPLETED and re.search(r"-p\d+-\d+$", task.task_id)
    ]
    return "; ".join(_format_task(task, goal.text) for task in done[:5])


def _format_task(task: GoalTask, goal: str) -> str:
    """A task without what its goal alone names, which another goal has of its own."""
    call = f"{task.assignee}.{task.action}" if task.action else task.assignee
    given = {name: str(value) for name, value in task.params.items()}
    shown = {name: OF_GOAL if _names(goal, value) else shorten(value, 60) for name, value in given.items()}
    params = ", ".join(f"{name}={value}" for name, value in shown.items())
    text = PATH_IN_TEXT.sub(lambda path: OF_GOAL if _names(goal, path[0]) else path[0], task.text)
    return f"{call}{f' with {params}' if params else ''} ({shorten(text, 120)})"


def _names(goal: str, value: str) -> bool:
    return bool(re.search(rf"(?<!\w){re.escape(value)}(?!\w)", goal)) if value.strip() else False


def _lesson(goal: Goal, setback: Setback, origin: PatternOrigin, strategy: str) -> Pattern:
    by = f"{setback.action} of {setback.agent}" if setback.action else f"the work of {setback.agent}"
    what = "was sent back by the review" if setback.review else "failed"
    why = shorten(" ".join(setback.reason.split()), 200)
    return Pattern(
        condition=f"A goal like “{shorten(' '.join(goal.text.split()), 160)}”: {by} {what}: {why}",
        strategy=strategy,
        learned_from=origin,
        example=goal.text[:2_000],
        agent=setback.agent,
        action=setback.action,
        error="" if setback.review else error_kind(setback.reason),
        evidence=(f"goal:{goal.goal_id}",),
    )


# --- what the result of a task teaches, without a model ------------------------------------------


def failure_of(goal: Goal, task: GoalTask, reason: str, project: str) -> Failure:
    """How a task failed, as it is remembered."""
    return Failure(
        goal_id=goal.goal_id,
        subject=subject_of(task.params),
        params={name: value for name, value in task.params.items() if _is_plain(value)},
        error=error_kind(reason),
        project=project,
        reason=shorten(" ".join(reason.split()), 300),
    )


def subject_of(params: Mapping[str, Any]) -> str:
    """The folder or file that a call is about; empty if it names none."""
    return next((str(params[name]) for name in REPOSITORY if params.get(name)), "")


def find_help(task: GoalTask, failures: Sequence[Failure]) -> tuple[list[Failure], dict[str, Any]]:
    """The ``failures`` at the same subject that ``task``, which completed, avoided, and by which parameters.

    A parameter helped if it was not given before, or is a number or a choice that was another one.
    """
    subject = subject_of(task.params)
    helped: list[Failure] = []
    params: dict[str, Any] = {}
    for failure in failures:
        other = {
            name: value
            for name, value in task.params.items()
            if name not in REPOSITORY
            and _is_plain(value)
            and failure.params.get(name) != value
            and (name not in failure.params or not isinstance(value, str))
        }
        if subject and failure.subject == subject and other:
            helped.append(failure)
            params |= other
    return helped, params


def pattern_of_help(goal: Goal, task: GoalTask, failure: Failure, params: dict[str, Any]) -> Pattern:
    """The pattern that ``params`` helped against ``failure``."""
    given = ", ".join(f"{name}={value}" for name, value in params.items())
    return Pattern(
        condition=f"{_call_of(task, failure)} fails: {failure.error}: {failure.reason}",
        strategy=f"Give {task.action} {given}",
        learned_from=PatternOrigin.REPAIR,
        example=goal.text[:2_000],
        agent=task.assignee,
        action=task.action,
        project=failure.project,
        error=failure.error,
        params=params,
        evidence=(f"goal:{failure.goal_id}", f"goal:{goal.goal_id}"),
    )


def pattern_of_failures(goal: Goal, task: GoalTask, failures: Sequence[Failure]) -> Pattern | None:
    """The pattern of failures of the kind of the last one; None for fewer than REPEATED goals."""
    last = failures[-1]
    alike = [each for each in failures if _are_alike(each, last)]
    goals = tuple(dict.fromkeys(f"goal:{each.goal_id}" for each in alike))
    if len(goals) < REPEATED:
        return None
    return Pattern(
        condition=f"{_call_of(task, last)} fails: {last.error}: {last.reason}",
        strategy=f"It ended so in {count(len(goals), 'goal')}, and nothing has helped yet. "
        "See to the cause first, or plan another way.",
        learned_from=PatternOrigin.FAILURES,
        example=goal.text[:2_000],
        agent=task.assignee,
        action=task.action,
        project=last.project,
        error=last.error,
        evidence=goals,
    )


def _are_alike(one: Failure, other: Failure) -> bool:
    """Whether two failures are of one kind; those of no known kind, for the same reason."""
    if (one.error, one.project) != (other.error, other.project):
        return False
    return other.error != OTHER or leave_out_names(one.reason) == leave_out_names(other.reason)


def leave_out_names(reason: str) -> str:
    """A reason without numbers, addresses, paths and what stands in quotes: what one call has of its own."""
    return " ".join(_NAMES.sub("", reason).split())


def _call_of(task: GoalTask, failure: Failure) -> str:
    about = f" about a {failure.project} project" if failure.project else ""
    return f"{task.action} of {task.assignee}{about}"


def _is_plain(value: Any) -> bool:
    return isinstance(value, bool | int | float) or (isinstance(value, str) and bool(PLAIN.fullmatch(value)))
