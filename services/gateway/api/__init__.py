"""The HTTP API: one module a domain, and the table of all."""

from services.gateway.api import (
    agents,
    agents_directly,
    approvals,
    dead_letters,
    deliveries,
    desk,
    doctor,
    export,
    figures,
    goal_actions,
    goal_page,
    goals,
    inbox,
    mail,
    memory,
    messages,
    schedule,
    session,
    tasks,
    tokens,
)
from services.gateway.routing import Endpoint

TABLE: tuple[Endpoint, ...] = (
    *session.ENDPOINTS,
    *tokens.ENDPOINTS,
    *messages.ENDPOINTS,
    *goals.ENDPOINTS,
    *goal_actions.ENDPOINTS,
    *inbox.ENDPOINTS,
    *approvals.ENDPOINTS,
    *dead_letters.ENDPOINTS,
    *mail.ENDPOINTS,
    *agents.ENDPOINTS,
    *goal_page.ENDPOINTS,
    *tasks.ENDPOINTS,
    *memory.ENDPOINTS,
    *desk.ENDPOINTS,
    *schedule.ENDPOINTS,
    *deliveries.ENDPOINTS,
    *agents_directly.ENDPOINTS,
    *figures.ENDPOINTS,
    *doctor.ENDPOINTS,
    *export.ENDPOINTS,
)
"""Every route of the API."""
