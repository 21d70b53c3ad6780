"""The actions of the overnight queue, and the goals that jobs become without a model."""

from collections.abc import Sequence
from typing import Any

import msgspec

from services.cortex.jobs import Job, job_of
from services.cortex.night import because
from services.cortex.overnight_worker import OvernightWorker
from services.cortex.plan_actions import PlanActions
from services.cortex.plan_parser import parse_plan, plan_of
from shared import subjects
from shared.agent.context import AgentContext
from shared.bus import Bus, Entry
from shared.bus.entry import seal
from shared.bus.records import read_record
from shared.contracts import (
    AgentReport,
    CancelGoal,
    ResultOutcome,
    Task,
    TaskPlan,
    TaskRequest,
    TaskStatus,
    generate_id,
)
from shared.contracts.base import amended
from shared.errors import ActionError
from shared.messaging.correspondence import PendingReplies
from shared.tasks.actions import Outcome, register_action
from shared.tasks.said import is_said
from shared.tasks.speaker import Speaker


class GoalClient:
    """Submits goals for jobs and waits for their reports, which are kept as records of this agent."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._pending: PendingReplies[str, AgentReport] = PendingReplies()
        self._open: set[str] = set()

    async def run(self, task: Task, job: Job) -> Outcome:
        """Submit ``job`` as a goal and wait for its outcome; raises ActionError with the reason if it failed.

        The goal's id follows from ``task``, so that a second attempt waits for the same goal.
        """
        goal_id = self._goal_id(task.task_id)
        body = {
            "text": job.task,
            "goal_id": goal_id,
            "requester": self._bus.name,
            "context": job.context,
            "priority": task.priority.value,
            "deadline": task.deadline,
            "said": task.said,
        }

        async def submit() -> bool:
            await self._bus.store(
                subjects.SUBMIT, msgspec.json.encode(body), headers={"Nats-Msg-Id": goal_id}
            )
            return True

        self._open.add(goal_id)
        report = await self._pending.wait(goal_id, submit, lambda: self._find(goal_id))
        self._open.discard(goal_id)
        if report is None or report.metadata.get("status") != TaskStatus.COMPLETED:
            raise ActionError(report.summary if report else f"Goal {goal_id} was not begun")
        came_to = ResultOutcome(report.metadata.get("outcome") or ResultOutcome.DONE)
        return Outcome(
            output=report.summary,
            data={"goal_id": goal_id},
            evidence_refs=report.evidence_refs,
            output_paths=report.output_paths,
            outcome=came_to,
            problem=report.summary,
        )

    async def cancel(self, task_id: str, reason: str) -> None:
        """Have the goal of a job's task cancelled, if this process waits for one."""
        goal_id = self._goal_id(task_id)
        if goal_id in self._open:
            self._open.discard(goal_id)
            request = CancelGoal(
                sender=self._bus.name, recipient=subjects.CONDUCTOR, goal_id=goal_id, reason=reason
            )
            await self._bus.commit([seal(subjects.mail(subjects.CONDUCTOR, self._bus.name), request)])

    def accept(self, report: AgentReport) -> Sequence[Entry]:
        """Pass the report of a goal on to the job that waits for it; returns the entry that records it."""
        if report.sender != subjects.CONDUCTOR or not report.goal_id:
            return ()
        self._pending.resolve(report.goal_id, report)
        return [seal(self._subject(report.goal_id), amended(report, id=generate_id()))]

    async def _find(self, goal_id: str) -> AgentReport | None:
        record = await read_record(self._bus, self._subject(goal_id), AgentReport)
        return record.value if record else None

    def _goal_id(self, task_id: str) -> str:
        return f"goal_{self._bus.derive_id('job', task_id)}"

    def _subject(self, goal_id: str) -> str:
        return subjects.record(self._bus.name, "goals", goal_id)


class OvernightActions:
    """Queues jobs, carries out claimed ones, cancels them, and reports the state of the queue."""

    def __init__(
        self, context: AgentContext, worker: OvernightWorker, goals: GoalClient, plans: PlanActions
    ) -> None:
        self._context = context
        self._worker = worker
        self._goals = goals
        self._plans = plans

    @register_action(
        "Carry out a job of the overnight queue", {"job": "The job: id, task, and perhaps context"}
    )
    async def process_overnight_job(self, job: dict[str, Any]) -> Outcome:
        """As execute_plan, for the plan or action in the job's context, or the steps of its task.

        A job that does not spell them out is worked out with a model, in the mode its context names. Without
        a model, or if the context names a playbook, it becomes a goal, which the conductor plans.
        """
        wanted, task = job_of(job), self._context.task
        if "playbook" in wanted.context:
            return await self._goals.run(task, wanted)
        if "plan" in wanted.context or wanted.context.get("action"):
            return await self._plans.carry_out(self._plan_of(wanted))
        if self._context.models.model.available:
            return await self._plans.work_out_job(wanted.task, wanted.context)
        plan = self._plan_of(wanted)
        if any(step.context.get("action") for step in plan.steps):
            return await self._plans.carry_out(plan)
        return await self._goals.run(task, wanted)

    @register_action(
        "Put a job into the overnight queue",
        {
            "task": "What is to be done",
            "priority": "low, medium, high or critical",
            "run_at": "ISO 8601 date and time at which it begins; empty: at night",
            "when": "night, also if run_at is given; or now: neither the night nor a limit holds it back",
            "context": "Perhaps an assignee, action and params, a plan, or a mode",
            "retries": "How often it is tried again if it fails, 0 to 10",
        },
    )
    async def queue_job(
        self,
        task: str,
        priority: str = "medium",
        run_at: str = "",
        when: str = "",
        context: dict[str, Any] | None = None,
        retries: int = 0,
    ) -> Outcome:
        """The job's id, job-YYYYMMDD-NNN, in data key ``id``, and why it waits in ``reason``."""
        night, current = self._worker.night, self._context.task
        now = night.clock().astimezone(night.zone)
        given = f"{current.text}\n{current.context.get('params')}"
        requested = current.context.get("action") == "queue_job" or (task in given and not context)
        fields = {
            "task": task,
            "priority": priority,
            "run_at": run_at,
            "when": when,
            "retries": retries,
            "by_agent": not (requested and is_said(task, current)),
            "asker": Speaker.of(current).name,
        }
        job = job_of({"id": "new", "created_at": now.isoformat(), "context": context or {}, **fields})
        async with self._context.effect(f"queue the job {task[:200]}"):
            queued = await self._worker.add(job, f"{now:%Y%m%d}")
        reason = night.hold_reason(queued, now)
        begins = f"It waits {because(reason)}" if reason else "It begins as soon as there is room"
        return Outcome(
            output=f"Queued as {queued.id}. {begins}. To stop it: mailroom queue remove {queued.id}",
            data={"id": queued.id, "reason": reason},
        )

    @register_action(
        "Begin a job of the overnight queue now",
        {"job_id": "Its id, such as job-20260102-001"},
        personal=True,
    )
    async def run_job(self, job_id: str) -> Outcome:
        """Says that it has begun, whatever it waited for."""
        async with self._context.effect(f"begin the job {job_id[:80]}", repeatable=True):
            return await self._worker.begin(job_id.strip())

    @register_action(
        "Change when a job of the overnight queue begins that waits",
        {
            "job_id": "Its id, such as job-20260102-001",
            "about": "Words of its task, if its id is not known",
            "run_at": "ISO 8601 date and time at which it begins; empty: at night",
        },
        personal=True,
    )
    async def move_job(self, job_id: str = "", about: str = "", run_at: str = "") -> Outcome:
        """Says what it waits for now; data keys ``id`` and ``reason`` as those of queue_job."""
        async with self._context.effect(f"move the job {(job_id or about)[:80]}", repeatable=True):
            return await self._worker.move(job_id.strip(), about, run_at)

    @register_action(
        "Cancel a job of the overnight queue, whether it waits or runs",
        {"job_id": "Its id, such as job-20260102-001", "reason": "Why; the job's result has it too"},
        personal=True,
    )
    async def cancel_job(self, job_id: str, reason: str = "") -> Outcome:
        """Says that it is cancelled; its TaskResult with status CANCELLED is in the archive."""
        async with self._context.effect(f"cancel the job {job_id[:80]}", repeatable=True):
            why = reason.strip()[:500] or "It was cancelled without a reason"
            outcome = await self._worker.cancel(job_id.strip(), why)
            await self._goals.cancel(outcome.data["task_id"], why)
        return outcome

    @register_action("List what waits in the overnight queue, what runs and what failed", personal=True)
    async def queue_status(self) -> Outcome:
        """Data keys: ``counts``, ``jobs`` with what each waits for, ``night``; ids in ``waiting`` and
        ``running``, reasons in ``failed``, how jobs ended that are not done in ``undone``.
        """
        return await self._worker.describe()

    def _plan_of(self, job: Job) -> TaskPlan:
        name, task_id = self._context.profile.name, self._context.task.task_id
        if "plan" in job.context:
            return plan_of(job.context["plan"], task_id, name)
        request = TaskRequest(
            task_id=task_id,
            requester=name,
            task_description=job.task,
            priority=job.task_priority,
            context=job.context,
        )
        return parse_plan(request, agent=name, own_actions=self._plans.steps.actions)
