"""Runs goals: their records and timers, what follows from each event, models asked in the background."""

import asyncio
import contextlib
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

import msgspec

from services.conductor.learning import MetaLearner
from services.conductor.merging import without_merged
from services.conductor.model_decisions import ModelDecisions
from services.conductor.patterns import PatternBook, project_of
from services.conductor.planner import Roster
from services.conductor.playbook import Playbook
from services.conductor.report import Reporter, report_mail
from services.conductor.review import apply_verdict, read_verdict, review_task
from services.conductor.state_machine import (
    ANSWER,
    BY_MODEL,
    OVERDUE,
    REPAIR,
    REVIEW,
    advance,
    all_ended,
    ask_back,
    ask_model_about,
    end,
    fail_task,
    format_undone,
    is_overdue,
    record_result,
    review_needs_repair,
    state_change,
    status_of,
    task_for,
    with_patterns,
)
from shared import subjects
from shared.agent.context import AgentContext
from shared.bus import Bus, Entry
from shared.bus.entry import seal
from shared.bus.records import (
    cancelling_entry,
    read_record,
    read_submitted,
    read_task_state,
    submission_entry,
)
from shared.contracts import (
    Goal,
    GoalDue,
    GoalTask,
    OfficeState,
    StateChanged,
    Task,
    TaskChanged,
    TaskResult,
    TaskStatus,
)
from shared.contracts.base import amended
from shared.errors import ActionError, BusError, BusUnavailable, Conflict
from shared.llm.sent import sent_for
from shared.queries.spending import read_left
from shared.reasoning.entries import Amount
from shared.reasoning.recall import FACT
from shared.reasoning.spending import charged_to, read_used
from shared.settings import Settings
from shared.spans import SpanRecorder, record_spans_in, recorded_spans
from shared.tasks.submission import OVER_BUDGET
from shared.trace import continue_trace

THINKING = "thinking"
"""The ``what`` of the timer that checks whether a model is still being asked about a goal."""
POST_EVERY = 0.25
"""Seconds between posts of the board while it changes; the goals' own records are always exact."""
MAX_LISTED = 1_000  # The most goals that the board lists
BUSIEST_FIRST = (OfficeState.EXECUTING, OfficeState.REVIEW, OfficeState.PLANNING)
RESULT_FIELDS = (
    "status",
    "output",
    "error_message",
    "metadata",
    "evidence_refs",
    "output_paths",
    "outcome",
)


class StoredGoal(NamedTuple):
    """A goal as it is recorded, and the sequence of that record; 0 for a goal without a record."""

    goal: Goal
    seq: int


class StatusBoard:
    """Keeps ``state.office``, the record of all open goals, in step with them."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._active: dict[str, OfficeState] = {}
        self._posted: dict[str, OfficeState] | None = None
        self._state = OfficeState.IDLE

    async def restore(self) -> None:
        """Begin with the goals of the last post that are still open."""
        posted = await read_record(self._bus, subjects.OFFICE_STATE, StateChanged)
        if posted is None:
            return
        self._state = posted.value.state
        for goal_id in posted.value.active:
            goal = await read_record(self._bus, subjects.goal(goal_id), StateChanged)
            if goal is not None:
                self.update(goal_id, goal.value.state)

    @property
    def active(self) -> tuple[str, ...]:
        """The ids of the open goals, as far as the board knows."""
        return tuple(self._active)

    def update(self, goal_id: str, state: OfficeState) -> None:
        """Note the state of a goal; the next post has it."""
        if state is OfficeState.IDLE:
            self._active.pop(goal_id, None)
        else:
            self._active[goal_id] = state

    async def post_changes(self) -> None:
        """Post every change, until cancelled."""
        while True:
            if self._active != self._posted:
                try:
                    await self.post()
                except BusError:
                    self._posted = None
            await asyncio.sleep(POST_EVERY)

    async def post(self) -> None:
        """Post the board now; raises BusError."""
        active = dict(self._active)
        listed = dict(list(active.items())[:MAX_LISTED])
        state = next((state for state in BUSIEST_FIRST if state in active.values()), OfficeState.IDLE)
        change = StateChanged(sender=subjects.CONDUCTOR, state=state, previous=self._state, active=listed)
        await self._bus.commit([seal(subjects.OFFICE_STATE, change)])
        self._state, self._posted = state, active


class GoalStore:
    """Reads goals and results, and makes the entries that record what becomes of them."""

    def __init__(self, bus: Bus, board: StatusBoard) -> None:
        self._bus = bus
        self.board = board

    async def find(self, goal_id: str) -> StoredGoal | None:
        """A goal by its id; None if there is none."""
        record = await read_record(self._bus, subjects.goal(goal_id), StateChanged) if goal_id else None
        goal = record.value.goal if record else None
        return StoredGoal(goal, record.seq) if record and goal else None

    async def set_deadline(self, goal: Goal) -> None:
        """Set the timer that goes off at the goal's deadline; setting it again changes nothing."""
        await self._set_timer(goal.goal_id, goal.goal_id, datetime.fromisoformat(goal.deadline), "")

    def entry(self, goal: Goal, stored: StoredGoal) -> Entry:
        """The entry that records ``goal``; its commit is refused if ``stored`` is not the last record."""
        change = amended(state_change(goal, stored.goal if stored.seq else None), spans=recorded_spans())
        if not goal.part_of:  # the board is for people, and the task that it is a part of is on it
            self.board.update(goal.goal_id, change.state)
        return seal(subjects.goal(goal.goal_id), change, expect=stored.seq)

    async def results(self, goal: Goal) -> dict[str, Any]:
        """The results of a goal's tasks so far, by the tasks' names."""
        results = await asyncio.gather(*(self.result(task) for task in goal.tasks))
        return {task.name: result for task, result in zip(goal.tasks, results, strict=True)}

    async def result(self, task: GoalTask) -> Mapping[str, Any]:
        """The result of a task as the critic, the report and later tasks read it."""
        parties = (task.assignee, subjects.CONDUCTOR, task.task_id)
        state = await read_task_state(self._bus, *parties) if task.issued else None
        if state is None or state.step != subjects.ENDED or state.result is None:
            return {"status": str(task.status), "output": "", "error_message": task.summary}
        values = state.result.to_dict()
        return {"agent": task.assignee, **{name: values[name] for name in RESULT_FIELDS}}

    async def journal(self, task: GoalTask) -> list[Any]:
        """The effects that a task's assignee noted before and after they happened, as its trail has them."""
        parties = (task.assignee, subjects.CONDUCTOR, task.task_id)
        names = [subjects.task(*parties, step) for step in subjects.AT_WORK]
        steps = [await read_record(self._bus, name, TaskChanged) for name in names]
        last = max(filter(None, steps), key=lambda step: step.seq, default=None)
        return msgspec.to_builtins(last.value.journal) if last else []

    async def cancel_task(self, task: GoalTask, status: TaskStatus, reason: str) -> Entry | None:
        """The entry that ends a task with ``status``; None if it has ended already, or was never assigned."""
        submitted = await read_submitted(self._bus, task.assignee, subjects.CONDUCTOR, task.task_id)
        if submitted is None:
            return None
        entry, _ = await cancelling_entry(self._bus, submitted, reason[:500], status=status)
        return entry

    async def check_later(self, goal_id: str, seconds: float) -> None:
        """Set the timer that goes off ``seconds`` from now to check whether a model is still being asked."""
        moment = datetime.now(UTC) + timedelta(seconds=seconds)
        await self._set_timer(f"{THINKING}-{goal_id}", goal_id, moment, THINKING)

    async def _set_timer(self, name: str, goal_id: str, moment: datetime, what: str) -> None:
        due = GoalDue(sender=subjects.CONDUCTOR, recipient=subjects.CONDUCTOR, goal_id=goal_id, what=what)
        headers = {
            "Nats-Schedule": f"@at {moment:%Y-%m-%dT%H:%M:%S.%fZ}",
            "Nats-Schedule-Target": subjects.timer_due(subjects.CONDUCTOR),
        }
        await self._bus.store(subjects.timer(subjects.CONDUCTOR, name), due.to_json(), headers=headers)


MAX_ASKED = 8  # Goals about which a model is asked at the same time; the others wait
CHECK_AFTER = 60.0
"""Seconds until a timer checks whether a model is still being asked: the process may have died."""
COMMIT_TRIES = 20
COMMIT_RETRY = 0.25
"""Seconds until a decision is committed again after it lost a race, or while the server is away."""


class GoalRunner:
    """Works out what follows for a goal from an event, and has a model asked about it if that is next.

    The methods return the entries to be committed. Before a model is asked in the background they commit
    themselves and return none. The goal's record says what the model is asked for, so that another process
    can continue if this one dies. ``stored`` is the goal as it was read for the event.
    """

    def __init__(
        self,
        context: AgentContext,
        store: GoalStore,
        playbooks: Mapping[str, Playbook],
        roster: Roster,
        learner: MetaLearner,
        decisions: ModelDecisions,
        patterns: PatternBook,
    ) -> None:
        self._bus = context.bus
        self._spawn = context.spawn
        self._model = context.models.model
        left = partial(_read_left, context.bus, context.settings)
        self._reporter = Reporter(context.settings.outputs, context.memory, context.bus.derive_id, left)
        self._store = store
        self._playbooks = playbooks
        self._roster = roster
        self._learner = learner
        self._decisions = decisions
        self._patterns = patterns
        self._asking: set[str] = set()
        self._asked_again: set[str] = set()
        self._slots = asyncio.Semaphore(MAX_ASKED)

    # --- events ----------------------------------------------------------------------------------

    async def advance(self, goal: Goal, stored: StoredGoal, learned: Sequence[Entry] = ()) -> Sequence[Entry]:
        """Assign the tasks that are ready; if all have ended, plan again, have them reviewed, or finish."""
        step = advance(goal, repair=self._model.available)
        if step.repair:
            return await self.ask_model(REPAIR, goal, stored, learned)
        if step.over:
            return [*await self.finish(goal, stored), *learned]
        tasks = []
        for task in step.issued:
            needed = [other for other in step.goal.tasks if other.name in task.depends_on]
            results = {other.name: await self._store.result(other) for other in needed}
            try:
                tasks.append(task_for(step.goal, task, results))
            except ActionError as error:
                return await self.advance(fail_task(goal, task.name, str(error)), stored, learned)
        if step.review:
            tasks.append(await self._review(step.goal))
        assigned = [submission_entry(task) for task in tasks]
        return [self._store.entry(step.goal, stored), *assigned, *learned]

    async def apply_result(self, stored: StoredGoal, result: TaskResult) -> Sequence[Entry]:
        """Record the result of one of the goal's tasks, or of its review, and go on from there."""
        goal = stored.goal
        if (result.task_id, result.sender) == (goal.review_task_id, subjects.CRITIC):
            return await self._apply_review(stored, result)
        advanced = record_result(goal, result)
        if advanced is goal:
            return ()
        task = next(task for task in goal.tasks if task.task_id == result.task_id)
        if result.status is TaskStatus.FAILED and result.metadata.get(OVER_BUDGET):
            return await self.cancel(
                StoredGoal(advanced, stored.seq), TaskStatus.FAILED, result.error_message
            )
        if task.merges:  # how two changes go together says nothing about who merges them
            return await self.advance(advanced, stored)
        failed = result.status in (TaskStatus.FAILED, TaskStatus.TIMEOUT)
        project = await project_of(task) if failed and task.action else ""
        failures, lessons = self._learner.lessons(goal, task, result, project)
        ids = await self._patterns.store(goal, lessons)
        attempts = max(1, result.attempt)
        learned = self._learner.learn(goal, task, result, attempts, failures=failures, patterns=ids)
        return await self.advance(advanced, stored, learned)

    async def finish(self, goal: Goal, stored: StoredGoal) -> Sequence[Entry]:
        """End the goal as its tasks ended, with a report on disk and one by mail to its requester."""
        if not goal.status.final:
            status, reason = status_of(goal)
            if status is TaskStatus.FAILED and is_overdue(goal, datetime.now(UTC)):
                status, reason = TaskStatus.TIMEOUT, OVERDUE  # its tasks have the same deadline
            goal = end(goal, status, reason or "; ".join(filter(None, (format_undone(goal), goal.reason))))
        results = await self._store.results(goal)
        if not goal.part_of:
            goal = await self._reporter.report(goal, self._playbooks.get(goal.playbook), results)
        await self._patterns.close(goal)
        return [self._store.entry(goal, stored), _mail(goal, results)]

    async def refuse(self, stored: StoredGoal, reason: str) -> Sequence[Entry]:
        """End a goal that cannot be planned."""
        return await self.finish(end(stored.goal, TaskStatus.FAILED, reason, answer=reason), stored)

    async def ask_back(self, stored: StoredGoal, question: str) -> Sequence[Entry]:
        """End a goal with a question to the person, who goes on with it by an answer."""
        return await self.finish(ask_back(stored.goal, question), stored)

    async def cancel(self, stored: StoredGoal, status: TaskStatus, reason: str) -> Sequence[Entry]:
        """End a goal early: its running tasks are cancelled, and what was completed is reported."""
        goal = stored.goal
        if goal.status.final:
            return ()
        running = [task for task in goal.tasks if task.issued and not task.status.final]
        if goal.status is TaskStatus.REVIEW and goal.review_task_id:
            running.append(
                GoalTask(name=REVIEW, task_id=goal.review_task_id, text=REVIEW, assignee=subjects.CRITIC)
            )
        cancelled = [await self._store.cancel_task(task, status, reason) for task in running]
        ended = end(goal, status, reason, answer=f"The goal ended: {reason}", thinking="")
        results = await self._store.results(ended)
        if not goal.part_of and any(task.status is TaskStatus.COMPLETED for task in ended.tasks):
            playbook = self._playbooks.get(goal.playbook)
            path = (await self._reporter.report(ended, playbook, results)).report_path
            ended = msgspec.structs.replace(ended, report_path=path)
        await self._patterns.close(ended)
        return [self._store.entry(ended, stored), *filter(None, cancelled), _mail(ended, results)]

    async def _apply_review(self, stored: StoredGoal, result: TaskResult) -> Sequence[Entry]:
        verdict = read_verdict(result)
        goal = with_patterns(apply_verdict(stored.goal, verdict), result.metadata.get(FACT))
        if not all_ended(goal):
            return await self.advance(goal, stored)
        if review_needs_repair(goal) and self._model.available:
            return await self.ask_model(REPAIR, goal, stored)
        # Have a goal that a model divided answered from its results; what one agent did is its answer.
        completed = any(task.status is TaskStatus.COMPLETED for task in goal.tasks)
        if goal.playbook == BY_MODEL and completed and len(goal.tasks) > 1 and self._model.available:
            return await self.ask_model(ANSWER, goal, stored)
        return await self.finish(goal, stored)

    async def _review(self, goal: Goal) -> Task:
        critic = (await self._roster.pages()).get(subjects.CRITIC) if goal.playbook == BY_MODEL else None
        with_goal = critic is not None and critic.offers(REVIEW, "goal")
        results = without_merged(goal, await self._store.results(goal))
        for task in goal.tasks:
            if results[task.name].get("metadata", {}).get("tests"):  # so that the critic need not run them
                results[task.name] = {**results[task.name], "journal": await self._store.journal(task)}
        return review_task(goal, results, with_goal=with_goal)

    # --- models, asked in the background ---------------------------------------------------------

    async def ask_model(
        self, what: str, goal: Goal, stored: StoredGoal, learned: Sequence[Entry] = ()
    ) -> Sequence[Entry]:
        """Commit that a model is asked for ``what`` (PLAN, REPAIR or ANSWER), and have it asked."""
        await self._store.check_later(goal.goal_id, CHECK_AFTER)
        entry = self._store.entry(ask_model_about(goal, what), stored)
        # Posted first: a process that starts asks about the goals that the board lists.
        await self._store.board.post()
        await self._bus.commit([entry, *learned])
        self.begin(goal.goal_id)
        return ()

    async def resume(self, goal_id: str) -> None:
        """Ask the model unless this process is asking it already, and check again later."""
        await self._store.check_later(goal_id, CHECK_AFTER)
        self.begin(goal_id)

    def begin(self, goal_id: str) -> None:
        """Ask, in the background, what the goal's record says is to be asked: perhaps nothing."""
        if goal_id in self._asking:
            self._asked_again.add(goal_id)
            return
        self._asking.add(goal_id)

        async def ask() -> None:
            try:
                await self._decide(goal_id)
            finally:
                self._asking.discard(goal_id)
            if goal_id in self._asked_again:
                # Requested once more meanwhile, perhaps because of this very decision.
                self._asked_again.discard(goal_id)
                self.begin(goal_id)

        self._spawn(ask())

    async def _decide(self, goal_id: str) -> None:
        async with self._slots:
            stored = await self._store.find(goal_id)
            if stored is None or not stored.goal.thinking or stored.goal.status.final:
                return
            asked = stored.goal
            continue_trace(asked.traceparent)
            record_spans_in(SpanRecorder())
            sent_for.set((goal_id, ""))
            charged_to.set(asked.budget)
            decision = await self._decisions.decide(asked, await self._store.results(asked))
        for _ in range(COMMIT_TRIES):
            stored = await self._store.find(goal_id)
            if stored is None or stored.goal.status.final or stored.goal.thinking != asked.thinking:
                return
            with contextlib.suppress(Conflict, BusUnavailable):
                goal = decision(stored.goal)
                is_over = goal.status.final or asked.thinking == ANSWER
                if entries := await (self.finish if is_over else self.advance)(goal, stored):
                    await self._bus.commit(entries)
                return
            await asyncio.sleep(COMMIT_RETRY)


async def _read_left(bus: Bus, settings: Settings, goal: Goal, agents: Collection[str]) -> str:
    used = await read_used(bus, goal.budget) if goal.budget else Amount()
    return await read_left(bus, settings, goal.budget, (used.tokens, used.cost), agents)


def _mail(goal: Goal, results: Mapping[str, Any]) -> Entry:
    return seal(subjects.mail(goal.requester, subjects.CONDUCTOR), report_mail(goal, results))
