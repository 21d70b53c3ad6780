"""The HTTP API: one module a domain, and the table of all."""

from services.gateway.api import memory, messages, session, tokens
from services.gateway.routing import Endpoint

TABLE: tuple[Endpoint, ...] = (
    *session.ENDPOINTS,
    *tokens.ENDPOINTS,
    *messages.ENDPOINTS,
    *memory.ENDPOINTS,
)
"""Every route of the API."""
