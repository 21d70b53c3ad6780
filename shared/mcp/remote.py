"""The transport of a server elsewhere: HTTP to checked addresses, with tokens that a person signed in for."""

import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from shared.errors import ActionError
from shared.files import write_atomically
from shared.mcp.config import VARIABLE, ServerConfig
from shared.mcp.pipes import MAX_OUTPUT, Life
from shared.settings import Settings
from shared.web.fetching import parse_address, resolve

if TYPE_CHECKING:
    import httpx2
    from mcp.client._transport import TransportStreams

UNAUTHORIZED = 401  # The status of an answer to a request without a valid token
CONNECT = 10.0  # Seconds to connect; how long an answer may take is the call's own limit
SIGN_IN = "it wants a person to sign in: mailroom mcp login {}"


class SignIn(msgspec.Struct, frozen=True, kw_only=True):
    """How a person signs in: where the browser returns to, what opens it, and what it brings back."""

    address: str
    open: Callable[[str], Awaitable[None]]
    wait: Callable[[], Awaitable[tuple[str, str | None]]]


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
    signed_in = sign_in or tokens_path(settings, name).exists()
    # The address of the server may be private, since a person chose it; what it leads to may not.
    allowed = {parse_address(server.url).pair, *settings.private_hosts}
    async with (
        httpx2.AsyncClient(
            transport=_make_transport(name, allowed, life, can_sign_in=bool(signed_in)),
            headers=headers,
            auth=_make_auth(name, server, life, settings, sign_in) if signed_in else None,
            timeout=httpx2.Timeout(None, connect=CONNECT),
            trust_env=False,
        ) as client,
        streamable_http_client(server.url, http_client=client) as streams,
    ):
        yield streams


def _make_transport(
    name: str, allowed: set[str], life: Life, *, can_sign_in: bool
) -> "httpx2.AsyncBaseTransport":
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
            if response.status_code == UNAUTHORIZED and not can_sign_in:
                life.end(SIGN_IN.format(name))
            response.stream = Counted(response.stream)
            return response

        async def aclose(self) -> None:
            for inner in self.inner.values():
                await inner.aclose()

    return Checked()


class TokenFile:
    """What a person signed in for: tokens, and what is needed to have others without that person."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: dict[str, Any] = {}
        self.provider: Any = None
        with contextlib.suppress(OSError, ValueError):
            self._kept = msgspec.json.decode(path.read_bytes())

    def restore(self, provider: Any) -> None:
        """Give the library what it forgets with its process, for which it would ask the person again."""
        self.provider = provider
        provider.context.token_expiry_time = self._kept.get("ends_at") or None
        provider.context.oauth_metadata = self._find("metadata", "OAuthMetadata")
        provider.context.protected_resource_metadata = self._find("guards", "ProtectedResourceMetadata")

    async def get_tokens(self) -> Any:
        """The tokens; None if there are none."""
        return self._find("tokens", "OAuthToken")

    async def get_client_info(self) -> Any:
        """What the server calls this client."""
        return self._find("client", "OAuthClientInformationFull")

    async def set_tokens(self, tokens: Any) -> None:
        """Keep them, with where the next ones are had."""
        self._kept["ends_at"] = time.time() + tokens.expires_in if tokens.expires_in else 0.0
        context = self.provider.context
        guards = context.protected_resource_metadata
        self._keep(tokens=tokens, metadata=context.oauth_metadata, guards=guards)

    async def set_client_info(self, client_info: Any) -> None:
        """Keep what the server calls this client."""
        self._keep(client=client_info)

    def _find(self, key: str, kind: str) -> Any:
        from mcp.shared import auth

        return getattr(auth, kind).model_validate(self._kept[key]) if self._kept.get(key) else None

    def _keep(self, **values: Any) -> None:
        for key, each in values.items():
            self._kept[key] = each.model_dump(mode="json", exclude_none=True) if each else None
        write_atomically(self._path, msgspec.json.encode(self._kept), mode=0o600)


def _make_auth(
    name: str, server: ServerConfig, life: Life, settings: Settings, sign_in: SignIn | None
) -> Any:
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata
    from pydantic import AnyUrl

    async def show(address: str) -> None:
        if sign_in is None:  # the tokens are no longer valid
            life.end(SIGN_IN.format(name))
            raise ActionError(life.reason)
        await sign_in.open(address)

    async def wait() -> Any:
        assert sign_in is not None
        code, state = await sign_in.wait()
        return AuthorizationCodeResult(code=code, state=state)

    metadata = OAuthClientMetadata(
        redirect_uris=[AnyUrl(sign_in.address if sign_in else "http://127.0.0.1/")],
        client_name="Mailroom",
        token_endpoint_auth_method="none",  # noqa: S106 - it has no secret to authenticate with
    )
    kept = TokenFile(tokens_path(settings, name))
    provider = OAuthClientProvider(server.url, metadata, kept, show, wait)
    kept.restore(provider)
    return provider
