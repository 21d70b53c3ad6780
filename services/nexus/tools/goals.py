"""Goals, their tasks and failures: what the agents did and do."""

import re
from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.office import format_goal
from services.nexus.tools.tool import Answer, Tool, Words
from shared.contracts import Goal
from shared.text.phrases import count
from shared.text.words import find_stems, find_terms

if TYPE_CHECKING:
    from services.nexus.desk import Desk

GOAL = re.compile(r"\bgoal_[A-Za-z0-9_]{6,}\b")
MOST = 8
"""The most goals of an answer."""
_COMMON = frozenset("goal task run status agent job office test fail work".split())


async def tell(desk: "Desk", request: Request, _: Words) -> Answer:
    """The goals that the message asks about: failed, running, named ones, else the last."""
    goals = (await desk.office.goals())[::-1]
    asked = GOAL.findall(request.text)
    if new := [each for each in asked if not any(goal.goal_id == each for goal in goals)]:
        return Answer(
            text=f"The conductor has no goal {new[0]}; if it was submitted just now, it begins in a moment "
            f"(mailroom show {new[0]})."
        )
    if not goals:
        return Answer(text="There are no goals yet. Say what is to be done, and I start one.")
    head, chosen = _choose(goals, request.text)
    lines = [f"- {format_goal(goal)}" for goal in chosen[:MOST]]
    more = [f"... and {len(chosen) - MOST} more: mailroom status"] if len(chosen) > MOST else []
    return Answer(
        text="\n".join([head, *lines, *more]), citations=tuple(goal.goal_id for goal in chosen[:MOST])
    )


def _choose(goals: list[Goal], text: str) -> tuple[str, list[Goal]]:
    lower = text.lower()
    running = [goal for goal in goals if not goal.status.final]
    failed = [goal for goal in goals if goal.failed]
    terms = find_terms(text).keys() - _COMMON
    named = [goal for goal in goals if goal.goal_id in text or terms & find_stems(goal.text)]
    if chosen := [goal for goal in goals if goal.goal_id in text]:
        return "About that:", chosen
    if "fail" in lower or "went wrong" in lower or "stuck" in lower:
        return (
            (f"{len(failed)} of {len(goals)} goals failed:", failed)
            if failed
            else ("No goal has failed.", [])
        )
    if named and len(named) < len(goals):
        return "About that:", named
    if running:
        verb = "is" if len(running) == 1 else "are"
        return f"{count(len(running), 'goal')} {verb} at work:", running
    return "Nothing is at work. The last goals:", goals


TOOL = Tool(
    name="goals",
    description="tells how goals and tasks stand, what failed, and what the agents do",
    run=tell,
    personal=True,
)
