"""The guard: every request passes it before the gateway's own routes see it.

In this order: the name the gateway is addressed by, the page that asks, the person, how often, and the body.
What is refused costs little, and requests of strangers use up nothing of what a person may ask for.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from services.gateway.security import limits
from services.gateway.security.authentication import (
    Authenticator,
    Credential,
    Site,
    Sites,
    is_foreign_change,
    is_foreign_read,
    list_sites,
    read_credential,
)
from services.gateway.security.exchange import API_POLICY, HEADERS, Ended, Exchange, format_page_policy
from services.gateway.security.limits import ClientGone, RateLimit, Refused, Streams, read_body, send_refusal
from shared.access.scopes import NOBODY, Person
from shared.access.scopes import Scope as Right
from shared.contracts import AccessAct
from shared.errors import ConfigError
from shared.log import logger
from shared.settings import Settings

PROTECTED = ("/api", "/mcp", "/metrics", "/openapi.json", "/asyncapi.json")
"""The beginnings of paths that nobody reads without a name; all others are pages and their files."""
SIGN_IN = ("POST", "/api/v1/session")  # The only change that needs no name
HOOKS = "/hooks/"  # Where webhooks are delivered, each signed with a secret of its own
OIDC = "/login/oidc"
SAFE_METHODS = ("GET", "HEAD")

log = logger(__name__)

Note = Callable[..., None]  # Records an act, as AccessLog.note does


class Asked(msgspec.Struct, frozen=True):
    """What the guard needs to know of a request."""

    method: str
    path: str
    headers: Headers
    address: str
    site: Site

    @property
    def is_read(self) -> bool:
        """Whether the request changes nothing."""
        return self.method in SAFE_METHODS

    @property
    def is_protected(self) -> bool:
        """Whether the path is one of those that need a name."""
        return any(self.path == each or self.path.startswith(f"{each}/") for each in PROTECTED)

    @property
    def is_attempt(self) -> bool:
        """Whether someone signs in."""
        return (self.method, self.path) == SIGN_IN or self.path.startswith(OIDC)

    @property
    def is_hook(self) -> bool:
        """Whether a webhook is delivered."""
        return self.method == "POST" and self.path.startswith(HOOKS)


def secure(
    app: ASGIApp,
    config: Settings,
    authenticator: Authenticator,
    *,
    pages: Iterable[Path] = (),
    note: Note = lambda *_, **__: None,
) -> "Guard":
    """``app`` behind the guard.

    ``pages`` are the HTML files that hold an import map; ``note`` records refused credentials. The person is
    ``scope["state"]["person"]`` (NOBODY for pages, and for those who sign in), the credential
    ``scope["state"]["credential"]``, the address of the client ``scope["state"]["address"]``. Raises
    ConfigError for a wrong setting, OSError for a page that is missing.
    """
    policy = format_page_policy(page.read_text() for page in pages)
    return Guard(app, authenticator, Sites(list_sites(config)), policy, note)


class Guard:
    """An ASGI application around another one."""

    def __init__(
        self, app: ASGIApp, authenticator: Authenticator, sites: Sites, page_policy: str, note: Note
    ) -> None:
        self.authenticator = authenticator
        self._app, self._sites, self._note = app, sites, note
        self._page_policy = page_policy
        self._streams = Streams()
        self._by_person = RateLimit(limits.PERSON_RATE)
        self._by_address = RateLimit(limits.ADDRESS_RATE)
        self._attempts = RateLimit(limits.SIGN_IN_RATE)
        self._hooks = RateLimit(limits.HOOK_RATE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; WebSockets are refused."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            headers = self._headers_for(scope["path"], secure=False)
            exchange = Exchange(receive, send, headers=headers, streams=self._streams)
            try:
                asked = self._read(scope)
                headers = self._headers_for(asked.path, secure=asked.site.secure)
                credential = read_credential(asked.headers, asked.site)
                self._require_own_page(asked, credential)
                person = await self._identify(asked, credential)
                exchange = self._exchange(receive, send, headers, credential, person)
                length = asked.headers.get("content-length", "")
                if length not in ("", "0") or "transfer-encoding" in asked.headers:
                    # What strangers hold in memory is little: they can open many connections.
                    limit = limits.BODY_LIMIT if person or asked.is_hook else limits.STRANGER_BODY_LIMIT
                    if person and person.scope >= Right.SUBMIT:
                        limit = limits.LARGE_BODIES.get(asked.path, limit)
                    body = await read_body(receive, length, limit=limit, timeout=limits.BODY_TIMEOUT)
                    exchange.set_body(body)
                scope.setdefault("state", {}).update(
                    person=person or NOBODY, credential=credential, address=asked.address, site=asked.site
                )
                await self._app(scope, exchange.receive, exchange.send)
            except Refused as refused:
                if not exchange.started:
                    await send_refusal(receive, exchange.send, refused)
            except Ended:
                pass
            except ClientGone:
                pass
            except Exception:
                if not exchange.ended:
                    raise
            finally:
                await exchange.close()
        else:
            await send({"type": "websocket.close", "code": 1008})

    def _read(self, scope: Scope) -> Asked:
        headers = Headers(scope=scope)
        site = self._sites.find(headers.getlist("host"))
        if site is None:
            raise Refused(
                421,
                "The gateway is not addressed by this name",
                "Use localhost or 127.0.0.1, or add the name to MAILROOM_GATEWAY_HOSTS",
            )
        if "content-length" in headers and "transfer-encoding" in headers:
            # A proxy may count by the other one, and take the rest of the body for a request (RFC 9112, 6.3).
            raise Refused(
                400,
                "The request has both Content-Length and Transfer-Encoding",
                "Send one of them",
                connection="close",
            )
        address = (scope.get("client") or ("unknown", 0))[0]
        return Asked(scope["method"], scope["path"], headers, address, site)

    def _require_own_page(self, asked: Asked, credential: Credential) -> None:
        """Refuse what a page of another site asks for; raises Refused (403)."""
        fetch_site = asked.headers.get("sec-fetch-site", "")
        origins = asked.headers.getlist("origin")
        if asked.is_read:
            foreign = asked.is_protected and is_foreign_read(fetch_site)
        else:
            foreign = is_foreign_change(asked.site, origins, fetch_site)
            # Browsers send Origin with every change, so what has a cookie and no Origin comes from none.
            foreign = foreign or (credential.via == "session" and not origins)
        if foreign:
            raise Refused(
                403,
                "The request does not come from a page of this gateway",
                "Open the dashboard itself, or use a token: 'mailroom token add'",
            )

    async def _identify(self, asked: Asked, credential: Credential) -> Person | None:
        """The person who asks; None if none is needed. Raises Refused (401, 429, 503)."""
        if asked.is_attempt or asked.is_hook:
            (self._attempts if asked.is_attempt else self._hooks).take(asked.address)
            return await self._find(credential)
        if asked.is_read and not asked.is_protected:
            self._by_address.take(asked.address)
            return None
        person = await self._find(credential)
        if person is not None:
            self._by_person.take(person.name)
            return person
        self._by_address.take(asked.address)
        if credential.via == "token":
            self._attempts.take(asked.address)
            self._note(AccessAct.TOKEN_REFUSED, address=asked.address)
            cause, cure = (
                "The token is not valid",
                "It was revoked or expired: 'mailroom token list' shows them",
            )
        else:
            cause, cure = "You are not signed in", "'mailroom web' prints a link that signs you in"
        raise Refused(401, cause, cure, www_authenticate='Bearer realm="mailroom"')

    async def _find(self, credential: Credential) -> Person | None:
        if credential.via is None:
            return None
        try:
            return await self.authenticator.find(credential)
        except ConfigError as error:
            log.error("access_files_unreadable", reason=str(error))
            raise Refused(
                503, "It cannot be checked who may use the gateway", "Its log says which file is wrong"
            ) from None

    def _exchange(
        self,
        receive: Receive,
        send: Send,
        headers: dict[str, str],
        credential: Credential,
        person: Person | None,
    ) -> Exchange:
        def is_valid() -> bool:
            try:
                return self.authenticator.identify(credential) is not None
            except ConfigError:
                return False

        return Exchange(
            receive,
            send,
            headers=headers,
            streams=self._streams,
            owner=person.name if person else "",
            is_valid=is_valid,
        )

    def _headers_for(self, path: str, *, secure: bool) -> dict[str, str]:
        kept = {"strict-transport-security": "max-age=31536000"} if secure else {}
        if any(path.startswith(each) for each in (*PROTECTED, HOOKS)):
            return {**HEADERS, **kept, "cache-control": "no-store", "content-security-policy": API_POLICY}
        return {**HEADERS, **kept, "content-security-policy": self._page_policy}
