"""The report of a check-up, as Markdown that stays valid whatever a repository puts into it."""

import re
from collections import Counter
from collections.abc import Mapping
from datetime import datetime

from services.conductor.report_sections import (
    brief,
    cite,
    code,
    escape,
    format_decision,
    format_outcome,
    list_gaps,
    place,
    prose,
    severities,
    short,
    tests_section,
)
from shared.contracts import (
    Finding,
    Goal,
    HistoryReading,
    Inspection,
    RepositoryReading,
    ResultOutcome,
    TestRun,
    Verdict,
)
from shared.text.display import count, format_list
from shared.text.times import seconds_between

GAPS = 2  # Of what was not checked, the headline names so many; the section below it has all


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
    broken, every = tests.broken, max(tests.passed, 0) + tests.broken
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
        step = f"revoke what stands in {place(secret.source)}, and remove it from the history too."
        return brief(secret), step
    if tests and tests.failures:
        first = tests.failures[0]
        worst = f"{code(first.test)} fails: {prose(short(first.message))} ({place(first.source)})"
        return worst, _name_failures(tests)
    if tests and tests.broken:
        return "", "fix the failing tests."
    if high:
        return brief(high[0]), _name_change(high[0])
    if broken := next((rule for rule in inspection.drift if rule.violations), None) if inspection else None:
        where, stated = place(broken.violations[0].source), place(broken.source)
        return brief(broken.violations[0]), f"change {where} to keep the rule, or the rule in {stated}."
    worst = brief(findings[0]) if findings and findings[0].severity == "medium" else ""
    if tests is None or tests.passed < 0 or tests.incomplete:
        cure = prose(tests.cure) if tests else ""
        return worst, cure or "make the tests run: nothing else tells whether a change is right."
    if worst:
        return worst, _name_change(findings[0])
    if reading and reading.questions:
        return "", f"answer the first open question: {cite(reading.questions[0])}"
    return "", f"look at {brief(findings[0])}." if findings else "nothing."


def _name_failures(tests: TestRun) -> str:
    """What to fix so that most tests pass: the message that most of them share, and where it comes from."""
    same = Counter(re.sub(r"0x[0-9a-f]+|\d+", "0", each.message) for each in tests.failures)
    common, number = same.most_common(1)[0]
    first = next(each for each in tests.failures if re.sub(r"0x[0-9a-f]+|\d+", "0", each.message) == common)
    where = place(first.source)
    if number > 1 and first.message:
        shared = f"{number:,} of the {tests.broken:,} failing tests say"
        return f"change what {where} tests: {shared} {prose(short(first.message))}."
    others = f", then the other {f'{tests.broken - 1:,}' if tests.broken > 2 else 'one'}" * (tests.broken > 1)
    return f"change what {where} tests, or the test{others}."


def _name_change(finding: Finding) -> str:
    """What to change for a finding."""
    upgrade = re.match(r"(\S+) \S+: .*; fixed in (.+)$", finding.message)
    if upgrade:
        return f"raise {prose(upgrade[1])} to {prose(upgrade[2])} (it is named in {place(finding.source)})."
    return f"change {place(finding.source)} so that this no longer holds: {prose(short(finding.message))}."


MAX_ROWS = 25  # Rows of the table of findings: nobody reads more at once
FEW_ROWS = 8  # Findings of low severity are listed up to this row, and only counted beyond it
HABIT = 3  # More findings than this of one rule and severity share one row: the rule is the finding

MISSING = "it gave no data"


def compose_checkup(
    *,
    goal: Goal,
    reading: RepositoryReading | None,
    tests: TestRun | None,
    history: HistoryReading | None,
    inspection: Inspection | None,
    verdict: Verdict | None,
    failures: Mapping[str, str],
) -> str:
    """The report of a check-up, the summary first; it says what is missing, and why.

    ``failures`` maps reading, tests, history and inspection to why there is none of it. The same arguments
    give the same text.
    """
    folder = str(goal.parameters.get("repo", "")).rstrip("/").rpartition("/")[2]
    name = reading.name if reading else folder or "the repository"
    why = {part: failures.get(part) or MISSING for part in ("reading", "tests", "history", "inspection")}
    summary = summarise(name, reading, tests, inspection, why)
    unchecked = _not_checked(tests, inspection, failures, summary)
    failed = ["", format_outcome(goal)] if goal.outcome is ResultOutcome.FAILED else []
    sections = {
        f"# Check-up of {escape(name)}": [*summary, *unchecked, *failed],
        "## What it is": _what_it_is(reading),
        "## How it is built": _statements(reading, "build", "No document says it."),
        "## How it is laid out": _statements(reading, "layout", "No folders."),
        "## Tests": tests_section(tests),
        "## Lint, security and secrets": _findings(inspection),
        "## Drift from its own rules": _drift(inspection),
        "## Open questions": _statements(reading, "questions", "The documents leave none."),
        "## History": _history(history),
        "## How this was found": _method(goal, inspection, verdict),
    }
    return "\n\n".join(f"{title}\n\n{chr(10).join(rows)}" for title, rows in sections.items()) + "\n"


def _not_checked(
    tests: TestRun | None, inspection: Inspection | None, failures: Mapping[str, str], summary: list[str]
) -> list[str]:
    """What was not checked, why and what to do, without what ``summary`` says already."""
    data = {"tests": tests and tests.to_dict(), "inspection": inspection and inspection.to_dict()}
    rows = [f"- The {part}: {prose(reason.rstrip('.'))}." for part, reason in failures.items()]
    said = "\n".join(summary)
    reasons = ((row, row.partition(": ")[2].rstrip(".").split(". ")) for row in (*rows, *list_gaps(data)))
    rows = [row for row, sentences in reasons if not all(sentence in said for sentence in sentences)]
    return ["", "Not checked:", "", *rows] if rows else []


def _what_it_is(reading: RepositoryReading | None) -> list[str]:
    rows = _statements(reading, "purpose", "No document says it.")
    rows += [f"- {cite(statement)}" for statement in reading.licence] if reading else []
    if reading and reading.languages:
        lines = ", ".join(
            f"{escape(name)} {number:,}" for name, number in list(reading.languages.items())[:6]
        )
        rows.append(f"- {count(reading.files, 'file')}; lines: {lines} (counted)")
    return rows


def _statements(reading: RepositoryReading | None, field: str, none: str) -> list[str]:
    if reading is None:
        return ["Not known."]
    return [f"- {cite(statement)}" for statement in getattr(reading, field)] or [none]


def _findings(inspection: Inspection | None) -> list[str]:
    if inspection is None:
        return ["Not inspected."]
    if not inspection.findings:
        looked = f"Nothing was found in {prose(format_list(inspection.checked, 12))}."
        return [looked if inspection.checked else "Nothing was checked."]
    # Findings by the row they share: habits together, everything else alone, in their order
    often = Counter((finding.tool, finding.rule, finding.severity) for finding in inspection.findings)
    by_row: dict[tuple[str, ...], list[Finding]] = {}
    for number, finding in enumerate(inspection.findings):
        key = (finding.tool, finding.rule, finding.severity)
        alone = often[key] <= HABIT
        by_row.setdefault((*key, str(number) if alone else ""), []).append(finding)
    groups = list(by_row.values())
    worse = [group for group in groups if group[0].severity != "low"]
    shown = [*worse, *groups[len(worse) : max(FEW_ROWS, len(worse))]][:MAX_ROWS]
    rows = ["| Severity | Where | What | Found by |", "| --- | --- | --- | --- |", *map(_row, shown)]
    hidden = Counter(f"{finding.tool} {finding.rule}" for group in groups[len(shown) :] for finding in group)
    unlisted = inspection.total - len(inspection.findings)
    if hidden or unlisted:
        rest = [f"{escape(rule)} ({number:,})" for rule, number in hidden.most_common(12)]
        rest += [f"{count(len(hidden) - 12, 'other rule')}"] if len(hidden) > 12 else []
        rest += [f"{unlisted:,} that were counted but not listed"] if unlisted else []
        rows += ["", f"Not shown, and of no greater weight: {', '.join(rest)}."]
    return rows


def _row(group: list[Finding]) -> str:
    first = group[0]
    places = ", ".join(place(finding.source, table=True) for finding in group[:HABIT])
    places += f" and {len(group) - HABIT:,} more" if len(group) > HABIT else ""
    what, by = prose(short(first.message, 200), table=True), prose(f"{first.tool} {first.rule}", table=True)
    return f"| {first.severity} | {places} | {what} | {by} |"


def _drift(inspection: Inspection | None) -> list[str]:
    if inspection is None:
        return ["Not checked."]
    broken = [rule for rule in inspection.drift if rule.violations]
    kept = [rule for rule in inspection.drift if not rule.violations and not rule.not_checked]
    unread = [rule for rule in inspection.drift if rule.not_checked]
    rows = []
    for rule in broken:
        number = len(rule.violations)
        rows.append(f"- **Broken** {count(number, 'time')}: {prose(rule.rule)} ({place(rule.source)})")
        rows += [f"  - {place(found.source)}: {prose(found.message)}" for found in rule.violations[:10]]
        rows += [f"  - and {number - 10:,} more"] if number > 10 else []
    rows += [f"- Kept: {prose(rule.rule)} ({place(rule.source)})" for rule in kept]
    rows += [
        f"- Not checked, {prose(rule.not_checked)}: {prose(rule.rule)} ({place(rule.source)})"
        for rule in unread
    ]
    return [
        *rows,
        *([""] if rows else []),
        f"{prose(inspection.drift_note.rstrip('.') or 'No rule was checked')}.",
    ]


def _history(history: HistoryReading | None) -> list[str]:
    if history is None:
        return ["Not known."]
    if history.problem:
        return [f"Not known: {prose(history.problem)}."]
    rows = [f"- Branch {code(history.branch or '(none)')}, {count(history.commits, 'commit')}"]
    rows += [f"- {prose(history.cut)}"] if history.cut else []
    if history.changes:
        shown = ", ".join(map(code, history.changes[:8]))
        rest = f" and {len(history.changes) - 8:,} more" if len(history.changes) > 8 else ""
        rows.append(f"- {count(len(history.changes), 'uncommitted change')}: {shown}{rest}")
    return [*rows, *(f"- {cite(commit)}" for commit in history.latest[:5])]


def _method(goal: Goal, inspection: Inspection | None, verdict: Verdict | None) -> list[str]:
    rows = ["- The repository was read and its tests were run in a copy; nothing in it was changed."]
    for tool in inspection.tools if inspection else ():
        name, problem = prose(f"{tool.name} {tool.version}".strip()), prose(tool.problem)
        found = f"{count(tool.findings, 'finding')}{f'; {problem}' if problem else ''}"
        rows.append(f"- {name}: {f'not run, {problem}' if problem and not tool.version else found}")
    for task in goal.tasks:
        took = seconds_between(task.started_at, task.ended_at)
        spent = f" in {took:.1f} s" if took else ""
        rows.append(f"- Task {code(task.name)} by {task.assignee}: {task.status}{spent}")
    if verdict:
        rows.append(f"- {format_decision(verdict)}")
    return [*rows, *format_goal(goal)]


def format_goal(goal: Goal) -> list[str]:
    """The lines that say which goal a report is of, and when it was submitted and ended."""
    ended = goal.ended_at or max((task.ended_at for task in goal.tasks), default="")
    repo = str(goal.parameters.get("repo", ""))
    rows = [
        f"- Goal {code(goal.goal_id)}, submitted {_moment(goal.submitted_at)} by {escape(goal.requester)}"
    ]
    rows += [f"- Ended {_moment(ended)}"] if ended else []
    return [*rows, *([f"- Repository: {code(repo)}"] if repo else [])]


def _moment(text: str) -> str:
    try:
        return f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M:%S %Z}"
    except ValueError:
        return escape(text)
