"""Signing in at a server elsewhere (OAuth 2.1): tokens that all processes share, and one of them renews.

It imports the library, so it is imported where a server is signed in at.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import msgspec
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.utils import union_scopes
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, BaseModel, PrivateAttr

from shared.errors import ActionError
from shared.files import hold_lock, write_atomically
from shared.mcp.config import OAuth, ServerConfig, SignIn, read_secret

M = TypeVar("M", bound=BaseModel)
RENEWAL = 30.0  # Seconds in which a service has to give new tokens: other processes wait meanwhile
BASIC = "client_secret_basic"  # How a secret is sent unless the service takes it otherwise
LOOPBACK = "http://127.0.0.1/"  # In place of a page to return to, where nobody signs in

Send = Callable[[httpx2.Request], Awaitable[httpx2.Response]]


class TokenFile:
    """Tokens, and what is needed to have others without a person; other processes read and write it too."""

    def __init__(self, path: Path, client: OAuthClientInformationFull | None, *, fresh: bool) -> None:
        self._path = path
        self._client = client
        self._kept: dict[str, Any] = {}
        # After a new sign-in only what was asked for counts: tokens may be of another service by now.
        self._seen = self._stamp() if fresh else None
        self._is_fresh = fresh
        self.provider: Any = None

    @property
    def wanted(self) -> str:
        """The scopes that the server wanted of an agent, which could not ask for them."""
        kept = self._load() if self._is_fresh else self._kept
        return str(kept.get("wanted", ""))

    def _stamp(self) -> tuple[int, int] | None:
        with contextlib.suppress(OSError):
            found = self._path.stat()
            return found.st_ino, found.st_mtime_ns
        return 0, 0

    def _load(self) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError):
            return dict(msgspec.json.decode(self._path.read_bytes()))
        return {}

    def read(self) -> bool:
        """Read it if it is not as it was when last read or written; returns whether it was."""
        if (stamp := self._stamp()) == self._seen:
            return False
        self._seen, self._kept = stamp, self._load()
        return True

    @contextlib.asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Hold it: other processes neither renew nor change what it holds meanwhile."""
        async with hold_lock(self._path.with_suffix(".lock")):
            yield

    async def get_tokens(self) -> OAuthToken | None:
        """The tokens; None if there are none."""
        return self._find("tokens", OAuthToken)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """What the service calls this client: as configured, or as it answered to a registration."""
        return self._client or self._find("client", OAuthClientInformationFull)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep them, with where the next ones are had."""
        self._kept["ends_at"] = time.time() + tokens.expires_in if tokens.expires_in else 0.0
        self._kept.pop("wanted", None)
        context = self.provider.context
        self._keep(tokens=tokens, metadata=context.oauth_metadata, guards=context.protected_resource_metadata)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep what the service calls this client."""
        self._keep(client=client_info)

    def set_wanted(self, scope: str) -> None:
        """Keep the scopes that a person has to sign in for."""
        self._kept["wanted"] = scope
        self._keep()

    def restore(self) -> None:
        """Give the library what it does not read itself, for which it would ask the person again."""
        context = self.provider.context
        context.token_expiry_time = self._kept.get("ends_at") or None
        context.oauth_metadata = self._find("metadata", OAuthMetadata)
        context.protected_resource_metadata = self._find("guards", ProtectedResourceMetadata)

    def _find(self, key: str, kind: type[M]) -> M | None:
        return kind.model_validate(self._kept[key]) if self._kept.get(key) else None

    def _keep(self, **values: BaseModel | None) -> None:
        for key, each in values.items():
            self._kept[key] = each.model_dump(mode="json", exclude_none=True) if each else None
        write_atomically(self._path, msgspec.json.encode(self._kept), mode=0o600)
        self._seen = self._stamp()


class _Asked(OAuthClientMetadata):
    """What is asked of a service: whatever scope the server names, and what was wanted before."""

    _always: str = PrivateAttr("")

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, union_scopes(value, self._always) if name == "scope" else value)


class _Shared(OAuthClientProvider):
    """A flow of the library whose tokens are those of the file, whichever process had them last."""

    kept: TokenFile
    oauth: OAuth
    send: Send
    give_up: Callable[[str], None] | None = None  # Without a person: told why one is needed

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        async with self.context.lock:
            await self._take()
            if self.context.can_refresh_token() and not self.context.is_token_valid():
                await self._renew()
        flow = super()._auth_flow(request)
        try:
            response = yield await anext(flow)
            # A service that gives new tokens may end the old ones before their time.
            if response.status_code == httpx2.codes.UNAUTHORIZED and await self._renew():
                self._add_auth_header(request)
                response = yield request
            while True:
                response = yield await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    async def _take(self) -> None:
        """Take what is in the file, if it is not known yet."""
        if self.kept.read() or not self._initialized:
            await self._initialize()
            self.kept.restore()
            self._fit_client()

    async def _renew(self) -> bool:
        """Whether there are other tokens now: another process had them, or the service gave them."""
        context = self.context
        if (known := context.current_tokens) is None:
            return False
        async with self.kept.locked():
            await self._take()
            now = context.current_tokens
            if now and now.access_token != known.access_token and context.is_token_valid():
                return True
            if not context.can_refresh_token():
                return False
            async with asyncio.timeout(RENEWAL):
                response = await self.send(await self._refresh_token())
            if response.status_code >= 500 or response.status_code == httpx2.codes.TOO_MANY_REQUESTS:
                raise ActionError(f"Its tokens cannot be renewed now: HTTP {response.status_code}")
            return await self._handle_refresh_response(response)

    def _fit_client(self) -> None:
        """Have a secret sent as the service takes it, which nobody told when it was given."""
        client, service = self.context.client_info, self.context.oauth_metadata
        methods = service.token_endpoint_auth_methods_supported if service else None
        if self.oauth.secret and client and client.client_secret and methods and BASIC not in methods:
            client.token_endpoint_auth_method = "client_secret_post"  # noqa: S105 - the name of a method

    async def _perform_authorization(self) -> httpx2.Request:
        self._fit_client()
        if self.give_up:
            scope = self.context.client_metadata.scope or ""
            async with self.kept.locked():
                self.kept.read()
                self.kept.set_wanted(scope)
            self.give_up(scope)
            raise ActionError("A person has to sign in")
        return await super()._perform_authorization()


class _ByCode(_Shared):
    """A person signs in."""


class _BySecret(_Shared, ClientCredentialsOAuthProvider):
    """Nobody signs in: the service knows a secret."""


class _ByKey(_Shared, PrivateKeyJWTOAuthProvider):
    """Nobody signs in: the service knows the public half of a key."""


def make_auth(
    server: ServerConfig,
    path: Path,
    send: Send,
    *,
    sign_in: SignIn | None,
    give_up: Callable[[str], None],
) -> OAuthClientProvider:
    """How requests to ``server`` are signed, with the tokens in ``path``; ``send`` sends one unsigned.

    ``give_up`` is told the scopes for which a person has to sign in. Raises ActionError if the
    secret cannot be read.
    """
    oauth = server.oauth
    secret = read_secret("oauth.secret", oauth.secret) if oauth.secret else ""
    back = sign_in.address if sign_in else LOOPBACK
    is_document = oauth.client.startswith("https://")
    fixed = None
    if oauth.client and not is_document:
        fixed = OAuthClientInformationFull(
            client_id=oauth.client,
            client_secret=secret or None,
            redirect_uris=[AnyUrl(back)],
            token_endpoint_auth_method=BASIC if secret else "none",
            issuer=oauth.issuer or None,
        )
    kept = TokenFile(path, fixed, fresh=sign_in is not None)
    provider: _Shared
    if not oauth.signs_itself:
        metadata = OAuthClientMetadata(redirect_uris=[AnyUrl(back)], client_name="Mailroom")
        document = oauth.client if is_document else None
        provider = _ByCode(server.url, metadata, kept, *_ask_person(sign_in), client_metadata_url=document)
        provider.give_up = None if sign_in else give_up
    elif secret.startswith("-----BEGIN"):
        signed = SignedJWTParameters(
            issuer=oauth.client,
            subject=oauth.client,
            signing_key=secret,
            signing_algorithm=_find_algorithm(secret),
        )
        provider = _ByKey(
            server.url,
            kept,
            oauth.client,
            signed.create_assertion_provider(),
            issuer=oauth.issuer,
        )
    else:
        provider = _BySecret(server.url, kept, oauth.client, secret, issuer=oauth.issuer)
    asked = _Asked.model_validate(provider.context.client_metadata.model_dump())
    asked._always = union_scopes(oauth.scope, kept.wanted) or ""
    asked.scope = None
    provider.context.client_metadata = asked
    provider.kept, provider.oauth, provider.send, kept.provider = kept, oauth, send, provider
    return provider


def _ask_person(sign_in: SignIn | None) -> tuple[Any, Any]:
    if sign_in is None:
        return None, None

    async def wait() -> AuthorizationCodeResult:
        query = await sign_in.wait()
        if "error" in query:
            reason = query.get("error_description") or query["error"]
            raise ActionError(f"The sign-in was refused: {reason[:200]}")
        return AuthorizationCodeResult(
            code=query.get("code", ""), state=query.get("state"), iss=query.get("iss")
        )

    return sign_in.open, wait


def _find_algorithm(key: str) -> str:
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        found = load_pem_private_key(key.encode(), None)
    except (ValueError, TypeError) as error:
        raise ActionError(f"The key of oauth.secret cannot be read: {error}") from None
    if not isinstance(found, ec.EllipticCurvePrivateKey):
        return "RS256"
    return {256: "ES256", 384: "ES384"}.get(found.curve.key_size, "ES512")
