"""The conductor: goals in, tasks out, reviews, reports.

It keeps nothing in its head: every step reads the goal's record, works out the next one, and commits
it together with the tasks it hands out. Killed at any point, it goes on from the last commit.
"""

import msgspec

from services.conductor.course import record_result, state_of
from services.conductor.deliberation import Deliberation
from services.conductor.learning import MetaLearner
from services.conductor.office_state import OfficeBoard
from services.conductor.planning import NAMED, NoPlaybook, Planner
from services.conductor.playbook import load_playbooks
from services.conductor.pondering import Pondering
from services.conductor.records import THINKING, Records
from services.conductor.recruiting import Recruiter
from services.conductor.repair import PLAN
from services.conductor.reporting import Reporter
from services.conductor.roster import Roster
from services.conductor.steps import Steps
from services.conductor.submission import open_goal, read_submission
from services.conductor.yellow_pages import Page, pages_of
from shared import subjects
from shared.agent.base import Agent, Outbox
from shared.agent.process import run
from shared.contracts import CancelGoal, GoalDue, OfficeState, ReminderDue, TaskResult, TaskStatus
from shared.errors import ActionError, Reject
from shared.tasks.actions import Outcome, register_action


class Conductor(Agent):
    """Turns goals into tasks, hands them out, has the results reviewed, and reports."""

    async def on_start(self) -> None:
        """Load the playbooks, put up the board, and go on thinking where a process before this one did."""
        self._playbooks = load_playbooks()
        self._planner = Planner(self._playbooks, self.context.memory)
        self._roster = Roster(self.context.bus, self.context.settings)
        self._reporter = Reporter(
            self.context.settings.outputs, self.context.memory, self.context.bus.derive_id
        )
        self._board = OfficeBoard(self.context.bus)
        self._records = Records(self.context.bus, self._board)
        self._learner = MetaLearner(self.context.bus, routing=self.context.settings.learned_routing)
        self._recruiter = Recruiter(
            self.context.settings, self.context.bus, self.context.models, self._skills_of
        )
        self._deliberation = Deliberation(
            self.context.models, self._recruiter, self._learner, self._read_pages
        )
        self._steps = Steps(
            self._records,
            self._reporter,
            self._learner,
            self._playbooks,
            brain=self.context.models.model,
            read_pages=self._read_pages,
        )
        self._pondering = Pondering(
            self.context.bus,
            self._records,
            self._deliberation,
            spawn=self.context.spawn,
            after=self._steps.after,
        )
        self._steps.pondering = self._pondering
        await self._board.restore()
        await self._learner.restore()
        for goal_id in self._board.active:
            self._pondering.begin(goal_id)
        self.context.spawn(self._board.keep_posted())

    # --- what happens to goals -------------------------------------------------------------------

    async def on_submission(self, data: bytes, seq: int, stored_at: int) -> Outbox:
        """Open a goal, plan it, and hand out what can be done at once."""
        submission = read_submission(data)
        goal = open_goal(submission, seq, stored_at, self.context.settings.goal_timeout)
        found = await self._records.find(goal.goal_id)
        if found is None:
            await self._records.set_deadline(goal)
            (expect,) = await self.context.bus.commit([self._steps.record(goal, OfficeState.IDLE, 0)])
        elif state_of(found[0]) is OfficeState.PLANNING and not found[0].thinking:
            goal, expect = found
        else:
            self._pondering.begin(goal.goal_id)
            return ()
        try:
            planned = await self._planner.plan(goal)
            await self._roster.require(task.assignee for task in planned.tasks)
        except NoPlaybook as error:
            if self.context.models.model.available:
                return await self._pondering.ponder(goal, PLAN, OfficeState.PLANNING, expect)
            return await self._steps.refuse(goal, error, expect)
        except ActionError as error:
            return await self._steps.refuse(goal, error, expect)
        if self.context.settings.learned_routing and planned.playbook != NAMED:
            tasks = self._learner.route(planned.tasks, await self._read_pages())
            planned = msgspec.structs.replace(planned, tasks=tasks)
        return await self._steps.go_on(planned, OfficeState.PLANNING, expect)

    async def on_result(self, result: TaskResult) -> Outbox:
        """Take a task's result or the critic's verdict, and go on from there."""
        found = await self._records.find(result.goal_id)
        if found is None or found[0].status.final or found[0].thinking:
            return ()
        goal, expect = found
        if (result.task_id, result.sender) == (goal.review_task_id, subjects.CRITIC):
            return await self._steps.take_verdict(goal, result, expect)
        advanced = record_result(goal, result)
        if advanced is goal:
            return ()
        learned = await self._steps.learn(goal, result)
        return await self._steps.go_on(advanced, state_of(goal), expect, learned)

    async def on_cancel(self, request: CancelGoal) -> Outbox:
        """End a goal because somebody asks for it."""
        found = await self._records.find(request.goal_id)
        if found is None:
            raise Reject(f"there is no goal {request.goal_id!r} to cancel")
        reason = f"cancelled by {request.sender}" + (f": {request.reason}" if request.reason else "")
        return await self._steps.call_off(*found, TaskStatus.CANCELLED, reason)

    async def on_due(self, due: GoalDue | ReminderDue) -> Outbox:
        """End a goal whose deadline has come, or go on thinking about one whose thinker is gone."""
        found = await self._records.find(due.goal_id)
        if found is None or not isinstance(due, GoalDue):
            return ()
        if due.what != THINKING:
            late = "its deadline passed before it was done"
            return await self._steps.call_off(*found, TaskStatus.TIMEOUT, late)
        if found[0].thinking and not found[0].status.final:
            await self._pondering.go_on(due.goal_id)
        return ()

    # --- who is there ----------------------------------------------------------------------------

    async def _read_pages(self) -> dict[str, Page]:
        return pages_of(await self.context.directory.read(), await self._roster.names())

    async def _skills_of(self, name: str) -> set[str]:
        present = (await self.context.directory.read()).get(name)
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
        skills = ", ".join(path.split(".")[-2] for path in profile.skills) or "none"
        without = (
            "" if self.context.models.model.available else " Without a model it does named actions only."
        )
        return Outcome(
            output=f"{profile.name} is at work. Its skills: {skills}.{without}",
            data={"name": profile.name, "skills": list(profile.skills)},
        )

    @register_action("Retire a specialist", {"name": "Its name, such as specialist-tax-law"})
    async def retire_specialist(self, name: str) -> Outcome:
        """Says that it is retired."""
        await self._recruiter.retire(name.strip().lower())
        return Outcome(output=f"{name} is retired. What it was sent stays on the audit trail.")

    async def _asker(self) -> str:
        """On whose behalf the task at hand is done: whoever handed it out, or set the goal it is part of."""
        task = self.context.task
        if task.requester != subjects.CONDUCTOR:
            return task.requester
        found = await self._records.find(task.goal_id)
        return found[0].requester if found else subjects.USER


if __name__ == "__main__":
    run(Conductor, __file__)
