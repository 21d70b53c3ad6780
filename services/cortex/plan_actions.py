"""The actions that make plans, carry them out, and work out what no action names; the execution report."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from services.cortex.modes import (
    MAX_QUERY,
    MODE_FOR,
    Mode,
    answer_simply,
    find_mode,
    parse_mode,
    query_of,
    reason,
)
from services.cortex.perception import perceive
from services.cortex.plan_execution import StepResult, StepRunner, StepStatus, execute_plan
from services.cortex.plan_parser import (
    find_needed_agents,
    parse_plan,
    plan_of,
    request_of,
    require_tools,
    step_of,
)
from services.cortex.planner import PlanScope, ask_for_plan, find_spelled_out, plan_without_model
from services.cortex.run import Run
from services.cortex.run_state import Query, RunState
from shared.agent.context import AgentContext
from shared.contracts import ResultOutcome, Task, TaskPlan, TaskRequest, TaskStep, generate_iso_timestamp
from shared.contracts.task import worst_of
from shared.errors import ActionError
from shared.files import write_atomically
from shared.messaging.correspondence import is_email_task
from shared.plans import AgentPage, StepOutput, group_steps, pages_of
from shared.skills.workspace import outputs_path
from shared.tasks.actions import Outcome, register_action
from shared.text.display import count

EXCERPT = 2_000  # The most characters of a step's output in the report, and in the task's result


class PlanActions:
    """Plans and carries out work of several steps, ``max_parallel`` of them at the same time.

    ``step_timeout`` is for a step of another agent, ``work_timeout`` for working a task out, both in seconds.
    """

    def __init__(
        self,
        context: AgentContext,
        *,
        default_mode: str,
        max_parallel: int,
        step_timeout: float,
        work_timeout: float,
    ) -> None:
        self.steps = StepRunner(context, step_timeout)
        self._context = context
        self._default_mode = default_mode
        self._max_parallel = max_parallel
        self._work_timeout = work_timeout

    @register_action(
        "Make a plan, without carrying it out",
        {"text": "What is to be done", "request": "Or a TaskRequest: task_description, and perhaps context"},
    )
    async def generate_plan(self, text: str = "", request: dict[str, Any] | None = None) -> Outcome:
        """The TaskPlan in data key ``plan``, and the steps that can run at once in ``groups``."""
        plan = await self._plan(request_of(request, self._context.task) if request is not None else text)
        lines = [
            f"{step.step_number}. {step.action}"
            + (f" (after {', '.join(map(str, step.dependencies))})" if step.dependencies else "")
            for step in plan.steps
        ]
        return Outcome(
            output="\n".join(lines),
            data={"plan": plan.to_dict(), "groups": [list(group) for group in group_steps(plan.steps)]},
        )

    @register_action("Carry out a plan in the order of its dependencies", {"plan": "A TaskPlan"})
    async def execute_plan(self, plan: dict[str, Any]) -> Outcome:
        """The result of each step in data key ``steps``, and a report on disk; fails if a step failed."""
        return await self.carry_out(plan_of(plan, self._context.task.task_id, self._context.profile.name))

    @register_action(
        "Carry out a single step of a plan",
        {
            "step": "A TaskStep: action, and perhaps a context with assignee, action and params",
            "context": "What earlier steps brought, by their numbers: a text, or output and output_paths",
        },
    )
    async def execute_step(self, step: dict[str, Any], context: dict[str, Any] | None = None) -> Outcome:
        """The result of the step; fails with its reason."""
        return await self._execute_step(*step_of(step, context or {}))

    @register_action(
        "Work a task out: think straight away, by plans, or in all stages from perception to memory",
        {
            "task": "What is wanted; empty: the text of the task itself",
            "mode": "simple, reasoning, cognitive, or auto",
        },
    )
    async def work_out(self, task: str = "", mode: str = "auto") -> Outcome:
        """The answer; in data ``mode``, ``confidence``, whether it is ``complete``, what is ``missing``."""
        text = task if task.strip() else self._context.task.text
        asked = msgspec.structs.replace(self._context.task, text=text, context={})
        limit = self._context.models.context_characters // 3
        query = query_of(asked, limit, self._context.current_task.references)
        return await self._work_out(parse_mode(mode), query)

    async def work_out_job(self, text: str, context: Mapping[str, Any]) -> Outcome:
        """Work out the text of a job in the mode that its context names, or that fits it."""
        mode = find_mode(context, self._default_mode)
        return await self._work_out(mode, Query(text=text, whole=text[:MAX_QUERY]))

    async def work_out_task(self, task: Task) -> Outcome:
        """Work out a task that names no action, with its context, in the mode it names or that fits it."""
        limit = self._context.models.context_characters // 3
        query = query_of(task, limit, self._context.current_task.references)
        mode = find_mode(task.context, self._default_mode)
        return await self._work_out(mode, query, may_rest=is_email_task(task))

    async def carry_out(self, plan: TaskPlan) -> Outcome:
        """Execute a plan and write its report; raises ActionError if a step did not complete, or before the
        first one if a tool that the plan needs is not there.
        """
        context, task_id = self._context, self._context.task.task_id
        others = find_needed_agents(plan, context.profile.name)
        present = pages_of(await context.directory.read()) if others else {}
        require_tools(plan, context.profile.name, self.steps.actions, present)
        if plan.estimated_duration:
            await context.progress(
                f"{count(len(plan.steps), 'step')}, expected to take {plan.estimated_duration}"
            )
        started = time.monotonic()
        results = await execute_plan(plan, self._execute_step, max_parallel=self._max_parallel)
        path = outputs_path(self._context) / f"execution-{task_id}.md"
        async with self._context.effect(f"write the execution report of {plan.task_id}", repeatable=True):
            await asyncio.to_thread(
                write_atomically, path, format_report(plan, results, time.monotonic() - started)
            )
        return plan_outcome(results, path)

    async def _work_out(self, mode: Mode | None, query: Query, *, may_rest: bool = False) -> Outcome:
        """Work out ``query``; without a model always in the cognitive mode, over the steps it spells out."""
        context, name, actions = self._context, self._context.profile.name, self.steps.actions
        if mode is None and (plan := find_spelled_out(query.text, name, actions)):
            return await self.carry_out(plan)
        complexity = perceive(query.text).complexity
        mode = mode or MODE_FOR[complexity]
        if not context.models.model.available:
            # Fails here, before memory is asked and stages are published, if no step can be executed.
            plan_without_model(query.text, name, actions)
            mode = Mode.COGNITIVE
        others = await self._others()
        try:
            async with asyncio.timeout(self._work_timeout):
                if mode is Mode.SIMPLE:
                    return await answer_simply(context, self.steps, query, may_rest=may_rest)
                state = await RunState.open(context, query, mode)
                run = Run(context, state, self.steps, others, self._max_parallel)
                return await (reason(run, complexity) if mode is Mode.REASONING else run.work_out())
        except TimeoutError:
            raise ActionError(
                f"It was not worked out within {self._work_timeout:g} s",
                "Ask for less, or raise its work_timeout",
            ) from None

    async def _others(self) -> Mapping[str, AgentPage]:
        """The agents at work; none without a model, which alone can choose between them."""
        if not self._context.models.model.available:
            return {}
        return pages_of(await self._context.directory.read())

    async def _plan(self, wanted: str | TaskRequest) -> TaskPlan:
        context, actions = self._context, self.steps.actions
        name, task_id = context.profile.name, context.task.task_id
        named = False
        if isinstance(wanted, TaskRequest):
            text, named, task_id = wanted.task_description, bool(wanted.context.get("action")), wanted.task_id
        else:
            text = wanted
        if named or not context.models.model.available or find_spelled_out(text, name, actions):
            return parse_plan(wanted, agent=name, own_actions=actions)
        if not text.strip():
            raise ActionError("There is nothing to plan: the text is empty", "Say what is to be done")
        scope = PlanScope(agent=name, actions=actions, others=await self._others())
        words = f"Plan how to do this; it is not to be done now:\n<asked>\n{text[:MAX_QUERY]}\n</asked>"
        return await ask_for_plan(context, words, task_id, scope)

    async def _execute_step(self, step: TaskStep, inputs: Mapping[int, StepOutput]) -> Outcome:
        call = self.steps.prepare(step, inputs)
        await self._context.progress(f"step {step.step_number}: {step.action}")
        return await self.steps.carry_out(call, text=step.action, key=str(step.step_number))


def summarise_results(results: Sequence[StepResult]) -> str:
    """One sentence: how many steps were completed, why the others were not, and which are not just done."""
    completed = sum(result.status is StepStatus.COMPLETED for result in results)
    parts = [f"{completed} of {count(len(results), 'step')} completed"]
    for result in results:
        if result.status is not StepStatus.COMPLETED:
            reason = result.reason.rstrip(".")
            parts.append(f"step {result.step_number} ({result.action[:60]!r}) {result.status}: {reason}")
        elif result.outcome is not ResultOutcome.DONE:
            came_to, said = result.outcome.replace("_", " "), result.output.strip().partition("\n")[0]
            parts.append(f"step {result.step_number} {came_to}: {said[:200].rstrip('.')}")
    return "; ".join(parts)


def format_report(plan: TaskPlan, results: Sequence[StepResult], seconds: float) -> str:
    """The execution report as Markdown, of a plan that took so many ``seconds``."""
    lines = [
        f"# Execution of {plan.task_id}",
        "",
        f"{summarise_results(results)}.",
        f"Ended {generate_iso_timestamp()}, after {seconds:.1f} s.",
        "",
        *_format_estimates(plan),
    ]
    planned = {step.step_number: step.estimated_complexity for step in plan.steps}
    for result in results:
        lines += [f"## {result.step_number}. {' '.join(result.action.split())[:120]}", ""]
        because = f" {result.reason}" if result.reason else ""
        because += f" Planned as {planned[result.step_number]}." if planned.get(result.step_number) else ""
        lines.append(f"{result.status.value.capitalize()} after {result.seconds:.1f} s.{because}")
        lines += [f"- {path}" for path in result.output_paths]
        if result.output:
            lines += ["", "~~~text", result.output[:EXCERPT].replace("~~~", "~ ~ ~"), "~~~"]
        lines.append("")
    return "\n".join(lines)


def _format_estimates(plan: TaskPlan) -> list[str]:
    """What the plan said of itself, to be compared with what came of it."""
    said = {
        "complexity": plan.overall_complexity,
        "duration": plan.estimated_duration,
        "tools": ", ".join(plan.required_tools),
    }
    known = [f"{name} {value}" for name, value in said.items() if value]
    return [f"Planned: {'; '.join(known)}.", ""] if known else []


def plan_outcome(results: Sequence[StepResult], path: Path) -> Outcome:
    """The outcome of a plan whose report is at ``path``; raises ActionError unless every step completed."""
    summary = summarise_results(results)
    if any(result.status is not StepStatus.COMPLETED for result in results):
        raise ActionError(summary, f"What was done is in {path}")
    return Outcome(
        output="\n\n".join([summary, *(result.output for result in results if result.output)]),
        data={"steps": [_brief(result) for result in results]},
        evidence_refs=tuple(dict.fromkeys(ref for result in results for ref in result.evidence_refs)),
        output_paths=(str(path), *(path for result in results for path in result.output_paths)),
        outcome=worst_of(result.outcome for result in results),
    )


def _brief(result: StepResult) -> dict[str, Any]:
    return {
        "step_number": result.step_number,
        "action": result.action,
        "status": result.status.value,
        "seconds": result.seconds,
        "output": result.output[:2_000],
        "data": result.data,
    }
