"""Stated criteria of success: each is judged, and what is not met is sent back."""

from typing import Any

from services.critic.review import JudgedCriterion, Judgement, checker, combine, criteria_of
from shared.contracts import Verdict

RESULTS: dict[str, Any] = {
    "build": {"status": "completed", "output": "x", "success_criteria": "- It runs\n\n- It is quick"},
    "read": {"status": "completed", "output": "y"},
}
RUNS = JudgedCriterion(task="build", number=1, met=True, why="the log says so")


def judgement(*criteria: JudgedCriterion, approved: bool = True) -> Judgement:
    return Judgement(approved=approved, criteria=criteria)


def test_each_line_is_a_criterion_of_its_task() -> None:
    assert criteria_of(RESULTS) == {("build", 1): "It runs", ("build", 2): "It is quick"}


def test_every_criterion_must_be_judged() -> None:
    check = checker(RESULTS)
    assert check(judgement(RUNS)) == "criteria must say whether criterion 2 of build is met"
    assert check(judgement(RUNS, JudgedCriterion(task="build", number=2, met=True))) is None
    assert checker({"read": RESULTS["read"]})(judgement()) is None


def test_what_is_not_met_is_sent_back_although_the_model_approves() -> None:
    slow = JudgedCriterion(task="build", number=2, met=False, why="9 s")
    verdict = combine(Verdict(approved=True, decision="approved"), judgement(RUNS, slow), RESULTS, None)
    assert (verdict.decision, verdict.redo) == ("sent_back", ("build",))
    assert verdict.reasons == (
        "build: criterion 1 met: It runs (the log says so)",
        "build: criterion 2 not met: It is quick (9 s)",
    )


def test_a_criterion_that_nobody_stated_is_left_out() -> None:
    invented = JudgedCriterion(task="read", number=3, met=False)
    verdict = combine(Verdict(approved=True, decision="approved"), judgement(invented), RESULTS, None)
    assert (verdict.decision, verdict.redo) == ("approved", ())
