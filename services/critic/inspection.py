"""A repository inspected by every tool that applies, at once, and the findings in one ranked list."""

import asyncio
from collections import Counter
from collections.abc import Awaitable
from pathlib import Path, PurePosixPath

from services.critic.drift import Drift, check_drift
from services.critic.findings import Check, clean, rank, skip
from services.critic.scans import lint, scan_secrets, scan_security
from shared.contracts.checkup import Finding, Inspection, ToolRun
from shared.errors import ActionError
from shared.sandbox.confined import ConfinedFolder
from shared.source.places import is_vendored
from shared.source.tree import Tree, read_tree
from shared.tasks.actions import Outcome

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

    Raises ActionError where ``root`` is not the absolute path of a readable folder.
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
    tools = [*(check.tool for check in checks), *others]
    if cut:
        tools.append(ToolRun(name="reading", problem=cut))
    return Inspection(
        findings=ranked[:MAX_FINDINGS],
        total=len(ranked),
        tools=tuple(tools),
        drift=drift.rules,
        drift_note=drift.note,
    )


def unlinted(tree: Tree) -> list[ToolRun]:
    """What is in the repository that no tool here checks, largest first."""
    suffixes = Counter(PurePosixPath(path).suffix.lower() for path in tree.files if not is_vendored(path))
    counts = {language: sum(suffixes[suffix] for suffix in found) for language, found in UNLINTED.items()}
    return [
        ToolRun(
            name=f"a linter for {language}", problem=f"Mailroom has none; {_count(number, 'file')} not linted"
        )
        for language, number in sorted(counts.items(), key=lambda item: -item[1])
        if number
    ]


def describe(inspection: Inspection) -> str:
    """The inspection as plain text: what people see as the result of the task."""
    counts = Counter(finding.severity for finding in inspection.findings)
    shown = ", ".join(
        f"{counts[severity]} {severity}" for severity in ("high", "medium", "low") if counts[severity]
    )
    rows = [f"{_count(inspection.total, 'finding')}{f' (of those listed: {shown})' if shown else ''}"]
    rows += [_row(finding) for finding in inspection.findings[:20]]
    if inspection.total > 20:
        rows.append(f"- and {inspection.total - 20:,} more")
    rows += ["", *(_tool(tool) for tool in inspection.tools), "", f"Drift: {inspection.drift_note}"]
    for rule in inspection.drift:
        rows.append(f"- {rule.rule} [{rule.source}]: {_count(len(rule.violations), 'violation')}")
        rows += [f"  - {finding.message} [{finding.source}]" for finding in rule.violations[:5]]
    return "\n".join(rows)


def describe_check(check: Check) -> str:
    """One tool's findings as plain text."""
    rows = [_row(finding) for finding in check.findings[:50]]
    more = [f"- and {len(check.findings) - 50:,} more"] if len(check.findings) > 50 else []
    return "\n".join([_tool(check.tool), *rows, *more])


def describe_drift(drift: Drift) -> str:
    """The drift as plain text."""
    rows = [f"Drift: {drift.note}"]
    for rule in drift.rules:
        rows.append(f"- {rule.rule} [{rule.source}]: {_count(len(rule.violations), 'violation')}")
        rows += [f"  - {finding.message} [{finding.source}]" for finding in rule.violations]
    return "\n".join(rows)


def sources(inspection: Inspection, limit: int = 50) -> tuple[str, ...]:
    """Where the findings and the rules stand: each source once."""
    places = [finding.source for finding in inspection.findings]
    places += [
        source for rule in inspection.drift for source in (rule.source, *(v.source for v in rule.violations))
    ]
    return tuple(dict.fromkeys(places))[:limit]


async def _guard(name: str, work: Awaitable[Check]) -> Check:
    """A tool that cannot be started is told of; it does not end the others."""
    try:
        return await work
    except ActionError as error:
        return skip(name, clean(str(error)))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _row(finding: Finding) -> str:
    return f"- {finding.severity}: {finding.message} ({finding.tool} {finding.rule}) [{finding.source}]"


def _tool(tool: ToolRun) -> str:
    head = f"{tool.name} {tool.version}".rstrip()
    if not tool.version:
        return f"{head}: not run, {tool.problem}"
    return f"{head}: {_count(tool.findings, 'finding')}{f'; {tool.problem}' if tool.problem else ''}"


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
