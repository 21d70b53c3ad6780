"""Projects: milestones, open points, and who does what."""

from typing import TYPE_CHECKING

from services.nexus.answers.memory_answer import node_statement
from services.nexus.routing.request import Request
from services.nexus.tools.office import format_goal
from services.nexus.tools.tool import Answer, Tool, Words
from shared.contracts import Hit
from shared.errors import BusError
from shared.text.shorten import flatten
from shared.text.words import find_stems, find_terms

if TYPE_CHECKING:
    from services.nexus.desk import Desk

KINDS = ("goal", "event", "decision", "fact", "observation")
_OPEN = frozenset(
    find_stems(
        "todo open task milestone deadline due assigned action item next step missing blocked plan owner "
        "must should"
    )
)
MOST = 6
"""The most memories and the most goals of an answer."""


async def tell(desk: "Desk", request: Request, _: Words) -> Answer:
    """What memory holds of open points about it, with the sources, and the goals at work."""
    hits = await _find(desk, request.text)
    about = find_terms(request.text).keys() - _OPEN
    kept = [hit for hit in hits if about & find_stems(node_statement(hit.node))] or hits
    goals = [goal for goal in await desk.office.goals() if not goal.status.final]
    lines = [
        f"- {flatten(node_statement(hit.node), 240)} ({hit.node.created_at[:10]})" for hit in kept[:MOST]
    ]
    work = [f"- {format_goal(goal)}" for goal in goals[:MOST]]
    return Answer(
        text="\n".join(
            [
                *(
                    ["Open points in memory:", *lines]
                    if lines
                    else ["Memory names no open points about that."]
                ),
                *(["At work:", *work] if work else ["No goal is at work."]),
            ]
        ),
        citations=tuple(hit.node.id for hit in kept[:MOST]),
    )


async def _find(desk: "Desk", text: str) -> list[Hit]:
    """Tasks first, then what else names something open; best first."""
    try:
        tasks = await desk.context.memory.search(text, kinds=("task",), limit=30)
        rest = await desk.context.memory.search(
            f"open points, tasks, milestones: {text}", kinds=KINDS, limit=30
        )
    except BusError:
        return []
    words = {hit.node.id: find_stems(f"{node_statement(hit.node)} {' '.join(hit.node.tags)}") for hit in rest}
    return [*tasks, *(hit for hit in rest if _OPEN & words[hit.node.id])]


TOOL = Tool(
    name="project",
    description="tells milestones, open points, and who does what",
    run=tell,
    personal=True,
)
