"""A repository inspected by every tool that applies, at once, and the findings in one ranked list."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Iterable, Sequence
from pathlib import Path, PurePosixPath

from services.critic.drift import Drift, check_drift
from services.critic.findings import Check, clean, rank, skipped_check
from services.critic.scans import lint, scan_secrets, scan_security
from shared.contracts.checkup import DriftRule, Finding, Inspection, ToolRun
from shared.errors import ActionError
from shared.sandbox.confined import ConfinedFolder
from shared.source.places import is_vendored
from shared.source.tree import Tree, read_tree
from shared.tasks.actions import Outcome
from shared.text.phrases import count

MAX_FINDINGS = 100
"""Findings that are handed on; the rest is counted. Nobody reads more, and a result must fit an envelope."""

MAX_SOURCE = 2_000_000
"""The most bytes of a file that is read."""
MAX_LINES = 500
LONGEST_LINE = 400
"""The most characters of a line that are shown."""

UNLINTED = {
    "JavaScript": (".js", ".mjs", ".cjs", ".jsx"),
    "TypeScript": (".ts", ".mts", ".cts", ".tsx"),
    "Go": (".go",),
    "Rust": (".rs",),
    "Java": (".java",),
    "Kotlin": (".kt",),
    "C and C++": (".c", ".h", ".cc", ".cpp", ".cxx", ".hpp"),
    "C#": (".cs",),
    "Ruby": (".rb",),
    "PHP": (".php",),
    "Swift": (".swift",),
    "Shell": (".sh", ".bash"),
}
"""Languages that no tool here checks."""


async def inspect_repository(root: Path, *, timeout: float) -> Inspection:
    """Run every tool over the folder ``root``, each for at most ``timeout`` seconds; nothing is changed.

    Raises ActionError unless ``root`` is the absolute path of a readable folder.
    """
    tree = await asyncio.to_thread(read_tree, root)
    *checks, drift = await asyncio.gather(
        _guard("ruff", lint(tree, timeout=timeout)),
        _guard("bandit", scan_security(tree, timeout=timeout)),
        _guard("secret scan", scan_secrets(tree, timeout=timeout)),
        asyncio.to_thread(check_drift, tree),
    )
    return merge([check for check in checks if isinstance(check, Check)], drift, unlinted(tree), tree.cut)


def merge(checks: list[Check], drift: Drift, others: list[ToolRun], cut: str = "") -> Inspection:
    """One inspection of what the tools found: worst first, each once, at most MAX_FINDINGS."""
    ranked = rank(finding for check in checks for finding in check.findings)
    unread = [ToolRun(name="reading", problem=cut)] if cut else []
    return Inspection(
        findings=ranked[:MAX_FINDINGS],
        total=len(ranked),
        tools=(*(check.tool for check in checks), *others, *unread),
        drift=drift.rules,
        drift_note=drift.note,
    )


def unlinted(tree: Tree) -> list[ToolRun]:
    """What is in the repository that no tool here checks, largest first."""
    suffixes = Counter(PurePosixPath(path).suffix.lower() for path in tree.files if not is_vendored(path))
    counts = {language: sum(suffixes[suffix] for suffix in found) for language, found in UNLINTED.items()}
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    problem = "Mailroom has none; {} not linted"
    return [
        ToolRun(name=f"a linter for {language}", problem=problem.format(count(number, "file")))
        for language, number in ordered
        if number
    ]


def format_inspection(inspection: Inspection) -> str:
    """The inspection as plain text: what people see as the result of the task."""
    counts = Counter(finding.severity for finding in inspection.findings)
    shown = ", ".join(f"{counts[kind]} {kind}" for kind in ("high", "medium", "low") if counts[kind])
    head = f"{count(inspection.total, 'finding')}{f' (of those listed: {shown})' if shown else ''}"
    rows = _format_findings(inspection.findings, inspection.total, 20)
    tools = [_format_tool(tool) for tool in inspection.tools]
    drift = format_drift(inspection.drift, inspection.drift_note, limit=5)
    return "\n".join([head, *rows, "", *tools, "", drift])


def format_check(check: Check) -> str:
    """One tool's findings as plain text."""
    rows = _format_findings(check.findings, len(check.findings), 50)
    return "\n".join([_format_tool(check.tool), *rows])


def format_drift(rules: Sequence[DriftRule], note: str, *, limit: int | None = None) -> str:
    """The rules with their violations as plain text, at most ``limit`` of each."""
    rows = [f"Drift: {note}"]
    for rule in rules:
        rows.append(f"- {rule.rule} [{rule.source}]: {count(len(rule.violations), 'violation')}")
        rows += [f"  - {finding.message} [{finding.source}]" for finding in rule.violations[:limit]]
    return "\n".join(rows)


def list_sources(findings: Iterable[Finding], rules: Iterable[DriftRule] = ()) -> tuple[str, ...]:
    """Where the findings and the rules are stated: each source once, at most 50."""
    places = [finding.source for finding in findings]
    places += [source for rule in rules for source in (rule.source, *(v.source for v in rule.violations))]
    return tuple(dict.fromkeys(places))[:50]


async def _guard(name: str, work: Awaitable[Check]) -> Check:
    """A tool that cannot be started is reported; it does not end the others."""
    try:
        return await work
    except ActionError as error:
        return skipped_check(name, clean(str(error)))


def _format_findings(findings: Sequence[Finding], total: int, limit: int) -> list[str]:
    rows = [
        f"- {found.severity}: {found.message} ({found.tool} {found.rule}) [{found.source}]"
        for found in findings[:limit]
    ]
    return [*rows, f"- and {total - limit:,} more"] if total > limit else rows


def _format_tool(tool: ToolRun) -> str:
    head = f"{tool.name} {tool.version}".rstrip()
    if not tool.version:
        return f"{head}: not run, {tool.problem}"
    return f"{head}: {count(tool.findings, 'finding')}{f'; {tool.problem}' if tool.problem else ''}"


def read_source(repo: Path, path: str, start: int = 1, end: int = 0) -> Outcome:
    """Lines ``start`` to ``end`` (0: the last) of the file ``path`` beneath ``repo``, with their numbers.

    Raises ActionError for what is no text file beneath that folder, and for lines it does not have.
    """
    if not repo.is_absolute() or not repo.is_dir():
        raise ActionError(f"{str(repo)!r} is not an absolute path of a folder", "Give the whole path")
    with ConfinedFolder(repo.resolve()) as folder:
        data = folder.read(path, MAX_SOURCE)
    if b"\0" in data[:8192]:
        raise ActionError(f"{path} is not a text file")
    lines = data.decode("utf-8", "replace").splitlines()
    if not 1 <= start <= max(1, len(lines)) or (end and end < start):
        raise ActionError(f"{path} has no lines {start} to {end or 'its end'}: it has {len(lines)}")
    last = min(end or len(lines), start + MAX_LINES - 1, len(lines))
    shown = [f"{number}: {lines[number - 1][:LONGEST_LINE]}" for number in range(start, last + 1)]
    return Outcome(
        output="\n".join(shown) or f"{path} is empty.",
        data={"path": path, "start": start, "end": last, "lines": len(lines)},
        evidence_refs=(f"{path}:{start}",),
    )
