"""Cortex: plans, thinks, writes and runs scripts, works the overnight queue."""

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any

from services.cortex import coding
from services.cortex.cognition.mode import find_mode
from services.cortex.cognition.state import Asked
from services.cortex.goals import Goals
from services.cortex.night import Job, read_job
from services.cortex.plan import make_plan, read_plan
from services.cortex.planning import Planning
from services.cortex.script import find_script, make_command, tell_run
from services.cortex.shift import NightShift
from services.cortex.thinking import LONGEST
from shared.agent.base import Outbox
from shared.agent.process import run
from shared.bus import Bus
from shared.contracts import AgentReport, TaskPlan, TaskRequest, TaskResult, generate_task_id
from shared.errors import ActionError, StartError
from shared.sandbox.command import run_command
from shared.settings import Settings
from shared.skills.changing import changing
from shared.skills.documents import is_of_person
from shared.skills.workspace import open_workspace
from shared.tasks.actions import Outcome, register_action
from shared.tasks.profile import Profile


class Cortex(Planning):
    """Plans and carries out work of several steps, writes and runs scripts, and works the overnight queue."""

    def __init__(self, profile: Profile, settings: Settings, bus: Bus) -> None:
        super().__init__(profile, settings, bus)
        self.shift = NightShift(self.context, self.options)
        self.goals = Goals(bus)

    async def on_start(self) -> None:
        """Make the queue's folders and begin to look into them."""
        try:
            self.shift.queue.make_folders()
        except OSError as error:
            raise StartError(
                f"The job queue {self.shift.queue.tonight} cannot be made: {error.strerror}",
                "Make the state directory writable, or set MAILROOM_STATE_DIR to another folder",
            ) from None
        self.context.spawn(self.shift.work())

    async def on_result(self, result: TaskResult) -> Outbox:
        """Archive the result of an overnight job: a task of its own, so nobody else has results for it."""
        if result.sender == self.context.profile.name:
            await self.shift.end(result)
        return ()

    async def on_report(self, report: AgentReport) -> Outbox:
        """Take the report of a goal that an overnight job became."""
        return self.goals.take(report)

    # --- code ------------------------------------------------------------------------------------

    @register_action(
        "Write code into the workspace; needs a model",
        {
            "description": "What the code is to do",
            "path": "Its path beneath the workspace; empty: the model chooses one",
            "check": "parse (it must parse), run (it must run) or test (a test of it must pass)",
        },
    )
    async def write_code(self, description: str, path: str = "", check: coding.Check = "parse") -> Outcome:
        """The path of the file; fails where the last of three tries fails its check, and leaves that."""
        if not self.context.models.model.available:
            raise ActionError(
                "Code cannot be written without a model", "Set MAILROOM_BRAIN, or give a script to run_script"
            )
        coder = coding.Coder(self.context, open_workspace(self.context), check)
        return await coder.write(description, coding.require_path(path))

    @register_action(
        "Run a script in the workspace, or one that the task names",
        {"path": "Path of the script", "args": "Its arguments"},
    )
    async def run_script(self, path: str, args: tuple[str, ...] = ()) -> Outcome:
        """What the script wrote, and its whole output as a log; fails where its exit code is not 0."""
        open_workspace(self.context)
        folder, script = await asyncio.to_thread(find_script, path, self.context.task, self.context.settings)
        command = await asyncio.to_thread(make_command, folder, script, args)
        name = Path(path).name
        log_path = self.outputs() / f"{name}-{generate_task_id('run')}.log"
        async with changing(self.context, f"run the script {' '.join([path, *args])}") as workspace:
            result = await run_command(
                command,
                cwd=workspace,
                timeout=self.context.settings.command_timeout,
                writable=[workspace],
                readable=[folder],
                log_path=log_path,
            )
        return tell_run(name, result, log_path)

    # --- the night -------------------------------------------------------------------------------

    @register_action(
        "Carry out a job of the overnight queue", {"job": "The job: id, task, and perhaps context"}
    )
    async def process_overnight_job(self, job: dict[str, Any]) -> Outcome:
        """As execute_plan, for the plan or action in the job's context or the steps of its task.

        What is not spelled out is worked out with a model, in the mode the context names. Without one, and
        where the context names a playbook, it becomes a goal of the office, which knows playbooks.
        """
        wanted = read_job(job)
        if "playbook" in wanted.context:
            return await self.goals.reach(self.context.task, wanted)
        if "plan" in wanted.context or wanted.context.get("action"):
            return await self.carry_out(self._plan_job(wanted))
        if self.context.models.model.available:
            mode = find_mode(wanted.context, self.options.mode)
            return await self.think_about(mode, Asked(text=wanted.task, whole=wanted.task[:LONGEST]))
        plan = self._plan_job(wanted)
        if any(step.context.get("action") for step in plan.steps):
            return await self.carry_out(plan)
        return await self.goals.reach(self.context.task, wanted)

    @register_action(
        "Put a job into the overnight queue",
        {
            "task": "What is to be done",
            "priority": "low, medium, high or critical",
            "run_at": "ISO 8601 date and time before which it is not begun; empty: as soon as there is room",
            "context": "Perhaps an assignee, action and params, a plan, or a mode",
            "retries": "How often it is tried again where it fails, 0 to 10",
        },
    )
    async def queue_job(
        self,
        task: str,
        priority: str = "medium",
        run_at: str = "",
        context: dict[str, Any] | None = None,
        retries: int = 0,
    ) -> Outcome:
        """The job's id, job-YYYYMMDD-NNN, in data key ``id``."""
        now = datetime.now().astimezone()
        said = f"{self.context.task.text}\n{self.context.task.context.get('params')}"
        asked_for = self.context.task.context.get("action") == "queue_job" or (task in said and not context)
        fields = {
            "task": task,
            "priority": priority,
            "run_at": run_at,
            "retries": retries,
            "by_agent": not (asked_for and is_of_person(self.context.task)),
        }
        job = read_job({"id": "new", "created_at": now.isoformat(), "context": context or {}, **fields})
        async with self.context.effect(f"queue the job {task[:200]}"):
            queued = await asyncio.to_thread(self.shift.queue.drop, job, f"{now:%Y%m%d}")
        return Outcome(output=f"Queued as {queued.id}.", data={"id": queued.id})

    @register_action(
        "Cancel a job of the overnight queue, whether it waits or runs",
        {"job_id": "Its id, such as job-20260102-001", "reason": "Why; it stands in the job's result"},
    )
    async def cancel_job(self, job_id: str, reason: str = "") -> Outcome:
        """Says that it is cancelled; its TaskResult, CANCELLED, is in the archive."""
        async with self.context.effect(f"cancel the job {job_id[:80]}", repeatable=True):
            why = reason.strip()[:500] or "Somebody cancelled it"
            outcome = await self.shift.cancel(job_id.strip(), why)
            await self.goals.call_off(outcome.data["task_id"], why)
        return outcome

    @register_action("Say what waits in the overnight queue, what runs and what failed")
    async def queue_status(self) -> Outcome:
        """Counts and jobs in data keys ``counts``, ``waiting``, ``running`` and ``failed``."""
        return await asyncio.to_thread(self.shift.describe)

    def _plan_job(self, job: Job) -> TaskPlan:
        if "plan" in job.context:
            return read_plan(job.context["plan"], self.context.task.task_id, self.context.profile.name)
        request = TaskRequest(
            task_id=self.context.task.task_id,
            requester=self.context.profile.name,
            task_description=job.task,
            priority=job.task_priority,
            context=job.context,
        )
        return make_plan(request, agent=self.context.profile.name, own_actions=self.stepper.actions)


if __name__ == "__main__":
    run(Cortex, __file__)
