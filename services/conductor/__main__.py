"""The conductor: goals in, tasks out, reviews, reports.

It keeps no state of its own: each handler reads the goal's record, works out what follows, and commits that
together with the tasks it assigns. Killed at any point, it continues from the last commit.
"""

import asyncio
from functools import partial

import msgspec

from services.conductor.goal_runner import THINKING, GoalRunner, GoalStore, StatusBoard, StoredGoal
from services.conductor.learning import MetaLearner
from services.conductor.model_decisions import ModelDecisions
from services.conductor.patterns import PatternBook
from services.conductor.planner import (
    NoPlaybook,
    Planner,
    Roster,
    find_addressee,
    give_whole,
    request_of,
)
from services.conductor.playbook import MissingParameter, load_playbooks
from services.conductor.quotas import Quotas
from services.conductor.specialist_factory import SpecialistFactory
from services.conductor.state_machine import BY_MODEL, OVERDUE, PLAN, REPAIR, apply_plan, needs_plan
from services.conductor.submission import (
    MAX_DEPTH,
    Continued,
    answer_mail,
    as_senders,
    continue_goal,
    deadline_of,
    format_earlier,
    format_taken,
    instruction_of,
    is_same_goal,
    next_control,
    open_goal,
    read_submission,
    refusal_of,
    retry_goal,
    words_of,
)
from shared import subjects
from shared.agent.base import Agent, Outbox
from shared.agent.process import run
from shared.bus.entry import seal
from shared.bus.records import read_record
from shared.contracts import (
    AgentControl,
    CancelGoal,
    Goal,
    GoalBudget,
    GoalDue,
    Instructions,
    Task,
    TaskPriority,
    TaskResult,
    TaskStatus,
    TimerDue,
)
from shared.contracts.base import amended
from shared.errors import ActionError, Reject
from shared.skills.mentions import open_mentions
from shared.tasks.actions import Outcome, register_action
from shared.tasks.said import QUOTED, sign_said
from shared.tasks.submission import Submission
from shared.text.display import quote
from shared.trace import join_trace


class Conductor(Agent):
    """Turns goals into tasks, assigns them, has the results reviewed, and reports."""

    async def on_start(self) -> None:
        """Load the playbooks, post the board, and ask models that an earlier process was asking."""
        context = self.context
        self.playbooks = load_playbooks()
        self._model = context.models.model
        self.planner = Planner(self.playbooks, context.memory, has_model=self._model.available)
        self.learner = MetaLearner(context.bus)
        self._roster = Roster(context.directory, context.bus, context.settings)
        self._board = StatusBoard(context.bus)
        self._store = GoalStore(context.bus, self._board)
        self._factory = SpecialistFactory(
            context.settings, context.bus, context.models, self._roster.skills_of
        )
        self._quotas = Quotas(context.bus)
        self._patterns = PatternBook(context.memory, self.learner, context.bus.derive_id)
        decisions = ModelDecisions(
            context.models,
            self._factory,
            self._roster,
            self._patterns,
            self._read_beside,
            self.playbooks,
            self._plan_alone,
        )
        self._runner = GoalRunner(
            context, self._store, self.playbooks, self._roster, self.learner, decisions, self._patterns
        )
        await self._board.restore()
        await self.learner.restore()
        for goal_id in self._board.active:
            self._runner.begin(goal_id)
        context.spawn(self._board.post_changes())

    async def _plan_alone(self, goal: Goal) -> Goal:
        """``goal`` as it is planned while no model can be asked; raises ActionError."""
        return await self.planner.plan(goal, alone=True)

    async def _read_beside(self, goal: Goal) -> str:
        """What goes with a goal: what came of the one that it repeats, and what it mentions."""
        before = await self._store.find(goal.retry_of)
        told = quote("What came of it before", format_earlier(before.goal)) if before else ""
        return "\n\n".join(filter(None, [told, await self._open_mentioned(goal)]))

    async def _open_mentioned(self, goal: Goal) -> str:
        """What the text of a goal mentions as @file, @url or @memory."""
        asked = Task(
            task_id=goal.goal_id,
            goal_id=goal.goal_id,
            assignee=self.context.profile.name,
            requester=goal.requester,
            text=goal.text,
            said=goal.said,
            context={"params": {name: value for name, value in goal.context.items() if name != QUOTED}},
            starts_from=tuple(task.workspace or task.task_id for task in goal.tasks),
        )
        return await open_mentions(goal.text, asked, self.context.settings, self.context.memory)

    # --- what happens to goals -------------------------------------------------------------------

    async def on_submission(
        self, data: bytes, seq: int, stored_at: int, sender: str, priority: str = ""
    ) -> Outbox:
        """Open a goal, plan it, and assign the tasks that are ready."""
        submission = read_submission(data)
        await self.context.travelling.open_inputs(data.decode("utf-8", "replace"))
        if priority:
            submission = msgspec.structs.replace(submission, priority=TaskPriority(priority))
        submission = as_senders(submission, sender)
        if (submission.retry or submission.resume or submission.control) and sender != subjects.USER:
            raise Reject("only people retry and resume goals, and control agents")
        if submission.control:
            return await self._control(submission, submission.control.agent, seq)
        if submission.resume:
            return await self._resume(submission, seq, stored_at)
        timeout, refused = self.context.settings.goal_timeout, ""
        budget = GoalBudget(tokens=self.context.settings.goal_tokens, cost=self.context.settings.goal_cost)
        if submission.retry:
            earlier = await self._store.find(submission.retry)
            goal, refused = retry_goal(submission, earlier and earlier.goal, seq, stored_at, timeout)
        else:
            goal = open_goal(submission, seq, stored_at, timeout, budget)
            if goal.depth > MAX_DEPTH:
                refused = f"It lies in {goal.depth} goals, and {MAX_DEPTH} are the most: do it without a plan"
        # What a person said is signed; what was said of a goal that is retried counts on.
        by_person = sender == subjects.USER and not goal.retry_of
        words = words_of(goal) if by_person else goal.said.text if goal.retry_of and goal.said else None
        if words is not None:
            goal = amended(goal, said=sign_said(self.context.bus, words, goal.deadline))
        stored = await self._store.find(goal.goal_id)
        if stored is not None and goal.submitted_at != stored.goal.submitted_at:
            return await self._answer_repeated(goal, stored.goal, seq)
        if stored is None and goal.person and not refused:
            goal, refused = await self._quotas.admit(goal)
        stored = stored or StoredGoal(goal, 0)
        # Also for a goal that is planned: the process that planned it may have died before it was set.
        deadline = asyncio.create_task(self._store.set_deadline(stored.goal))
        try:
            if needs_plan(stored.goal):
                return await (
                    self._runner.refuse(stored, refused) if refused else self._begin(stored.goal, stored)
                )
            self._runner.begin(goal.goal_id)
            return ()
        finally:
            await deadline

    async def _control(self, submission: Submission, agent: str, seq: int) -> Outbox:
        """Record what a person wants of an agent, whose processes follow the record."""
        subject = subjects.control(agent)
        known = await read_record(self.context.bus, subject, AgentControl)
        control = next_control(known.value if known else None, submission, seq)
        if control is None:
            return ()
        # A server that was killed delivers again what was done just before. By its id an order is stored
        # once, so that an older one undoes none that came after it.
        control = msgspec.structs.replace(control, id=self.context.bus.derive_id("control", agent, str(seq)))
        return [seal(subject, control, known.seq if known else 0)]

    async def _resume(self, submission: Submission, seq: int, stored_at: int) -> Outbox:
        """Add a person's words to a goal; one that has ended goes on. A refusal is told by mail."""
        stored = await self._find(submission.resume)
        said = instruction_of(submission, seq, stored_at)
        if stored is not None and any(each.id == said.id for each in stored.goal.instructions):
            return ()
        deadline = deadline_of(submission, stored_at, self.context.settings.goal_timeout)
        try:
            if stored is None:
                raise ActionError(f"There is no goal {submission.resume!r}", "'mailroom tasks' lists them")
            sign = partial(sign_said, self.context.bus)
            continued = continue_goal(stored.goal, said, sign, deadline, submission.budget)
            if continued.plan and not self._model.available:
                raise ActionError(f"Every task of {submission.resume} completed", "Retry it instead")
        except ActionError as error:
            return [refusal_of(submission.resume, said.id, str(error))]
        return await self._continue(continued, stored)

    async def _continue(self, continued: Continued, stored: StoredGoal) -> Outbox:
        goal = continued.goal
        # The record from which agents at work on the goal learn what was added
        added = Instructions(
            sender=subjects.CONDUCTOR,
            goal_id=goal.goal_id,
            instructions=goal.instructions,
            said=goal.said,
            budget=goal.budget,
        )
        record = seal(subjects.record(subjects.CONDUCTOR, subjects.INSTRUCTIONS, goal.goal_id), added)
        if not continued.again:
            return [self._store.entry(goal, stored), record]
        await self._store.set_deadline(goal)
        if continued.plan:
            return await self._runner.ask_model(REPAIR, goal, stored, [record])
        going_on = self._runner.advance if goal.tasks else self._begin
        return [*await going_on(goal, stored), record]

    async def _begin(self, goal: Goal, stored: StoredGoal) -> Outbox:
        try:
            planned = await self.planner.plan(goal)
            await self._roster.require([task.assignee for task in planned.tasks])
            planned = await self._patterns.apply(planned)
        except MissingParameter as error:
            return await self._runner.ask_back(StoredGoal(goal, stored.seq), str(error))
        except NoPlaybook as error:
            if not self._model.available:
                return await self._runner.refuse(StoredGoal(goal, stored.seq), str(error))
            if not (agent := find_addressee(request_of(goal), await self._roster.pages())):
                return await self._runner.ask_model(PLAN, goal, stored)
            whole = msgspec.structs.replace(goal, playbook=BY_MODEL)
            planned = apply_plan(whole, [give_whole(goal, agent)])
        except ActionError as error:
            return await self._runner.refuse(StoredGoal(goal, stored.seq), str(error))
        return await self._runner.advance(planned, stored)

    async def _answer_repeated(self, goal: Goal, known: Goal, seq: int) -> Outbox:
        """Tell a person what becomes of a submission whose id is in use; raises Reject for another goal."""
        mail = answer_mail(goal, known)
        mail = msgspec.structs.replace(mail, id=self.context.bus.derive_id("resubmission", str(seq)))
        if goal.requester == subjects.USER:  # an agent knows the ids it made up
            await self.context.bus.commit([seal(subjects.mail(goal.requester, subjects.CONDUCTOR), mail)])
        if not is_same_goal(goal, known):
            raise Reject(format_taken(known), "Submit it again with another id, or with none")
        return ()

    async def on_result(self, result: TaskResult) -> Outbox:
        """Record a task's result or the critic's verdict, and continue the goal."""
        stored = await self._find(result.parent_goal_id or result.goal_id)
        if stored is None or stored.goal.status.final or stored.goal.thinking:
            return ()
        return await self._runner.apply_result(stored, result)

    async def on_cancel(self, request: CancelGoal) -> Outbox:
        """End a goal at the request of a person or of its requester."""
        stored = await self._find(request.goal_id)
        if stored is None:
            raise Reject(f"there is no goal {request.goal_id!r} to cancel")
        # The desk may end what a person had it start: it does so at a person's word.
        at_desk = request.sender == subjects.NEXUS and stored.goal.context.get("letter_id")
        if request.sender not in (subjects.USER, stored.goal.requester) and not at_desk:
            raise Reject(f"the goal {request.goal_id!r} is not {request.sender}'s to cancel")
        by = request.person or request.sender
        reason = f"cancelled by {by}" + (f": {request.reason}" if request.reason else "")
        return await self._runner.cancel(stored, TaskStatus.CANCELLED, reason)

    async def on_due(self, due: GoalDue | TimerDue) -> Outbox:
        """End a goal at its deadline, or ask a model again if the process that asked it is gone."""
        stored = await self._find(due.goal_id)
        if stored is None or not isinstance(due, GoalDue):
            return ()
        if due.what != THINKING:
            return await self._runner.cancel(stored, TaskStatus.TIMEOUT, OVERDUE)
        if stored.goal.thinking and not stored.goal.status.final:
            await self._runner.resume(due.goal_id)
        return ()

    async def _find(self, goal_id: str) -> StoredGoal | None:
        """A goal by its id; what follows from the message at hand belongs to the goal's trace."""
        stored = await self._store.find(goal_id)
        if stored is not None:
            join_trace(stored.goal.traceparent)
        return stored

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
        # The requester of the task at hand, or of the goal it is part of
        requester = self.context.task.requester
        if requester == subjects.CONDUCTOR:
            stored = await self._store.find(self.context.task.goal_id)
            requester = stored.goal.requester if stored else subjects.USER
        profile = await self._factory.create(domain, requirements, requester)
        skills = ", ".join(path.split(".")[-2] for path in profile.skills) or "none"
        without = "" if self._model.available else " Without a model it does named actions only."
        return Outcome(
            output=f"{profile.name} is at work. Its skills: {skills}.{without}",
            data={"name": profile.name, "skills": list(profile.skills)},
        )

    @register_action("Retire a specialist", {"name": "Its name, such as specialist-tax-law"})
    async def retire_specialist(self, name: str) -> Outcome:
        """Says that it is retired."""
        await self._factory.retire(name.strip().lower())
        return Outcome(output=f"{name} is retired. What it was sent stays on the audit trail.")


if __name__ == "__main__":
    run(Conductor, __file__)
