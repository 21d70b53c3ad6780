"""Execution: dependencies are honoured, failures stay where they are."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from services.cortex.plan_actions import format_report, plan_outcome, summarise_results
from services.cortex.plan_execution import StepResult, StepStatus, execute_plan
from services.cortex.plan_parser import parse_plan, plan_of
from shared.contracts import ResultOutcome, TaskStep
from shared.errors import ActionError, Conflict
from shared.tasks.actions import Outcome

DIAMOND = "- a\n- b (after 1)\n- c (after 1)\n- d (after 2 and 3)\n- e"


class Worker:
    """Does steps and remembers when each began and ended."""

    def __init__(self, failing: Mapping[str, Exception] | None = None, seconds: float = 0.0) -> None:
        self.failing = failing or {}
        self.seconds = seconds
        self.events: list[str] = []
        self.at_work = self.most_at_work = 0

    async def __call__(self, step: TaskStep, inputs: Mapping[int, StepResult]) -> Outcome:
        self.events.append(f"+{step.action}")
        self.at_work += 1
        self.most_at_work = max(self.most_at_work, self.at_work)
        await asyncio.sleep(self.seconds)
        self.at_work -= 1
        if step.action in self.failing:
            raise self.failing[step.action]
        self.events.append(f"-{step.action}")
        return Outcome(output=f"{step.action} after {sorted(inputs)}", evidence_refs=(step.action,))


async def test_each_step_begins_when_what_it_waits_for_is_done() -> None:
    worker = Worker(seconds=0.01)
    results = await execute_plan(parse_plan(DIAMOND), worker)
    assert [result.step_number for result in results] == [1, 2, 3, 4, 5]
    assert all(result.status is StepStatus.COMPLETED for result in results)
    assert results[3].output == "d after [2, 3]"
    events = worker.events
    assert events.index("-a") < events.index("+b")
    assert events.index("+c") < events.index("-b")
    assert max(events.index("-b"), events.index("-c")) < events.index("+d")
    assert events.index("+e") < events.index("-a")


async def test_no_more_steps_are_at_work_than_allowed() -> None:
    worker = Worker(seconds=0.005)
    await execute_plan(parse_plan("\n".join(f"- step {n}" for n in range(9))), worker, max_parallel=3)
    assert worker.most_at_work == 3


async def test_what_depends_on_a_failed_step_is_skipped_and_the_rest_done() -> None:
    worker = Worker(failing={"b": ActionError("The disk is full", "Make room")})
    plan = parse_plan(DIAMOND + "\n- f (after 4)")
    results = {result.action: result for result in await execute_plan(plan, worker)}
    assert {name: result.status.value for name, result in results.items()} == {
        "a": "completed",
        "b": "failed",
        "c": "completed",
        "d": "skipped",
        "e": "completed",
        "f": "skipped",
    }
    assert results["b"].reason == "The disk is full. Make room"
    assert results["d"].reason == "step 2 failed"
    assert results["f"].reason == "step 4 was skipped"
    assert "+d" not in worker.events


async def test_an_unforeseen_error_fails_its_step_alone() -> None:
    results = await execute_plan(parse_plan("- a\n- b"), Worker(failing={"a": ValueError()}))
    assert [(result.status.value, result.reason) for result in results] == [
        ("failed", "ValueError"),
        ("completed", ""),
    ]


async def test_a_lost_claim_ends_the_plan() -> None:
    worker = Worker(failing={"a": Conflict("taken over")}, seconds=0.01)
    with pytest.raises(Conflict):
        await execute_plan(parse_plan("- a\n- b\n- c (after 1)\n- d (after 2)"), worker)
    assert "+d" not in worker.events


async def test_cancelling_ends_the_steps_at_work() -> None:
    worker = Worker(seconds=30)
    running = asyncio.create_task(execute_plan(parse_plan("- a\n- b"), worker))
    await asyncio.sleep(0.05)
    assert worker.at_work == 2
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(asyncio.all_tasks()) == 1


def test_a_circle_is_refused_by_name() -> None:
    steps = [
        {"step_number": 1, "action": "a"},
        {"step_number": 2, "action": "b", "dependencies": [3]},
        {"step_number": 3, "action": "c", "dependencies": [2]},
    ]
    with pytest.raises(ActionError, match=r"2 \('b'\) waits for 3 \('c'\)"):
        plan_of({"steps": steps}, "t1", "cortex")


async def test_the_report_tells_of_every_step() -> None:
    plan = parse_plan("a; b; c")
    results = await execute_plan(plan, Worker(failing={"b": ActionError("No such page", "Try another")}))
    assert summarise_results(results) == (
        "1 of 3 steps completed; step 2 ('b') failed: No such page. Try another; "
        "step 3 ('c') skipped: step 2 failed"
    )
    text = format_report(plan, results, 1.0)
    for words in (
        "## 1. a",
        "a after []",
        "## 2. b",
        "Failed after 0.0 s. No such page",
        "Skipped after 0.0 s.",
    ):
        assert words in text


async def test_a_step_whose_action_failed_fails_and_an_unchecked_one_is_not_done(tmp_path: Path) -> None:
    ways = {
        "fails": Outcome(output="said", outcome=ResultOutcome.FAILED, problem="`x` ended with exit code 3"),
        "open": Outcome(output="There is no Go here.\nMore", outcome=ResultOutcome.NOT_CHECKED),
        "fine": Outcome(output="x"),
    }

    async def execute(step: TaskStep, _: Mapping[int, StepResult]) -> Outcome:
        return ways[step.action]

    failed = await execute_plan(parse_plan("- fails\n- fine"), execute)
    assert [(each.status, each.reason) for each in failed] == [
        (StepStatus.FAILED, "`x` ended with exit code 3"),
        (StepStatus.COMPLETED, ""),
    ]
    with pytest.raises(ActionError, match=r"1 of 2 steps completed; step 1 \('fails'\) failed: `x` ended"):
        plan_outcome(failed, tmp_path / "report.md")
    unsure = plan_outcome(await execute_plan(parse_plan("- open\n- fine"), execute), tmp_path / "report.md")
    assert unsure.outcome is ResultOutcome.NOT_CHECKED
    first = unsure.output.partition("\n")[0]
    assert first == "2 of 2 steps completed; step 1 not checked: There is no Go here"
    done = plan_outcome(await execute_plan(parse_plan("- fine\n- fine"), execute), tmp_path / "report.md")
    assert done.outcome is ResultOutcome.DONE
