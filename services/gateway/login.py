"""The page to sign in on, and the ways back from an OpenID provider."""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from services.gateway.call import Gateway
from services.gateway.problems import to_response
from services.gateway.security.authentication import AccessLog, Authenticator, set_cookie
from services.gateway.security.openid import PENDING_LIFETIME, OpenId
from services.gateway.security.sites import Site
from shared.contracts import AccessAct
from shared.errors import ConfigError, MailroomError
from shared.log import logger
from shared.settings import Settings

PAGE = Path(__file__).resolve().parent / "web" / "login.html"
BEGIN = "/login/oidc"
BACK = "/login/oidc/callback"
BROWSER_COOKIE = "mailroom_oidc"

log = logger(__name__)


def login_routes(gateway: Gateway) -> list[Route]:
    """The routes that need no session: they begin one."""
    provider = _make_provider(gateway.settings)

    async def page(_: Request) -> Response:
        return FileResponse(PAGE, headers={"Cache-Control": "no-cache"})

    async def methods(_: Request) -> Response:
        return JSONResponse({"oidc": provider is not None}, headers={"Cache-Control": "no-store"})

    routes = [Route("/login", page), Route("/login/methods", methods)]
    if provider is None:
        return routes
    sign_in = _SignIn(provider, gateway.settings, gateway.access)
    return [*routes, Route(BEGIN, sign_in.begin), Route(BACK, sign_in.finish)]


def _make_provider(config: Settings) -> OpenId | None:
    """The client of the provider; None without one, or if the settings for it are wrong."""
    if not config.gateway_oidc_issuer:
        return None
    try:
        import authlib  # noqa: F401
    except ImportError:
        log.error("openid_off", reason="authlib is missing: install mailroom with the extra 'oidc'")
        return None
    try:
        return OpenId(config)
    except ConfigError as error:
        log.error("openid_off", reason=str(error))
        return None


class _SignIn:
    """Sends browsers to the provider, and signs in those who come back as one of the office's people."""

    def __init__(self, provider: OpenId, config: Settings, access: AccessLog) -> None:
        self._provider, self._config, self._access = provider, config, access

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
            access = Authenticator(self._config)
            name = access.people.find_by_email(found)
        except MailroomError as error:
            return self._refuse(request, error)
        if not name:
            self._note(request, "", f"{found[:100]} is not one of the office's people")
            return RedirectResponse("/login?refused=1", 303)
        answer = RedirectResponse("/", 303)
        set_cookie(answer, request.state.site, access.sessions.create(name))
        answer.delete_cookie(BROWSER_COOKIE, path=BEGIN, httponly=True, secure=request.state.site.secure)
        self._note(request, name, "")
        return answer

    def _refuse(self, request: Request, error: MailroomError) -> Response:
        self._note(request, "", error.cause)
        return to_response(401, error.cause, error.cure)

    def _note(self, request: Request, person: str, reason: str) -> None:
        act = AccessAct.SIGNED_IN if person else AccessAct.SIGN_IN_REFUSED
        self._access.note(act, person=person, address=request.state.address, about="openid", reason=reason)
