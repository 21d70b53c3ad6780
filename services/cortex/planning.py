"""Planning: the actions that make plans, carry them out, and work out what no action names."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from services.cortex.call import Material
from services.cortex.cognition.executive import find_spelled_out
from services.cortex.cognition.mode import Mode, find_mode, read_mode
from services.cortex.cognition.state import Asked
from services.cortex.colleagues import Colleagues, at_work
from services.cortex.draft import Frame, draft_plan
from services.cortex.execution import execute_plan
from services.cortex.options import read_options
from services.cortex.order import group_steps
from services.cortex.plan import make_plan, read_plan, read_request, read_step
from services.cortex.report import compose_report, save_report, tell_results
from services.cortex.stepping import Stepper
from services.cortex.thinking import LONGEST, read_asked, work_out
from shared.agent.base import Agent
from shared.bus import Bus
from shared.contracts import Task, TaskPlan, TaskRequest, TaskStep
from shared.errors import ActionError
from shared.messaging.threads import is_email_task
from shared.settings import Settings
from shared.tasks.actions import Outcome, register_action
from shared.tasks.profile import Profile

NOT_STEPS = frozenset({"execute_plan", "execute_step", "process_overnight_job", "work_out"})
"""Own actions that are no steps and no part of a thought: they plan and think themselves."""


class Planning(Agent):
    """An agent that plans and carries out work of several steps."""

    def __init__(self, profile: Profile, settings: Settings, bus: Bus) -> None:
        super().__init__(profile, settings, bus)
        self.options = read_options(profile.options)
        steps = {name: action for name, action in self.context.actions.items() if name not in NOT_STEPS}
        self.stepper = Stepper(self.context, steps, self.options.step_timeout)

    async def on_task(self, task: Task) -> Outcome:
        """As any agent; a task that names no action is worked out in the mode it names, or that fits it."""
        if task.context.get("action"):
            return await super().on_task(task)
        mode = find_mode(task.context, self.options.mode)
        return await self.think_about(
            mode, read_asked(task, self.context.models.context_characters // 3), may_rest=is_email_task(task)
        )

    @register_action(
        "Make a plan, without carrying it out",
        {"text": "What is to be done", "request": "Or a TaskRequest: task_description, and perhaps context"},
    )
    async def generate_plan(self, text: str = "", request: dict[str, Any] | None = None) -> Outcome:
        """The TaskPlan in data key ``plan``, steps that can be done at once in ``groups``."""
        asked = read_request(request, self.context.task) if request is not None else text
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
        return await self.carry_out(read_plan(plan, self.context.task.task_id, self.context.profile.name))

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
        text = task if task.strip() else self.context.task.text
        return await self.think_about(read_mode(mode), Asked(text=text, whole=text[:LONGEST]))

    async def think_about(self, mode: Mode | None, asked: Asked, *, may_rest: bool = False) -> Outcome:
        """Work out what was asked in ``mode``, None for the one that fits; written steps as they stand."""
        plan = (
            find_spelled_out(asked.text, self.context.profile.name, self.stepper.actions)
            if mode is None
            else None
        )
        if plan is not None:
            return await self.carry_out(plan)
        return await work_out(
            self.context,
            self.stepper,
            asked,
            mode,
            await self._colleagues_at_work(),
            at_once=self.options.steps_at_once,
            timeout=self.options.work_timeout,
            may_rest=may_rest,
        )

    async def _colleagues_at_work(self) -> Colleagues:
        if not self.context.models.model.available:
            return Colleagues()
        return at_work(await self.context.directory.read(), self.context.profile.name)

    async def _plan(self, asked: str | TaskRequest) -> TaskPlan:
        name, actions = self.context.profile.name, self.stepper.actions
        text = asked.task_description if isinstance(asked, TaskRequest) else asked
        named = isinstance(asked, TaskRequest) and bool(asked.context.get("action"))
        if named or not self.context.models.model.available or find_spelled_out(text, name, actions):
            return make_plan(asked, agent=name, own_actions=actions)
        if not text.strip():
            raise ActionError("There is nothing to plan: the text is empty", "Say what is to be done")
        frame = Frame(agent=name, actions=actions, colleagues=await self._colleagues_at_work())
        words = f"Plan how to do this; it is not to be done now:\n<asked>\n{text[:LONGEST]}\n</asked>"
        task_id = asked.task_id if isinstance(asked, TaskRequest) else self.context.task.task_id
        return await draft_plan(self.context, words, task_id, frame)

    async def carry_out(self, plan: TaskPlan) -> Outcome:
        """What the steps brought, and the report on disk; raises ActionError where one was not completed."""
        results = await execute_plan(plan, self._execute_step, at_once=self.options.steps_at_once)
        text = compose_report(plan, results)
        async with self.context.effect(f"write the execution report of {plan.task_id}", repeatable=True):
            path = await asyncio.to_thread(save_report, text, self.outputs(), self.context.task.task_id)
        return tell_results(results, path)

    async def _execute_step(self, step: TaskStep, inputs: Mapping[int, Material]) -> Outcome:
        deed = self.stepper.prepare(step, inputs)
        await self.context.progress(f"step {step.step_number}: {step.action}")
        return await self.stepper.carry_out(deed, what=step.action, key=str(step.step_number))

    def outputs(self) -> Path:
        """Where the files of the task at hand are put."""
        task = self.context.task
        return self.context.settings.outputs / (task.parent_goal_id or task.goal_id or task.task_id)
