"""Hosts of MCP as they come to the office: the SDK's client in both eras, and plain messages."""

import contextlib
import itertools
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from shared.access.scopes import Scope
from tests.support.access import Tokens
from tests.support.gateway import RunningGateway

ERAS = {"auto": "2026-07-28", "legacy": "2025-11-25"}
_numbers = itertools.count(1)


def make_token(running: RunningGateway, scope: Scope = Scope.SUBMIT, name: str = "") -> str:
    return Tokens(running.config).add(name or f"host-{next(_numbers)}", scope)


@contextlib.asynccontextmanager
async def connect(
    running: RunningGateway, token: str, mode: str = "auto", **options: Any
) -> AsyncIterator[Client]:
    """A client at /mcp, of the era that ``mode`` chooses."""
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(f"{running.url}/mcp", http_client=http)
        async with Client(transport, mode=mode, **options) as client:  # type: ignore[arg-type]
            yield client


@contextlib.asynccontextmanager
async def connect_by_pipes(
    running: RunningGateway, mode: str = "auto", name: str = ""
) -> AsyncIterator[Client]:
    """A client that starts ``mailroom mcp serve``."""
    arguments = ["-m", "services.cli", "mcp", "serve", *(["--as", name] if name else [])]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=running.office.environment)
    async with Client(stdio_client(server), mode=mode) as client:  # type: ignore[arg-type]
        yield client


def call(method: str, params: dict[str, Any] | None = None, number: int = 1) -> dict[str, Any]:
    """A message of 2026-07-28."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": {**(params or {}), "_meta": meta}}


def headers_of(message: dict[str, Any], token: str) -> dict[str, str]:
    """The headers that go with it."""
    name = message["params"].get("name") or message["params"].get("uri") or message["params"].get("taskId")
    headers = {
        "Authorization": f"Bearer {token}",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": message["method"],
    }
    return headers | ({"Mcp-Name": name} if name else {})
