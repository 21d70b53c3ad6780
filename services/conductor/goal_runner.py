"""Runs goals: works out what follows from each event, as one commit, and asks models in the background."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from services.conductor.goal_store import GoalStore, StoredGoal
from services.conductor.learning import MetaLearner
from services.conductor.model_decisions import ModelDecisions
from services.conductor.planner import Roster
from services.conductor.playbook import Playbook
from services.conductor.report import Reporter, report_mail
from services.conductor.review import apply_verdict, read_verdict, review_task
from services.conductor.state_machine import (
    ANSWER,
    BRAIN,
    REPAIR,
    REVIEW,
    advance,
    all_ended,
    ask_model_about,
    end,
    format_undone,
    needs_repair,
    outcome_of,
    record_result,
    review_needs_repair,
    task_for,
)
from shared import subjects
from shared.bus import Bus, Entry
from shared.bus.entry import seal
from shared.bus.records import submission_entries
from shared.contracts import Goal, GoalTask, Task, TaskResult, TaskStatus
from shared.errors import BusUnavailable, Conflict
from shared.llm.protocol import LanguageModel

MAX_ASKED = 8
"""Goals about which a model is asked at the same time; the others wait."""
CHECK_AFTER = 60.0
"""Seconds until a timer checks whether a model is still being asked: the process may have died."""
COMMIT_TRIES = 20
COMMIT_RETRY = 0.25
"""Seconds until a decision is committed again after it lost a race, or while the server is away."""


class Transition(NamedTuple):
    """A goal after something happened to it, and the entries of the one commit that records this.

    Without entries nothing changed. If a model is to be asked next, the goal's ``thinking`` says what for.
    """

    goal: Goal
    entries: Sequence[Entry] = ()

    @property
    def asks_model(self) -> bool:
        """Whether a model has to be asked once it is committed."""
        return bool(self.entries and self.goal.thinking)


class GoalRunner:
    """Works out what follows from an event; ``stored`` is the goal as it was read for that."""

    def __init__(
        self,
        store: GoalStore,
        reporter: Reporter,
        learner: MetaLearner,
        playbooks: Mapping[str, Playbook],
        roster: Roster,
        model: LanguageModel,
    ) -> None:
        self._store = store
        self._reporter = reporter
        self._learner = learner
        self._playbooks = playbooks
        self._roster = roster
        self._model = model

    def ask_model(
        self, what: str, goal: Goal, stored: StoredGoal, learned: Sequence[Entry] = ()
    ) -> Transition:
        """Have a model asked for ``what``: PLAN, REPAIR or ANSWER."""
        asked = ask_model_about(goal, what)
        return Transition(asked, [self._store.entry(asked, stored), *learned])

    async def advance(self, goal: Goal, stored: StoredGoal, learned: Sequence[Entry] = ()) -> Transition:
        """Assign the tasks that are ready; if all have ended, plan again, have them reviewed, or finish."""
        if needs_repair(goal) and self._model.available:
            return self.ask_model(REPAIR, goal, stored, learned)
        step = advance(goal)
        if step.over:
            finished = await self.finish(goal, stored)
            return Transition(finished.goal, [*finished.entries, *learned])
        tasks = [await self._assign(step.goal, task) for task in step.issued]
        if step.review:
            tasks.append(await self._review(step.goal))
        assigned = [entry for task in tasks for entry in submission_entries(task, subjects.CONDUCTOR)]
        return Transition(step.goal, [self._store.entry(step.goal, stored), *assigned, *learned])

    async def apply_result(self, stored: StoredGoal, result: TaskResult) -> Transition:
        """Record the result of one of the goal's tasks, or of its review, and go on from there."""
        goal = stored.goal
        if (result.task_id, result.sender) == (goal.review_task_id, subjects.CRITIC):
            return await self._apply_review(stored, result)
        advanced = record_result(goal, result)
        if advanced is goal:
            return Transition(goal)
        return await self.advance(advanced, stored, await self._learn(goal, result))

    async def apply_decision(self, asked: str, goal: Goal, stored: StoredGoal) -> Transition:
        """Go on with ``goal`` as a model's decision left it; ``asked`` is what the model was asked for."""
        if goal.status.final or asked == ANSWER:
            return await self.finish(goal, stored)
        return await self.advance(goal, stored)

    async def finish(self, goal: Goal, stored: StoredGoal) -> Transition:
        """End the goal as its tasks ended, with a report on disk and one by mail to its requester."""
        if not goal.status.final:
            status, reason = outcome_of(goal)
            undone = format_undone(goal) if goal.playbook == BRAIN else ""
            goal = end(goal, status, reason or "; ".join(filter(None, (undone, goal.reason))))
        goal = await self._report(goal)
        return Transition(goal, [self._store.entry(goal, stored), _mail(goal)])

    async def refuse(self, goal: Goal, stored: StoredGoal, reason: str) -> Transition:
        """End a goal that cannot be planned."""
        return await self.finish(end(goal, TaskStatus.FAILED, reason, answer=reason), stored)

    async def cancel(self, stored: StoredGoal, status: TaskStatus, reason: str) -> Transition:
        """End a goal early: its running tasks are cancelled, and what was completed is reported."""
        goal = stored.goal
        if goal.status.final:
            return Transition(goal)
        running = [task for task in goal.tasks if task.issued and not task.status.final]
        if goal.status is TaskStatus.REVIEW and goal.review_task_id:
            running.append(
                GoalTask(name=REVIEW, task_id=goal.review_task_id, text=REVIEW, assignee=subjects.CRITIC)
            )
        cancelled = [await self._store.cancel_task(goal, task, status, reason) for task in running]
        ended = end(goal, status, reason, answer=f"The goal ended: {reason}", thinking="")
        if any(task.status is TaskStatus.COMPLETED for task in ended.tasks):
            path = (await self._report(ended)).report_path
            ended = msgspec.structs.replace(ended, report_path=path)
        return Transition(ended, [self._store.entry(ended, stored), *filter(None, cancelled), _mail(ended)])

    async def _apply_review(self, stored: StoredGoal, result: TaskResult) -> Transition:
        verdict = read_verdict(result)
        if isinstance(verdict, str):
            goal = msgspec.structs.replace(stored.goal, reason=f"not reviewed: {verdict}")
            return await self._conclude(goal, stored)
        goal = apply_verdict(stored.goal, verdict)
        if not all_ended(goal):
            return await self.advance(goal, stored)
        if review_needs_repair(goal) and self._model.available:
            return self.ask_model(REPAIR, goal, stored)
        return await self._conclude(goal, stored)

    async def _conclude(self, goal: Goal, stored: StoredGoal) -> Transition:
        """Have a goal that a model planned answered from its results; report any other."""
        completed = any(task.status is TaskStatus.COMPLETED for task in goal.tasks)
        if goal.playbook == BRAIN and completed and self._model.available:
            return self.ask_model(ANSWER, goal, stored)
        return await self.finish(goal, stored)

    async def _assign(self, goal: Goal, task: GoalTask) -> Task:
        needed = [other for other in goal.tasks if other.name in task.depends_on]
        return task_for(goal, task, {other.name: await self._store.result(other) for other in needed})

    async def _review(self, goal: Goal) -> Task:
        critic = (await self._roster.pages()).get(subjects.CRITIC) if goal.playbook == BRAIN else None
        with_goal = critic is not None and critic.offers(REVIEW, "goal")
        return review_task(goal, await self._store.results(goal), with_goal=with_goal)

    async def _learn(self, goal: Goal, result: TaskResult) -> list[Entry]:
        task = next(task for task in goal.tasks if task.task_id == result.task_id)
        record = await self._store.task_record(task)
        return self._learner.learn(goal, task, result, record.value.attempt if record else 1)

    async def _report(self, goal: Goal) -> Goal:
        playbook = self._playbooks.get(goal.playbook)
        return await self._reporter.report(goal, playbook, await self._store.results(goal))


class BackgroundPlanner:
    """Asks a model about goals while the mailbox goes on, and commits each decision once.

    The goal's record says that a model is being asked, so that another process can continue if this one dies.
    ``spawn`` runs a coroutine in the background.
    """

    def __init__(
        self,
        bus: Bus,
        store: GoalStore,
        runner: GoalRunner,
        decisions: ModelDecisions,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._bus = bus
        self._store = store
        self._runner = runner
        self._decisions = decisions
        self._spawn = spawn
        self._asking: set[str] = set()
        self._asked_again: set[str] = set()
        self._slots = asyncio.Semaphore(MAX_ASKED)

    async def commit(self, transition: Transition) -> None:
        """Commit a transition, and have a model asked if it says so."""
        goal_id = transition.goal.goal_id
        if transition.asks_model:
            await self._store.check_later(goal_id, CHECK_AFTER)
        if transition.entries:
            await self._bus.commit(transition.entries)
        if transition.asks_model:
            self.begin(goal_id)

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
        self._spawn(self._ask(goal_id))

    async def _ask(self, goal_id: str) -> None:
        try:
            await self._decide(goal_id)
        finally:
            self._asking.discard(goal_id)
        if goal_id in self._asked_again:
            # Requested once more meanwhile, perhaps because of this very decision.
            self._asked_again.discard(goal_id)
            self.begin(goal_id)

    async def _decide(self, goal_id: str) -> None:
        async with self._slots:
            stored = await self._store.find(goal_id)
            if stored is None or not stored.goal.thinking or stored.goal.status.final:
                return
            asked = stored.goal
            decision = await self._decisions.decide(asked, await self._store.results(asked))
        for _ in range(COMMIT_TRIES):
            stored = await self._store.find(goal_id)
            if stored is None or stored.goal.status.final or stored.goal.thinking != asked.thinking:
                return
            with contextlib.suppress(Conflict, BusUnavailable):
                decided = decision(stored.goal)
                await self.commit(await self._runner.apply_decision(asked.thinking, decided, stored))
                return
            await asyncio.sleep(COMMIT_RETRY)


def _mail(goal: Goal) -> Entry:
    return seal(subjects.mail(goal.requester, subjects.CONDUCTOR), report_mail(goal))
