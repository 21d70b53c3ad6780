"""The HTTP API: one module a domain, and the table of all."""

from services.gateway.api import messages
from services.gateway.routing import Endpoint

TABLE: tuple[Endpoint, ...] = (*messages.ENDPOINTS,)
"""Every route of the API."""
