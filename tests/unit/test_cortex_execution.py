"""What plans came to: summaries, outcomes, and what of the steps is said of the whole."""

from pathlib import Path

import pytest

from services.cortex.goals import StepResult, lift
from services.cortex.plan_actions import plan_outcome, summarise_results
from services.cortex.plan_parser import address_step, build_on, call_in, parse_plan
from services.cortex.recorded_tests import plan_tests
from shared.contracts import ResultOutcome, TaskStatus, TaskStep
from shared.errors import ActionError
from shared.plans import StepOutput, plan_of, step_name


def brought(number: int, **more: object) -> StepResult:
    done = {"status": TaskStatus.COMPLETED, "outcome": ResultOutcome.DONE}
    return StepResult(name=step_name(number), **{**done, **more})  # type: ignore[arg-type]


def failed(number: int, reason: str, status: TaskStatus = TaskStatus.FAILED) -> StepResult:
    return brought(number, status=status, outcome=ResultOutcome.FAILED, reason=reason)


def test_a_circle_is_refused_by_name() -> None:
    steps = [
        {"step_number": 1, "action": "a"},
        {"step_number": 2, "action": "b", "dependencies": [3]},
        {"step_number": 3, "action": "c", "dependencies": [2]},
    ]
    with pytest.raises(ActionError, match=r"2 \('b'\) waits for 3 \('c'\)"):
        plan_of({"steps": steps}, "t1", "cortex")


def test_the_summary_tells_of_every_step_that_is_not_just_done() -> None:
    plan = parse_plan("a; b; c; d")
    skipped = failed(3, "skipped: it needs 'step-2', which ended as failed", TaskStatus.CANCELLED)
    open_ = brought(4, outcome=ResultOutcome.NOT_CHECKED, output="There is no Go here.\nMore")
    results = [brought(1), failed(2, "No such page. Try another"), skipped, open_]
    assert summarise_results(plan, results) == (
        "2 of 4 steps completed; step 2 ('b') failed: No such page. Try another; "
        "step 3 ('c') skipped: it needs 'step-2', which ended as failed; "
        "step 4 not checked: There is no Go here"
    )


def test_a_plan_fails_with_a_step_and_keeps_what_the_others_brought() -> None:
    plan = parse_plan("a; b")
    kept = brought(1, output="found", output_paths=("/o/a",), evidence_refs=("memory:1",))
    outcome = plan_outcome(plan, [kept, failed(2, "broken")])
    assert outcome.outcome is ResultOutcome.FAILED
    assert outcome.problem.startswith("1 of 2 steps completed; step 2 ('b') failed: broken")
    assert (outcome.output_paths, outcome.evidence_refs) == (("/o/a",), ("memory:1",))
    assert outcome.output.endswith("\n\nfound")
    worse = brought(2, outcome=ResultOutcome.NOT_CHECKED)
    assert plan_outcome(plan, [kept, worse]).outcome is ResultOutcome.NOT_CHECKED
    assert plan_outcome(plan, [kept, brought(2)]).outcome is ResultOutcome.DONE


def test_what_steps_changed_and_tested_is_that_of_the_plan() -> None:
    change = {"patches": ["/o/a.patch"], "patch_targets": [{"path": "/o/a.patch", "folder": "/srv/a"}]}
    results = [brought(1, data=change), brought(2, data={"tests": {"passed": 3}, "patches": ["/o/b.patch"]})]
    for each, command in zip(results, ("ls", "make"), strict=True):
        each.data["commands"] = [{"command": command, "exit_code": 0}]
    data = plan_outcome(parse_plan("a; b"), results).data
    assert [run["command"] for run in data["commands"]] == ["ls", "make"]
    assert data["patches"] == ["/o/a.patch", "/o/b.patch"]
    assert data["patch_targets"] == change["patch_targets"]
    assert data["tests"] == {"passed": 3}


def test_of_the_patches_for_a_folder_the_last_counts() -> None:
    def change(path: str) -> dict[str, object]:
        return {"patches": [path], "patch_targets": [{"path": path, "folder": "/srv/a"}]}

    merged = lift(
        [change("/o/a.patch"), change("/o/b.patch"), {"tests": {"passed": 1}, **change("/o/m.patch")}]
    )
    assert merged == {"tests": {"passed": 1}, **change("/o/m.patch")}


def test_tests_are_run_with_what_was_changed_since_the_last_run(tmp_path: Path) -> None:
    patch = tmp_path / "a.patch"
    patch.write_text("--- a\n+++ b\n")
    changed = {"patch_targets": [{"path": str(patch), "folder": "/srv/a"}]}
    tried = plan_tests("/srv/a", [{"tests": {"passed": 1}}, changed], always=False)
    assert tried is not None
    assert tried.context["action"] == "try_patch"
    assert tried.context["params"]["patch"] == "--- a\n+++ b\n"
    assert plan_tests("/srv/a", [{**changed, "tests": {"passed": 1}}], always=True) is None
    assert plan_tests("/srv/b", [changed], always=False) is None
    run = plan_tests("/srv/b", [changed], always=True)
    assert run is not None
    assert run.context["action"] == "run_tests"


def test_what_was_done_before_is_filled_in_and_not_waited_for() -> None:
    call = TaskStep(step_number=3, action='helper.repeat text="${1} and ${2}"', dependencies=(1, 2))
    ready = build_on(address_step(call, "cortex", ()), {1: StepOutput(output="one")})
    assert ready.dependencies == (2,)
    assert call_in(ready).params == {"text": "one and ${2}"}
    words = TaskStep(step_number=2, action="Sum it up", dependencies=(1,))
    told = build_on(address_step(words, "cortex", ()), {1: StepOutput(output="one")})
    assert (told.dependencies, call_in(told).assignee) == ((), "cortex")
    assert call_in(told).params == {"brought_before": {"step 1": "one"}}
