"""A run: the parts of the mind one after another over one workspace."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from services.cortex.cognition import executive, memory
from services.cortex.cognition.evaluation import EvaluationResult, evaluate_by_steps, evaluate_with_model
from services.cortex.cognition.executive import Answer
from services.cortex.cognition.material import Finding, paths, references
from services.cortex.cognition.motor import Motor
from services.cortex.cognition.perception import perceive, perceive_with_model
from services.cortex.cognition.state import State
from services.cortex.colleagues import Colleagues
from services.cortex.draft import Frame
from services.cortex.stepping import Stepper
from shared.agent.context import AgentContext
from shared.contracts import TaskPlan
from shared.errors import ActionError, BusError
from shared.tasks.actions import Outcome

MOST_ITERATIONS = 3
"""How often a run plans and acts before it answers with what it has (the documents this descends from)."""


class Run:
    """One task worked out by ``agent``; another attempt at the task goes on where this one stopped."""

    def __init__(
        self, agent: AgentContext, state: State, stepper: Stepper, colleagues: Colleagues, *, at_once: int
    ) -> None:
        self.agent = agent
        self.state = state
        self.stepper = stepper
        self._with_model = agent.models.model.available
        self._at_once = at_once
        self._frame = Frame(
            agent=agent.profile.name,
            actions=stepper.actions,
            colleagues=colleagues,
            most_steps=executive.MOST_SUBTASKS,
        )

    async def work_out(self) -> Outcome:
        """All stages; raises ActionError where nothing of it could be done, or the model fails."""
        async with self.telling_errors():
            await self.perceive()
            await self.recall()
            await self.plan()
            await self.iterate()
            answer = await self.put_together()
            await self.store()
            return await self.close(answer)

    @asynccontextmanager
    async def telling_errors(self) -> AsyncIterator[None]:
        """Tell the office where the run ends in an error, which is raised on."""
        try:
            yield
        except BusError:
            raise
        except Exception as error:
            await self.state.move("error", str(error) or type(error).__name__)
            raise

    async def close(self, answer: Answer) -> Outcome:
        """End the run with ``answer``."""
        await self.state.move("complete", f"confidence {self.state.context.confidence:.2f}")
        return self._outcome(answer)

    # --- the parts -------------------------------------------------------------------------------

    async def perceive(self) -> None:
        """Understand the query, once."""
        if self.state.context.percept:
            return
        await self.state.move("perception", "understands what is wanted")
        query = self.state.context.original_query
        percept = await perceive_with_model(self.agent, query) if self._with_model else perceive(query)
        self.state.change(percept=msgspec.to_builtins(percept))

    async def recall(self) -> None:
        """Recall what memory knows about the query, once."""
        if self.state.context.memory_cache:
            return
        await self.state.move("memory_retrieval", "recalls what is known about it")
        cache = await memory.recall(self.agent, self.state.context.original_query)
        self.state.change(memory_cache=cache, episodic_memories=tuple(cache["episodic"]))

    async def plan(self, hints: Sequence[str] = (), most_steps: int = executive.MOST_SUBTASKS) -> None:
        """Make the plan, once: as the query spells it out, else by the model."""
        context = self.state.context
        self._frame = msgspec.structs.replace(self._frame, most_steps=most_steps)
        if context.current_plan:
            return
        await self.state.move("planning", "plans")
        own_name, own_actions = self.agent.profile.name, self.stepper.actions
        plan = executive.find_spelled_out(context.original_query, own_name, own_actions)
        if plan is None and self._with_model:
            plan = await executive.plan_with_model(self.agent, context, self._frame, hints)
        elif plan is None:
            plan = executive.plan_from_steps(context.original_query, own_name, own_actions)
        await self.state.keep(f"planned: {_tell(plan)}", current_plan=plan.to_dict())

    async def iterate(self, most: int = MOST_ITERATIONS) -> None:
        """Act, evaluate and adjust the plan until it is complete or nothing new is tried, ``most`` times."""
        while self.state.context.iteration_count < most:
            iteration = self.state.context.iteration_count + 1
            await self.state.move("execution", f"iteration {iteration} of at most {most}")
            await self._act(iteration)
            evaluation = await self._evaluate()
            await self.state.judge(evaluation, iteration)
            if evaluation.holds() or not self._with_model or iteration == most:
                return
            if not await self._adjust(evaluation):
                return

    async def put_together(self) -> Answer:
        """The answer; raises ActionError where nothing could be done."""
        state = self.state
        findings = state.findings
        if not any(finding.done for finding in findings):
            reasons = "; ".join(f"{finding.action}: {finding.reason}" for finding in findings)
            raise ActionError(f"Nothing of it could be done: {reasons[:1_500] or 'nothing was tried'}")
        await state.move("synthesis", "puts the answer together")
        if self._with_model:
            answer = await executive.synthesise(self.agent, state.context, findings)
        else:
            recalled = state.context.memory_cache
            known = memory.describe(recalled) if memory.known_ids(recalled) else ""
            answer = executive.list_findings(findings, known)
        if not state.is_complete:
            missing = executive.tell_missing(state.evaluation, state.context.iteration_count)
            answer = msgspec.structs.replace(answer, answer=f"{answer.answer}\n\n{missing}")
        state.change(answer=answer.answer)
        return answer

    async def store(self) -> None:
        """Remember the episode."""
        await self.state.move("memory_storage", "remembers how it went")
        problem = await memory.store_episode(self.agent, self.state.context, complete=self.state.is_complete)
        if problem:
            await self.agent.progress(f"not remembered: {problem}")

    # --- how they do it --------------------------------------------------------------------------

    def _motor(self) -> Motor:
        state = self.state
        return Motor(self.stepper, state.known, state.keep_finding, at_once=self._at_once, level=state.level)

    async def _act(self, iteration: int) -> None:
        plan = TaskPlan.from_dict(self.state.context.current_plan or {})
        for finding in await self._motor().execute(plan, iteration):
            if not finding.done:
                self.state.add(finding)

    async def _evaluate(self) -> EvaluationResult:
        if not self._with_model:
            return evaluate_by_steps(self.state.findings)
        query = self.state.context.user_query
        return await evaluate_with_model(self.agent, query, self.state.findings)

    async def _adjust(self, evaluation: EvaluationResult) -> bool:
        """Plan what is missing; False where that is nothing that was not done before."""
        state = self.state
        await state.move("planning", "adjusts the plan")
        plan = await executive.adjust_plan(self.agent, state.context, state.findings, evaluation, self._frame)
        motor = self._motor()
        if all(not step.dependencies and self._was_done(motor, step) for step in plan.steps):
            return False
        await state.keep(f"planned anew: {_tell(plan)}", current_plan=plan.to_dict())
        return True

    def _was_done(self, motor: Motor, step: Any) -> bool:
        try:
            return motor.is_done(self.stepper.prepare(step, {}))
        except ActionError:
            return False

    def _outcome(self, answer: Answer) -> Outcome:
        state, findings = self.state, self.state.findings
        missing = {} if state.is_complete else {"missing": list(state.evaluation.missing_aspects)}
        problem = state.context.memory_cache.get("problem")
        return Outcome(
            output=answer.answer,
            data={
                "mode": state.context.mode,
                "model": self._with_model,
                "complete": state.is_complete,
                "confidence": state.evaluation.confidence,
                "iterations": state.context.iteration_count,
                "steps": [_brief(finding) for finding in findings],
                **missing,
                **({"memory": problem} if problem else {}),
            },
            evidence_refs=answer.evidence or references(findings),
            output_paths=paths(findings),
        )


def _tell(plan: TaskPlan) -> str:
    return "; ".join(f"{step.step_number}. {' '.join(step.action.split())[:60]}" for step in plan.steps)


def _brief(finding: Finding) -> dict[str, Any]:
    return {
        "action": finding.action,
        "by": finding.by,
        "done": finding.done,
        "reason": finding.reason,
        "output": finding.output[:1_000],
    }
