"""Cortex: plans and carries out work of several steps, runs scripts, works the overnight queue."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from services.cortex.call import Call, fill_params, find_call
from services.cortex.execution import StepResult, StepStatus, execute_plan
from services.cortex.night import Job, read_job
from services.cortex.options import read_options
from services.cortex.order import group_steps
from services.cortex.plan import make_plan, read_plan
from services.cortex.report import compose_report, save_report, summarise
from services.cortex.script import make_command, tell_run
from services.cortex.shift import NightShift
from shared.actions import Outcome, perform, register_action
from shared.agent import BaseAgent, Replies
from shared.bus import Bus
from shared.contracts import TaskPlan, TaskRequest, TaskResult, TaskStatus, TaskStep, generate_task_id
from shared.errors import ActionError, StartError
from shared.process import run
from shared.profile import Profile
from shared.sandbox.command import run_command
from shared.settings import Settings

WHOLE_PLANS = frozenset({"execute_plan", "process_overnight_job"})
"""Own actions that are no steps: delegated tasks are named after the steps of one plan."""


class Cortex(BaseAgent):
    """Plans and carries out work of several steps, runs scripts, and works the overnight queue."""

    def __init__(self, profile: Profile, settings: Settings, bus: Bus) -> None:
        super().__init__(profile, settings, bus)
        self.options = read_options(profile.options)
        self.shift = NightShift(self, self.options)

    async def on_start(self) -> None:
        """Make the queue's folders and begin to look into them."""
        try:
            self.shift.queue.make_folders()
        except OSError as error:
            raise StartError(
                f"The job queue {self.shift.queue.tonight} cannot be made: {error.strerror}",
                "Make the state directory writable, or set MAILROOM_STATE_DIR to another folder",
            ) from None
        self.spawn(self.shift.work())

    async def on_result(self, result: TaskResult) -> Replies:
        """Archive the result of an overnight job: a task of its own, so nobody else has results for it."""
        if result.sender == self.profile.name:
            await self.shift.end(result)
        return ()

    @register_action("Make a plan of a text's steps, without carrying it out", {"text": "What is to be done"})
    async def generate_plan(self, text: str) -> Outcome:
        """The TaskPlan in data key ``plan``, steps that can be done at once in ``groups``."""
        plan = self._plan(text)
        told = [
            f"{step.step_number}. {step.action}"
            + (f" (after {', '.join(map(str, step.dependencies))})" if step.dependencies else "")
            for step in plan.steps
        ]
        return Outcome(
            output="\n".join(told),
            data={"plan": plan.to_dict(), "groups": [list(group) for group in group_steps(plan.steps)]},
        )

    @register_action("Carry out a plan in the order of its dependencies", {"plan": "A TaskPlan"})
    async def execute_plan(self, plan: dict[str, Any]) -> Outcome:
        """What became of each step in data key ``steps``, and a report on disk; fails where a step failed."""
        return await self._execute(read_plan(plan, self.job.task.task_id, self.profile.name))

    @register_action(
        "Carry out a job of the overnight queue", {"job": "The job: id, task, and perhaps context"}
    )
    async def process_overnight_job(self, job: dict[str, Any]) -> Outcome:
        """As execute_plan, for the plan or action in the job's context or else the steps of its task."""
        return await self._execute(self._plan_job(read_job(job)))

    @register_action("Run a script", {"path": "Path of the script", "args": "Its arguments"})
    async def run_script(self, path: str, args: tuple[str, ...] = ()) -> Outcome:
        """What the script wrote, and its whole output as a log; fails where its exit code is not 0."""
        task_id = self.job.task.task_id
        workspace = self.settings.workspaces / task_id
        workspace.mkdir(parents=True, exist_ok=True)
        command = make_command(path, args, workspace)
        name = Path(path).name
        log_path = self._outputs() / f"{name}-{generate_task_id('run')}.log"
        async with self.effect(f"run the script {' '.join([path, *args])}"):
            result = await run_command(
                command, cwd=workspace, timeout=self.settings.command_timeout, log_path=log_path
            )
        return tell_run(name, result, log_path)

    @register_action("Say what waits in the overnight queue, what runs and what failed")
    async def queue_status(self) -> Outcome:
        """Counts and jobs in data keys ``counts``, ``waiting``, ``running`` and ``failed``."""
        return await asyncio.to_thread(self.shift.describe)

    def _plan(self, request: str | TaskRequest) -> TaskPlan:
        return make_plan(request, agent=self.profile.name, own_actions=self.actions)

    def _plan_job(self, job: Job) -> TaskPlan:
        if "plan" in job.context:
            return read_plan(job.context["plan"], self.job.task.task_id, self.profile.name)
        request = TaskRequest(
            task_id=self.job.task.task_id,
            requester=self.profile.name,
            task_description=job.task,
            priority=job.task_priority,
            context=job.context,
        )
        return self._plan(request)

    async def _execute(self, plan: TaskPlan) -> Outcome:
        results = await execute_plan(plan, self._execute_step, at_once=self.options.steps_at_once)
        text = compose_report(plan, results)
        async with self.effect(f"write the execution report of {plan.task_id}", repeatable=True):
            path = await asyncio.to_thread(save_report, text, self._outputs(), self.job.task.task_id)
        summary = summarise(results)
        if any(result.status is not StepStatus.COMPLETED for result in results):
            raise ActionError(summary, f"What was done is in {path}")
        return Outcome(
            output="\n\n".join([summary, *(result.output for result in results if result.output)]),
            data={"steps": [_brief(result) for result in results]},
            evidence_refs=tuple(dict.fromkeys(ref for result in results for ref in result.evidence_refs)),
            output_paths=(str(path), *(path for result in results for path in result.output_paths)),
        )

    async def _execute_step(self, step: TaskStep, inputs: Mapping[int, StepResult]) -> Outcome:
        call = find_call(step, self.profile.name, self.actions)
        params = fill_params(call.params, inputs)
        await self.progress(f"step {step.step_number}: {step.action}")
        if call.assignee == self.profile.name:
            return await self._act(call, params)
        return await self._hand_out(step, call, params)

    async def _act(self, call: Call, params: dict[str, Any]) -> Outcome:
        action = self.actions.get(call.action)
        if action is None or call.action in WHOLE_PLANS:
            fit = ", ".join(name for name in self.actions if name not in WHOLE_PLANS)
            raise ActionError(f"{call.action!r} cannot be a step of a plan", f"Own actions that can: {fit}")
        return await perform(self, action, params)

    async def _hand_out(self, step: TaskStep, call: Call, params: dict[str, Any]) -> Outcome:
        limit = self.options.step_timeout
        try:
            async with asyncio.timeout(limit):
                result = await self.delegate(
                    call.assignee, step.action, call.action, params, key=str(step.step_number)
                )
        except TimeoutError:
            raise ActionError(
                f"{call.assignee} did not answer within {limit:g} s",
                "See whether it runs with 'mailroom status'",
            ) from None
        if result.status is not TaskStatus.COMPLETED:
            raise ActionError(f"{call.assignee}: {result.error_message or result.status}")
        return Outcome(
            output=result.output,
            data=result.metadata,
            evidence_refs=result.evidence_refs,
            output_paths=result.output_paths,
        )

    def _outputs(self) -> Path:
        task = self.job.task
        return self.settings.outputs / (task.parent_goal_id or task.goal_id or task.task_id)


def _brief(result: StepResult) -> dict[str, Any]:
    return {
        "step_number": result.step_number,
        "action": result.action,
        "status": result.status.value,
        "seconds": result.seconds,
        "output": result.output[:2_000],
        "data": result.data,
    }


if __name__ == "__main__":
    run(Cortex, __file__)
