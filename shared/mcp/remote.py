"""The transport of a server elsewhere: HTTP to checked addresses, with tokens that a person signed in for."""

import contextlib
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shared.mcp.config import VARIABLE, ServerConfig, SignIn
from shared.mcp.pipes import MAX_OUTPUT, Life
from shared.settings import Settings
from shared.text.display import escape_invisible
from shared.web.fetching import parse_address, resolve

if TYPE_CHECKING:
    import httpx2
    from mcp.client._transport import TransportStreams

UNAUTHORIZED = 401  # The status of an answer to a request without a valid token
CONNECT = 10.0  # Seconds to connect; how long an answer may take is the call's own limit
SIGN_IN = "it wants a person to sign in{}: mailroom mcp login {}"


def tokens_path(settings: Settings, name: str) -> Path:
    """The file of a server's tokens, which only Mailroom's user can read."""
    return settings.state_dir / "mcp" / f"{name}.tokens.json"


@contextlib.asynccontextmanager
async def open_http(
    name: str, server: ServerConfig, life: Life, settings: Settings, sign_in: SignIn | None
) -> AsyncIterator["TransportStreams"]:
    """Streams to the server ``name``; raises ActionError if its secrets cannot be read."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    secrets = server.read_secrets()
    headers = {
        key: VARIABLE.sub(lambda found: secrets.get(found[1], found[0]), text)
        for key, text in server.headers.items()
    }
    path, oauth = tokens_path(settings, name), server.oauth
    signs = bool(sign_in or oauth.signs_itself or path.exists())
    # The addresses of the server and of its issuer may be private, since a person chose them; what they
    # lead to may not.
    chosen = {parse_address(each).pair for each in (server.url, oauth.issuer) if each}

    def give_up(scope: str = "") -> None:
        life.end(SIGN_IN.format(f" for {escape_invisible(scope[:200])}" if scope else "", name))

    async with (
        httpx2.AsyncClient(
            transport=_make_transport(
                {*chosen, *settings.private_hosts}, life, give_up if not signs else None
            ),
            headers=headers,
            timeout=httpx2.Timeout(None, connect=CONNECT),
            trust_env=False,
        ) as client,
        streamable_http_client(server.url, http_client=client) as streams,
    ):
        if signs:
            from shared.mcp.signing_in import make_auth

            send = partial(client.send, auth=None)
            client.auth = make_auth(server, path, send, sign_in=sign_in, give_up=give_up)
        yield streams


def _make_transport(
    allowed: set[str], life: Life, refuse: Callable[[], None] | None = None
) -> "httpx2.AsyncBaseTransport":
    """Connects to checked addresses alone; ``refuse`` is told where a person has to sign in first."""
    import httpx2

    class Counted(httpx2.AsyncByteStream):
        """A body, as long as it is not more than the server may send."""

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for chunk in self.inner:
                life.allowed -= len(chunk)
                if life.allowed < 0:
                    life.end(f"it sent more than {MAX_OUTPUT:,} bytes for one request")
                    raise httpx2.ReadError("too much")
                yield chunk

        async def aclose(self) -> None:
            await self.inner.aclose()

    class Checked(httpx2.AsyncBaseTransport):
        """Connects to checked addresses alone; each name has connections of its own."""

        def __init__(self) -> None:
            self.inner: dict[str, httpx2.AsyncHTTPTransport] = {}
            self.context = httpx2.create_ssl_context(trust_env=False)

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            place = parse_address(str(request.url))
            address = (await resolve(place, allowed))[0]
            host = f"[{address}]" if ":" in address else address
            inner = self.inner.setdefault(place.netloc, httpx2.AsyncHTTPTransport(verify=self.context))
            pinned = httpx2.Request(
                request.method,
                request.url.copy_with(host=host, port=place.port),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": place.host},
            )
            response = await inner.handle_async_request(pinned)
            if response.status_code == UNAUTHORIZED and refuse:
                refuse()
            response.stream = Counted(response.stream)
            return response

        async def aclose(self) -> None:
            for inner in self.inner.values():
                await inner.aclose()

    return Checked()
