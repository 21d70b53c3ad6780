"""Web servers in the process of a test, for services of the network."""

import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple, Self
from urllib.parse import urlsplit


class Request(BaseHTTPRequestHandler):
    """A request as it came, and the means to answer it."""

    server: "_Listener"

    def read_body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def respond(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Send a whole answer."""
        self.start_response(status, {"Content-Length": str(len(body)), **headers})
        if self.command != "HEAD":
            self.wfile.write(body)

    def start_response(self, status: int, headers: Mapping[str, str]) -> None:
        """Send what comes before the body."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def do_GET(self) -> None:
        self.server.answer(self)

    do_POST = do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class _Listener(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, answer: Callable[[Request], None], handler: type[Request]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.answer = answer


class HttpServer:
    """A web server on a free port of 127.0.0.1; ``answer`` is called for each request, in a thread.

    ``closing`` is set when it is closed, for answers that hang until then. As a context manager it is
    closed at the end of the block.
    """

    def __init__(self, answer: Callable[[Request], None], handler: type[Request] = Request) -> None:
        self.closing = threading.Event()
        self._listener = _Listener(answer, handler)
        self.port = self._listener.server_port
        self.root = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._listener.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        """Stop it; may be called again."""
        self.closing.set()
        self._listener.shutdown()
        self._listener.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Asked(NamedTuple):
    """A request for a page: path with query, the name by which the server was called, seconds."""

    path: str
    host: str
    at: float


Page = tuple[int, Mapping[str, str], bytes] | Callable[[Request], None]
"""Status, headers and body; or a function that answers the request."""


class Site(HttpServer):
    """A web server with ``pages``, by path with or without query; ``asked`` are the requests it got."""

    def __init__(self) -> None:
        self.pages: dict[str, Page] = {}
        self.asked: list[Asked] = []
        super().__init__(self._answer)
        self.pair = f"127.0.0.1:{self.port}"
        self.allowed = (self.pair, f"localhost:{self.port}")

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def page(self, path: str, body: str | bytes, status: int = 200, kind: str = "application/xml") -> str:
        """Add a page, and return its address."""
        content = body.encode() if isinstance(body, str) else body
        self.pages[path] = (status, {"Content-Type": kind}, content)
        return self.url(path)

    def silence(self, path: str) -> str:
        """Add a page that is never answered, and return its address."""

        def hang(_: Request) -> None:
            self.closing.wait(20)

        self.pages[path] = hang
        return self.url(path)

    def _answer(self, request: Request) -> None:
        self.asked.append(Asked(request.path, request.headers["Host"], time.monotonic()))
        page = self.pages.get(request.path) or self.pages.get(urlsplit(request.path).path, (404, {}, b""))
        if callable(page):
            page(request)
        else:
            request.respond(*page)
