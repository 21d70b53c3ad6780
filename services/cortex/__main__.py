"""Cortex: plans, thinks, writes and runs scripts, works the overnight queue."""

import asyncio
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from services.cortex import coding
from services.cortex.call import Material
from services.cortex.cognition.executive import find_spelled_out
from services.cortex.cognition.mode import Mode, find_mode, read_mode
from services.cortex.cognition.state import Asked
from services.cortex.colleagues import Colleagues, at_work
from services.cortex.draft import Frame, draft_plan
from services.cortex.execution import execute_plan
from services.cortex.night import Job, read_job
from services.cortex.options import read_options
from services.cortex.order import group_steps
from services.cortex.plan import make_plan, read_plan, read_request, read_step
from services.cortex.report import compose_report, save_report, tell_results
from services.cortex.script import make_command, script_folder, tell_run
from services.cortex.shift import NightShift
from services.cortex.stepping import Stepper
from services.cortex.thinking import LONGEST, read_asked, work_out
from shared.actions import Outcome, register_action
from shared.agent import BaseAgent, Replies
from shared.bus import Bus
from shared.contracts import Task, TaskPlan, TaskRequest, TaskResult, TaskStep, generate_task_id
from shared.correspondence import is_letter
from shared.errors import ActionError, StartError
from shared.process import run
from shared.profile import Profile
from shared.sandbox.command import run_command
from shared.settings import Settings
from shared.skills.workspace import open_workspace

NOT_STEPS = frozenset({"execute_plan", "execute_step", "process_overnight_job", "work_out"})
"""Own actions that are no steps and no part of a thought: they plan and think themselves."""


class Cortex(BaseAgent):
    """Plans and carries out work of several steps, writes and runs scripts, and works the overnight queue."""

    def __init__(self, profile: Profile, settings: Settings, bus: Bus) -> None:
        super().__init__(profile, settings, bus)
        self.options = read_options(profile.options)
        self.shift = NightShift(self, self.options)
        steps = {name: action for name, action in self.actions.items() if name not in NOT_STEPS}
        self.stepper = Stepper(self, steps, self.options.step_timeout)

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

    async def on_task(self, task: Task) -> Outcome:
        """As any agent; a task that names no action is worked out in the mode it names, or that fits it."""
        if task.context.get("action"):
            return await super().on_task(task)
        mode = find_mode(task.context, self.options.mode)
        return await self._think_about(mode, read_asked(task), may_rest=is_letter(task))

    async def on_result(self, result: TaskResult) -> Replies:
        """Archive the result of an overnight job: a task of its own, so nobody else has results for it."""
        if result.sender == self.profile.name:
            await self.shift.end(result)
        return ()

    # --- planning and working out ----------------------------------------------------------------

    @register_action(
        "Make a plan, without carrying it out",
        {"text": "What is to be done", "request": "Or a TaskRequest: task_description, and perhaps context"},
    )
    async def generate_plan(self, text: str = "", request: dict[str, Any] | None = None) -> Outcome:
        """The TaskPlan in data key ``plan``, steps that can be done at once in ``groups``."""
        asked = read_request(request, self.job.task) if request is not None else text
        plan = await self._plan(asked)
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
        "Carry out a single step of a plan",
        {
            "step": "A TaskStep: action, and perhaps a context with assignee, action and params",
            "context": "What earlier steps brought, by their numbers: a text, or output and output_paths",
        },
    )
    async def execute_step(self, step: dict[str, Any], context: dict[str, Any] | None = None) -> Outcome:
        """What the step brought; fails with its reason."""
        wanted, inputs = read_step(step, context or {})
        return await self._execute_step(wanted, inputs)

    @register_action(
        "Work a task out: think straight away, by plans, or in all stages from perception to memory",
        {
            "task": "What is wanted, in words; empty: the text of the task itself",
            "mode": "simple, reasoning, cognitive, or auto",
        },
    )
    async def work_out(self, task: str = "", mode: str = "auto") -> Outcome:
        """The answer; in data ``mode``, ``confidence``, whether it is ``complete``, what is ``missing``."""
        text = task if task.strip() else self.job.task.text
        return await self._think_about(read_mode(mode), Asked(text=text, whole=text[:LONGEST]))

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
        if not self.brain.available:
            raise ActionError(
                "Code cannot be written without a model", "Set MAILROOM_BRAIN, or give a script to run_script"
            )
        coder = coding.Coder(self, open_workspace(self), check)
        return await coder.write(description, coding.require_path(path))

    @register_action("Run a script", {"path": "Path of the script", "args": "Its arguments"})
    async def run_script(self, path: str, args: tuple[str, ...] = ()) -> Outcome:
        """What the script wrote, and its whole output as a log; fails where its exit code is not 0."""
        workspace = open_workspace(self)
        command = make_command(path, args, workspace)
        folder = script_folder(workspace / Path(path).expanduser(), self.settings.state_dir)
        name = Path(path).name
        log_path = self._outputs() / f"{name}-{generate_task_id('run')}.log"
        async with self.effect(f"run the script {' '.join([path, *args])}"):
            result = await run_command(
                command,
                cwd=workspace,
                timeout=self.settings.command_timeout,
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
        """As execute_plan, for the plan or action in the job's context or the steps of its task; with a model
        what is not spelled out is worked out, in the mode the context names.
        """
        wanted = read_job(job)
        is_named = "plan" in wanted.context or bool(wanted.context.get("action"))
        if is_named or not self.brain.available:
            return await self._execute(self._plan_job(wanted))
        mode = find_mode(wanted.context, self.options.mode)
        return await self._think_about(mode, Asked(text=wanted.task, whole=wanted.task[:LONGEST]))

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
        fields = {"task": task, "priority": priority, "run_at": run_at, "retries": retries}
        job = read_job({"id": "new", "created_at": now.isoformat(), "context": context or {}, **fields})
        async with self.effect(f"queue the job {task[:200]}"):
            queued = await asyncio.to_thread(self.shift.queue.drop, job, f"{now:%Y%m%d}")
        return Outcome(output=f"Queued as {queued.id}.", data={"id": queued.id})

    @register_action("Say what waits in the overnight queue, what runs and what failed")
    async def queue_status(self) -> Outcome:
        """Counts and jobs in data keys ``counts``, ``waiting``, ``running`` and ``failed``."""
        return await asyncio.to_thread(self.shift.describe)

    # --- how it is done --------------------------------------------------------------------------

    async def _think_about(self, mode: Mode | None, asked: Asked, *, may_rest: bool = False) -> Outcome:
        plan = find_spelled_out(asked.text, self.profile.name, self.stepper.actions) if mode is None else None
        if plan is not None:
            return await self._execute(plan)
        return await work_out(
            self,
            self.stepper,
            asked,
            mode,
            await self._colleagues_at_work(),
            at_once=self.options.steps_at_once,
            timeout=self.options.work_timeout,
            may_rest=may_rest,
        )

    async def _colleagues_at_work(self) -> Colleagues:
        if not self.brain.available:
            return Colleagues()
        return at_work(await self._pages.read(), self.profile.name)

    async def _plan(self, asked: str | TaskRequest) -> TaskPlan:
        name, actions = self.profile.name, self.stepper.actions
        text = asked.task_description if isinstance(asked, TaskRequest) else asked
        named = isinstance(asked, TaskRequest) and bool(asked.context.get("action"))
        if named or not self.brain.available or find_spelled_out(text, name, actions):
            return make_plan(asked, agent=name, own_actions=actions)
        if not text.strip():
            raise ActionError("There is nothing to plan: the text is empty", "Say what is to be done")
        frame = Frame(agent=name, actions=actions, colleagues=await self._colleagues_at_work())
        words = f"Plan how to do this; it is not to be done now:\n<asked>\n{text[:LONGEST]}\n</asked>"
        task_id = asked.task_id if isinstance(asked, TaskRequest) else self.job.task.task_id
        return await draft_plan(self, words, task_id, frame)

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
        return make_plan(request, agent=self.profile.name, own_actions=self.stepper.actions)

    async def _execute(self, plan: TaskPlan) -> Outcome:
        results = await execute_plan(plan, self._execute_step, at_once=self.options.steps_at_once)
        text = compose_report(plan, results)
        async with self.effect(f"write the execution report of {plan.task_id}", repeatable=True):
            path = await asyncio.to_thread(save_report, text, self._outputs(), self.job.task.task_id)
        return tell_results(results, path)

    async def _execute_step(self, step: TaskStep, inputs: Mapping[int, Material]) -> Outcome:
        deed = self.stepper.prepare(step, inputs)
        await self.progress(f"step {step.step_number}: {step.action}")
        return await self.stepper.carry_out(deed, what=step.action, key=str(step.step_number))

    def _outputs(self) -> Path:
        task = self.job.task
        return self.settings.outputs / (task.parent_goal_id or task.goal_id or task.task_id)


if __name__ == "__main__":
    run(Cortex, __file__)
