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
from shared.contracts import DriftRule, Inspection, RepositoryReading, TestRun
from shared.text.phrases import count


def summarise(
    name: str,
    reading: RepositoryReading | None,
    tests: TestRun | None,
    inspection: Inspection | None,
    why: Mapping[str, str],
) -> list[str]:
    """The lines at the top: tests, findings, drift, and what to do first."""
    state = _state_of_tests(tests, why["tests"])
    if inspection:
        found, details = _summarise_inspection(inspection)
    else:
        found = "the code could not be inspected"
        details = [f"- Findings: not known, {prose(why['inspection'])}."]
    return [
        f"**{escape(name)}: {state[0].lower()}{state[1:]}; {found}.**",
        "",
        f"- Tests: {_first_failure(tests) or _counted(tests) or f'{state}.'}",
        *details,
        f"- Do first: {_advice(reading, tests, inspection)}",
    ]


def _summarise_inspection(inspection: Inspection) -> tuple[str, list[str]]:
    """The findings and the drift, in the headline and in rows of their own."""
    worse = {kind: number for kind, number in severities(inspection.findings).items() if kind != "low"}
    # findings that are counted but not listed are no worse than the last listed one
    more = inspection.findings[-1].severity if inspection.total > len(inspection.findings) > 0 else ""
    listed = " and ".join(f"{'at least ' * (kind == more)}{number} {kind}" for kind, number in worse.items())
    noun = "finding" if sum(worse.values()) == 1 else "findings"
    found = f"{listed} {noun}" if worse else "no finding of high or medium severity"
    broken = [rule for rule in inspection.drift if rule.violations]
    if broken:
        found += f"; {len(broken)} of {count(len(_checked(inspection)), 'stated rule')} broken"
    worst = "; ".join(brief(finding) for finding in inspection.findings[:2] if finding.severity != "low")
    return found, [
        f"- Findings: {inspection.total:,} in all{f', the worst: {worst}' if worst else ''}.",
        f"- Drift: {brief(broken[0].violations[0]) if broken else prose(_kept(inspection))}.",
    ]


def _state_of_tests(tests: TestRun | None, why: str) -> str:
    if tests is None:
        return f"The tests were not run ({prose(why)})"
    broken, every = count_broken(tests), max(tests.passed, 0) + count_broken(tests)
    if tests.timed_out:
        return "The tests did not end in time"
    if tests.passed < 0 or (not every and tests.problem):
        reason = (
            prose(tests.problem.rstrip(".")) if tests.problem else f"exit code {tests.exit_code}, no counts"
        )
        return f"The tests say nothing ({reason})"
    if broken:
        return f"{broken:,} of {count(every, 'test')} {'fails' if broken == 1 else 'fail'}"
    if tests.exit_code:
        return f"No test fails, but the run ended with exit code {tests.exit_code}"
    if every == 1:
        return "The one test passes"
    return f"All {count(every, 'test')} pass" if every else "There are no tests to run"


def _first_failure(tests: TestRun | None) -> str:
    if tests is None or not tests.failures:
        return ""
    first = tests.failures[0]
    more = f", and {len(tests.failures) - 1:,} more" if len(tests.failures) > 1 else ""
    return f"{code(first.test)} fails: {prose(short(first.message))} ({place(first.source)}){more}."


def _counted(tests: TestRun | None) -> str:
    if tests is None or tests.passed <= 0 or tests.timed_out:
        return ""
    counts = f"{tests.passed:,} passed, {max(tests.skipped, 0):,} skipped"
    return f"{counts} in {tests.seconds:.1f} s by {code(tests.command)}."


def _kept(inspection: Inspection) -> str:
    checked = len(_checked(inspection))
    if checked:
        unread = len(inspection.drift) - checked
        more = f", {unread} not checked" if unread else ""
        kept = f"all {checked} checked rules are kept" if checked > 1 else "the one checked rule is kept"
        return f"{kept}{more}"
    return inspection.drift_note.rstrip(".") or "no rule was checked"


def _checked(inspection: Inspection) -> list[DriftRule]:
    return [rule for rule in inspection.drift if not rule.not_checked]


def _advice(reading: RepositoryReading | None, tests: TestRun | None, inspection: Inspection | None) -> str:
    findings = inspection.findings if inspection else ()
    secret = next(
        (finding for finding in findings if finding.tool == "secrets" and finding.severity == "high"), None
    )
    high = next((finding for finding in findings if finding.severity == "high"), None)
    if secret:
        return f"revoke the secret at {place(secret.source)} and remove it, from the history too."
    if tests and count_broken(tests):
        return f"fix the failing tests{f', {code(tests.failures[0].test)} first' if tests.failures else ''}."
    if high:
        return f"look at {place(high.source)}: {prose(short(high.message))}."
    broken = next((rule for rule in inspection.drift if rule.violations), None) if inspection else None
    if broken:
        return f"decide whether the code or the rule is right at {place(broken.violations[0].source)}."
    if tests is None or tests.passed < 0:
        return "make the tests run: nothing else tells whether a change is right."
    if reading and reading.questions:
        return f"answer the first open question: {cite(reading.questions[0])}"
    return (
        f"look at {place(findings[0].source)}: {prose(short(findings[0].message))}."
        if findings
        else "nothing."
    )
