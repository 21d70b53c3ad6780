"""What a goal leaves in memory: one event, and what it found as observations that led from it."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from shared.contracts import Edge, Finding, Goal, Inspection, Node, Relation, Source, TestFailure, TestRun
from shared.contracts.base import Contract

C = TypeVar("C", bound=Contract)

MAX_OBSERVATIONS = 40
"""Findings of one goal that are remembered one by one; the report has the rest."""
WORST = 3
"""Findings that the event itself names."""
IMPORTANCE = {"high": 0.8, "medium": 0.6, "low": 0.4}


def remembered(
    goal: Goal, results: Mapping[str, Any], report: Path, derive_id: Callable[..., str]
) -> tuple[list[Node], list[Edge]]:
    """The nodes and edges for an ended goal; their ids follow from its own, so that they are stored once."""
    subject = Path(str(goal.parameters["repo"])).name if goal.parameters.get("repo") else ""
    title = f"Check-up of {subject}" if goal.playbook == "checkup" else goal.text.partition("\n")[0]
    tags = tuple(tag for tag in (goal.playbook.replace(" ", "-"), subject) if tag)
    metadata = {"goal_id": goal.goal_id, "report_path": str(report)}
    source = Source(agent="conductor", session=goal.goal_id, channel="goal")

    def node(number: int, kind: str, heading: str, body: str, importance: float, **more: Any) -> Node:
        return Node(
            id=derive_id(goal.goal_id, "node", str(number)),
            kind=kind,
            title=heading[:256],
            body=body[:4_000],
            tags=tags,
            metadata={**metadata, **more},
            source=source,
            importance=importance,
        )

    findings = _findings(results)
    event = node(0, "event", f"{title} ({goal.ended_at[:10]})", _story(goal, findings), 0.9)
    nodes = [event]
    for finding in findings[:MAX_OBSERVATIONS]:
        heading = f"{subject}: {finding.message}".partition("\n")[0]
        found_by = f"{finding.severity}, {finding.tool} {finding.rule}"
        body = f"The check-up found at {finding.source} ({found_by}): {finding.message}"
        nodes.append(
            node(len(nodes), "observation", heading, body, IMPORTANCE[finding.severity], place=finding.source)
        )
    edges = [
        Edge(from_id=event.id, to_id=other.id, relation=Relation.LED_TO, provenance={"by": "goal"})
        for other in nodes[1:]
    ]
    return nodes, edges


def _story(goal: Goal, findings: Sequence[Finding]) -> str:
    """What was found, the worst first; then what was asked for and what each task came to."""
    worst = "; ".join(f"{finding.message} ({finding.source})" for finding in findings[:WORST])
    lines = [
        f"What was found: {goal.answer}" if goal.answer else "",
        f"The worst: {worst}." if worst else "",
        f"It was asked: {goal.text}",
        *(f"{task.name} by {task.assignee}: {task.status}. {task.summary}" for task in goal.tasks),
    ]
    return "\n".join(line for line in lines if line)


def _findings(results: Mapping[str, Any]) -> list[Finding]:
    """Failing tests first, then drift and the critic's findings, as the critic ranked them."""
    tests, inspection = _read(results, "tests", TestRun), _read(results, "inspection", Inspection)
    found = [_failing(failure) for failure in tests.failures] if tests else []
    if inspection:
        found += [violation for rule in inspection.drift for violation in rule.violations]
        found += inspection.findings
    return found


def _failing(failure: TestFailure) -> Finding:
    message = f"failing test {failure.test}: {failure.message}"[:1_000]
    return Finding(tool="tests", rule="failure", severity="high", file=failure.source, message=message)


def _read(results: Mapping[str, Any], name: str, contract: type[C]) -> C | None:
    """The data of a task, None where there is none or it cannot be read: the report says so."""
    data = results.get(name, {}).get("metadata", {}).get(name)
    try:
        return contract.from_dict(data) if data else None
    except ValueError:
        return None
