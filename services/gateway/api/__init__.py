"""The HTTP API: one module a domain, and the table of all."""

from services.gateway.api import (
    actions,
    agents,
    agents_directly,
    approvals,
    briefings,
    deliveries,
    desk,
    figures,
    forgetting,
    goal_actions,
    goal_page,
    goals,
    inbox,
    mail,
    memory,
    messages,
    session,
    tasks,
    timetable,
)
from services.gateway.routing import Endpoint

TABLE: tuple[Endpoint, ...] = (
    *session.ENDPOINTS,
    *messages.ENDPOINTS,
    *goals.ENDPOINTS,
    *goal_actions.ENDPOINTS,
    *inbox.ENDPOINTS,
    *approvals.ENDPOINTS,
    *mail.ENDPOINTS,
    *agents.ENDPOINTS,
    *goal_page.ENDPOINTS,
    *tasks.ENDPOINTS,
    *memory.ENDPOINTS,
    *forgetting.ENDPOINTS,
    *desk.ENDPOINTS,
    *timetable.ENDPOINTS,
    *actions.ENDPOINTS,
    *briefings.ENDPOINTS,
    *deliveries.ENDPOINTS,
    *agents_directly.ENDPOINTS,
    *figures.ENDPOINTS,
)
"""Every route of the API."""
