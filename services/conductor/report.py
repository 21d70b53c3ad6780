"""The end of a goal: its report on disk and by mail, and what it found as memories."""

import asyncio
import hashlib
import itertools
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from services.conductor.checkup_report import compose_checkup, format_goal
from services.conductor.planner import NAMED
from services.conductor.playbook import Playbook
from services.conductor.report_sections import (
    common_sections,
    embedded,
    escape,
    format_decision,
    format_outcome,
    join_blocks,
    list_unchecked,
    place,
    prose,
    result_text,
)
from services.conductor.state_machine import BY_MODEL, CHECKUP, format_left_out
from shared import subjects
from shared.contracts import (
    AgentReport,
    Edge,
    Finding,
    Goal,
    HistoryReading,
    Inspection,
    ListQuery,
    Node,
    Relation,
    RepositoryReading,
    ResultOutcome,
    Source,
    TaskStatus,
    TestRun,
)
from shared.contracts.base import Contract
from shared.contracts.cognition import spending_of
from shared.errors import BusError
from shared.files import write_atomically
from shared.log import logger
from shared.memory import Memory
from shared.tasks.evidence import format_verdict, verdict_of
from shared.text.display import count, format_list, shorten, shorten_id
from shared.text.times import seconds_between

PARTS: Mapping[str, type[Contract]] = {
    "reading": RepositoryReading,
    "tests": TestRun,
    "history": HistoryReading,
    "inspection": Inspection,
}
"""The tasks of a check-up, and the data that each has under its own name."""
COMPARE = "compare"  # The playbook whose answer is one table
MAX_ANSWER = 40_000  # Characters of an answer
MAX_TAGS = 32  # Tags that a node may have
MAX_OBSERVATIONS = 40  # Kinds of findings of one goal that become memories; the report has all of them
MAX_PLACES = 5  # The places that such a memory names
MAX_WORK = 300  # The most characters of what one agent did for a goal, in the memory of the goal
UNSURE = (ResultOutcome.NOT_CHECKED, ResultOutcome.FAILED)  # Outcomes that the headline of a goal says first
WORST = 3  # Findings that the memory of the goal itself names
IMPORTANCE = {"high": 0.8, "medium": 0.6, "low": 0.4}
"""The importance of a memory by the severity of its finding."""

GOAL_IMPORTANCE = {TaskStatus.COMPLETED: 0.3, TaskStatus.CANCELLED: 0.2}
"""The importance of the event of a goal by how it ended; .4 if it failed or found something: what people
state weighs .5."""

Budget = Callable[[Goal, Collection[str]], Awaitable[str]]
"""What is left of the budgets of a goal, and of the models of so many agents."""

log = logger(__name__)


class Reporter:
    """Writes reports under ``outputs`` and their findings to memory; doing it twice changes nothing."""

    def __init__(self, outputs: Path, memory: Memory, derive_id: Callable[..., str], left: Budget) -> None:
        self._outputs = outputs
        self._memory = memory
        self._derive_id = derive_id
        self._left = left

    async def report(self, goal: Goal, playbook: Playbook | None, results: Mapping[str, Any]) -> Goal:
        """``goal`` with its report written and its answer set."""
        if not goal.tasks:
            return goal
        used = {str(each.get("agent")): spending_of(each.get("metadata") or {}) for each in results.values()}
        asked = [agent for agent, (tokens, _) in used.items() if tokens]
        text = _compose(goal, playbook, results, await self._left(goal, asked))
        path = self._outputs / goal.goal_id / "report.md"
        answer = goal.answer or answer_of(goal, results) or headline(text)
        if left_out := format_left_out(goal):  # before all else
            said = f"{left_out[0].upper()}{left_out[1:]}."
            title, rest = text.split("\n\n", 1)
            text, answer = join_blocks([title, prose(said), rest.rstrip("\n")]), f"{said}\n\n{answer}"
        reported = msgspec.structs.replace(goal, report_path=str(path), answer=answer)
        # Side by side: both wait for the disk.
        nodes, edges = memories_of(reported, results, path, self._derive_id)
        remembering = asyncio.create_task(self._remember(reported, nodes, edges, results))
        try:
            await asyncio.to_thread(write_atomically, path, text)
        except OSError as error:
            reason = f"the report could not be written to {path}: {error.strerror}"
            reported = msgspec.structs.replace(
                goal,
                status=TaskStatus.FAILED,
                outcome=ResultOutcome.FAILED,
                reason=reason,
                answer=text[:50_000],
            )
        await remembering
        return reported

    async def _remember(
        self, goal: Goal, nodes: Sequence[Node], edges: Sequence[Edge], results: Mapping[str, Any]
    ) -> None:
        try:
            if nodes:
                await self._memory.queue(*nodes, edges=edges, insist=True)
            if goal.playbook == CHECKUP and len(nodes) <= MAX_OBSERVATIONS:
                query = ListQuery(kinds=("observation",), agent="conductor", tags=(CHECKUP,), limit=1_000)
                there = [node async for node in self._memory.iterate_nodes(query)]
                if gone := find_gone(goal, results, there, {node.id for node in nodes}):
                    await self._memory.retire(*gone)
        except BusError as error:
            log.warning("findings_not_stored", goal_id=goal.goal_id, reason=str(error))


def answer_of(goal: Goal, results: Mapping[str, Any]) -> str:
    """What the one agent said to which a model gave the goal whole, or a comparison; empty otherwise."""
    if goal.playbook == COMPARE and goal.status is TaskStatus.COMPLETED:
        return compare_folders(goal, results)
    if goal.playbook != BY_MODEL or len(goal.tasks) != 1 or goal.status is not TaskStatus.COMPLETED:
        return ""
    return str(results.get(goal.tasks[0].name, {}).get("output") or "").strip()[:MAX_ANSWER]


def compare_folders(goal: Goal, results: Mapping[str, Any]) -> str:
    """A table with what is known of each folder, side by side; empty unless there are several."""
    names = {suffix: folder.rpartition("/")[2] for suffix, folder in folders_of(goal).items()}
    if len(names) < 2:
        return ""
    rows: dict[str, list[str]] = {}
    for suffix in names:
        parts, _ = checkup_parts(results, suffix)
        for title, text in _describe_folder(parts["reading"], parts["history"]).items():
            rows.setdefault(title, []).append(prose(shorten(text, 160), table=True) or "–")
    head = [f"| | {' | '.join(escape(name) for name in names.values())} |", "|---" * (len(names) + 1) + "|"]
    return "\n".join([*head, *(f"| {title} | {' | '.join(cells)} |" for title, cells in rows.items())])


def _describe_folder(reading: RepositoryReading | None, history: HistoryReading | None) -> dict[str, str]:
    """What a comparison says of one folder, by the titles of its rows."""
    purpose = reading.purpose[0].text if reading and reading.purpose else ""
    languages = list(reading.languages.items())[:3] if reading else []
    stated = [each.text for each in reading.build] if reading else []
    build = [text for text in stated if text.startswith(("Needs", "Built", "Depends"))]
    latest = history.latest[0].text if history and history.latest else ""
    return {
        "What it is": purpose,
        "Lines": ", ".join(f"{name} {lines:,}" for name, lines in languages),
        "Files": f"{reading.files:,}" if reading else "",
        "Licence": "; ".join(each.text for each in reading.licence[:2]) if reading else "",
        "Build and needs": "; ".join(build[:3]),
        "Commits": f"{history.commits:,}" if history and not history.problem else "",
        "Latest commit": latest,
    }


def _compose(goal: Goal, playbook: Playbook | None, results: Mapping[str, Any], left: str = "") -> str:
    if playbook is None or playbook.report != "checkup":
        return compose_plain(goal, results, left)
    texts = []
    for suffix, folder in folders_of(goal).items():
        parts, failures = checkup_parts(results, suffix)
        own = msgspec.structs.replace(goal, parameters={"repo": folder}) if suffix else goal
        texts.append(compose_checkup(goal=own, verdict=verdict_of(goal), failures=failures, **parts))
    return join_blocks([*texts, *common_sections(results, left, run=False)])


def folders_of(goal: Goal) -> dict[str, str]:
    """The folders of a goal that names several, by what the names of their tasks end with; else the one."""
    several = goal.parameters.get("folders")
    if isinstance(several, Mapping):
        return {f"-{name}": str(folder) for name, folder in several.items()}
    return {"": str(goal.parameters.get("repo", ""))}


def checkup_parts(results: Mapping[str, Any], suffix: str = "") -> tuple[dict[str, Any], dict[str, str]]:
    """The parts of a check-up that were done, and why the others were not.

    ``suffix`` is what the names of the tasks end with if there are several folders.
    """
    parts: dict[str, Any] = {}
    failures: dict[str, str] = {}
    for name, contract in PARTS.items():
        result = results.get(f"{name}{suffix}", {})
        data = result.get("metadata", {}).get(name)
        try:
            parts[name] = contract.from_dict(data) if data else None
        except ValueError as error:
            parts[name], failures[name] = None, f"its data cannot be read: {error}"
        if parts[name] is None:
            failures.setdefault(name, result.get("error_message") or "it gave no data")
    return parts, failures


MAX_STEP = 12_000  # Characters of the output of a task in the mail to the agent that submitted the goal
MAX_DATA = 40_000  # Bytes of its data there; of more, the largest values are left out
MAX_STEPS = 1_000_000  # Bytes of all tasks in a mail: the more there are, the less there is of each


def report_mail(goal: Goal, results: Mapping[str, Any]) -> AgentReport:
    """The mail that reports an ended goal to its requester; to an agent with what each task brought."""
    steps = () if goal.requester in subjects.PEOPLE else brief_tasks(goal, results)
    verdict = verdict_of(goal)
    # What a completed goal came to if that is not just done, before an answer that does not say so
    unsure = goal.status is TaskStatus.COMPLETED and goal.outcome in UNSURE and not goal.question
    return AgentReport(
        sender=subjects.CONDUCTOR,
        recipient=goal.requester,
        goal_id=goal.goal_id,
        report_id=goal.goal_id,
        agent=subjects.CONDUCTOR,
        report_type="goal" if goal.playbook in ("", BY_MODEL) else goal.playbook,
        summary=(f"{format_outcome(goal)}\n\n" if unsure else "")
        + (goal.answer or goal.reason or f"The goal ended: {goal.status}"),
        output_paths=(goal.report_path,) if goal.report_path else (),
        metadata={
            "status": str(goal.status),
            "outcome": str(goal.outcome),
            "review": format_verdict(verdict) if verdict else "",
            "text": goal.text[:500],
            **({"steps": steps} if steps else {}),
        },
    )


def brief_tasks(goal: Goal, results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What each task of ``goal`` brought, in the order of the plan, within what a mail may hold."""
    share = MAX_STEPS // max(1, len(goal.tasks))
    found = []
    for task in goal.tasks:
        result = results.get(task.name, {})
        data, held = {}, 0
        for name, value in sorted((result.get("metadata") or {}).items(), key=lambda each: _size(each[1])):
            held += _size(value)
            if held <= min(MAX_DATA, share // 2):
                data[name] = value
        found.append(
            {
                "name": task.name,
                "agent": task.assignee,
                "status": str(task.status),
                "outcome": str(task.outcome),
                "reason": result.get("error_message") or "",
                "output": str(result.get("output") or "")[: min(MAX_STEP, share // 4)],
                "data": data,
                "evidence_refs": list(result.get("evidence_refs") or ())[:100],
                "output_paths": list(result.get("output_paths") or ())[:100],
                "seconds": round(seconds_between(task.started_at, task.ended_at), 3),
            }
        )
    return found


def _size(value: Any) -> int:
    return len(msgspec.json.encode(value))


def compose_plain(goal: Goal, results: Mapping[str, Any], left: str = "") -> str:
    """The report of any other goal: a section a task, with its output and sources."""
    tasks = {task.name: task for task in goal.tasks}
    names = [*(name for name in tasks if name in results), *(name for name in results if name not in tasks)]
    done = [name for name in names if _status(results[name]) == TaskStatus.COMPLETED]
    first = headline(result_text(results[names[0]])) if len(names) == 1 else ""
    summary = first or f"{len(done)} of {count(len(names), 'task')} completed."
    if goal.parameters.get("folders"):
        said = ((name, headline(result_text(results[name]))) for name in names)
        summary = f"{summary} {' '.join(f'{name}: {words}' for name, words in said if words)}"
    if goal.status is TaskStatus.COMPLETED and goal.outcome in UNSURE and not goal.left_out:
        summary = f"{goal.outcome.words.capitalize()}. {summary}"
    parts = [f"# {prose(goal.text.partition(chr(10))[0][:200])}", prose(summary)]
    parts += ["## Answer", embedded(goal.answer)] if goal.answer else []
    # Of a single task that failed, the reason is said above and below.
    failed_alone = first and goal.outcome is ResultOutcome.FAILED
    parts += [f"Outcome: {goal.outcome.words}." if failed_alone else format_outcome(goal)]
    verdict = verdict_of(goal)
    parts += [format_decision(verdict)] if verdict and not failed_alone else []
    unchecked = list_unchecked(goal, results, tasks=not failed_alone)
    parts += ["## Not checked", "\n".join(unchecked)] if unchecked else []
    for name in names:
        result = results[name]
        by = f" by {tasks[name].assignee}" if name in tasks else ""
        parts += [f"## {escape(name)}", f"{escape(_status(result) or 'not ended')}{by}"]
        text = result_text(result)
        if not first or " ".join(text.split()) != first:  # else it is said above, whole
            parts.append(embedded(text) or "It gave no output.")
        for title, key in (("Sources", "evidence_refs"), ("Files", "output_paths")):
            refs = [str(ref) for ref in result.get(key) or () if shorten_id(str(ref)) not in text]
            parts += [f"{title}:\n\n" + "\n".join(f"- {place(ref)}" for ref in refs)] if refs else []
    if goal.earlier:
        rows = [
            f"- {escape(task.name)} by {task.assignee}: {task.status}, {prose(task.summary or 'no reason')}"
            for task in goal.earlier
        ]
        parts += ["## Given up", "\n".join(rows)]
    return join_blocks([*parts, *common_sections(results, left), "\n".join(format_goal(goal))])


def _status(result: Mapping[str, Any]) -> str:
    return str(result.get("status") or "")


_LISTED = re.compile(r"\s*[-*+]\s|[^.!?]{1,80}:\s*$")  # An entry of a list, or the line above one


def headline(report: str) -> str:
    """The first sentence or two of a report as plain text on one line, at most 300 characters."""
    for block in report.split("\n\n"):
        lines = itertools.takewhile(lambda line: not _LISTED.match(line), block.splitlines())
        text = " ".join(" ".join(lines).split()) or " ".join(block.split())
        if text and not text.startswith("#"):
            plain = re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", re.sub(r"\*\*|(?<!\\)`", "", text))
            return shorten(plain, 300)
    return ""


def memories_of(
    goal: Goal, results: Mapping[str, Any], report: Path, derive_id: Callable[..., str]
) -> tuple[list[Node], list[Edge]]:
    """The memories of an ended goal: one event, and its findings as observations that it led to.

    What one rule found in one repository is one observation, which later check-ups write again. Their tags
    name who did the work, whose briefings they belong into; of a goal that several worked on, the metadata
    say what each did. A goal that names a single action leaves none: what it found is in its answer.
    """
    if goal.playbook == NAMED:
        return [], []
    found = {folder: _findings(results, suffix) for suffix, folder in folders_of(goal).items()}
    event = _tell_goal(goal, report, [finding for each in found.values() for finding in each])
    nodes = [msgspec.structs.replace(event, id=derive_id(goal.goal_id, "node", "0"))]
    kinds: dict[tuple[str, str, str], list[Finding]] = {}
    for folder, each in found.items():
        for finding in each:
            kinds.setdefault((folder, finding.tool, finding.rule), []).append(finding)
    for (folder, tool, rule), alike in list(kinds.items())[:MAX_OBSERVATIONS]:
        key = hashlib.sha256("\0".join((folder or goal.goal_id, tool, rule)).encode()).hexdigest()
        node_id = derive_id("finding", key[:32])
        nodes.append(msgspec.structs.replace(_tell_findings(goal, report, folder, alike), id=node_id))
    edges = [
        Edge(from_id=nodes[0].id, to_id=other.id, relation=Relation.LED_TO, provenance={"by": "goal"})
        for other in nodes[1:]
    ]
    return nodes, edges


def find_gone(
    goal: Goal, results: Mapping[str, Any], there: Iterable[Node], found: Collection[str]
) -> list[str]:
    """The ids of findings of earlier check-ups of the same folders that are ``there``, and that the parts
    which were done now did not find again.
    """
    done = {
        (folder, part)
        for suffix, folder in folders_of(goal).items()
        for part, data in checkup_parts(results, suffix)[0].items()
        if folder and data
    }
    return [
        node.id
        for node in there
        if node.id not in found and (node.metadata.get("folder"), node.metadata.get("part")) in done
    ]


def _remember(goal: Goal, report: Path, folder: str, by: Iterable[str], **fields: Any) -> Node:
    """A memory of a goal about the repository in ``folder``, tagged with it and with the agents ``by``."""
    tags = (goal.playbook.replace(" ", "-"), Path(folder).name, *by)
    more = fields.pop("metadata", {})
    return Node(
        **fields,
        tags=tuple(dict.fromkeys(filter(None, tags)))[:MAX_TAGS],
        metadata={"goal_id": goal.goal_id, "report_path": str(report), **more},
        source=Source(agent="conductor", session=goal.goal_id, channel="goal"),
    )


def _tell_goal(goal: Goal, report: Path, findings: Sequence[Finding]) -> Node:
    """What was found, the worst first; then what was asked for and what each task came to."""
    folder = str(goal.parameters.get("repo", ""))
    title = f"Check-up of {Path(folder).name}" if goal.playbook == "checkup" else goal.text.partition("\n")[0]
    worst = "; ".join(f"{finding.message} ({finding.source})" for finding in findings[:WORST])
    lines = [
        goal.answer,
        f"The worst: {worst}." if worst else "",
        f"It was asked: {goal.text}" if goal.text != title else "",
        *(
            f"{task.name} by {task.assignee}: {task.status}. {task.summary}"
            for task in goal.tasks
            if task.summary != goal.answer
        ),
    ]
    work: dict[str, str] = {}
    for task in goal.tasks:
        work[task.assignee] = f"{work.get(task.assignee, '')} {task.summary}".strip()[:MAX_WORK]
    return _remember(
        goal,
        report,
        folder,
        work,
        kind="event",
        title=f"{title} ({goal.ended_at[:10]})"[:256],
        body="\n".join(filter(None, lines))[:4_000],
        importance=0.4 if findings else GOAL_IMPORTANCE.get(goal.status, 0.4),
        metadata={"work": work} if len(work) > 1 else {},
    )


def _tell_findings(goal: Goal, report: Path, folder: str, alike: Sequence[Finding]) -> Node:
    """What one rule found: the first in words, the others by their places, or in words that differ."""
    first, name = alike[0], Path(folder).name
    title = f"{name}: {first.message}".partition("\n")[0]
    found_by = f"{first.severity}, {first.tool} {first.rule}"
    if len(alike) == 1:
        told = "" if title[:256].endswith(first.message) else f": {first.message}"
        body = f"Found at {first.source} ({found_by}){told}"
    elif len({finding.message for finding in alike}) == 1:
        places = format_list([finding.source for finding in alike], MAX_PLACES)
        body = f"Found at {places} ({found_by})"
    else:
        rows = [f"{finding.source}: {finding.message}" for finding in alike[:MAX_PLACES]]
        body = "\n".join((f"Found ({found_by}):", *rows))
    part = "tests" if first.tool == "tests" else "inspection"
    return _remember(
        goal,
        report,
        folder,
        (task.assignee for task in goal.tasks if task.name.startswith(part)),
        kind="observation",
        title=title[:256] if len(alike) == 1 else f"{shorten(title, 240)} ({len(alike)} times)",
        body=body[:4_000],
        importance=max(IMPORTANCE[finding.severity] for finding in alike),
        metadata={"place": first.source, "count": len(alike), "folder": folder, "part": part},
    )


def _findings(results: Mapping[str, Any], suffix: str = "") -> list[Finding]:
    """Failing tests first, then drift and the critic's findings, as the critic ranked them."""
    parts, _ = checkup_parts(results, suffix)
    tests, inspection = parts["tests"], parts["inspection"]
    found = []
    for failure in tests.failures if tests else ():
        message = f"failing test {failure.test}: {failure.message}"[:1_000]
        source = failure.source
        found.append(Finding(tool="tests", rule="failure", severity="high", file=source, message=message))
    if inspection:
        found += [violation for rule in inspection.drift for violation in rule.violations]
        found += inspection.findings
    return found
