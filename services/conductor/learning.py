"""What is learned from goals: statistics, and lessons that become patterns."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from services.conductor.planner import NAMED
from services.conductor.review import REPOSITORY
from services.conductor.state_machine import BY_MODEL
from shared import subjects
from shared.bus import Bus, Entry
from shared.bus.entry import seal
from shared.bus.records import read_record
from shared.contracts import (
    Experience,
    ExperienceIndex,
    Failure,
    Goal,
    GoalTask,
    Pattern,
    PatternOrigin,
    ResultOutcome,
    Setback,
    TaskResult,
    TaskStatus,
    generate_id,
)
from shared.contracts.cognition import kind_of, spending_of
from shared.text.display import shorten
from shared.text.prose import PATH_IN_TEXT
from shared.text.times import seconds_between

RECORD = "learning"
INDEX = "all"  # The record that lists the others: an agent cannot read what it does not know the name of
MAX_RECORDS = 1_000
"""Pairs of an agent and a kind of task that are recorded: a model may name a new kind each time."""
FIRST = 2  # The index is stored with a record up to this sample, in case the first commit was refused


class MetaLearner:
    """Counts by agent and kind of task how many succeeded, how long they took, and what they cost.

    Each result adds to one small record, committed with the result. Of several conductor processes each
    records what it saw itself; ``mailroom kpi --agents`` computes exact figures from the log.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._records: dict[str, Experience] = {}

    async def restore(self) -> None:
        """Read what was recorded before."""
        index = await read_record(self._bus, _subject(INDEX), ExperienceIndex)
        for name in index.value.records if index else ():
            if record := await read_record(self._bus, _subject(name), Experience):
                self._records[name] = record.value

    def lessons(
        self, goal: Goal, task: GoalTask, result: TaskResult, project: str
    ) -> tuple[tuple[Failure, ...], list[Pattern]]:
        """The failures of a named action that nothing has helped, with this result; and what it teaches.

        Only goals of people teach: what agents submit could be made to.
        """
        known = self._records.get(record_name(task.assignee, _kind(goal, task)))
        failures = known.failures if known else ()
        if not task.action or goal.requester != subjects.USER or (known and task.task_id in known.counted):
            return failures, []
        if result.status in (TaskStatus.FAILED, TaskStatus.TIMEOUT):
            return (*failures, failure_of(goal, task, result.error_message, project))[-KEPT:], []
        if result.status is not TaskStatus.COMPLETED or not failures:
            return failures, []
        helped, params = find_help(task, failures)
        left = tuple(each for each in failures if each not in helped)
        return left, [pattern_of_help(goal, task, helped[-1], params)] if helped else []

    def pattern_ids(self, task: GoalTask) -> tuple[str, ...]:
        """The ids of the patterns that were learned from tasks with the agent and the action of ``task``."""
        known = self.experience(task.assignee, task.action[:60]) if task.action else None
        return known.patterns if known else ()

    def learn(
        self,
        goal: Goal,
        task: GoalTask,
        result: TaskResult,
        attempts: int,
        *,
        failures: tuple[Failure, ...] = (),
        patterns: Sequence[str] = (),
    ) -> list[Entry]:
        """The entries that record how a task ended, and what was learned; none for a cancelled one."""
        if result.status is TaskStatus.CANCELLED:
            return []
        kind = _kind(goal, task)
        name = record_name(task.assignee, kind)
        known = self._records.get(name)
        if known is None and len(self._records) >= MAX_RECORDS:
            return []
        tokens, cost = spending_of(result.metadata)
        before = known or Experience(sender=subjects.CONDUCTOR, agent=task.assignee, kind=kind)
        after = before.plus(
            task.task_id,
            completed=result.status is TaskStatus.COMPLETED,
            seconds=seconds_between(task.started_at, result.completed_at),
            attempts=attempts,
            tokens=tokens,
            cost=cost,
        )
        if after is not before:
            learned = tuple(dict.fromkeys((*before.patterns, *patterns)))[-KEPT:]
            after = msgspec.structs.replace(after, failures=failures, patterns=learned)
        else:
            # Counted already, but the commit may have lost a race; it needs an id of its own to be stored.
            after = msgspec.structs.replace(after, id=generate_id())
        self._records[name] = after
        entries = [seal(_subject(name), after)]
        if after.samples <= FIRST:
            index = ExperienceIndex(sender=subjects.CONDUCTOR, records=tuple(self._records))
            entries.append(seal(_subject(INDEX), index))
        return entries

    def experience(self, agent: str, kind: str) -> Experience | None:
        """The statistics of an agent at a kind of task; None if there are none."""
        return self._records.get(record_name(agent, kind))


def _kind(goal: Goal, task: GoalTask) -> str:
    planned = "" if goal.playbook in ("", BY_MODEL, NAMED) else f"{goal.playbook}.{task.name}"
    return kind_of(task.text, task.action, planned)


def record_name(agent: str, kind: str) -> str:
    """The id of the record of an agent and a kind of task."""
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in kind)
    return f"{agent}-{plain}"[:128]


def _subject(name: str) -> str:
    return subjects.record(subjects.CONDUCTOR, RECORD, name)


# --- what goals and results teach: pure functions ---------------------------------------------------

WELL = (ResultOutcome.DONE, ResultOutcome.FINDINGS)  # Outcomes of goals that ended well
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
    if failed and goal.plans > failed[0].plan and (instead := find_instead(goal)):
        strategy = f"Plan instead: {'; '.join(_format_task(task, goal.text) for task in instead[:5])}"
        lessons.append(_lesson(goal, failed[0], PatternOrigin.REPAIR, strategy))
    if reviews := [each for each in goal.setbacks if each.review]:
        reasons = dict.fromkeys(shorten(each.reason, 1_000) for each in reviews)
        words = f"See to it before it is handed in: {'; '.join(reasons)}"
        lessons.append(_lesson(goal, reviews[0], PatternOrigin.REVIEW, words))
    return lessons


def find_instead(goal: Goal) -> list[GoalTask]:
    """The tasks of later plans that completed and that no earlier plan had: not a call that failed, or had to
    wait for it, and went well when it was made again.
    """
    before = {_call(task) for task in goal.earlier} | {(each.agent, each.action) for each in goal.setbacks}
    later = [task for task in goal.tasks if re.search(r"-p\d+-\d+$", task.task_id)]
    return [task for task in later if task.status is TaskStatus.COMPLETED and _call(task) not in before]


def _call(task: GoalTask) -> tuple[str, str]:
    return task.assignee, task.action or task.text


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


def _call_of(task: GoalTask, failure: Failure) -> str:
    about = f" about a {failure.project} project" if failure.project else ""
    return f"{task.action} of {task.assignee}{about}"


def _is_plain(value: Any) -> bool:
    return isinstance(value, bool | int | float) or (isinstance(value, str) and bool(PLAIN.fullmatch(value)))
