"""Signing in in a browser: its page, and an OpenID provider by the code flow with PKCE (RFC 7636)."""

import secrets
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from services.gateway.call import Gateway
from services.gateway.problems import to_response
from services.gateway.security.authentication import AccessLog, Authenticator, Site, set_cookie
from services.gateway.security.bucket import Bucket
from shared.access.credentials import hash_secret
from shared.contracts import AccessAct
from shared.errors import ConfigError, MailroomError
from shared.log import logger
from shared.settings import Settings

ALGORITHMS = ["RS256", "PS256", "ES256", "ES384", "EdDSA"]
"""Signatures that only the provider can make; what the client's secret signs is not among them."""
PENDING_LIFETIME = 600.0
MAX_PENDING = 1_000  # Beginnings that are kept: anybody can begin
TIMEOUT = 10.0
LEEWAY = 60  # Seconds that the clocks of the provider and of this machine may differ
SCOPE = "openid email profile"
FAILED = "Signing in with your account did not work"


class Provider(msgspec.Struct, frozen=True):
    """What the provider says about itself."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str


class Pending(msgspec.Struct, frozen=True):
    """A sign-in that began; ``browser`` is what the browser's cookie has to hold when it comes back."""

    browser: str
    verifier: str
    nonce: str
    redirect_uri: str
    begun_at: float  # In seconds since 1970


class OpenId:
    """The client of one provider. A sign-in that began at one gateway may end at another, once."""

    def __init__(self, config: Settings, bucket: Bucket) -> None:
        self._issuer = config.gateway_oidc_issuer.rstrip("/")
        self._client = (config.gateway_oidc_client_id, config.gateway_oidc_client_secret)
        self._claim = config.gateway_oidc_claim
        self._bucket = bucket
        self._provider: Provider | None = None
        if not _is_safe(self._issuer):
            raise ConfigError(
                f"MAILROOM_GATEWAY_OIDC_ISSUER is {self._issuer[:80]!r}", "It has to begin with https://"
            )
        if not config.gateway_oidc_client_id:
            raise ConfigError(
                "MAILROOM_GATEWAY_OIDC_CLIENT_ID is empty", "Set it to what the provider calls the gateway"
            )

    async def begin(self, redirect_uri: str) -> tuple[str, str]:
        """The address to send a browser to, and what its cookie is to hold; raises MailroomError."""
        from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
        from authlib.oauth2.rfc7636 import create_s256_code_challenge

        provider = await self._discover()
        state, moment = secrets.token_urlsafe(32), time.time()
        browser, verifier, nonce = (secrets.token_urlsafe(32) for _ in range(3))
        pending = Pending(browser, verifier, nonce, redirect_uri, moment)
        begun = self._bucket.list("login")
        if len(begun) >= MAX_PENDING:
            oldest = min(begun, key=lambda name: msgspec.json.decode(begun[name], type=Pending).begun_at)
            await self._bucket.remove(f"login.{oldest}")
        key = f"login.{hash_secret(state)}"
        await self._bucket.put(key, msgspec.json.encode(pending), lifetime=PENDING_LIFETIME)
        address = prepare_grant_uri(
            provider.authorization_endpoint,
            self._client[0],
            "code",
            redirect_uri=redirect_uri,
            scope=SCOPE,
            state=state,
            nonce=pending.nonce,
            code_challenge=create_s256_code_challenge(pending.verifier),
            code_challenge_method="S256",
        )
        return str(address), pending.browser

    async def finish(self, query: dict[str, str], browser: str) -> str:
        """What the provider calls the person who comes back with ``query``; raises MailroomError if refused.

        ``browser`` is what the cookie holds.
        """
        key = f"login.{hash_secret(query.get('state', ''))}"
        if not self._bucket.find(key):
            await self._bucket.look_again()
        data = self._bucket.find(key)
        pending = msgspec.json.decode(data, type=Pending) if data and await self._bucket.remove(key) else None
        if pending is None or time.time() - pending.begun_at > PENDING_LIFETIME:
            raise MailroomError(f"{FAILED}: it was begun too long ago", "Begin again")
        if not secrets.compare_digest(pending.browser.encode(), browser.encode()):
            raise MailroomError(f"{FAILED}: it was begun in another browser", "Begin again")
        if query.get("iss", self._issuer).rstrip("/") != self._issuer:
            raise MailroomError(f"{FAILED}: another provider answered")
        if "code" not in query:
            raise MailroomError(f"{FAILED}: {query.get('error', 'the provider gave no code')[:100]}")
        code = query["code"]
        provider = await self._discover()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": pending.redirect_uri,
            "client_id": self._client[0],
            "code_verifier": pending.verifier,
        }
        answer = await self._request("POST", provider.token_endpoint, data=form, auth=self._client)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise MailroomError(f"{FAILED}: the provider gave no ID token")
        claims = await self._read_claims(token, pending.nonce)
        found = claims.get(self._claim)
        if not isinstance(found, str) or not found:
            raise MailroomError(f"{FAILED}: the provider does not say the person's {self._claim}")
        if self._claim == "email" and claims.get("email_verified") is not True:
            raise MailroomError(f"{FAILED}: the provider has not verified the person's email")
        return found

    async def _discover(self) -> Provider:
        if self._provider is None:
            found = await self._request("GET", f"{self._issuer}/.well-known/openid-configuration")
            try:
                provider = msgspec.convert(found, Provider)
            except msgspec.ValidationError as error:
                raise MailroomError(f"{FAILED}: the provider describes itself wrongly: {error}") from None
            addresses = (provider.authorization_endpoint, provider.token_endpoint, provider.jwks_uri)
            if provider.issuer.rstrip("/") != self._issuer or not all(map(_is_safe, addresses)):
                raise MailroomError(
                    f"{FAILED}: the provider is not {self._issuer}", "Correct MAILROOM_GATEWAY_OIDC_ISSUER"
                )
            self._provider = provider
        return self._provider

    async def _read_claims(self, token: str, nonce: str) -> dict[str, Any]:
        """The claims of an ID token, checked as OpenID Connect Core 3.1.3.7 demands."""
        from joserfc import jwt
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        provider = await self._discover()
        keys: KeySet = KeySet.import_key_set(await self._request("GET", provider.jwks_uri))  # type: ignore[arg-type]
        client = self._client[0]
        try:
            claims = jwt.decode(token, keys, algorithms=ALGORITHMS).claims
            jwt.JWTClaimsRegistry(
                leeway=LEEWAY,
                iss={"essential": True, "value": provider.issuer},
                aud={"essential": True, "value": client},
                exp={"essential": True},
                iat={"essential": True},
                sub={"essential": True},
                nonce={"essential": True, "value": nonce},
            ).validate(claims)
        except (JoseError, ValueError, KeyError, TypeError) as error:
            raise MailroomError(f"{FAILED}: the ID token is not valid ({type(error).__name__})") from None
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if claims.get("azp", client) != client or (several and "azp" not in claims):
            raise MailroomError(f"{FAILED}: the ID token is for another client")
        return claims

    async def _request(self, method: str, address: str, **options: Any) -> dict[str, Any]:
        import httpx2

        try:
            async with httpx2.AsyncClient(timeout=TIMEOUT, follow_redirects=False) as client:
                answer = await client.request(method, address, **options)
                found = msgspec.json.decode(answer.content)
        except (httpx2.HTTPError, msgspec.DecodeError) as error:
            raise MailroomError(f"{FAILED}: the provider does not answer ({type(error).__name__})") from None
        if answer.status_code != 200 or not isinstance(found, dict):
            raise MailroomError(f"{FAILED}: the provider answered {answer.status_code}")
        return found


def _is_safe(address: str) -> bool:
    """Whether an address is https, or of this machine."""
    parts = urlsplit(address)
    return parts.scheme == "https" or (
        parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")
    )


PAGE = Path(__file__).resolve().parent / "web" / "login.html"
BEGIN = "/login/oidc"
BACK = "/login/oidc/callback"
BROWSER_COOKIE = "mailroom_oidc"

log = logger(__name__)


def login_routes(gateway: Gateway) -> list[Route]:
    """The routes that need no session: they begin one."""
    provider: OpenId | None = None
    if gateway.settings.gateway_oidc_issuer:
        try:
            import authlib  # noqa: F401

            provider = OpenId(gateway.settings, gateway.bucket)
        except ImportError:
            log.error("openid_off", reason="authlib is missing: install mailroom with the extra 'oidc'")
        except ConfigError as error:
            log.error("openid_off", reason=str(error))

    async def page(_: Request) -> Response:
        return FileResponse(PAGE, headers={"Cache-Control": "no-cache"})

    async def methods(_: Request) -> Response:
        return JSONResponse({"oidc": provider is not None}, headers={"Cache-Control": "no-store"})

    routes = [Route("/login", page), Route("/login/methods", methods)]
    if provider is None:
        return routes
    sign_in = _SignIn(provider, gateway.settings, gateway.access, gateway.authenticator)
    return [*routes, Route(BEGIN, sign_in.begin), Route(BACK, sign_in.finish)]


class _SignIn:
    """Sends browsers to the provider, and signs in those who come back as one of the office's people."""

    def __init__(
        self, provider: OpenId, config: Settings, access: AccessLog, authenticator: Authenticator
    ) -> None:
        self._provider, self._config, self._access = provider, config, access
        self._authenticator = authenticator

    async def begin(self, request: Request) -> Response:
        """Go to the provider."""
        site: Site = request.state.site
        asked = f"{'https' if site.secure else 'http'}://{site.host}"
        home = self._config.gateway_public_url.rstrip("/") or asked
        if home != asked and "home" not in request.query_params:
            # The provider leads back there, so the cookie has to be of that host.
            return RedirectResponse(f"{home}{BEGIN}?home=1", 303)
        try:
            address, browser = await self._provider.begin(f"{home}{BACK}")
        except MailroomError as error:
            return self._refuse(request, error)
        answer = RedirectResponse(address, 303)
        # Lax, since the way back begins at the provider's page.
        answer.set_cookie(
            BROWSER_COOKIE,
            browser,
            max_age=int(PENDING_LIFETIME),
            path=BEGIN,
            httponly=True,
            secure=site.secure,
            samesite="lax",
        )
        return answer

    async def finish(self, request: Request) -> Response:
        """Come back from the provider."""
        try:
            browser = request.cookies.get(BROWSER_COOKIE, "")
            found = await self._provider.finish(dict(request.query_params), browser)
            name = self._authenticator.people.find_by_email(found)
            secret = await self._authenticator.sessions.create(name) if name else ""
        except MailroomError as error:
            return self._refuse(request, error)
        if not name:
            self._note(request, "", f"{found[:100]} is not one of the office's people")
            return RedirectResponse("/login?refused=1", 303)
        answer = RedirectResponse("/", 303)
        set_cookie(answer, request.state.site, secret)
        answer.delete_cookie(BROWSER_COOKIE, path=BEGIN, httponly=True, secure=request.state.site.secure)
        self._note(request, name, "")
        return answer

    def _refuse(self, request: Request, error: MailroomError) -> Response:
        self._note(request, "", error.cause)
        return to_response(401, error.cause, error.cure)

    def _note(self, request: Request, person: str, reason: str) -> None:
        act = AccessAct.SIGNED_IN if person else AccessAct.SIGN_IN_REFUSED
        self._access.note(act, person=person, address=request.state.address, about="openid", reason=reason)
