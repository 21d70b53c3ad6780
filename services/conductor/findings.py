"""What a goal leaves in memory: one event, and what it found as observations that led from it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from shared.contracts import Edge, Finding, Goal, Node, Relation, Source

MAX_OBSERVATIONS = 40
"""Findings of one goal that are remembered one by one; the report has the rest."""
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

    event = node(0, "event", f"{title} ({goal.ended_at[:10]})", _story(goal), 0.7)
    nodes = [event]
    for finding in _findings(results)[:MAX_OBSERVATIONS]:
        heading = f"{subject}: {finding.message}".partition("\n")[0]
        found_by = f"{finding.severity}, {finding.tool} {finding.rule}"
        body = f"The check-up found ({found_by}) at {finding.source}: {finding.message}"
        nodes.append(
            node(len(nodes), "observation", heading, body, IMPORTANCE[finding.severity], place=finding.source)
        )
    edges = [
        Edge(from_id=event.id, to_id=other.id, relation=Relation.LED_TO, provenance={"by": "goal"})
        for other in nodes[1:]
    ]
    return nodes, edges


def _story(goal: Goal) -> str:
    lines = [
        goal.text,
        *(f"{task.name} by {task.assignee}: {task.status}. {task.summary}" for task in goal.tasks),
    ]
    return "\n".join(lines)


def _findings(results: Mapping[str, Any]) -> list[Finding]:
    """Failing tests first, then the critic's findings and drift, as the critic ranked them."""
    found = []
    tests = results.get("tests", {}).get("metadata", {}).get("tests", {})
    for failure in tests.get("failures", ()):
        message = f"failing test {failure['test']}: {failure['message']}"
        found.append(
            Finding(
                tool="tests", rule="failure", severity="high", file=failure["source"], message=message[:1_000]
            )
        )
    inspection = results.get("inspection", {}).get("metadata", {}).get("inspection", {})
    rules = inspection.get("drift", ())
    raw = [
        *(violation for rule in rules for violation in rule.get("violations", ())),
        *inspection.get("findings", ()),
    ]
    return [*found, *(Finding.from_dict(finding) for finding in raw)]
