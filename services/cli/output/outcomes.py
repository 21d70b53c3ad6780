"""What a goal came to: its headline, its exit code, and the object that ``--json`` prints."""

from typing import Any, Self

import msgspec
from rich.text import Text

from services.cli.output.console import format_end, format_status, shorten
from shared.contracts import Finding, Goal, NotChecked, ResultOutcome, TaskStatus, TestFailure, TestRun
from shared.tasks.evidence import format_verdict, verdict_of
from shared.text.display import count
from shared.text.times import format_span, seconds_between
from shared.views.timeline import GoalResults, Spent, format_cached, format_spent

FAIL_ON = ("tests", "high", "medium", "any")
"""What ``--fail-on`` takes: failing tests, then findings of so many SEVERITIES as well."""
SEVERITIES = ("high", "medium", "low")
MAX_REASON = 200  # The most characters of a reason in a headline; the report has all of it
FAILED, FOUND = 1, 3
"""Exit codes: failed, refused or not checked; done with findings that ``--fail-on`` names."""


def outcome_of(goal: Goal) -> ResultOutcome:
    """What a goal came to; in records of earlier versions its status says it."""
    if goal.outcome or not goal.status.final:
        return goal.outcome
    return ResultOutcome.DONE if goal.status is TaskStatus.COMPLETED else ResultOutcome.FAILED


def exit_code(goal: Goal, results: GoalResults, fail_on: str | None = None) -> int:
    """0 done, 1 failed or not checked, 3 done with findings of the level ``fail_on`` (one of FAIL_ON)."""
    outcome = outcome_of(goal)
    if goal.status is not TaskStatus.COMPLETED or outcome is ResultOutcome.FAILED:
        return FAILED
    if fail_on:
        severities = SEVERITIES[: FAIL_ON.index(fail_on)]
        if results.failing > 0 or any(each.severity in severities for each in results.findings):
            return FOUND
    # What was not looked at must not count as clean, even if other things were found.
    unsure = outcome is ResultOutcome.NOT_CHECKED or results.unchecked or _find_unjudged(goal)
    return FAILED if unsure else 0


def _find_unjudged(goal: Goal) -> str:
    """Why the results of a goal were not judged; empty if they were, or if it was not reviewed."""
    verdict = verdict_of(goal)
    return format_verdict(verdict) if verdict and verdict.decision == "not_checked" else ""


def format_headline(goal: Goal, results: GoalResults | None = None) -> Text:
    """``! done with findings in 4.3 s: 2 tests fail, 1 high finding``; a status if it has not ended."""
    took = format_span(seconds_between(goal.submitted_at, goal.ended_at))
    if goal.status is not TaskStatus.COMPLETED:
        why = f": {shorten(goal.reason, MAX_REASON)}" if goal.reason else ""
        text = f" in {took}{why}" if goal.status.final else f", {took} so far"
        return Text.assemble(format_status(str(goal.status)), text)
    details = _format_details(goal, results) if results else ""
    head = format_end(str(goal.status), outcome_of(goal), "waits for your answer" if goal.question else "")
    sign = ";" if outcome_of(goal) is ResultOutcome.DONE else ":"
    return Text.assemble(head, f" in {took}{sign} {details}" if details else f" in {took}")


def _format_details(goal: Goal, results: GoalResults) -> str:
    if outcome_of(goal) is ResultOutcome.FAILED and goal.reason:
        return shorten(goal.reason, MAX_REASON)
    found = _format_findings(results) if outcome_of(goal) is ResultOutcome.FINDINGS else ""
    unjudged = shorten(_find_unjudged(goal).rstrip("."), MAX_REASON)
    # Other commands for tests that were run are in the report.
    variants = {each.what for run in results.tests if run.passed >= 0 for each in run.not_run}
    unchecked = [each for each in results.not_checked if each.what not in variants]
    if not unchecked:
        return "; ".join(filter(None, [found, unjudged]))
    first, *others = unchecked
    if outcome_of(goal) is ResultOutcome.NOT_CHECKED:
        return shorten(f"{first.what}: {first.why}", MAX_REASON)
    more = f" and {count(len(others), 'more thing')}" if others else ""
    return "; ".join(filter(None, [found, f"not checked: {shorten(first.what, 60)}{more}", unjudged]))


def _format_findings(results: GoalResults) -> str:
    failing = results.failing
    high = sum(each.severity == "high" for each in results.findings)
    parts = [f"{count(failing, 'test')} {'fails' if failing == 1 else 'fail'}"] if failing else []
    parts += [count(high, "high finding")] if high else []
    return ", ".join(parts)


def format_cost(results: GoalResults) -> str:
    """``12,345 tokens, $0.0123; 72 % of what was read ...; left today: ...``; empty if it was not read."""
    if (spent := results.spent) is None:
        return ""
    cached = format_cached(spent.read, spent.cached)
    others = map(str, spent.fallbacks)
    return "; ".join(filter(None, [format_spent(spent.tokens, spent.cost), cached, *others, results.left]))


class TestCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The sums of all test runs; None if nothing was counted."""

    __test__ = False

    passed: int | None = None
    failed: int | None = None
    skipped: int | None = None
    errors: int | None = None
    command: str = ""
    interpreter: str = ""
    failures: tuple[TestFailure, ...] = ()
    flaky: tuple[str, ...] = ()
    incomplete: bool = False

    @classmethod
    def of(cls, runs: tuple[TestRun, ...]) -> Self:
        """The counts, commands and interpreters of these runs."""
        counted = [run for run in runs if run.passed >= 0]
        sums: dict[str, Any] = {
            name: sum(max(getattr(run, name), 0) for run in counted) if counted else None
            for name in ("passed", "failed", "skipped", "errors")
        }
        suites = [suite for run in runs for suite in (run.suites or (run,))]
        for name in ("command", "interpreter"):
            sums[name] = "; ".join(dict.fromkeys(filter(None, (getattr(each, name) for each in suites))))
        for name in ("failures", "flaky"):
            named = (each for run in runs for suite in (run, *run.suites) for each in getattr(suite, name))
            sums[name] = tuple(dict.fromkeys(named))
        return cls(**sums, incomplete=any(run.incomplete for run in runs))


class CheckUp(msgspec.Struct, frozen=True, kw_only=True):
    """A check-up as ``--json`` prints it; ``exit_code`` is the command's, ``report`` a path."""

    goal_id: str
    folder: str
    status: TaskStatus
    outcome: ResultOutcome
    exit_code: int
    tests: TestCounts
    findings: tuple[Finding, ...]
    not_checked: tuple[NotChecked, ...]
    patches: tuple[str, ...]
    answer: str
    reason: str
    report: str
    seconds: float
    spent: Spent | None = None

    @classmethod
    def of(cls, goal: Goal, results: GoalResults, folder: str, code: int) -> Self:
        """The check-up of ``folder`` that was ``goal``."""
        return cls(
            goal_id=goal.goal_id,
            folder=folder,
            status=goal.status,
            outcome=outcome_of(goal),
            exit_code=code,
            tests=TestCounts.of(results.tests),
            findings=results.findings,
            not_checked=results.not_checked,
            patches=results.patches,
            answer=goal.answer,
            reason=goal.reason,
            report=goal.report_path,
            seconds=round(seconds_between(goal.submitted_at, goal.ended_at), 3),
            spent=results.spent,
        )
