"""What a goal came to: exit codes, headlines, the object of --json."""

import msgspec
import pytest

from services.cli.commands.checkup import CHECKUP, PARTS
from services.cli.output.outcomes import CheckUp, TestCounts, exit_code, format_headline
from services.cli.output.reports import format_junit
from services.conductor.playbook import load_playbooks
from shared.contracts import (
    Checked,
    DriftRule,
    Finding,
    Goal,
    GoalTask,
    Inspection,
    NotChecked,
    ResultOutcome,
    TaskResult,
    TaskStatus,
    TestFailure,
    TestRun,
    TestSuite,
    ToolRun,
    Verdict,
)
from shared.queries.results import collect_results
from shared.views.timeline import GoalResults

DONE, FINDINGS = ResultOutcome.DONE, ResultOutcome.FINDINGS
NOT_CHECKED, NONE = ResultOutcome.NOT_CHECKED, ResultOutcome.NONE


def goal_of(
    status: TaskStatus = TaskStatus.COMPLETED, outcome: ResultOutcome = NONE, *tasks: GoalTask
) -> Goal:
    return Goal(
        goal_id="g",
        text="Look",
        requester="user",
        status=status,
        outcome=outcome,
        submitted_at="2026-01-02T03:04:05Z",
        ended_at="2026-01-02T03:04:08.500Z" if status.final else "",
        tasks=tasks,
        report_path="/tmp/report.md",
    )


def finding(severity: str) -> Finding:
    return Finding(tool="bandit", rule="B1", severity=severity, file="a.py", line=3, message="bad")  # type: ignore[arg-type]


def result(**metadata: object) -> TaskResult:
    outcome = metadata.pop("outcome", DONE)
    return TaskResult(
        sender="critic",
        task_id="t",
        agent="critic",
        status=TaskStatus.COMPLETED,
        output=str(metadata.pop("output", "")),
        metadata=metadata,
        outcome=outcome,  # type: ignore[arg-type]
    )


FAILING = GoalResults(tests=(TestRun(passed=5, failed=1, errors=1),))
PASSING = GoalResults(tests=(TestRun(passed=5, failed=0, errors=0),))


@pytest.mark.parametrize(
    ("goal", "results", "fail_on", "code"),
    [
        (goal_of(), PASSING, None, 0),
        (goal_of(outcome=DONE), PASSING, "any", 0),
        (goal_of(outcome=FINDINGS), FAILING, None, 0),
        (goal_of(outcome=FINDINGS), FAILING, "tests", 3),
        (goal_of(outcome=FINDINGS), FAILING, "high", 3),
        (goal_of(outcome=FINDINGS), GoalResults(findings=(finding("high"),)), "tests", 0),
        (goal_of(outcome=FINDINGS), GoalResults(findings=(finding("high"),)), "high", 3),
        (goal_of(outcome=DONE), GoalResults(findings=(finding("medium"),)), "high", 0),
        (goal_of(outcome=DONE), GoalResults(findings=(finding("medium"),)), "medium", 3),
        (goal_of(outcome=DONE), GoalResults(findings=(finding("low"),)), "medium", 0),
        (goal_of(outcome=DONE), GoalResults(findings=(finding("low"),)), "any", 3),
        (goal_of(outcome=NOT_CHECKED), GoalResults(), None, 1),
        (goal_of(outcome=NOT_CHECKED), GoalResults(findings=(finding("high"),)), "high", 3),
        (goal_of(outcome=FINDINGS), GoalResults(unchecked=True), None, 1),
        (goal_of(outcome=FINDINGS), GoalResults(unchecked=True), "tests", 1),
        (goal_of(outcome=ResultOutcome.FAILED), PASSING, None, 1),
        (goal_of(TaskStatus.FAILED), FAILING, "tests", 1),
        (goal_of(TaskStatus.TIMEOUT), PASSING, None, 1),
        (goal_of(TaskStatus.CANCELLED), PASSING, None, 1),
        (goal_of(TaskStatus.IN_PROGRESS), PASSING, None, 1),
    ],
)
def test_exit_codes(goal: Goal, results: GoalResults, fail_on: str | None, code: int) -> None:
    assert exit_code(goal, results, fail_on) == code


@pytest.mark.parametrize(
    ("goal", "results", "headline"),
    [
        (goal_of(), None, "✓ done in 3.5 s"),
        (goal_of(outcome=FINDINGS), FAILING, "! done with findings in 3.5 s: 2 tests fail"),
        (
            goal_of(outcome=FINDINGS),
            GoalResults(tests=(TestRun(passed=0, failed=1),), findings=(finding("high"), finding("low"))),
            "! done with findings in 3.5 s: 1 test fails, 1 high finding",
        ),
        (
            goal_of(outcome=NOT_CHECKED),
            GoalResults(not_checked=(NotChecked(what="tests", why="go is not installed"),)),
            "? not checked in 3.5 s: tests: go is not installed",
        ),
        (
            goal_of(outcome=FINDINGS),
            msgspec.structs.replace(
                FAILING, not_checked=tuple(NotChecked(what=each, why="no tool") for each in ("Go", "C", "D"))
            ),
            "! done with findings in 3.5 s: 2 tests fail; not checked: Go and 2 more things",
        ),
        (
            goal_of(outcome=DONE),
            GoalResults(not_checked=(NotChecked(what="a rule of A.md:3", why="it needs a model"),)),
            "✓ done in 3.5 s; not checked: a rule of A.md:3",
        ),
        (goal_of(TaskStatus.FAILED), None, "✗ failed in 3.5 s"),
        (goal_of(TaskStatus.CANCELLED), None, "- cancelled in 3.5 s"),
    ],
)
def test_headlines(goal: Goal, results: GoalResults | None, headline: str) -> None:
    assert format_headline(goal, results).plain == headline


def test_what_a_check_up_asks_for_is_a_playbook() -> None:
    playbooks = load_playbooks()
    for part in (CHECKUP, *PARTS.values()):
        assert part.request.format("PATH") in playbooks[part.playbook].examples


def test_results_are_those_of_all_tasks_and_name_what_was_not_checked() -> None:
    failed = GoalTask(
        name="history", task_id="h", text="x", assignee="engineer", status=TaskStatus.FAILED, summary="no git"
    )
    inspection = Inspection(
        findings=(finding("low"), finding("high")),
        tools=(ToolRun(name="ruff"), ToolRun(name="oxlint", problem="npm is not installed")),
        drift=(
            DriftRule(rule="a may not import b", source="A.md:1", violations=(finding("medium"),)),
            DriftRule(rule="PostgreSQL, never SQLite", source="A.md:2", not_checked="it needs a model"),
        ),
        not_checked=(NotChecked(what="Go", why="there is no tool for it"),),
    )
    tests = TestRun(
        problem="pytest is not installed",
        cure="Install it",
        not_run=(NotChecked(what="npm test", why="it starts a server"),),
    )
    results = collect_results(
        goal_of(TaskStatus.COMPLETED, FINDINGS, failed),
        {
            "inspection": result(inspection=inspection.to_dict(), patches=["/a/x.patch"]),
            "tests": result(tests=tests.to_dict(), outcome=NOT_CHECKED),
            "log": result(outcome=NOT_CHECKED, output="there is no git repository\nat all"),
            "words": result(tests="all pass", inspection={"total": "many"}),
        },
    )
    assert [each.severity for each in results.findings] == ["high", "medium", "low"]
    assert [each.what for each in results.not_checked] == [
        "history",
        "tests",
        "npm test",
        "Go",
        "oxlint",
        "PostgreSQL, never SQLite (A.md:2)",
        "log",
    ]
    assert results.unchecked
    log = {"log": result(outcome=NOT_CHECKED, output="no git")}
    assert not collect_results(goal_of(), log).unchecked
    assert results.patches == ("/a/x.patch",)
    assert results.tests == (tests,)


def test_a_run_that_was_cut_short_is_never_exit_code_0() -> None:
    cut = TestRun(
        command="pytest", exit_code=0, passed=2, failed=0, problem="ended in test_b", incomplete=True
    )
    results = collect_results(goal_of(), {"tests": result(tests=cut.to_dict())})
    assert results.unchecked
    assert [each.why for each in results.not_checked] == ["ended in test_b"]
    assert exit_code(goal_of(outcome=FINDINGS), results) == 1
    assert TestCounts.of((cut,)).incomplete
    junit = format_junit(cut)
    assert 'errors="1"' in junit
    assert "ended in test_b" in junit


def test_the_object_of_json_holds_sums_and_null_for_what_was_not_counted() -> None:
    failure = TestFailure(test="test_a", message="1 == 2", source="test_a.py:3")
    counts = {"passed": 2, "failed": 1, "skipped": -1, "errors": 0}
    one = TestRun(**counts, command="pytest", interpreter="CPython 3.12", failures=(failure,), flaky=("b",))
    suites = (TestSuite(command="pytest"), TestSuite(command="npm test"))
    several = TestRun(passed=7, failed=0, skipped=1, errors=0, suites=suites)
    found = CheckUp.of(goal_of(outcome=FINDINGS), GoalResults(tests=(one, several)), "/src", 3)
    assert (found.tests.passed, found.tests.failed, found.tests.skipped, found.tests.errors) == (9, 1, 1, 0)
    assert found.tests.command == "pytest; npm test"
    assert found.tests.interpreter == "CPython 3.12"
    assert (found.tests.failures, found.tests.flaky) == ((failure,), ("b",))
    assert (found.goal_id, found.folder, found.outcome, found.exit_code) == ("g", "/src", FINDINGS, 3)
    assert (found.seconds, found.report) == (3.5, "/tmp/report.md")
    unknown = CheckUp.of(goal_of(), GoalResults(tests=(TestRun(problem="no tests"),)), "/src", 1).tests
    assert (unknown.passed, unknown.failed, unknown.skipped, unknown.errors) == (None, None, None, None)


def test_findings_whose_review_was_not_judged_are_not_clean() -> None:
    why = Checked(unjudged=("the content: the model gave no judgement",))
    verdict = Verdict(approved=False, decision="not_checked", checked=why).to_dict()
    unjudged = msgspec.structs.replace(goal_of(outcome=FINDINGS), verdict=verdict)
    results = GoalResults(tests=(TestRun(passed=1, failed=1),))
    assert exit_code(unjudged, results) == 1
    assert exit_code(unjudged, results, "tests") == 3
    said = "! done with findings in 3.5 s: 1 test fails; Not judged: the content: the model gave no judgement"
    assert format_headline(unjudged, results).plain == said
    judged = msgspec.structs.replace(unjudged, verdict=Verdict(approved=True, checked=why).to_dict())
    assert exit_code(judged, results) == 0


def test_the_headline_of_what_failed_says_why() -> None:
    reason = "task: `exit 3` ended with exit code 3"
    for goal in (goal_of(TaskStatus.FAILED), goal_of(outcome=ResultOutcome.FAILED)):
        failed = msgspec.structs.replace(goal, reason=reason)
        assert format_headline(failed, GoalResults()).plain == f"✗ failed in 3.5 s: {reason}"
        assert exit_code(failed, GoalResults()) == 1
