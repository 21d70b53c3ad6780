"""An MCP server over HTTP, with and without signing in: the library's own, whose authority says yes."""

import asyncio
import secrets
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from shared import settings
from shared.mcp.config import ServerConfig
from shared.mcp.remote import tokens_path
from shared.mcp.session import Session
from shared.settings import Settings


class Authority:
    """Signs everybody in; ``lifetime`` are the seconds of a token."""

    def __init__(self, lifetime: int) -> None:
        self.lifetime = lifetime
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.tokens: dict[str, AccessToken] = {}
        self.refreshing: dict[str, RefreshToken] = {}
        self.demanded = ""  # A scope without which tools are not called
        self.signed_in = self.renewed = self.refused = 0

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        self.signed_in += 1
        code = secrets.token_hex(20)
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id or "",
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(self, client: Any, authorization_code: str) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    def _issue(self, client: Any, scopes: list[str], resource: str | None) -> OAuthToken:
        token, again = secrets.token_hex(20), secrets.token_hex(20)
        self.tokens[token] = AccessToken(
            token=token,
            client_id=client.client_id,
            scopes=scopes,
            expires_at=int(time.time()) + self.lifetime,
            resource=resource,
        )
        self.refreshing[again] = RefreshToken(
            token=again, client_id=client.client_id, scopes=scopes, resource=resource
        )
        return OAuthToken(access_token=token, refresh_token=again, expires_in=self.lifetime)

    async def exchange_authorization_code(self, client: Any, code: AuthorizationCode) -> OAuthToken:
        del self.codes[code.code]
        return self._issue(client, code.scopes, code.resource)

    async def load_refresh_token(self, client: Any, refresh_token: str) -> RefreshToken | None:
        if refresh_token not in self.refreshing:
            self.refused += 1
        return self.refreshing.get(refresh_token)

    async def exchange_refresh_token(self, client: Any, token: RefreshToken, scopes: list[str]) -> OAuthToken:
        del self.refreshing[token.token]
        self.tokens.clear()  # each is replaced at each renewal, whatever time it has left
        self.renewed += 1
        return self._issue(client, scopes, token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.tokens.get(token)

    async def revoke_token(self, token: Any) -> None:
        self.tokens.pop(token.token, None)


async def use(config: Settings, url: str, renewals: int) -> None:
    """Call a tool at ``url`` again and again, until its tokens were renewed so many times by somebody."""
    session = Session("far", ServerConfig(url=url), settings=config)
    await session.start()
    seen: set[str] = set()
    try:
        (double,) = [each for each in (await session.list_tools()).tools if each.name == "double"]
        while len(seen) <= renewals:
            assert (await session.call(double, {"number": 2})).text == "4"
            seen.add(msgspec.json.decode(tokens_path(config, "far").read_bytes())["tokens"]["access_token"])
            await asyncio.sleep(0.05)
    finally:
        await session.close()


@asynccontextmanager
async def elsewhere(*, lifetime: int = 0, leads_to: str = "") -> AsyncIterator[tuple[str, Authority]]:
    """Its address, and its authority; one signs in if tokens have a ``lifetime``.

    ``/led`` redirects to ``leads_to``.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    base, authority = f"http://127.0.0.1:{port}", Authority(lifetime)
    options: dict[str, Any] = {}
    if lifetime:
        options["auth"] = AuthSettings(
            issuer_url=base,
            resource_server_url=f"{base}/mcp",
            client_registration_options=ClientRegistrationOptions(enabled=True),
            validate_token_resource=False,
        )
        options["auth_server_provider"] = authority
    server = MCPServer("elsewhere", **options)

    @server.tool()
    def double(number: int) -> int:
        return 2 * number

    @server.tool()
    def huge() -> str:
        return "x" * 50_000_000

    @server.resource("note://one")
    def one() -> str:
        return "A note"

    @server.prompt()
    def greet(name: str) -> str:
        return f"Say hello to {name}"

    @server.custom_route("/led", methods=["GET", "POST"])
    async def led(_: Request) -> Response:
        return RedirectResponse(leads_to, 307)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        """Refuses calls without the scope that the authority demands."""
        token = dict(scope.get("headers", ())).get(b"authorization", b"").decode().removeprefix("Bearer ")
        known = authority.tokens.get(token)
        if known and authority.demanded and authority.demanded not in known.scopes:
            said = f'Bearer error="insufficient_scope", scope="{authority.demanded}"'
            await Response(status_code=403, headers={"WWW-Authenticate": said})(scope, receive, send)
        else:
            await inner(scope, receive, send)

    inner = server.streamable_http_app()
    running = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error", lifespan="on"))
    task = asyncio.create_task(running.serve())
    try:
        while not running.started:
            await asyncio.sleep(0.02)
        yield f"{base}/mcp", authority
    finally:
        running.should_exit = True
        await task


if __name__ == "__main__":
    asyncio.run(use(settings.load(), sys.argv[1], int(sys.argv[2])))
