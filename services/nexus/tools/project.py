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

EXAMPLES = """
which TODOs are open?
what are the open points?
who does what?
what are the milestones of the project?
how far are we with the website relaunch
what's left to do for the concert?
who is working on the importer?
next milestone?
what is still open in the garden project
are we on track for the release?
project status of the app
which tasks are assigned to Lea
what has to be done before the launch
list the action items from the last meeting
what's blocking the move to the new office
when is the deadline of the grant proposal
who owns which part of the album
which open issues do we have for the shop
overview of the project
what's the roadmap
what did Tom commit to
show the to do list
remaining work for the exhibition?
who has to deliver what by Friday
is the school trip planned completely or is something missing
what are the next steps in the renovation
outstanding points with the landlord?
what's blocked
what is missing for the harvest festival
who is doing the sound for the play
where do we stand with the roof renovation
which milestones are overdue
what are my tasks in the exhibition project
who takes care of the catering for the open day
what still has to be decided for the school trip
what's next on the greenhouse plan
is the launch on schedule
what did everyone take on at the last meeting
todo list for the move
any overdue action items
which points from the retreat are not done
how many tasks does Lea have
are there tasks nobody has taken
what do we need to finish before Easter
give me the state of the film project
what are the deliverables for the grant
deadlines this month?
what has to happen before we can open
which work packages are late
what's left before we can print the book
what should Joel do next
what are the milestones of the festival
who does what on the garden project
open points for the website relaunch?
how far off is the next milestone
Who is in charge of the costumes
what's still to be done before the exhibition
show me the project plan for the move
which tasks are assigned to Bea in the app project
What was agreed as scope for phase 2 of the archive project
add an open point to the kitchen project: order the hinges
is the album on track
what's the deadline for the poster milestone
give me the status of project heron
list all projects
who's on the barn team
Which points are overdue in the school play
tick off milestone 3, stage is built
tell me the open issues of the lab move, with the names of who has them
did we hit the march milestone
what's next for the cookbook project
are there any risks noted for the fundraiser project
put Salim down for the lighting in the spring show project
how many open points has the relaunch
milestones pls
I'd like a new milestone in the bridge project, load test on 10 April
what's blocking the exhibition
The project with the city, who takes care of the permits there?
project overview
when is the dress rehearsal milestone due
who still has nothing to do in the tour project
"""

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
    examples=EXAMPLES,
    run=tell,
)
