"""Execution: the steps of a plan, each as soon as those it waits for are done."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Any

from services.cortex.call import Material
from services.cortex.order import sort_steps
from shared.contracts import TaskPlan, TaskStep
from shared.errors import BusError
from shared.tasks.actions import Outcome


class StepStatus(StrEnum):
    """How a step ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"


class StepResult(Material, frozen=True, kw_only=True):
    """How one step went; ``reason`` says why it failed or was skipped, ``seconds`` how long it took."""

    step_number: int
    action: str
    status: StepStatus
    reason: str = ""
    data: dict[str, Any] = {}
    evidence_refs: tuple[str, ...] = ()
    seconds: float = 0.0


ExecuteStep = Callable[[TaskStep, Mapping[int, StepResult]], Awaitable[Outcome]]
"""Does one step, given the results of the steps it waited for; whatever it raises fails the step."""


async def execute_plan(
    plan: TaskPlan, execute_step: ExecuteStep, *, at_once: int = 4
) -> tuple[StepResult, ...]:
    """Do the steps of ``plan``, up to ``at_once`` at a time; the results stand in the order of the plan.

    What depends on a step that failed is skipped with the reason; everything else is done all the same.
    Raises what the bus raises: a plan whose task was lost to another process goes no further.
    """
    sorter = sort_steps(plan.steps)
    steps = {step.step_number: step for step in plan.steps}
    slots = asyncio.Semaphore(at_once)
    results: dict[int, StepResult] = {}
    running: set[asyncio.Task[StepResult]] = set()
    try:
        while sorter.is_active():
            for number in sorted(sorter.get_ready()):
                inputs = {other: results[other] for other in steps[number].dependencies}
                running.add(asyncio.create_task(_do(steps[number], inputs, execute_step, slots)))
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                result = task.result()
                results[result.step_number] = result
                sorter.done(result.step_number)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    return tuple(results[step.step_number] for step in plan.steps)


async def _do(
    step: TaskStep, inputs: Mapping[int, StepResult], execute_step: ExecuteStep, slots: asyncio.Semaphore
) -> StepResult:
    undone = [result for result in inputs.values() if result.status is not StepStatus.COMPLETED]
    if undone:
        reason = "; ".join(f"step {result.step_number} {_fate(result)}" for result in undone)
        return _end(step, StepStatus.SKIPPED, reason=reason)
    async with slots:
        started = time.monotonic()
        try:
            outcome = await execute_step(step, inputs)
        except BusError:
            raise
        except Exception as error:
            reason = str(error) or type(error).__name__
            return _end(step, StepStatus.FAILED, reason=reason, seconds=round(time.monotonic() - started, 3))
        return _end(
            step,
            StepStatus.COMPLETED,
            output=outcome.output,
            data=outcome.data,
            evidence_refs=outcome.evidence_refs,
            output_paths=outcome.output_paths,
            seconds=round(time.monotonic() - started, 3),
        )


def _fate(result: StepResult) -> str:
    return "failed" if result.status is StepStatus.FAILED else "was skipped"


def _end(step: TaskStep, status: StepStatus, **more: Any) -> StepResult:
    return StepResult(step_number=step.step_number, action=step.action, status=status, **more)
