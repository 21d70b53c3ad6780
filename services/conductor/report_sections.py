"""The sections of reports beside results, as Markdown that shows exactly what it is given."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from shared.contracts import (
    Finding,
    Goal,
    NotChecked,
    Preparation,
    ResultOutcome,
    Statement,
    TaskStatus,
    TestRun,
    TestSuite,
    Verdict,
)
from shared.llm.protocol import Usage
from shared.source import as_list, as_mapping
from shared.tasks.evidence import format_verdict, verdict_of
from shared.text.display import count, flatten, shorten
from shared.text.times import format_span
from shared.views.timeline import fallbacks_of, first_fallbacks, format_cached


def escape(text: str) -> str:
    """``text`` on one line as Markdown that shows exactly it."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    line = re.sub(r"[\\`*\[\]<>|~&]|(?<![^\W_])_|_(?![^\W_])", r"\\\g<0>", line)
    return re.sub(
        r"^(?:[#+=:-]|\d+(?=[.)]))", lambda m: f"\\{m[0]}" if not m[0].isdigit() else f"{m[0]}\\", line
    )


def code(text: str, *, table: bool = False) -> str:
    """``text`` on one line as a code span; in a table its pipes are escaped."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split()) or " "
    fence = "`" * (max((len(run) for run in re.findall(r"`+", line)), default=0) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line.replace('|', chr(92) + '|') if table else line}{pad}{fence}"


def prose(text: str, *, table: bool = False) -> str:
    """``text`` escaped, but for what it puts between single backticks: that stays code."""
    split = re.split(r"(?<!`)`([^`\n]+)`(?!`)", text)
    parts = []
    for at, part in enumerate(split):
        # the text after a code span does not begin a line
        words = escape(f"({part}(" if at else f"{part}(")
        parts.append(code(part, table=table) if at % 2 else words[1:-1] if at else words[:-1])
    return "".join(parts).strip()


def short(text: str, limit: int = 120) -> str:
    """``text`` on one line of at most ``limit`` characters."""
    return shorten(" ".join(text.split()).rstrip("."), limit)


def embedded(text: str) -> str:
    """Markdown of another agent below our headings: its own two levels deeper, no block left open."""
    rows, fence = [], ""
    for row in text.splitlines():
        mark = re.match(r" {0,3}(`{3,}|~{3,})", row)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence) and not row.strip(" `~"):
            fence = ""
        rows.append(f"##{row}" if not fence and re.match(r"#{1,4}\s", row) else row)
    return "\n".join([*rows, *([fence] if fence else [])])


def cite(statement: Statement) -> str:
    """A statement with its source."""
    return f"{prose(statement.text)} ({place(statement.source)})"


def place(source: str, *, table: bool = False) -> str:
    """Where something was found: a file and line, or the whole repository."""
    return "the repository as a whole" if source == "." else code(source, table=table)


def brief(finding: Finding) -> str:
    """A finding and its place, shortened to one line."""
    return f"{prose(short(finding.message))} ({place(finding.source)})"


def severities(findings: Iterable[Finding]) -> dict[str, int]:
    """How many findings there are of each severity that occurs, worst first."""
    counts = Counter(finding.severity for finding in findings)
    return {severity: counts[severity] for severity in ("high", "medium", "low") if counts[severity]}


def result_text(result: Mapping[str, Any]) -> str:
    """The error and the output of a task's result; empty if it has neither."""
    parts = (str(result.get(key) or "").strip() for key in ("error_message", "output"))
    return "\n\n".join(filter(None, parts))


DIFF_LINES = 200  # Lines of one patch that a report shows; the file has all of it
MAX_ROWS = 20
MAX_FAILURES = 20
MAX_LISTED = 12
MAX_PATCH = 1_000_000

Results = Mapping[str, Mapping[str, Any]]
Read = TypeVar("Read", NotChecked, TestRun, TestSuite)


def format_outcome(goal: Goal) -> str:
    """What a goal came to, if it is anything but done; empty otherwise."""
    if goal.outcome in (ResultOutcome.NONE, ResultOutcome.DONE):
        return ""
    why = "" if goal.outcome is ResultOutcome.FINDINGS else goal.reason
    if goal.outcome is ResultOutcome.NOT_CHECKED and not why:
        unchecked = [task for task in goal.tasks if task.outcome is ResultOutcome.NOT_CHECKED]
        why = "; ".join(f"{task.name}: {task.summary.rstrip('.')}" for task in unchecked)
    if goal.outcome is ResultOutcome.NOT_CHECKED and not why and (verdict := verdict_of(goal)):
        why = "; ".join(verdict.checked.unjudged or verdict.reasons)
    said = f"Outcome: {goal.outcome.words}"
    return f"{said}: {prose(flatten(why.rstrip('.'), 400))}." if why else f"{said}."


def format_decision(verdict: Verdict) -> str:
    """What the critic checked, and what that showed."""
    said = format_verdict(verdict)
    reasons = [f"{reason.rstrip('.')}." for reason in verdict.reasons if reason.rstrip(".") not in said]
    return prose(" ".join([said, *reasons]))


def common_sections(results: Results, left: str = "", *, run: bool = True) -> list[str]:
    """The sections that any report may have, as blocks of Markdown: only those with something to say.

    Without ``run`` they leave out what was run, for a report that has that in a section of its own. ``left``
    says what is left of the models' budgets.
    """
    sections = {
        "## What was changed": _diffs(results),
        "## What was run": _commands(results) if run else [],
        "## Cost": _cost(results, left),
    }
    return [block for title, rows in sections.items() if rows for block in (title, "\n".join(rows))]


def list_unchecked(goal: Goal, results: Results, *, tasks: bool = True) -> list[str]:
    """What could not be run or looked at, why, and what to do: from tests, inspections and ``tasks``."""
    rows = [row for result in results.values() for row in list_gaps(as_mapping(result.get("metadata")))]
    rows += [
        f"- Task {code(task.name)}: {prose(task.summary.rstrip('.') or str(task.status))}."
        for task in goal.tasks
        if tasks and task.status.final and task.status is not TaskStatus.COMPLETED
    ]
    return list(dict.fromkeys(rows))[:MAX_ROWS]


def list_gaps(metadata: Mapping[str, Any]) -> list[str]:
    """The same of one result's data ``tests`` and ``inspection``."""
    tests, inspection = as_mapping(metadata.get("tests")), as_mapping(metadata.get("inspection"))
    gaps = (*as_list(tests.get("not_run")), *as_list(inspection.get("not_checked")))
    rows = []
    for gap in filter(None, (_read(each, NotChecked) for each in gaps)):
        cure = f" {prose(gap.cure)}" if gap.cure else ""
        rows.append(f"- {prose(gap.what)}: {prose(gap.why.rstrip('.'))}.{cure}")
    stated = str(tests.get("problem") or "").rstrip(".")
    if stated:
        rows.append(f"- The tests: {_format_cure(stated, tests)}")
    for prepared in map(as_mapping, as_list(tests.get("prepared"))):
        problem = str(prepared.get("problem") or "").rstrip(".")
        if problem and problem not in stated:
            what = prose(str(prepared.get("ecosystem")))
            rows.append(f"- The environment ({what}): {_format_cure(problem, prepared)}")
    return rows


def _format_cure(problem: str, data: Mapping[str, Any]) -> str:
    cure = str(data.get("cure") or "")
    return f"{prose(problem)}.{f' {prose(cure)}' if cure and cure not in problem else ''}"


def _read(value: Any, kind: type[Read]) -> Read | None:
    """What an agent sent as ``kind``; None if it is something else."""
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, ValueError):
        return None


def _diffs(results: Results) -> list[str]:
    """The patches that were handed over, shown up to DIFF_LINES lines each."""
    rows: list[str] = []
    for path in dict.fromkeys(path for result in results.values() for path in patches_of(result)):
        try:
            text = Path(path).read_bytes()[:MAX_PATCH].decode("utf-8", "replace")
        except OSError as error:
            rows.append(f"- {code(path)} cannot be read: {error.strerror}")
            continue
        lines = text.splitlines()
        bare = (line.lstrip(" +-") for line in lines)
        longest = max((len(line) - len(line.lstrip("`")) for line in bare), default=0)
        fence = "`" * max(3, longest + 1)
        more = [f"(and {len(lines) - DIFF_LINES:,} more lines)"] if len(lines) > DIFF_LINES else []
        rows += [code(path), "", f"{fence}diff", *lines[:DIFF_LINES], *more, fence, ""]
    return rows


def patches_of(result: Mapping[str, Any]) -> list[str]:
    """The patches that a result hands over."""
    named = [str(path) for path in as_list(as_mapping(result.get("metadata")).get("patches"))]
    paths = map(str, as_list(result.get("output_paths")))
    return named or [path for path in paths if path.endswith((".patch", ".diff"))]


def _commands(results: Results) -> list[str]:
    """Each command with its exit code and time, what was prepared, and the counts of tests."""
    rows: list[str] = []
    for result in results.values():
        metadata = as_mapping(result.get("metadata"))
        tests = _read(metadata.get("tests"), TestRun) or TestRun()
        before = _read(metadata.get("tests_before"), TestSuite)
        rows += map(_format_preparation, tests.prepared)
        rows += [f"{_format_run(before)} (before the change)"] if before and before.command else []
        commands = [_read(each, TestSuite) for each in as_list(metadata.get("commands"))]
        runs = [run for run in (*commands, *(tests.suites or (tests,))) if run and run.command]
        rows += map(_format_run, runs)
    return list(dict.fromkeys(rows))[-MAX_ROWS:]


def _format_preparation(made: Preparation) -> str:
    what = prose(", ".join(filter(None, (made.tool, made.interpreter))) or made.ecosystem)
    where = "" if made.folder == "." else f" in {code(made.folder)}"
    read = ", ".join(map(code, made.read[:5]))
    state = "failed" if made.problem else "kept from before" if made.cached else f"{made.seconds:.1f} s"
    return f"- Prepared{where} with {what}{f' from {read}' if read else ''} ({state})"


def _format_run(run: TestSuite) -> str:
    """A command, where it was found, how it ended, and the tests it ran."""
    where = "" if run.folder == "." else f" in {code(run.folder)}"
    source = f", found in {code(run.found)}" if run.found else ""
    what = f"- {code(flatten(run.command, 300))}{where}{source}"
    if run.exit_code == -1 and run.problem:
        return f"{what}: not run"
    ended = "stopped, its time was up" if run.timed_out else f"exit code {run.exit_code}"
    said = ", ".join(filter(None, [ended, f"{run.seconds:.1f} s", run.counts]))
    by = f", counted by the {prose(run.counted_by)}" if run.counted_by else ""
    return f"{what}: {said}{by}{f', with {prose(run.interpreter)}' if run.interpreter else ''}"


def tests_section(tests: TestRun | None) -> list[str]:
    """The rows on a run of tests; why something was not run is said elsewhere."""
    if tests is None:
        return ["Not run."]
    rows = [_format_run(suite) for suite in tests.suites or (tests,) if suite.command]
    rows += ["- It was stopped because it took too long."] if tests.timed_out else []
    rows += [f"- {prose(note)}" for note in tests.notes]
    rows += [_format_preparation(each) for each in tests.prepared if not each.problem]
    rows += [f"- The whole output: {code(tests.log_path)}"] if tests.log_path else []
    failures = (f"{code(each.test)} ({place(each.source)}): {prose(each.message)}" for each in tests.failures)
    rows += _titled("Failing:", failures, MAX_FAILURES, tests.broken)
    rows += _titled("Flaky, failed and then passed when run once more:", map(code, tests.flaky))
    rows += _titled("Did not end in time:", map(code, tests.hung))
    return rows or ["Not run."]


def _titled(title: str, entries: Iterable[str], most: int = MAX_LISTED, total: int = 0) -> list[str]:
    listed = list(entries)
    if not listed:
        return []
    hidden = max(total, len(listed)) - most
    more = [f"- and {hidden:,} more"] if hidden > 0 else []
    return ["", title, "", *(f"- {entry}" for entry in listed[:most]), *more]


def _cost(results: Results, left: str) -> list[str]:
    """The tokens and the price of the models that worked on the tasks; nothing without any."""
    total = Usage()
    for result in results.values():
        try:
            total = total.plus(msgspec.convert(as_mapping(result.get("metadata")).get("usage") or {}, Usage))
        except msgspec.ValidationError:
            continue
    if not total.calls:
        return []
    price = f", {total.cost:.4f} US dollars" if total.cost else ", – US dollars (no price is known)"
    about = " (estimated)" if total.estimated else ""
    rows = [f"- {count(total.calls, 'model call')}, {total.tokens:,} tokens{about}{price}"]
    if cached := format_cached(total.input_tokens, total.cached_tokens):
        rows.append(f"- {cached}")
    if total.waited >= 1:
        rows.append(f"- requests waited {format_span(total.waited)} in all for their turn at the server")
    others = (fallbacks_of(as_mapping(result.get("metadata"))) for result in results.values())
    rows += [f"- {each}" for each in first_fallbacks(chain.from_iterable(others))]
    return [*rows, f"- {left[0].upper()}{left[1:]}"] if left else rows


def join_blocks(blocks: Iterable[str]) -> str:
    """Blocks of Markdown as one text."""
    return "\n\n".join(filter(None, blocks)) + "\n"
