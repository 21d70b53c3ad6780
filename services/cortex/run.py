"""A run works out what nobody spelled out: perceive, recall, plan, act, conclude, remember."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec

from services.cortex import perception
from services.cortex.goals import LIFTED, GoalClient, StepResult, lift
from services.cortex.model_plans import (
    MAX_SUBTASKS,
    PlanScope,
    adjust_plan,
    find_spelled_out,
    plan_run,
    plan_without_model,
)
from services.cortex.perception import perceive
from services.cortex.plan_parser import address_step, build_on, call_in
from services.cortex.run_state import (
    FAILED,
    MAX_KEPT,
    Answer,
    Evaluation,
    Finding,
    RunState,
    call_digest,
    conclude,
    evaluate_by_steps,
    format_missing,
    list_findings,
    paths,
    references,
)
from shared.agent.context import AgentContext
from shared.contracts import ResultOutcome, TaskPlan, TaskStep
from shared.contracts.task import worst_of
from shared.errors import ActionError, BusError
from shared.plans import AgentPage, StepOutput, group_steps
from shared.skills.mentions import open_mentions
from shared.tasks.actions import Action, Outcome

MAX_ITERATIONS = 3  # How often a run plans and acts before it answers with what it has
MAX_CRITERIA = 20  # The most criteria of success of a plan that are judged one by one


class Todo(NamedTuple):
    """What is left of a plan: ``steps`` to be carried out; ``done`` is what equal calls brought before."""

    steps: tuple[TaskStep, ...]
    done: Mapping[int, Finding]


class Run:
    """One task worked out in stages; another attempt at the task continues where this one stopped."""

    def __init__(
        self,
        context: AgentContext,
        state: RunState,
        goals: GoalClient,
        actions: Mapping[str, Action],
        others: Mapping[str, AgentPage],
    ) -> None:
        self.context = context
        self.state = state
        self._goals = goals
        self._with_model = context.models.model.available
        self._name = context.profile.name
        self._scope = PlanScope(agent=self._name, actions=actions, others=others)

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
        """Read the query, once, by rules: the model that plans reads it anyway."""
        if self.state.workspace.percept:
            return
        await self.state.enter("perception", "understands what is wanted")
        self.state.change(percept=msgspec.to_builtins(perceive(self.state.workspace.original_query)))

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
        plan = find_spelled_out(workspace.original_query, self._name, self._scope.actions)
        if plan is None and self._with_model:
            plan = await plan_run(self.context, workspace, self._scope, hints)
        elif plan is None:
            plan = plan_without_model(workspace.original_query, self._name, self._scope.actions)
        await self.state.save(f"planned: {_format(plan)}", current_plan=plan.to_dict())

    async def iterate(self, limit: int = MAX_ITERATIONS) -> None:
        """Act, conclude and adjust the plan, at most ``limit`` times, until it is complete."""
        state = self.state
        while not state.is_complete and state.workspace.iteration_count < limit:
            iteration = state.workspace.iteration_count + 1
            await state.enter("execution", f"iteration {iteration} of at most {limit}")
            await self._carry_out(TaskPlan.from_dict(state.workspace.current_plan or {}), iteration)
            await state.apply_evaluation(await self._conclude(), iteration)
            if state.is_complete or not self._with_model or iteration == limit:
                return
            if not await self._adjust():
                return

    async def synthesise(self) -> Answer:
        """The answer from the findings; raises ActionError if no step could be done."""
        state, findings = self.state, self.state.findings
        if not any(finding.done for finding in findings):
            reasons = "; ".join(f"{finding.action}: {finding.reason}" for finding in findings)
            raise ActionError(f"Nothing of it could be done: {reasons[:1_500] or 'nothing was tried'}")
        await state.enter("synthesis", "puts the answer together")
        given = state.evaluation
        known = perception.known_ids(state.workspace)
        if given.answer:
            held = {*references(findings), *known}
            answer = Answer(answer=given.answer, evidence=tuple(ref for ref in given.evidence if ref in held))
        else:
            answer = list_findings(findings, perception.format_memories(state.workspace) if known else "")
        parts = [answer.answer]
        if not state.is_complete:
            parts.append(format_missing(given, state.workspace.iteration_count))
        answer = msgspec.structs.replace(answer, answer="\n\n".join(parts))
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

    async def _carry_out(self, plan: TaskPlan, iteration: int) -> None:
        """Have what is left of the plan carried out as a goal; what each step brought becomes a finding.

        A call whose finding still holds is not made again in this run.
        """
        state, level = self.state, self.state.level
        todo = self._leave_out_done(plan)
        for number, done in todo.done.items():
            state.add(msgspec.structs.replace(done, iteration=iteration, step=number, level=level))
        key = f"{level[:1]}i{iteration}"
        results: Sequence[StepResult] = ()
        if todo.steps:
            results = await self._goals.run_plan(todo.steps, state.workspace.original_query, key)
        made = list(zip(todo.steps, results, strict=True))
        outputs = {number: _output_of(done) for number, done in todo.done.items()}
        outputs |= {step.step_number: result for step, result in made if result.done}
        for step, result in made:
            brought = {other: outputs[other] for other in step.dependencies if other in outputs}
            digest = call_digest(call_in(build_on(step, brought))) if result.done else ""
            state.add(_finding_of(step, result, iteration, level, digest))
        await state.save(f"done: {'; '.join(step.action for step, result in made if result.done)}")

    def _leave_out_done(self, plan: TaskPlan) -> Todo:
        """What is left of ``plan``; references to what was done are filled in."""
        steps, done = {step.step_number: step for step in plan.steps}, dict[int, Finding]()
        left: list[TaskStep] = []
        for number in (number for group in group_steps(plan.steps) for number in group):
            step = address_step(steps[number], self._name, self._scope.actions)
            known = {other: _output_of(done[other]) for other in step.dependencies if other in done}
            ready = build_on(step, known)
            if not ready.dependencies and (earlier := self.state.find_earlier(call_in(ready))):
                done[number] = earlier
            else:
                left.append(ready)
        return Todo(tuple(sorted(left, key=lambda step: step.step_number)), done)

    async def _conclude(self) -> Evaluation:
        """How complete the work is, with an answer if a model can give one."""
        findings = self.state.findings
        if not self._with_model or not any(finding.done for finding in findings):
            return evaluate_by_steps(findings)
        workspace = self.state.workspace
        plan = TaskPlan.from_dict(workspace.current_plan or {})
        stated = [step.success_criteria.strip() for step in plan.steps if step.success_criteria.strip()]
        recalled = perception.format_memories(workspace)
        return await conclude(
            self.context, workspace.user_query, findings, stated[:MAX_CRITERIA], recalled=recalled
        )

    async def _adjust(self) -> bool:
        """Plan what is missing; False if the plan has only steps that were done before."""
        state = self.state
        await state.enter("planning", "adjusts the plan")
        plan = await adjust_plan(self.context, state.workspace, state.findings, state.evaluation, self._scope)
        if not self._leave_out_done(plan).steps:
            return False
        await state.save(f"planned again: {_format(plan)}", current_plan=plan.to_dict())
        return True

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
                **lift([finding.data for finding in state.all_findings]),
                **missing,
                **({"memory": problem} if problem else {}),
            },
            evidence_refs=answer.evidence or references(findings),
            output_paths=paths(findings),
            outcome=came_to,
            problem=format_missing(state.evaluation, state.workspace.iteration_count),
        )


def _finding_of(step: TaskStep, result: StepResult, iteration: int, level: str, digest: str) -> Finding:
    return Finding(
        digest=digest,
        iteration=iteration,
        step=step.step_number,
        level=level,
        action=" ".join(step.action.split())[:300],
        by=result.agent,
        done=result.done,
        reason=result.reason[:1_000],
        output=result.output[:MAX_KEPT],
        data={name: value for name, value in result.data.items() if name in LIFTED},
        evidence_refs=result.evidence_refs,
        output_paths=result.output_paths,
        outcome=result.outcome,
    )


def _output_of(finding: Finding) -> StepOutput:
    return StepOutput(output=finding.output, output_paths=finding.output_paths)


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
