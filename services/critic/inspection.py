"""A repository inspected by every tool that applies, at once, and the findings in one ranked list."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec

from services.critic import file_tools
from services.critic.contracts import check_contracts
from services.critic.document_links import KIND as DOCUMENT
from services.critic.document_links import NAME as NAME_OF_DOCUMENTS
from services.critic.document_links import check_documents
from services.critic.drift import Drift, ReadRule, check_drift, count_rules
from services.critic.file_tools import ANY, KINDS, FileTool, Sources, missed, sort_files
from services.critic.findings import WEIGHT, Check, rank
from services.critic.project_tools import REPLACED, TOOLS, Workshop, check_projects, is_replaced
from services.critic.scans import NAME, lint, look_up, scan_secrets, scan_security
from shared.contracts import ResultOutcome
from shared.contracts.checkup import DriftRule, Finding, Inspection, NotChecked
from shared.errors import ActionError, ModelError
from shared.sandbox.confined import ConfinedFolder
from shared.source import Tree, read_tree
from shared.tasks.actions import Outcome
from shared.text.display import count, format_list

Topic = Literal["lint", "security", "secrets", "dependencies"]
TOPICS: tuple[Topic, ...] = ("lint", "security", "secrets", "dependencies")
AT_ONCE = 2  # Checkers that run at the same time: each may use a core and some hundred megabytes


class Checker(msgspec.Struct, frozen=True, kw_only=True):
    """A tool, its topic, the kinds of files it looks at, and its run within ``timeout`` seconds."""

    name: str
    topic: Topic
    kinds: tuple[str, ...]
    check: Callable[..., Awaitable[Check]]


def _row(tool: FileTool, topic: Topic, *kinds: str) -> Checker:
    return Checker(name=tool.name, topic=topic, kinds=kinds, check=partial(tool.check, kinds=kinds))


CHECKERS = (
    Checker(name="ruff", topic="lint", kinds=("Python",), check=lint),
    Checker(name="bandit", topic="security", kinds=("Python",), check=scan_security),
    Checker(name="secret scan", topic="secrets", kinds=(ANY,), check=scan_secrets),
    _row(file_tools.OXLINT, "lint", "JavaScript", "TypeScript"),
    _row(file_tools.SHELLCHECK, "lint", "shell"),
    _row(file_tools.HADOLINT, "lint", "Dockerfile"),
    _row(file_tools.ZIZMOR, "security", "workflow"),
    Checker(
        name=NAME_OF_DOCUMENTS,
        topic="lint",
        kinds=(DOCUMENT,),
        check=check_documents,
    ),
)


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What the checkers of some topics did, and what of the repository was looked at, and what was not."""

    checks: tuple[Check, ...] = ()
    looked_at: tuple[str, ...] = ()
    not_checked: tuple[NotChecked, ...] = ()


async def run_checkers(
    sources: Sources,
    topics: Collection[Topic],
    *,
    timeout: float,
    granted: Collection[str] = (),
    workshop: Workshop | None = None,
) -> Checked:
    """Run every checker of ``topics`` for whose kind there are files, at most AT_ONCE at the same time.

    ``granted`` is the reach that they may use, ``workshop`` prepares the projects for those that need it.
    """
    wider = Checker(name=NAME, topic="dependencies", kinds=(ANY,), check=partial(look_up, granted=granted))
    wanted = [row for row in (*CHECKERS, wider) if row.topic in topics and sources.files(row.kinds)]
    places = asyncio.Semaphore(AT_ONCE)

    async def run(row: Checker) -> Check:
        async with places:
            try:
                return await row.check(sources, timeout=timeout)
            except ActionError as error:
                return missed(row.name, sources, row.kinds, error.cause, error.cure)

    async def run_projects() -> list[Check]:
        async with places:
            return await check_projects(sources, workshop, timeout=timeout) if "lint" in topics else []

    projects, done = await asyncio.gather(run_projects(), asyncio.gather(*map(run, wanted)))
    pairs = [(row.kinds, check) for row, check in zip(wanted, done, strict=True)]
    kinds_of = {tool.name: tool.kinds for tool in TOOLS}
    pairs += [(kinds_of.get(check.tool.name, ()), check) for check in projects]
    replaced = is_replaced(projects)
    told = [
        (kinds, check)
        for kinds, check in pairs
        if (check.tool.files or check.not_checked) and not (replaced and check.tool.name == REPLACED)
    ]
    checks = [check for _, check in told]
    seen = {kind for kinds, check in told if check.tool.files for kind in kinds}
    gaps = [gap for check in checks for gap in check.not_checked]
    gaps += _without_checker(sources, topics)
    gaps += sources.gaps
    # What was looked at, as a person counts it: ``41 Python files``, ``120 files for secrets``
    looked = [
        KINDS[kind].count(len(sources.kinds[kind])) for kind in KINDS if kind in seen & {*sources.kinds}
    ]
    looked += [check.looked for check in checks if check.looked]
    # Each reason once, with all that was not checked for it
    reasons: dict[tuple[str, str], list[str]] = {}
    for gap in gaps:
        reasons.setdefault((gap.why, gap.cure), []).append(gap.what)
    not_checked = tuple(
        NotChecked(what=format_list(list(dict.fromkeys(what)), 12), why=why, cure=cure)
        for (why, cure), what in reasons.items()
    )
    return Checked(checks=tuple(checks), looked_at=tuple(looked), not_checked=not_checked)


def _without_checker(sources: Sources, topics: Collection[Topic]) -> list[NotChecked]:
    """The kinds of code that no checker looks at: at all, or for security if only that is asked for."""
    if not {"lint", "security"} & set(topics):
        return []
    covered = {kind for row in CHECKERS if "lint" in topics or row.topic in topics for kind in row.kinds}
    covered |= {kind for tool in TOOLS for kind in tool.kinds} if "lint" in topics else set()
    asked = "no checker" if "lint" in topics else "no security checker"
    return [
        NotChecked(what=KINDS[kind].count(len(files)), why=f"Mailroom has {asked} for them")
        for kind, files in sources.kinds.items()
        if kind in KINDS and kind not in covered
    ]


# --- the inspection ---------------------------------------------------------------------------------

Reader = Callable[[Tree], Awaitable[Sequence[ReadRule]]]
"""Finds the rules that the documents of a repository state."""

MAX_FINDINGS = 100
"""Findings that are handed on; the rest is counted. Nobody reads more, and a result must fit an envelope."""

MORE = "more place"
NO_FILES = "There are no files that a checker could look at"
HABIT = 10  # Places of one rule that are listed before those of other rules of the same severity

MAX_SOURCE = 2_000_000  # The most bytes of a file that is read
MAX_LINES = 500
LONGEST_LINE = 400  # The most characters of a line that are shown


async def inspect_repository(
    root: Path,
    *,
    timeout: float,
    topics: Collection[Topic] = TOPICS,
    drift: bool = True,
    granted: Collection[str] = (),
    workshop: Workshop | None = None,
    reader: Reader | None = None,
) -> Inspection:
    """Run the checkers of ``topics`` over ``root``, each for at most ``timeout`` seconds; check ``drift``.

    ``granted`` is the reach that checkers may use, ``workshop`` prepares the projects, and
    ``reader`` (a model) finds rules that documents state. Nothing is changed.
    Raises ActionError unless ``root`` is the absolute path of a readable folder.
    """
    sources = await asyncio.to_thread(lambda: sort_files(read_tree(root)))
    checked, stated = await asyncio.gather(
        run_checkers(sources, topics, timeout=timeout, granted=granted, workshop=workshop),
        _drift(sources, reader, workshop) if drift else asyncio.sleep(0, Drift()),
    )
    return merge(checked, stated)


async def _drift(sources: Sources, reader: Reader | None, workshop: Workshop | None) -> Drift:
    """The drift, also from rules that ``reader`` finds; if it does not answer, the note says so."""
    note = ""
    more: Sequence[ReadRule] = ()
    try:
        more = await reader(sources.tree) if reader else ()
    except ModelError as error:
        note = f"; the model did not read the documents: {error}"
    found = await asyncio.to_thread(check_drift, sources.tree, more)
    rules = await check_contracts(sources.project, found.rules, workshop) if workshop else found.rules
    if rules != found.rules:
        found = Drift(rules=rules, note=count_rules(rules))
    return msgspec.structs.replace(found, note=f"{found.note}{note}")


def merge(checked: Checked, drift: Drift) -> Inspection:
    """One inspection of what the tools found: worst first, each once, at most MAX_FINDINGS."""
    ranked = rank(finding for check in checked.checks for finding in check.findings)
    # A rule that is broken everywhere does not push out the others.
    seen: Counter[tuple[str, str]] = Counter()
    places = []
    for place, finding in enumerate(ranked):
        often = seen[finding.tool, finding.rule]
        seen[finding.tool, finding.rule] += 1
        places.append((WEIGHT[finding.severity], often >= HABIT, place))
    kept = sorted(place for _, _, place in sorted(places)[:MAX_FINDINGS])
    return Inspection(
        findings=tuple(ranked[place] for place in kept),
        total=len(ranked),
        tools=tuple(check.tool for check in checked.checks),
        drift=drift.rules,
        drift_note=drift.note,
        checked=checked.looked_at,
        not_checked=checked.not_checked,
    )


def judge(inspection: Inspection) -> ResultOutcome:
    """Findings if one is high or a rule is violated, not checked if nothing could be looked at, else done."""
    rules = [rule for rule in inspection.drift if not rule.not_checked]
    if any(finding.severity == "high" for finding in inspection.findings):
        return ResultOutcome.FINDINGS
    if any(rule.violations for rule in rules):
        return ResultOutcome.FINDINGS
    return ResultOutcome.DONE if inspection.checked or rules else ResultOutcome.NOT_CHECKED


def conclude(found: Inspection) -> Outcome:
    """The outcome of an action that inspected."""
    return Outcome(
        output=format_inspection(found),
        data={"inspection": found.to_dict()},
        evidence_refs=list_sources(found.findings, found.drift),
        outcome=judge(found),
    )


def format_inspection(inspection: Inspection) -> str:
    """The inspection as plain text: the answer first, then the findings, the tools, the drift."""
    rows = _format_findings(inspection.findings, inspection.total, 20)
    tools = []
    for tool in inspection.tools:
        head = f"{tool.name} {tool.version}".rstrip()
        where = f" in {count(tool.files, 'file')}" if tool.files else ""
        found = f"{count(tool.findings, 'finding')}{where}{f'; {tool.problem}' if tool.problem else ''}"
        tools.append(f"{head}: {found if tool.version else f'not run, {tool.problem}'}")
    gaps = [f"- {format_gap(gap)}" for gap in inspection.not_checked]
    parts = [
        [format_headline(inspection), *rows],
        ["Not checked:", *gaps] if gaps else [],
        tools,
        [format_drift(inspection.drift, inspection.drift_note, limit=5)] if inspection.drift_note else [],
    ]
    return "\n\n".join("\n".join(part) for part in parts if part)


def format_headline(inspection: Inspection) -> str:
    """``3 findings (1 high, 2 low) in 41 Python files; not checked: 12 Go files (there is no go here)``."""
    counts = Counter(finding.severity for finding in inspection.findings)
    shown = ", ".join(f"{counts[kind]} {kind}" for kind in ("high", "medium", "low") if counts[kind])
    listed = "" if inspection.total == len(inspection.findings) else "of those listed: "
    head = f"{count(inspection.total, 'finding')}{f' ({listed}{shown})' if shown else ''}"
    looked = f" in {format_list(inspection.checked, 12)}" if inspection.checked else ""
    if not looked and not inspection.findings:
        asked = inspection.tools or inspection.not_checked
        head = "Nothing was checked for findings" if asked else "" if inspection.drift else NO_FILES
    head += looked
    rules = [rule for rule in inspection.drift if not rule.not_checked]
    if rules:
        broken = sum(bool(rule.violations) for rule in rules)
        head += f"{'; ' * bool(head)}{broken} of {count(len(rules), 'stated rule')} broken"
    if unread := len(inspection.drift) - len(rules):
        head += f"{'; ' * bool(head)}{count(unread, 'stated rule')} not checked"
    gaps = "; ".join(map(format_gap, inspection.not_checked[:3]))
    more = len(inspection.not_checked) - 3
    gaps += f"; and {more} more" if more > 0 else ""
    return f"{head}{f'. Not checked: {gaps}' if gaps else ''}."


def format_gap(gap: NotChecked) -> str:
    """``12 Go files: there is no go on this machine (apt install golang-go)``."""
    return f"{gap.what}: {gap.why}{f' ({gap.cure})' if gap.cure else ''}"


def format_drift(rules: Sequence[DriftRule], note: str, *, limit: int | None = None) -> str:
    """The rules with their violations as plain text, at most ``limit`` of each."""
    rows = [f"Drift: {note}"]
    rules = sorted(rules, key=lambda rule: (bool(rule.not_checked), not rule.violations))
    for rule in rules:
        state = f"not checked, {rule.not_checked}" if rule.not_checked else ""
        rows.append(f"- {rule.rule} [{rule.source}]: {state or count(len(rule.violations), 'violation')}")
        rows += [f"  - {finding.message} [{finding.source}]" for finding in rule.violations[:limit]]
    return "\n".join(rows)


def list_sources(findings: Iterable[Finding], rules: Iterable[DriftRule] = ()) -> tuple[str, ...]:
    """Where the findings and the rules are stated: each source once, at most 50."""
    places = [finding.source for finding in findings]
    places += [source for rule in rules for source in (rule.source, *(v.source for v in rule.violations))]
    return tuple(dict.fromkeys(places))[:50]


def _format_findings(findings: Sequence[Finding], total: int, limit: int) -> list[str]:
    """A row for each rule and severity: where it is broken first, and in how many places more."""
    groups: dict[tuple[str, ...], list[Finding]] = {}
    often = Counter((found.tool, found.rule) for found in findings if found.severity == "high")
    for number, found in enumerate(findings):
        few = often[found.tool, found.rule] <= HABIT
        alone = str(number) if found.severity == "high" and few else ""
        groups.setdefault((found.tool, found.rule, found.severity, alone), []).append(found)
    shown = list(groups.values())[:limit]
    rows = [
        f"- {group[0].severity}: {group[0].message} ({group[0].tool} {group[0].rule}) [{group[0].source}]"
        f"{f' and in {count(len(group) - 1, MORE)}' if len(group) > 1 else ''}"
        for group in shown
    ]
    left = total - sum(map(len, shown))
    return [*rows, f"- and {left:,} more"] if left > 0 else rows


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
