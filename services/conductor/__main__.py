"""The conductor: goals in, tasks out, reviews, reports.

It keeps nothing in its head: every step reads the goal's record, works out the next one, and commits
it together with the tasks it hands out. Killed at any point, it goes on from the last commit.
"""

from typing import Any

import msgspec

from services.conductor.course import (
    REPAIR,
    REVIEW,
    advance,
    all_ended,
    end,
    outcome_of,
    record_result,
    review_for,
    state_of,
    take_verdict,
    task_for,
)
from services.conductor.deliberation import Deliberation
from services.conductor.learning import MetaLearner
from services.conductor.letters import read_verdict, write_letter
from services.conductor.office_state import OfficeBoard
from services.conductor.planning import NAMED, NoPlaybook, Planner
from services.conductor.playbook import load_playbooks
from services.conductor.pondering import Pondering
from services.conductor.records import THINKING, Records
from services.conductor.recruiting import Recruiter
from services.conductor.repair import (
    ANSWER,
    BRAIN,
    PLAN,
    needs_repair,
    undone,
    was_sent_back_in_vain,
)
from services.conductor.reporting import Reporter
from services.conductor.roster import Roster
from services.conductor.submission import open_goal, read_submission
from services.conductor.yellow_pages import Page, pages_of
from shared import subjects
from shared.actions import Outcome, register_action
from shared.agent import BaseAgent, Replies
from shared.bus import Entry
from shared.contracts import (
    CancelGoal,
    Goal,
    GoalDue,
    GoalTask,
    OfficeState,
    ReminderDue,
    TaskResult,
    TaskStatus,
)
from shared.errors import ActionError, Reject
from shared.process import run


class Conductor(BaseAgent):
    """Turns goals into tasks, hands them out, has the results reviewed, and reports."""

    async def on_start(self) -> None:
        """Load the playbooks, put up the board, and go on thinking where a process before this one did."""
        self._playbooks = load_playbooks()
        self._planner = Planner(self._playbooks, self.memory)
        self._roster = Roster(self.bus, self.settings)
        self._reporter = Reporter(self.settings.outputs, self.memory, self.bus.derive_id)
        self._board = OfficeBoard(self.bus)
        self._records = Records(self.bus, self._board)
        self._learner = MetaLearner(self.bus, routing=self.settings.learned_routing)
        self._recruiter = Recruiter(self.settings, self.bus, self, self._skills_of)
        self._deliberation = Deliberation(self, self._recruiter, self._learner, self._read_pages)
        self._pondering = Pondering(
            self.bus, self._records, self._deliberation, spawn=self.spawn, after=self._after
        )
        await self._board.restore()
        await self._learner.restore()
        for goal_id in self._board.active:
            self._pondering.begin(goal_id)
        self.spawn(self._board.keep_posted())

    # --- what happens to goals -------------------------------------------------------------------

    async def on_submission(self, data: bytes, seq: int, stored_at: int) -> Replies:
        """Open a goal, plan it, and hand out what can be done at once."""
        submission = read_submission(data)
        goal = open_goal(submission, seq, stored_at, self.settings.goal_timeout)
        found = await self._records.find(goal.goal_id)
        if found is None:
            await self._records.set_deadline(goal)
            (expect,) = await self.bus.commit([self._record(goal, OfficeState.IDLE, 0)])
        elif state_of(found[0]) is OfficeState.PLANNING and not found[0].thinking:
            goal, expect = found
        else:
            self._pondering.begin(goal.goal_id)
            return ()
        try:
            planned = await self._planner.plan(goal)
            await self._roster.require(task.assignee for task in planned.tasks)
        except NoPlaybook as error:
            if self.brain.available:
                return await self._pondering.ponder(goal, PLAN, OfficeState.PLANNING, expect)
            return await self._refuse(goal, error, expect)
        except ActionError as error:
            return await self._refuse(goal, error, expect)
        if self.settings.learned_routing and planned.playbook != NAMED:
            tasks = self._learner.route(planned.tasks, await self._read_pages())
            planned = msgspec.structs.replace(planned, tasks=tasks)
        return await self._go_on(planned, OfficeState.PLANNING, expect)

    async def on_result(self, result: TaskResult) -> Replies:
        """Take a task's result or the critic's verdict, and go on from there."""
        found = await self._records.find(result.goal_id)
        if found is None or found[0].status.final or found[0].thinking:
            return ()
        goal, expect = found
        if (result.task_id, result.sender) == (goal.review_task_id, subjects.CRITIC):
            return await self._take_verdict(goal, result, expect)
        advanced = record_result(goal, result)
        if advanced is goal:
            return ()
        learned = await self._learn(goal, result)
        return await self._go_on(advanced, state_of(goal), expect, learned)

    async def on_cancel(self, request: CancelGoal) -> Replies:
        """End a goal because somebody asks for it."""
        found = await self._records.find(request.goal_id)
        if found is None:
            raise Reject(f"there is no goal {request.goal_id!r} to cancel")
        reason = f"cancelled by {request.sender}" + (f": {request.reason}" if request.reason else "")
        return await self._call_off(*found, TaskStatus.CANCELLED, reason)

    async def on_due(self, due: GoalDue | ReminderDue) -> Replies:
        """End a goal whose deadline has come, or go on thinking about one whose thinker is gone."""
        found = await self._records.find(due.goal_id)
        if found is None or not isinstance(due, GoalDue):
            return ()
        if due.what != THINKING:
            return await self._call_off(*found, TaskStatus.TIMEOUT, "its deadline passed before it was done")
        if found[0].thinking and not found[0].status.final:
            await self._pondering.go_on(due.goal_id)
        return ()

    # --- steps -----------------------------------------------------------------------------------

    async def _go_on(
        self, goal: Goal, before: OfficeState, expect: int, learned: list[Entry] | None = None
    ) -> Replies:
        """Hand out what can be done now; when nothing is left to do, have it reviewed."""
        more = learned or []
        if needs_repair(goal) and self.brain.available:
            return await self._pondering.ponder(goal, REPAIR, before, expect, more)
        step = advance(goal)
        if step.over:
            return [*await self._finish(goal, before, expect), *more]
        handed = [await self._task(step.goal, task) for task in step.issued]
        if step.review:
            critic = (await self._read_pages()).get(subjects.CRITIC) if goal.playbook == BRAIN else None
            results = await self._records.results(goal)
            handed.append(
                review_for(step.goal, results, with_goal=critic is not None and critic.offers(REVIEW, "goal"))
            )
        return [self._record(step.goal, before, expect), *handed, *more]

    async def _task(self, goal: Goal, task: GoalTask) -> Any:
        needed = [other for other in goal.tasks if other.name in task.depends_on]
        inputs = {other.name: await self._records.result(other) for other in needed}
        return task_for(goal, task, inputs)

    async def _take_verdict(self, goal: Goal, result: TaskResult, expect: int) -> Replies:
        verdict = read_verdict(result)
        if isinstance(verdict, str):
            judged = msgspec.structs.replace(goal, reason=f"not reviewed: {verdict}")
            return await self._conclude(judged, expect)
        judged = take_verdict(goal, verdict)
        if not all_ended(judged):
            return await self._go_on(judged, OfficeState.REVIEW, expect)
        if was_sent_back_in_vain(judged) and self.brain.available:
            return await self._pondering.ponder(judged, REPAIR, OfficeState.REVIEW, expect)
        return await self._conclude(judged, expect)

    async def _conclude(self, goal: Goal, expect: int) -> Replies:
        """Have an open question answered from its results, where there is a model; else report them."""
        done = any(task.status is TaskStatus.COMPLETED for task in goal.tasks)
        if goal.playbook == BRAIN and done and self.brain.available:
            return await self._pondering.ponder(goal, ANSWER, OfficeState.REVIEW, expect)
        return await self._finish(goal, OfficeState.REVIEW, expect)

    async def _finish(self, goal: Goal, before: OfficeState, expect: int) -> Replies:
        if not goal.status.final:
            status, reason = outcome_of(goal)
            left = undone(goal) if goal.playbook == BRAIN else ""
            goal = end(goal, status, reason or "; ".join(filter(None, (left, goal.reason))))
        playbook = self._playbooks.get(goal.playbook)
        goal = await self._reporter.report(goal, playbook, await self._records.results(goal))
        return [self._record(goal, before, expect), write_letter(goal)]

    async def _refuse(self, goal: Goal, error: ActionError, expect: int) -> Replies:
        failed = end(goal, TaskStatus.FAILED, str(error), answer=str(error))
        return await self._finish(failed, OfficeState.PLANNING, expect)

    async def _call_off(self, goal: Goal, expect: int, status: TaskStatus, reason: str) -> Replies:
        if goal.status.final:
            return ()
        before = state_of(goal)
        ended = end(goal, status, reason, answer=f"The goal ended: {reason}", thinking="")
        out = [task for task in goal.tasks if task.issued and not task.status.final]
        if goal.status is TaskStatus.REVIEW and goal.review_task_id:
            out.append(
                GoalTask(name=REVIEW, task_id=goal.review_task_id, text=REVIEW, assignee=subjects.CRITIC)
            )
        recalled = [await self._records.recall(goal, task, status, reason) for task in out]
        return [self._record(ended, before, expect), *filter(None, recalled), write_letter(ended)]

    def _record(self, goal: Goal, before: OfficeState, expect: int) -> Entry:
        return self._records.entry(goal, state_of(goal), before, expect)

    async def _learn(self, goal: Goal, result: TaskResult) -> list[Entry]:
        task = next(task for task in goal.tasks if task.task_id == result.task_id)
        found = await self._records.task(task)
        return self._learner.learn(goal, task, result, found[0].attempt if found else 1)

    async def _after(self, asked: str, goal: Goal, before: Goal, expect: int) -> Replies:
        """What follows from a model's decision."""
        if goal.status.final or asked == ANSWER:
            return await self._finish(goal, state_of(before), expect)
        return await self._go_on(goal, state_of(before), expect)

    async def _read_pages(self) -> dict[str, Page]:
        return pages_of(await self._pages.read(), await self._roster.names())

    async def _skills_of(self, name: str) -> set[str]:
        present = (await self._pages.read()).get(name)
        return set(present.skills) if present else set()

    # --- specialists -----------------------------------------------------------------------------

    @register_action(
        "Make a specialist, an agent of its own for one field, and wait until it is at work",
        {
            "domain": "Its field, in a few words; its name follows from it",
            "requirements": "What it has to be able to do",
        },
    )
    async def create_specialist(self, domain: str, requirements: str) -> Outcome:
        """Its name in data key ``name``, its skills in ``skills``."""
        profile = await self._recruiter.create(domain, requirements, await self._asker())
        skills = ", ".join(path.split(".")[-2] for path in profile.mixins) or "none"
        without = "" if self.brain.available else " Without a model it does named actions only."
        return Outcome(
            output=f"{profile.name} is at work. Its skills: {skills}.{without}",
            data={"name": profile.name, "skills": list(profile.mixins)},
        )

    @register_action("Retire a specialist", {"name": "Its name, such as specialist-tax-law"})
    async def retire_specialist(self, name: str) -> Outcome:
        """Says that it is retired."""
        await self._recruiter.retire(name.strip().lower())
        return Outcome(output=f"{name} is retired. What it was sent stays on the audit trail.")

    async def _asker(self) -> str:
        """On whose behalf the task at hand is done: whoever handed it out, or set the goal it is part of."""
        task = self.job.task
        if task.requester != subjects.CONDUCTOR:
            return task.requester
        found = await self._records.find(task.goal_id)
        return found[0].requester if found else subjects.USER


if __name__ == "__main__":
    run(Conductor, __file__)
