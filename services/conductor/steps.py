"""The steps of a goal: what is committed when something has happened to it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from services.conductor.course import (
    REPAIR,
    REVIEW,
    advance,
    all_ended,
    end,
    outcome_of,
    review_for,
    state_of,
    take_verdict,
    task_for,
)
from services.conductor.learning import MetaLearner
from services.conductor.letters import read_verdict, write_letter
from services.conductor.playbook import Playbook
from services.conductor.pondering import Pondering
from services.conductor.records import Records
from services.conductor.repair import ANSWER, BRAIN, needs_repair, undone, was_sent_back_in_vain
from services.conductor.reporting import Reporter
from services.conductor.yellow_pages import Page
from shared import subjects
from shared.agent.base import Outbox
from shared.bus import Entry
from shared.contracts import Goal, GoalTask, OfficeState, TaskResult, TaskStatus
from shared.errors import ActionError
from shared.llm.protocol import LanguageModel


class Steps:
    """Works out the next step of a goal, and returns it as what is to be committed.

    ``expect`` is the sequence of the record that the goal was read from, ``before`` the state it was in.
    ``pondering`` is who asks a model.
    """

    pondering: Pondering

    def __init__(
        self,
        records: Records,
        reporter: Reporter,
        learner: MetaLearner,
        playbooks: Mapping[str, Playbook],
        *,
        brain: LanguageModel,
        read_pages: Callable[[], Awaitable[dict[str, Page]]],
    ) -> None:
        self._records = records
        self._reporter = reporter
        self._learner = learner
        self._playbooks = playbooks
        self._brain = brain
        self._read_pages = read_pages

    async def go_on(
        self, goal: Goal, before: OfficeState, expect: int, learned: list[Entry] | None = None
    ) -> Outbox:
        """Hand out what can be done now; when nothing is left to do, have it reviewed."""
        more = learned or []
        if needs_repair(goal) and self._brain.available:
            return await self.pondering.ponder(goal, REPAIR, before, expect, more)
        step = advance(goal)
        if step.over:
            return [*await self.finish(goal, before, expect), *more]
        handed = [await self._task(step.goal, task) for task in step.issued]
        if step.review:
            critic = (await self._read_pages()).get(subjects.CRITIC) if goal.playbook == BRAIN else None
            results = await self._records.results(goal)
            handed.append(
                review_for(step.goal, results, with_goal=critic is not None and critic.offers(REVIEW, "goal"))
            )
        return [self.record(step.goal, before, expect), *handed, *more]

    async def take_verdict(self, goal: Goal, result: TaskResult, expect: int) -> Outbox:
        """Act upon the critic's word: again, in another way, or done."""
        verdict = read_verdict(result)
        if isinstance(verdict, str):
            judged = msgspec.structs.replace(goal, reason=f"not reviewed: {verdict}")
            return await self._conclude(judged, expect)
        judged = take_verdict(goal, verdict)
        if not all_ended(judged):
            return await self.go_on(judged, OfficeState.REVIEW, expect)
        if was_sent_back_in_vain(judged) and self._brain.available:
            return await self.pondering.ponder(judged, REPAIR, OfficeState.REVIEW, expect)
        return await self._conclude(judged, expect)

    async def after(self, asked: str, goal: Goal, before: Goal, expect: int) -> Outbox:
        """What follows from a model's decision."""
        if goal.status.final or asked == ANSWER:
            return await self.finish(goal, state_of(before), expect)
        return await self.go_on(goal, state_of(before), expect)

    async def finish(self, goal: Goal, before: OfficeState, expect: int) -> Outbox:
        """End the goal as its tasks did, with its report and a letter to whoever set it."""
        if not goal.status.final:
            status, reason = outcome_of(goal)
            left = undone(goal) if goal.playbook == BRAIN else ""
            goal = end(goal, status, reason or "; ".join(filter(None, (left, goal.reason))))
        goal = await self._report(goal)
        return [self.record(goal, before, expect), write_letter(goal)]

    async def refuse(self, goal: Goal, error: ActionError, expect: int) -> Outbox:
        """End a goal that cannot be planned."""
        failed = end(goal, TaskStatus.FAILED, str(error), answer=str(error))
        return await self.finish(failed, OfficeState.PLANNING, expect)

    async def call_off(self, goal: Goal, expect: int, status: TaskStatus, reason: str) -> Outbox:
        """End a goal before it is done: what is out is taken back, what was done is reported."""
        if goal.status.final:
            return ()
        before = state_of(goal)
        out = [task for task in goal.tasks if task.issued and not task.status.final]
        if goal.status is TaskStatus.REVIEW and goal.review_task_id:
            out.append(
                GoalTask(name=REVIEW, task_id=goal.review_task_id, text=REVIEW, assignee=subjects.CRITIC)
            )
        recalled = [await self._records.recall(goal, task, status, reason) for task in out]
        ended = end(goal, status, reason, answer=f"The goal ended: {reason}", thinking="")
        if any(task.status is TaskStatus.COMPLETED for task in ended.tasks):
            path = (await self._report(ended)).report_path
            ended = msgspec.structs.replace(ended, report_path=path)
        return [self.record(ended, before, expect), *filter(None, recalled), write_letter(ended)]

    async def learn(self, goal: Goal, result: TaskResult) -> list[Entry]:
        """The entries that keep what a task's end teaches."""
        task = next(task for task in goal.tasks if task.task_id == result.task_id)
        found = await self._records.task(task)
        return self._learner.learn(goal, task, result, found[0].attempt if found else 1)

    def record(self, goal: Goal, before: OfficeState, expect: int) -> Entry:
        """The entry that says how a goal stands now."""
        return self._records.entry(goal, state_of(goal), before, expect)

    async def _task(self, goal: Goal, task: GoalTask) -> Any:
        needed = [other for other in goal.tasks if other.name in task.depends_on]
        inputs = {other.name: await self._records.result(other) for other in needed}
        return task_for(goal, task, inputs)

    async def _conclude(self, goal: Goal, expect: int) -> Outbox:
        """Have an open question answered from its results, where there is a model; else report them."""
        done = any(task.status is TaskStatus.COMPLETED for task in goal.tasks)
        if goal.playbook == BRAIN and done and self._brain.available:
            return await self.pondering.ponder(goal, ANSWER, OfficeState.REVIEW, expect)
        return await self.finish(goal, OfficeState.REVIEW, expect)

    async def _report(self, goal: Goal) -> Goal:
        playbook = self._playbooks.get(goal.playbook)
        return await self._reporter.report(goal, playbook, await self._records.results(goal))
