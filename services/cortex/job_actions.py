"""The actions of the overnight queue."""

import asyncio
from typing import Any

from services.cortex.goals import GoalClient, lift
from services.cortex.job_files import Job, job_of
from services.cortex.job_reports import because
from services.cortex.job_worker import JobWorker
from services.cortex.model_plans import find_spelled_out
from services.cortex.plan_actions import PlanActions
from services.cortex.plan_parser import parse_plan
from services.cortex.recorded_tests import end_with_tests, find_repo
from shared.agent.context import AgentContext
from shared.contracts import TaskPlan, TaskRequest
from shared.plans import plan_of
from shared.tasks.actions import Outcome, register_action
from shared.tasks.said import is_said, names_something
from shared.tasks.speaker import Speaker
from shared.text.display import flatten


class JobActions:
    """Queues jobs, carries out claimed ones, cancels them, and reports the state of the queue."""

    def __init__(
        self, context: AgentContext, worker: JobWorker, goals: GoalClient, plans: PlanActions
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

        A job in words becomes a goal, which the conductor plans, unless its context names a mode in which
        cortex works it out with a model. One about a repository ends with a run of its tests on record.
        """
        wanted, model = job_of(job), self._context.models.model
        context = wanted.context
        if "plan" in context or context.get("action"):
            return await self._plans.carry_out(self._plan_of(wanted))
        if "playbook" not in context:
            plan = find_spelled_out(wanted.task, self._context.profile.name, self._plans.actions)
            if plan is None and not model.available:
                parsed = self._plan_of(wanted)
                plan = parsed if any(step.context.get("action") for step in parsed.steps) else None
            if plan is not None:
                return await self._plans.carry_out(plan)
        repo = ""
        if model.available and "playbook" not in context:
            repo = await asyncio.to_thread(find_repo, wanted.task, context, self._context.settings)
        if context.get("mode") and model.available:
            return await self._plans.work_out_job(wanted.task, context, repo)
        end = await self._goals.run_words(wanted.task, context)
        steps = [step.data for step in end.steps]
        outcome = Outcome(
            output=end.report.summary,
            data={"goal_id": end.report.goal_id, **lift(steps)},
            evidence_refs=end.report.evidence_refs,
            output_paths=end.report.output_paths,
            outcome=end.outcome,
            problem=end.report.summary,
        )
        return await end_with_tests(self._goals, outcome, repo, always=True) if repo else outcome

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
        # Parameters of a step may come from another step: nobody said them unless the signed words have them.
        known = not self._context.current_task.hops or names_something(task)
        fields = {
            "task": task,
            "priority": priority,
            "run_at": run_at,
            "when": when,
            "retries": retries,
            "by_agent": not (requested and known and is_said(task, current)),
            "asker": Speaker.of(current).name,
        }
        job = job_of({"id": "new", "created_at": now.isoformat(), "context": context or {}, **fields})
        async with self._context.effect(f"queue the job {task[:200]}"):
            queued = await self._worker.add(job, f"{now:%Y%m%d}")
        reason = night.hold_reason(queued, now)
        begins = f"It waits {because(reason)}" if reason else "It begins as soon as there is room"
        return Outcome(
            output=f"Queued as {queued.id}: {flatten(task, 200)}. {begins}. "
            f"To stop it: mailroom queue remove {queued.id}",
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
            return await self._worker.cancel(job_id.strip(), why)

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
        return parse_plan(request, agent=name, own_actions=self._plans.actions)
