"""The summary of a check-up: what a maintainer needs to know first."""

from collections.abc import Mapping

from services.conductor.markdown import (
    brief,
    cite,
    code,
    count_broken,
    escape,
    place,
    prose,
    severities,
    short,
)
from shared.contracts import Inspection, RepositoryReading, TestRun
from shared.text.phrases import count

GAPS = 2
"""Of what was not checked, the headline names so many; the section below it has all."""


def summarise(
    name: str,
    reading: RepositoryReading | None,
    tests: TestRun | None,
    inspection: Inspection | None,
    why: Mapping[str, str],
) -> list[str]:
    """The answer in a line, the worst that was found with its place, and the next step."""
    state, is_known = _state_of_tests(tests, why["tests"])
    parts = _summarise_inspection(inspection) if inspection else ["the code could not be inspected"]
    found = "; ".join(parts)
    answer = f"{state}; {found}" if is_known else f"{state}. {found[0].upper()}{found[1:]}"
    worst, step = _first_step(reading, tests, inspection)
    return [
        f"**{escape(name)}: {answer}.**",
        "",
        *([f"- Worst: {worst}."] if worst else []),
        f"- Next step: {step}",
    ]


def _summarise_inspection(inspection: Inspection) -> list[str]:
    """The findings, the stated rules, and what was not checked, each in a few words."""
    worse = {kind: number for kind, number in severities(inspection.findings).items() if kind != "low"}
    # findings that are counted but not listed are no worse than the last listed one
    more = inspection.findings[-1].severity if inspection.total > len(inspection.findings) > 0 else ""
    listed = " and ".join(f"{'at least ' * (kind == more)}{number} {kind}" for kind, number in worse.items())
    gaps = [f"{prose(short(gap.what, 60))} not checked" for gap in inspection.not_checked[:GAPS]]
    gaps += ["more not checked"] if len(inspection.not_checked) > GAPS else []
    none = f"no finding of high or medium severity in {'what was checked' if gaps else 'the code'}"
    found = [f"{listed} {'finding' if sum(worse.values()) == 1 else 'findings'}" if worse else none]
    if broken := sum(bool(rule.violations) for rule in inspection.drift):
        checked = [rule for rule in inspection.drift if not rule.not_checked]
        found.append(f"{broken} of {count(len(checked), 'stated rule')} broken")
    return [*found, *gaps]


def _state_of_tests(tests: TestRun | None, why: str) -> tuple[str, bool]:
    """What the tests came to, and whether they came to anything; else it says why not."""
    if tests is None:
        return f"the tests were not run: {prose(why.rstrip('.'))}", False
    broken, every = count_broken(tests), max(tests.passed, 0) + count_broken(tests)
    if tests.timed_out:
        return "the tests did not end in time", True
    if tests.passed < 0 or (not every and tests.problem):
        reason = prose(tests.problem.rstrip(".")) or f"exit code {tests.exit_code}, no counts"
        state = "the tests were not run" if tests.exit_code < 0 else "the tests gave no result"
        return f"{state}: {reason}", False
    if tests.incomplete:
        ran = f"of {count(every, 'test')} that ran, {broken:,} {'fails' if broken == 1 else 'fail'}"
        return f"the run of the tests is incomplete: {prose(tests.problem.rstrip('.'))}; {ran}", True
    if broken:
        return f"{broken:,} of {count(every, 'test')} {'fails' if broken == 1 else 'fail'}", True
    if tests.exit_code:
        return f"no test fails, but the run ended with exit code {tests.exit_code}", True
    if tests.skipped > 0:
        return f"{count(every, 'test')} passed, {tests.skipped:,} skipped", True
    if every == 1:
        return "the one test passes", True
    return f"all {count(every, 'test')} pass" if every else "there are no tests to run", True


def _first_step(
    reading: RepositoryReading | None, tests: TestRun | None, inspection: Inspection | None
) -> tuple[str, str]:
    """The worst that was found, empty if that is little, and what to do next."""
    findings = inspection.findings if inspection else ()
    high = [finding for finding in findings if finding.severity == "high"]
    if secret := next((finding for finding in high if finding.tool == "secrets"), None):
        return brief(secret), "revoke that secret, and remove it from the history too."
    if tests and tests.failures:
        first = tests.failures[0]
        worst = f"{code(first.test)} fails: {prose(short(first.message))} ({place(first.source)})"
        return worst, "fix the failing tests, this one first."
    if tests and count_broken(tests):
        return "", "fix the failing tests."
    if high:
        return brief(high[0]), "look at that place."
    if broken := next((rule for rule in inspection.drift if rule.violations), None) if inspection else None:
        return brief(broken.violations[0]), "decide whether the code or the rule is right."
    worst = brief(findings[0]) if findings and findings[0].severity == "medium" else ""
    if tests is None or tests.passed < 0 or tests.incomplete:
        cure = prose(tests.cure) if tests else ""
        return worst, cure or "make the tests run: nothing else tells whether a change is right."
    if worst:
        return worst, "look at that place."
    if reading and reading.questions:
        return "", f"answer the first open question: {cite(reading.questions[0])}"
    return "", f"look at {brief(findings[0])}." if findings else "nothing."
