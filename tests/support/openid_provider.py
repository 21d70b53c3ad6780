"""An OpenID provider on this machine: discovery, authorization code with PKCE, signed ID tokens, keys."""

import asyncio
import base64
import contextlib
import secrets
import socket
import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qsl, urlencode

import uvicorn
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

CLIENT, SECRET = "mailroom", "secret-of-the-gateway"


class OpenIdProvider:
    """Signs in whoever comes as the person of ``claims``; ``forge`` changes a token before it is signed."""

    def __init__(self) -> None:
        self.key = RSAKey.generate_key(2048, {"kid": "one"})
        self.signing_key = self.key
        self.claims: dict[str, Any] = {"email": "ada@example.org", "email_verified": True}
        self.forged: dict[str, Any] = {}
        self.algorithm = "RS256"
        self.codes: dict[str, dict[str, str]] = {}
        self.asked: list[dict[str, str]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.issuer = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["OpenIdProvider"]:
        routes = [
            Route("/.well-known/openid-configuration", self.describe),
            Route("/authorize", self.authorize),
            Route("/token", self.exchange, methods=["POST"]),
            Route("/keys", self.keys),
        ]
        config = uvicorn.Config(Starlette(routes=routes), log_config=None, lifespan="off")
        server = uvicorn.Server(config)
        server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign]
        serving = asyncio.create_task(server.serve(sockets=[self._listener]))
        try:
            yield self
        finally:
            server.should_exit = True
            await serving

    async def describe(self, _: Request) -> Response:
        return JSONResponse(
            {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
            }
        )

    async def authorize(self, request: Request) -> Response:
        """The person agrees at once."""
        query = dict(request.query_params)
        self.asked.append(query)
        valid = (
            query.get("client_id") == CLIENT
            and query.get("response_type") == "code"
            and query.get("code_challenge_method") == "S256"
            and "openid" in query.get("scope", "").split()
        )
        if not valid:
            return JSONResponse({"error": "invalid_request"}, 400)
        code = secrets.token_urlsafe(16)
        self.codes[code] = query
        back = urlencode({"code": code, "state": query["state"], "iss": self.issuer})
        return RedirectResponse(f"{query['redirect_uri']}?{back}", 302)

    async def exchange(self, request: Request) -> Response:
        form = dict(parse_qsl((await request.body()).decode()))
        expected = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        query = self.codes.pop(str(form.get("code")), None)
        valid = (
            query is not None
            and request.headers.get("authorization") == f"Basic {expected}"
            and form.get("grant_type") == "authorization_code"
            and form.get("redirect_uri") == query["redirect_uri"]
            and create_s256_code_challenge(str(form.get("code_verifier"))) == query["code_challenge"]
        )
        if query is None or not valid:
            return JSONResponse({"error": "invalid_grant"}, 400)
        return JSONResponse(
            {"access_token": "x", "token_type": "Bearer", "id_token": self.sign(query["nonce"])}
        )

    def sign(self, nonce: str) -> str:
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "sub": "1",
            "iat": now,
            "exp": now + 300,
            "nonce": nonce,
            **self.claims,
            **self.forged,
        }
        kept = {name: value for name, value in claims.items() if value is not None}
        header = {"alg": self.algorithm, "kid": "one"}
        return jwt.encode(header, kept, self.signing_key, algorithms=[self.algorithm])

    async def keys(self, _: Request) -> Response:
        return JSONResponse(KeySet([self.key]).as_dict(private=False))
