"""The HTTP API: one module a domain, and the table of all."""

from services.gateway.api import messages, session, tokens
from services.gateway.routing import Endpoint

TABLE: tuple[Endpoint, ...] = (
    *session.ENDPOINTS,
    *tokens.ENDPOINTS,
    *messages.ENDPOINTS,
)
"""Every route of the API."""
