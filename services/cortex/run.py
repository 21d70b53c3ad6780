"""A run works out what nobody spelled out: perceive, recall, plan, act, evaluate, synthesise, remember."""

import functools
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from services.cortex import perception
from services.cortex.perception import perceive, perceive_with_model
from services.cortex.plan_execution import StepResult, StepRunner, StepStatus, execute_plan
from services.cortex.planner import (
    MAX_SUBTASKS,
    PlanScope,
    adjust_plan,
    find_spelled_out,
    plan_run,
    plan_without_model,
)
from services.cortex.run_state import (
    FAILED,
    MAX_KEPT,
    Answer,
    EvaluationResult,
    Finding,
    RunState,
    call_digest,
    evaluate_by_steps,
    evaluate_with_model,
    format_missing,
    list_findings,
    paths,
    references,
    synthesise,
)
from shared.agent.context import AgentContext
from shared.contracts import ResultOutcome, TaskPlan, TaskStep
from shared.contracts.task import worst_of
from shared.errors import ActionError, BusError
from shared.plans import AgentPage
from shared.skills.mentions import open_mentions
from shared.tasks.actions import Outcome

MAX_ITERATIONS = 3  # How often a run plans and acts before it answers with what it has
MAX_CRITERIA = 20  # The most criteria of success of a plan that are judged one by one


class Run:
    """One task worked out in stages; another attempt at the task continues where this one stopped."""

    def __init__(
        self,
        context: AgentContext,
        state: RunState,
        steps: StepRunner,
        others: Mapping[str, AgentPage],
        max_parallel: int,
    ) -> None:
        self.context = context
        self.state = state
        self.steps = steps
        self._with_model = context.models.model.available
        self._max_parallel = max_parallel
        self._scope = PlanScope(agent=context.profile.name, actions=steps.actions, others=others)

    async def work_out(self) -> Outcome:
        """All stages; raises ActionError if no step could be done, or the model fails."""
        async with self.recording_errors():
            await self.perceive()
            await self.recall()
            await self.plan()
            await self.iterate()
            answer = await self.synthesise()
            await self.store()
            return await self.close(answer)

    @asynccontextmanager
    async def recording_errors(self) -> AsyncIterator[None]:
        """Record an error that ends the run, and raise it again."""
        try:
            yield
        except BusError:
            raise
        except Exception as error:
            await self.state.enter(FAILED, str(error) or type(error).__name__)
            raise

    async def close(self, answer: Answer) -> Outcome:
        """End the run with ``answer``."""
        await self.state.enter("complete", f"confidence {self.state.workspace.confidence:.2f}")
        return self._outcome(answer)

    # --- the parts -------------------------------------------------------------------------------

    async def perceive(self) -> None:
        """Understand the query, once."""
        if self.state.workspace.percept:
            return
        await self.state.enter("perception", "understands what is wanted")
        query = self.state.workspace.original_query
        percept = await perceive_with_model(self.context, query) if self._with_model else perceive(query)
        self.state.change(percept=msgspec.to_builtins(percept))

    async def recall(self) -> None:
        """Recall what memory holds about the query, once; another attempt has the facts of it again."""
        if known := self.state.workspace.memory_cache:
            self.context.current_task.facts.update(known.get("facts", {}))
            return
        await self.state.enter("memory_retrieval", "recalls what is known about it")
        cache = await perception.recall(self.context, self.state.workspace.original_query)
        query, task = self.state.workspace.original_query, self.context.task
        cache["mentioned"] = await open_mentions(query, task, self.context.settings, self.context.memory)
        self.state.change(episodic_memories=tuple(cache.pop("episodic")), memory_cache=cache)

    async def plan(self, hints: Sequence[str] = (), max_steps: int = MAX_SUBTASKS) -> None:
        """Make the plan, once: as the query spells it out, else with the model."""
        workspace = self.state.workspace
        self._scope = msgspec.structs.replace(self._scope, max_steps=max_steps)
        if workspace.current_plan:
            return
        await self.state.enter("planning", "plans")
        own_name, own_actions = self.context.profile.name, self.steps.actions
        plan = find_spelled_out(workspace.original_query, own_name, own_actions)
        if plan is None and self._with_model:
            plan = await plan_run(self.context, workspace, self._scope, hints)
        elif plan is None:
            plan = plan_without_model(workspace.original_query, own_name, own_actions)
        await self.state.save(f"planned: {_format(plan)}", current_plan=plan.to_dict())

    async def iterate(self, limit: int = MAX_ITERATIONS) -> None:
        """Act, evaluate and adjust the plan, at most ``limit`` times, until it is complete."""
        while self.state.workspace.iteration_count < limit:
            iteration = self.state.workspace.iteration_count + 1
            await self.state.enter("execution", f"iteration {iteration} of at most {limit}")
            plan = TaskPlan.from_dict(self.state.workspace.current_plan or {})
            execute = functools.partial(self._execute, iteration)
            for result in await execute_plan(plan, execute, max_parallel=self._max_parallel):
                if result.status is not StepStatus.COMPLETED:
                    self.state.add(_failure(result, iteration, self.state.level))
            evaluation = await self._evaluate()
            await self.state.apply_evaluation(evaluation, iteration)
            if evaluation.holds() or not self._with_model or iteration == limit:
                return
            if not await self._adjust(evaluation):
                return

    async def synthesise(self) -> Answer:
        """The answer from the findings; raises ActionError if no step could be done."""
        state = self.state
        findings = state.findings
        if not any(finding.done for finding in findings):
            reasons = "; ".join(f"{finding.action}: {finding.reason}" for finding in findings)
            raise ActionError(f"Nothing of it could be done: {reasons[:1_500] or 'nothing was tried'}")
        await state.enter("synthesis", "puts the answer together")
        known = perception.known_ids(state.workspace)
        if self._with_model:
            recalled, query = perception.format_memories(state.workspace), state.workspace.user_query
            answer = await synthesise(self.context, query, findings, recalled, known)
        else:
            answer = list_findings(findings, perception.format_memories(state.workspace) if known else "")
        if not state.is_complete:
            missing = format_missing(state.evaluation, state.workspace.iteration_count)
            answer = msgspec.structs.replace(answer, answer=f"{answer.answer}\n\n{missing}")
        state.change(answer=answer.answer)
        return answer

    async def store(self) -> None:
        """Store the episode in memory."""
        await self.state.enter("memory_storage", "remembers how it went")
        problem = await perception.store_episode(
            self.context, self.state.workspace, complete=self.state.is_complete
        )
        if problem:
            await self.context.progress(f"not remembered: {problem}")

    # --- how they do it --------------------------------------------------------------------------

    async def _execute(self, iteration: int, step: TaskStep, inputs: Mapping[int, StepResult]) -> Outcome:
        """Do a step, unless it, or an equal call whose finding still holds, was done in this run before."""
        call = self.steps.prepare(step, inputs)
        digest, level = call_digest(call), self.state.level
        finding = self.state.find(digest, (level, iteration, step.step_number))
        if finding is None:
            if earlier := self.state.find_earlier(call):
                outcome = _outcome_of(earlier)
            else:
                key = f"{level[:1]}i{iteration}-{step.step_number}-{digest}"
                outcome = await self.steps.carry_out(call, text=step.action, key=key)
            if outcome.outcome is ResultOutcome.FAILED:
                return outcome
            finding = Finding(
                digest=digest,
                iteration=iteration,
                step=step.step_number,
                level=level,
                action=" ".join(step.action.split())[:300],
                by=call.assignee,
                done=True,
                output=outcome.output[:MAX_KEPT],
                evidence_refs=outcome.evidence_refs[:100],
                output_paths=outcome.output_paths[:100],
                outcome=outcome.outcome,
            )
            await self.state.save_finding(finding)
        return _outcome_of(finding)

    async def _evaluate(self) -> EvaluationResult:
        if not self._with_model:
            return evaluate_by_steps(self.state.findings)
        workspace = self.state.workspace
        plan = TaskPlan.from_dict(workspace.current_plan or {})
        stated = [step.success_criteria.strip() for step in plan.steps if step.success_criteria.strip()]
        return await evaluate_with_model(
            self.context, workspace.user_query, self.state.findings, stated[:MAX_CRITERIA]
        )

    async def _adjust(self, evaluation: EvaluationResult) -> bool:
        """Plan what is missing; False if the plan has only steps that were done before."""
        state = self.state
        await state.enter("planning", "adjusts the plan")
        plan = await adjust_plan(self.context, state.workspace, state.findings, evaluation, self._scope)
        if all(not step.dependencies and self._was_done(step) for step in plan.steps):
            return False
        await state.save(f"planned again: {_format(plan)}", current_plan=plan.to_dict())
        return True

    def _was_done(self, step: TaskStep) -> bool:
        try:
            return self.state.find_earlier(self.steps.prepare(step, {})) is not None
        except ActionError:
            return False

    def _outcome(self, answer: Answer) -> Outcome:
        """The answer as an outcome: failed if it lacks a failed step, not checked if incomplete."""
        state, findings = self.state, self.state.findings
        came_to = worst_of(finding.outcome for finding in findings)
        if not state.is_complete:
            undone = any(not finding.done for finding in findings)
            came_to = ResultOutcome.FAILED if undone else ResultOutcome.NOT_CHECKED
        missing = {} if state.is_complete else {"missing": list(state.evaluation.missing_aspects)}
        problem = state.workspace.memory_cache.get("problem")
        return Outcome(
            output=answer.answer,
            data={
                "mode": state.workspace.mode,
                "model": self._with_model,
                "complete": state.is_complete,
                "confidence": state.evaluation.confidence,
                "iterations": state.workspace.iteration_count,
                "steps": [_brief(finding) for finding in findings],
                "criteria": msgspec.to_builtins(state.evaluation.criteria),
                **missing,
                **({"memory": problem} if problem else {}),
            },
            evidence_refs=answer.evidence or references(findings),
            output_paths=paths(findings),
            outcome=came_to,
            problem=format_missing(state.evaluation, state.workspace.iteration_count),
        )


def _failure(result: StepResult, iteration: int, level: str) -> Finding:
    reason = result.reason if result.status is StepStatus.FAILED else f"not tried: {result.reason}"
    return Finding(
        digest="",
        iteration=iteration,
        step=result.step_number,
        level=level,
        action=" ".join(result.action.split())[:300],
        by="",
        done=False,
        reason=reason[:1_000],
    )


def _outcome_of(finding: Finding) -> Outcome:
    return Outcome(
        output=finding.output,
        evidence_refs=finding.evidence_refs,
        output_paths=finding.output_paths,
        outcome=finding.outcome,
    )


def _format(plan: TaskPlan) -> str:
    return "; ".join(f"{step.step_number}. {' '.join(step.action.split())[:60]}" for step in plan.steps)


def _brief(finding: Finding) -> dict[str, Any]:
    return {
        "action": finding.action,
        "by": finding.by,
        "done": finding.done,
        "reason": finding.reason,
        "output": finding.output[:1_000],
    }
