"""One goal: its page, its report, and what its evidence names."""

import asyncio

from starlette.responses import PlainTextResponse, Response

from services.gateway.api.goals import ONE
from services.gateway.call import Call
from services.gateway.pages.goal import GoalPage, GoalPages
from services.gateway.pages.opened_evidence import open_evidence, read_report
from services.gateway.problems import not_found
from services.gateway.routing import Endpoint
from shared.access.scopes import Scope
from shared.contracts import Goal

PLAIN = {"X-Content-Type-Options": "nosniff", "Content-Disposition": "inline", "Cache-Control": "no-store"}
"""Headers of files: whatever an agent wrote is shown as text, never as a page."""
_pages = GoalPages()


def _goal(call: Call) -> Goal:
    goal = call.gateway.index.store.goal(call.path["goal_id"])
    if goal is None:
        raise not_found(f"goal {call.path['goal_id'][:130]!r}", "GET /api/v1/goals lists them")
    return goal


async def read_goal_page(call: Call) -> GoalPage:
    """Everything about a goal: answer, findings, tasks, waterfall, messages, cost, approvals."""
    return await _pages.make(call.gateway, call.path["goal_id"])


async def read_goal_report(call: Call) -> Response:
    """The report of a goal, as Markdown in plain text."""
    text = await asyncio.to_thread(read_report, call.gateway.settings, _goal(call))
    return PlainTextResponse(text, headers=PLAIN)


async def read_evidence(call: Call) -> Response:
    """What a piece of the goal's evidence names: a file, or a memory, as plain text.

    Only what its results name is opened, from its outputs, its workspace and the folders that a person named.
    """
    text = await open_evidence(call.gateway, _goal(call), call.path["ref"])
    return PlainTextResponse(text, headers=PLAIN)


ENDPOINTS = (
    Endpoint("GET", ONE, read_goal_page, scope=Scope.READ, tag="goals"),
    Endpoint("GET", f"{ONE}/report", read_goal_report, scope=Scope.READ, tag="goals"),
    Endpoint("GET", f"{ONE}/evidence/{{ref:path}}", read_evidence, scope=Scope.READ, tag="goals"),
)
