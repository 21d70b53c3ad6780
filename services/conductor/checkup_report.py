"""The report of a check-up, as Markdown that stays valid whatever a repository puts into it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

from services.conductor.checkup_summary import summarise
from services.conductor.markdown import cite, code, escape, place, prose, short
from services.conductor.report_sections import format_decision, format_outcome, list_gaps, tests_section
from shared.clock import seconds_between
from shared.contracts import (
    DriftRule,
    Finding,
    Goal,
    HistoryReading,
    Inspection,
    RepositoryReading,
    ResultOutcome,
    TestRun,
    ToolRun,
    Verdict,
)
from shared.text.phrases import count, format_list

MAX_ROWS = 25
"""Rows of the table of findings: nobody reads more at once."""
FEW_ROWS = 8
"""Findings of low severity are listed up to this row, and only counted beyond it."""
HABIT = 3
"""More findings than this of one rule, none of them high, share one row: the rule is the finding."""

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
    rows = [row for row in (*rows, *list_gaps(data)) if not _is_said(row.partition(": ")[2], said)]
    return ["", "Not checked:", "", *rows] if rows else []


def _is_said(reason: str, said: str) -> bool:
    return all(sentence in said for sentence in reason.rstrip(".").split(". "))


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
    groups = _grouped(inspection.findings)
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


def _grouped(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Findings by the row they share: habits together, everything else alone, in their order."""
    every = list(findings)
    often = Counter((finding.tool, finding.rule, finding.severity) for finding in every)
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for number, finding in enumerate(every):
        key = (finding.tool, finding.rule, finding.severity)
        alone = finding.severity == "high" or often[key] <= HABIT
        groups.setdefault((*key, str(number) if alone else ""), []).append(finding)
    return list(groups.values())


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
    rows = [row for rule in broken for row in _broken_rule(rule)]
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


def _broken_rule(rule: DriftRule) -> list[str]:
    number = len(rule.violations)
    rows = [f"- **Broken** {count(number, 'time')}: {prose(rule.rule)} ({place(rule.source)})"]
    rows += [f"  - {place(found.source)}: {prose(found.message)}" for found in rule.violations[:10]]
    return [*rows, *([f"  - and {number - 10:,} more"] if number > 10 else [])]


def _history(history: HistoryReading | None) -> list[str]:
    if history is None:
        return ["Not known."]
    if history.problem:
        return [f"Not known: {prose(history.problem)}."]
    rows = [f"- Branch {code(history.branch or '(none)')}, {count(history.commits, 'commit')}"]
    if history.changes:
        shown = ", ".join(map(code, history.changes[:8]))
        rest = f" and {len(history.changes) - 8:,} more" if len(history.changes) > 8 else ""
        rows.append(f"- {count(len(history.changes), 'uncommitted change')}: {shown}{rest}")
    return [*rows, *(f"- {cite(commit)}" for commit in history.latest[:5])]


def _method(goal: Goal, inspection: Inspection | None, verdict: Verdict | None) -> list[str]:
    rows = ["- The repository was read and its tests were run in a copy; nothing in it was changed."]
    rows += [f"- {_tool(tool)}" for tool in (inspection.tools if inspection else ())]
    for task in goal.tasks:
        took = seconds_between(task.started_at, task.ended_at)
        rows.append(
            f"- Task {code(task.name)} by {task.assignee}: {task.status}{f' in {took:.1f} s' if took else ''}"
        )
    if verdict:
        rows.append(f"- {format_decision(verdict)}")
    return [*rows, *format_goal(goal)]


def _tool(tool: ToolRun) -> str:
    name = prose(f"{tool.name} {tool.version}".strip())
    if not tool.version and tool.problem:
        return f"{name}: not run, {prose(tool.problem)}"
    return f"{name}: {count(tool.findings, 'finding')}{f'; {prose(tool.problem)}' if tool.problem else ''}"


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
