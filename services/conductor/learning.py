"""What is learned from goals: statistics, used to choose between agents, and lessons that become patterns."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from services.conductor.planner import NAMED, NO_TASKS
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
from shared.plans import AgentPage
from shared.text.display import count, shorten
from shared.text.prose import PATH_IN_TEXT
from shared.text.times import seconds_between

RECORD = "learning"
INDEX = "all"  # The record that lists the others: an agent cannot read what it does not know the name of
MAX_RECORDS = 1_000
"""Pairs of an agent and a kind of task that are recorded: a model may name a new kind each time."""
FIRST = 2  # The index is stored with a record up to this sample, in case the first commit was refused
ENOUGH = 5  # Tasks an agent must have ended before its figures count: with fewer, luck outweighs skill


class MetaLearner:
    """Counts by agent and kind of task how many succeeded, how long they took, and what they cost.

    Each result adds to one small record, committed with the result. Of several conductor processes each
    records what it saw itself; ``mailroom kpi --agents`` computes exact figures from the log.
    """

    def __init__(self, bus: Bus, *, routing: bool) -> None:
        self._bus = bus
        self._routing = routing
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
            failures = (*failures, failure_of(goal, task, result.error_message, project))[-KEPT:]
            repeated = pattern_of_failures(goal, task, failures)
            return failures, [repeated] if repeated else []
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

    def route(self, tasks: Sequence[GoalTask], pages: Mapping[str, AgentPage]) -> tuple[GoalTask, ...]:
        """``tasks``, each assigned to the agent that does it best; unchanged if learned routing is off.

        Only a task with a named action that several agents at work offer, with these parameters, can move,
        and only between agents with at least ENOUGH tasks of the kind; an agent with fewer keeps its task.
        """
        placed = []
        for task in tasks:
            able: dict[str, Experience] = {}
            for name, page in pages.items() if self._routing and task.action else ():
                offers = all(page.offers(task.action, parameter) for parameter in ("", *task.params))
                seen = self.experience(name, task.action[:60])
                if offers and name not in NO_TASKS and seen is not None and seen.samples >= ENOUGH:
                    able[name] = seen
            if task.assignee in able and len(able) > 1:
                scores = score(able)
                order = {name: (scores[name], name == task.assignee) for name in scores}
                task = msgspec.structs.replace(task, assignee=max(order, key=order.__getitem__))
            placed.append(task)
        return tuple(placed)


def _kind(goal: Goal, task: GoalTask) -> str:
    planned = "" if goal.playbook in ("", BY_MODEL, NAMED) else f"{goal.playbook}.{task.name}"
    return kind_of(task.text, task.action, planned)


def score(able: Mapping[str, Experience]) -> dict[str, float]:
    """A score of each agent at a kind of task, at most 1.

    (completed + 1) / (tasks + 2), which discounts few samples; less 0.1 times the retries a task, at most
    0.1; less up to 0.1 for being slower than the shortest median duration.
    """
    quickest = min(seen.duration for seen in able.values())
    return {
        name: (seen.completed + 1) / (seen.samples + 2)
        - 0.1 * min(1.0, seen.retries)
        - 0.1 * (1 - (quickest / seen.duration if seen.duration > 0 else 1.0))
        for name, seen in able.items()
    }


def record_name(agent: str, kind: str) -> str:
    """The id of the record of an agent and a kind of task."""
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in kind)
    return f"{agent}-{plain}"[:128]


def _subject(name: str) -> str:
    return subjects.record(subjects.CONDUCTOR, RECORD, name)


# --- what goals and results teach: pure functions ---------------------------------------------------

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
    # The tasks of later plans that completed, if the failure was planned around
    done = [
        task
        for task in goal.tasks
        if task.status is TaskStatus.COMPLETED and re.search(r"-p\d+-\d+$", task.task_id)
    ]
    if failed and goal.plans > failed[0].plan and done:
        instead = "; ".join(_format_task(task, goal.text) for task in done[:5])
        lessons.append(_lesson(goal, failed[0], PatternOrigin.REPAIR, f"Plan instead: {instead}"))
    for setback in (each for each in goal.setbacks if each.review):
        words = f"See to it before it is handed in: {shorten(setback.reason, 1_000)}"
        lessons.append(_lesson(goal, setback, PatternOrigin.REVIEW, words))
    return lessons


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

    def kind(failure: Failure) -> tuple[str, str, str]:
        reason = leave_out_names(failure.reason) if failure.error == OTHER else ""
        return failure.error, failure.project, reason

    alike = [each for each in failures if kind(each) == kind(last)]
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


def leave_out_names(reason: str) -> str:
    """A reason without numbers, addresses, paths and what stands in quotes: what one call has of its own."""
    return " ".join(_NAMES.sub("", reason).split())


def _call_of(task: GoalTask, failure: Failure) -> str:
    about = f" about a {failure.project} project" if failure.project else ""
    return f"{task.action} of {task.assignee}{about}"


def _is_plain(value: Any) -> bool:
    return isinstance(value, bool | int | float) or (isinstance(value, str) and bool(PLAIN.fullmatch(value)))
