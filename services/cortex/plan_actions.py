"""The actions that make plans, have them carried out, and work out what no action names."""

import asyncio
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from services.cortex.goals import GoalClient, StepResult, lift
from services.cortex.model_plans import PlanScope, ask_for_plan, find_spelled_out, plan_without_model
from services.cortex.modes import (
    MAX_QUERY,
    MODE_FOR,
    Mode,
    answer_simply,
    find_mode,
    parse_mode,
    query_of,
    reason,
    step_actions,
)
from services.cortex.perception import perceive
from services.cortex.plan_parser import (
    address_step,
    build_on,
    find_needed_agents,
    parse_plan,
    request_of,
    require_tools,
    step_of,
)
from services.cortex.recorded_tests import end_with_tests, require_repo
from services.cortex.run import Run
from services.cortex.run_state import Query, RunState
from shared import subjects
from shared.agent.context import AgentContext
from shared.contracts import ResultOutcome, Task, TaskPlan, TaskRequest, TaskStatus
from shared.contracts.task import worst_of
from shared.errors import ActionError
from shared.messaging.correspondence import is_email_task
from shared.plans import AgentPage, group_steps, pages_of, plan_of
from shared.tasks.actions import Action, Outcome, register_action
from shared.text.display import count

MAX_DEPTH = (
    2  # Goals within which a task may lie that has no plan of its own any more, as the conductor has it
)


class PlanActions:
    """Makes plans, has the conductor carry them out, and works out tasks within ``work_timeout`` seconds."""

    def __init__(
        self, context: AgentContext, goals: GoalClient, *, default_mode: str, work_timeout: float
    ) -> None:
        self._context = context
        self._goals = goals
        self._default_mode = default_mode
        self._work_timeout = work_timeout

    @functools.cached_property
    def actions(self) -> Mapping[str, Action]:
        """The actions of cortex that can be steps, by name."""
        return step_actions(self._context)

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

    @register_action("Have a plan carried out in the order of its dependencies", {"plan": "A TaskPlan"})
    async def execute_plan(self, plan: dict[str, Any]) -> Outcome:
        """The result of each step in data key ``steps``; fails if a step failed."""
        return await self.carry_out(plan_of(plan, self._context.task.task_id, self._context.profile.name))

    @register_action(
        "Have a single step of a plan carried out",
        {
            "step": "A TaskStep: action, and perhaps a context with assignee, action and params",
            "context": "What earlier steps brought, by their numbers: a text, or output and output_paths",
        },
    )
    async def execute_step(self, step: dict[str, Any], context: dict[str, Any] | None = None) -> Outcome:
        """The result of the step; fails with its reason."""
        made, inputs = step_of(step, context or {})
        alone = build_on(address_step(made, self._context.profile.name, self.actions), inputs)
        (result,) = await self._goals.run_plan((alone,), made.action, "step")
        return Outcome(
            output=result.output,
            data=result.data,
            evidence_refs=result.evidence_refs,
            output_paths=result.output_paths,
            outcome=result.outcome if result.done else ResultOutcome.FAILED,
            problem=result.reason,
        )

    @register_action(
        "Work a task out: think straight away, by plans, or in all stages from perception to memory",
        {
            "task": "What is wanted; empty: the text of the task itself",
            "mode": "simple, reasoning, cognitive, or auto",
            "repo": "Absolute path of the repository it is about; the engineer tests what is changed there",
        },
    )
    async def work_out(self, task: str = "", mode: str = "auto", repo: str = "") -> Outcome:
        """The answer; in data ``mode``, ``confidence``, whether it is ``complete``, what is ``missing``."""
        text = task if task.strip() else self._context.task.text
        asked = msgspec.structs.replace(self._context.task, text=text, context={})
        limit = self._context.models.context_characters // 3
        query = query_of(asked, limit, self._context.current_task.references)
        return await self._work_out(parse_mode(mode), query, repo)

    async def work_out_job(self, text: str, context: Mapping[str, Any], repo: str) -> Outcome:
        """Work out the text of a job, which may be about ``repo``, in the mode that its context names."""
        mode = find_mode(context, self._default_mode)
        return await self._work_out(mode, Query(text=text, whole=text[:MAX_QUERY]), repo, always=True)

    async def work_out_task(self, task: Task) -> Outcome:
        """Work out a task that names no action, with its context, in the mode it names or that fits it."""
        limit = self._context.models.context_characters // 3
        query = query_of(task, limit, self._context.current_task.references)
        mode = find_mode(task.context, self._default_mode)
        params = task.context.get("params")
        repo = params.get("repo") if isinstance(params, Mapping) else ""
        return await self._work_out(mode, query, str(repo or ""), may_rest=is_email_task(task))

    async def carry_out(self, plan: TaskPlan) -> Outcome:
        """Have a plan carried out; raises ActionError before the first step if a tool of it is not there."""
        context, name = self._context, self._context.profile.name
        others = find_needed_agents(plan, name)
        present = pages_of(await context.directory.read()) if others else {}
        require_tools(plan, name, self.actions, present)
        if plan.estimated_duration:
            await context.progress(
                f"{count(len(plan.steps), 'step')}, expected to take {plan.estimated_duration}"
            )
        steps = [address_step(step, name, self.actions) for step in plan.steps]
        return plan_outcome(plan, await self._goals.run_plan(steps, context.task.text, "plan"))

    async def _work_out(
        self, mode: Mode | None, query: Query, repo: str, *, may_rest: bool = False, always: bool = False
    ) -> Outcome:
        """Work out ``query``; without a model always in the cognitive mode, over the steps it spells out."""
        context, name = self._context, self._context.profile.name
        if repo:
            repo = await asyncio.to_thread(require_repo, repo, context.settings)
            told = f"The repository that it is about: {repo}"
            query = msgspec.structs.replace(query, whole="\n\n".join(filter(None, (query.whole, told))))
        if mode is None and (plan := find_spelled_out(query.text, name, self.actions)):
            return await self.carry_out(plan)
        complexity = perceive(query.text).complexity
        mode = mode or MODE_FOR[complexity]
        if not context.models.model.available:
            # Fails here, before memory is asked and stages are published, if no step can be executed.
            plan_without_model(query.text, name, self.actions)
            mode = Mode.COGNITIVE
        elif context.current_task.hops >= MAX_DEPTH:
            mode = Mode.SIMPLE
        others = await self._others()
        try:
            async with asyncio.timeout(self._work_timeout):
                if mode is Mode.SIMPLE:
                    outcome = await answer_simply(context, query, may_rest=may_rest)
                else:
                    state = await RunState.open(context, query, mode)
                    run = Run(context, state, self._goals, self.actions, others)
                    outcome = await (reason(run, complexity) if mode is Mode.REASONING else run.work_out())
                if not repo or outcome.outcome is ResultOutcome.FAILED:
                    return outcome
                return await end_with_tests(self._goals, outcome, repo, always=always)
        except TimeoutError:
            raise ActionError(
                f"It was not worked out within {self._work_timeout:g} s",
                "Ask for less, or raise its work_timeout",
            ) from None

    async def _others(self) -> Mapping[str, AgentPage]:
        """The agents at work that can do steps; none without a model, which alone chooses between them."""
        if not self._context.models.model.available:
            return {}
        pages = pages_of(await self._context.directory.read())
        return {name: page for name, page in pages.items() if name != subjects.CONDUCTOR}

    async def _plan(self, wanted: str | TaskRequest) -> TaskPlan:
        context = self._context
        name, task_id = context.profile.name, context.task.task_id
        named = False
        if isinstance(wanted, TaskRequest):
            text, named, task_id = wanted.task_description, bool(wanted.context.get("action")), wanted.task_id
        else:
            text = wanted
        if named or not context.models.model.available or find_spelled_out(text, name, self.actions):
            return parse_plan(wanted, agent=name, own_actions=self.actions)
        if not text.strip():
            raise ActionError("There is nothing to plan: the text is empty", "Say what is to be done")
        scope = PlanScope(agent=name, actions=self.actions, others=await self._others())
        words = (
            f"Asked:\n<asked>\n{text[:MAX_QUERY]}\n</asked>\n\nPlan how to do it; it is not to be done now."
        )
        return await ask_for_plan(context, words, task_id, scope)


def summarise_results(plan: TaskPlan, results: Sequence[StepResult]) -> str:
    """One sentence: how many steps were completed, why the others were not, and which are not just done."""
    parts = [f"{sum(result.done for result in results)} of {count(len(results), 'step')} completed"]
    for step, result in zip(plan.steps, results, strict=True):
        if not result.done:
            came_to = "skipped" if result.status is TaskStatus.CANCELLED else "failed"
            reason = result.reason.removeprefix("skipped: ").rstrip(".")
            parts.append(f"step {step.step_number} ({step.action[:60]!r}) {came_to}: {reason}")
        elif result.outcome not in (ResultOutcome.DONE, ResultOutcome.NONE):
            came_to, said = result.outcome.replace("_", " "), result.output.strip().partition("\n")[0]
            parts.append(f"step {step.step_number} {came_to}: {said[:200].rstrip('.')}")
    return "; ".join(parts)


def plan_outcome(plan: TaskPlan, results: Sequence[StepResult]) -> Outcome:
    """The outcome of a plan; it failed unless every step completed, and keeps what the others brought."""
    summary, pairs = summarise_results(plan, results), zip(plan.steps, results, strict=True)
    return Outcome(
        output="\n\n".join([summary, *(result.output for result in results if result.output)]),
        data={
            "steps": [_brief(step.step_number, step.action, result) for step, result in pairs],
            **lift([result.data for result in results]),
        },
        evidence_refs=tuple(dict.fromkeys(ref for result in results for ref in result.evidence_refs)),
        output_paths=tuple(dict.fromkeys(path for result in results for path in result.output_paths)),
        outcome=worst_of(result.outcome if result.done else ResultOutcome.FAILED for result in results),
        problem=summary,
    )


def _brief(number: int, action: str, result: StepResult) -> dict[str, Any]:
    return {
        "step_number": number,
        "action": action,
        "status": result.status.value,
        "seconds": result.seconds,
        "output": result.output[:2_000],
        "data": result.data,
    }
