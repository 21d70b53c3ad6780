"""The application: the API, the dashboard's files, and what is in front of them."""

import gzip
import hashlib
import mimetypes
import stat
from pathlib import Path

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from services.gateway.api import TABLE
from services.gateway.call import Gateway
from services.gateway.hooks import hook_routes
from services.gateway.login import login_routes
from services.gateway.mcp.door import PATH, Door
from services.gateway.problems import title_of, to_response
from services.gateway.routing import describe, make_routes
from services.gateway.security.guard import secure
from shared.log import logger

MAX_AGE = 60  # Seconds for which a browser does not ask again: tabs that open together share one answer
LEAST = 512  # Bytes below which a file is not compressed
_TEXTS = ("text/", "application/javascript", "image/svg+xml")


class _Kept(msgspec.Struct, frozen=True):
    """A file as it was when it was read; ``packed`` is empty where gzip would save nothing."""

    stamp: tuple[int, int]
    data: bytes
    packed: bytes
    tag: str
    kind: str


class Files:
    """The regular files below a folder, which may come to be while the gateway runs."""

    def __init__(self, folder: Path, cache: str = f"max-age={MAX_AGE}") -> None:
        self._folder, self._cache = folder, cache
        self._kept: dict[str, _Kept] = {}

    async def serve(self, request: Request) -> Response:
        """The file that the path names; raises HTTPException (404)."""
        return self.answer(request, request.path_params["path"])

    def answer(self, request: Request, name: str, status: int = 200) -> Response:
        """The file ``name``, or that the browser's copy is right; raises HTTPException (404)."""
        if any(part in ("", ".", "..") or not part.isprintable() or "\\" in part for part in name.split("/")):
            raise HTTPException(404)
        path = self._folder / name
        try:
            found = path.stat()
            stamp = (found.st_mtime_ns, found.st_size)
            kept = self._kept.get(name)
            if not stat.S_ISREG(found.st_mode):
                raise HTTPException(404)
            if kept is None or kept.stamp != stamp:
                data = path.read_bytes()
                kind = "text/javascript" if path.suffix == ".mjs" else mimetypes.guess_type(path.name)[0]
                kind = kind or "application/octet-stream"
                is_long_text = len(data) >= LEAST and kind.startswith(_TEXTS)
                packed = gzip.compress(data, mtime=0) if is_long_text else b""
                tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
                kept = _Kept(stamp, data, packed if len(packed) < len(data) else b"", tag, kind)
                self._kept[name] = kept
        except OSError:
            raise HTTPException(404) from None
        headers = {"Cache-Control": self._cache, "ETag": kept.tag, "Vary": "Accept-Encoding"}
        if status == 200 and kept.tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        data = kept.data
        if kept.packed and "gzip" in request.headers.get("accept-encoding", ""):
            data, headers["Content-Encoding"] = kept.packed, "gzip"
        return Response(data, status, headers, media_type=kept.kind)


WEB = Path(__file__).resolve().parent / "web"
PAGES = (
    "/",
    "/goals",
    "/goals/{rest:path}",
    "/compare/{rest:path}",
    "/traffic",
    "/agents",
    "/agents/{rest:path}",
    "/models",
    "/models/{rest:path}",
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
            Route(PATH, Door(gateway)),
            *(Route(path, page) for path in PAGES),
            Route("/web/vendor/{path:path}", Files(gateway.settings.assets).serve),
            Route("/web/{path:path}", Files(WEB).serve),
        ],
        exception_handlers={HTTPException: _on_http_error, Exception: _on_error},
    )
    guarded = secure(
        app, gateway.settings, gateway.authenticator, pages=WEB.glob("*.html"), note=gateway.access.note
    )
    return gateway.exposition.requests.observe(guarded)


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path
    wants_page = "text/html" in request.headers.get("accept", "")
    # A person typed an address: not a script, and not a part of a page.
    is_typed = request.method == "GET" and wants_page and not path.startswith(("/api/", "/web/"))
    if error.status_code == 404 and is_typed:
        return PAGE.answer(request, "index.html", 404)  # it says that there is no such page
    detail = f"{request.method} {path[:200]}: {title_of(error.status_code)}"
    cure = "'GET /openapi.json' lists what there is" if error.status_code in (404, 405) else ""
    return to_response(error.status_code, detail, cure, headers=dict(error.headers or {}))


async def _on_error(request: Request, error: Exception) -> Response:
    log.error("request_failed", method=request.method, path=request.url.path, exc_info=error)
    return to_response(
        500, "The gateway could not answer this", "Its log says why: 'mailroom doctor' names it"
    )
