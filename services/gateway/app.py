"""The application: the API, the pages, and what is in front of them."""

from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from services.gateway.api import TABLE
from services.gateway.context import Gateway
from services.gateway.files import Files
from services.gateway.hooks import hook_routes
from services.gateway.login import login_routes
from services.gateway.openapi import describe
from services.gateway.problems import title_of, to_response
from services.gateway.routing import make_routes
from services.gateway.security.guard import secure
from shared.log import logger

WEB = Path(__file__).resolve().parent / "web"
PAGES = (
    "/",
    "/goals",
    "/goals/{rest:path}",
    "/traffic",
    "/agents",
    "/agents/{rest:path}",
    "/memory",
    "/memory/{rest:path}",
    "/chat",
    "/chat/{rest:path}",
    "/today",
    "/today/{rest:path}",
    "/timetable",
    "/deliveries",
    "/figures",
)
"""The paths of the dashboard: the browser's own router shows the view."""

PAGE = Files(WEB, "no-cache")

log = logger(__name__)


def build_app(gateway: Gateway) -> ASGIApp:
    """The whole application, with its checks of every request."""

    async def page(request: Request) -> Response:
        return PAGE.answer(request, "index.html")

    async def health(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    document = describe(TABLE)

    async def openapi(_: Request) -> Response:
        return Response(document, media_type="application/json")

    app = Starlette(
        routes=[
            *make_routes(gateway, TABLE),
            Route("/openapi.json", openapi),
            Route("/healthz", health),
            *login_routes(gateway),
            *hook_routes(gateway),
            *(Route(path, page) for path in PAGES),
            Route("/web/vendor/{path:path}", Files(gateway.settings.assets).serve),
            Route("/web/{path:path}", Files(WEB).serve),
        ],
        exception_handlers={HTTPException: _on_http_error, Exception: _on_error},
    )
    guarded = secure(app, gateway.settings, pages=WEB.glob("*.html"), note=gateway.access.note)
    return gateway.exposition.requests.observe(guarded)


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path
    if error.status_code == 404 and _is_for_people(request):
        return PAGE.answer(request, "index.html", 404)  # it says that there is no such page
    detail = f"{request.method} {path[:200]}: {title_of(error.status_code)}"
    cure = "'GET /openapi.json' lists what there is" if error.status_code in (404, 405) else ""
    return to_response(error.status_code, detail, cure, headers=dict(error.headers or {}))


def _is_for_people(request: Request) -> bool:
    """Whether a person typed an address: not a script, and not a part of a page."""
    wants_page = "text/html" in request.headers.get("accept", "")
    return request.method == "GET" and wants_page and not request.url.path.startswith(("/api/", "/web/"))


async def _on_error(request: Request, error: Exception) -> Response:
    log.error("request_failed", method=request.method, path=request.url.path, exc_info=error)
    return to_response(
        500, "The gateway could not answer this", "Its log says why: 'mailroom doctor' names it"
    )
