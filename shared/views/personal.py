"""Requests to the API by people who use a NATS client."""

from typing import Any, Literal

import msgspec


class PersonalRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request as by HTTP: ``path`` with its query, ``body`` as JSON, ``key`` the Idempotency-Key."""

    method: Literal["GET", "POST", "DELETE", "PUT", "PATCH"] = "GET"
    path: str
    body: Any = None
    key: str = ""


class PersonalAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Its answer: the status of HTTP, and the body as text."""

    status: int
    body: str = ""
