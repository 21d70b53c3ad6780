"""What the gateway counts of its own requests, and the trace that each of them continues."""

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.trace import HEADER, continue_trace

ROUTE = "mailroom.route"
"""The key of an ASGI scope under which the table of routes leaves the path of its row, without ids."""
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
STREAM = "text/event-stream"


class RequestMeter:
    """The figures of the requests to this process, in ``registry``."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "mailroom_gateway_requests",
            "Requests that the gateway answered, by method, route and status",
            ("method", "route", "status"),
            registry=registry,
        )
        self._seconds = Histogram(
            "mailroom_gateway_request_seconds",
            "Seconds until a request was answered, but for streams",
            ("route",),
            buckets=BUCKETS,
            registry=registry,
        )
        self._streams = Gauge(
            "mailroom_gateway_streams", "Streams of events that are open", registry=registry
        )

    def observe(self, app: ASGIApp) -> ASGIApp:
        """``app``, each request counted, and in the trace of its header ``traceparent`` or a new one."""

        async def observed(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            continue_trace(_header(scope, HEADER))
            answer = _Answer(send, self._streams)
            begun = time.perf_counter()
            try:
                await app(scope, receive, answer.send)
            finally:
                self._count(scope, answer, time.perf_counter() - begun)

        return observed

    def _count(self, scope: Scope, answer: "_Answer", seconds: float) -> None:
        route = scope.get(ROUTE) or ("page" if answer.status < 400 else "other")
        method = scope["method"] if scope["method"] in METHODS else "other"
        self._requests.labels(method, route, str(answer.status)).inc()
        if answer.is_stream:
            self._streams.dec()
        else:
            self._seconds.labels(route).observe(seconds)


class _Answer:
    """Passes an answer on, and remembers its status."""

    def __init__(self, send: Send, streams: Gauge) -> None:
        self.status = 500
        self.is_stream = False
        self._send, self._streams = send, streams

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = int(message["status"])
            kinds = [value for name, value in message.get("headers", ()) if name.lower() == b"content-type"]
            if any(kind.startswith(STREAM.encode()) for kind in kinds):
                self.is_stream = True
                self._streams.inc()
        await self._send(message)


def _header(scope: Scope, name: str) -> str:
    found = [value for key, value in scope["headers"] if key == name.encode()]
    return found[0].decode("latin-1") if len(found) == 1 else ""
