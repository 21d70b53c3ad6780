"""The page that Prometheus scrapes, and what the gateway counts of its own requests."""

import asyncio
import time
from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.gateway.index.index import LogIndex
from services.gateway.index.reader import ask
from services.gateway.metrics.reading import (
    BUCKETS,
    MAX_AGENTS,
    MAX_MODELS,
    LogFigures,
    ServerFigures,
    ServerProcess,
    limited,
    read_log,
    read_server,
)
from shared.bus import Bus
from shared.errors import BusError
from shared.trace import HEADER, continue_trace

ROUTE = "mailroom.route"
"""The key of an ASGI scope under which the table of routes leaves the path of its row, without ids."""
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
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
            buckets=REQUEST_BUCKETS,
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
            traces = [value for key, value in scope["headers"] if key == HEADER.encode()]
            continue_trace(traces[0].decode("latin-1") if len(traces) == 1 else "")
            answer = _Answer(send, self._streams)
            begun = time.perf_counter()
            try:
                await app(scope, receive, answer.send)
            finally:
                route = scope.get(ROUTE) or ("page" if answer.status < 400 else "other")
                method = scope["method"] if scope["method"] in METHODS else "other"
                self._requests.labels(method, route, str(answer.status)).inc()
                if answer.is_stream:
                    self._streams.dec()
                else:
                    self._seconds.labels(route).observe(time.perf_counter() - begun)

        return observed


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


FRESH = 1.0  # Seconds for which what was read is used again, so that scraping often costs little
CONTENT_TYPE = CONTENT_TYPE_LATEST


class Exposition:
    """All figures of the office, with a registry of its own.

    Those of the log are computed from the index, so they survive the gateway; if the index is rebuilt, they
    are the same again. Labels hold names of agents, lanes, states and models, and never an id.
    """

    def __init__(self, bus: Bus, index: LogIndex) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self.requests = RequestMeter(self.registry)
        ProcessCollector(registry=self.registry)
        self._bus, self._index = bus, index
        self._collected = _Collected()
        self.registry.register(self._collected)
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()

    async def page(self) -> bytes:
        """The page; while the server does not answer, without what it would have said."""
        async with self._reading:
            if time.monotonic() - self._read_at >= FRESH:
                self._collected.log = await ask(self._index.store, read_log)
                self._collected.behind = self._index.behind
                try:
                    self._collected.server = await read_server(self._bus)
                except BusError:
                    self._collected.server = None
                self._read_at = time.monotonic()
        return generate_latest(self.registry)


class _Collected(Collector):
    """What was read last, as families of metrics."""

    def __init__(self) -> None:
        self.log: LogFigures | None = None
        self.server: ServerFigures | None = None
        self.behind = 0

    def collect(self) -> Iterator[Metric]:
        """The families; those of the server are missing if it did not answer."""
        up = GaugeMetricFamily("mailroom_bus_up", "Whether nats-server answered this scrape")
        up.add_metric([], self.server is not None)
        yield up
        if self.log is not None:
            yield from _of_log(self.log, self.behind)
        if self.server is not None:
            yield from _of_server(self.server)

    def describe(self) -> Iterable[Metric]:
        """Nothing: what is collected is not known beforehand."""
        return ()


def _gauge(name: str, text: str, labels: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, number in _summed(rows):
        family.add_metric(values, number)
    return family


def _counter(name: str, text: str, labels: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for values, number in _summed(rows):
        family.add_metric(values, number)
    return family


def _summed(rows: Iterable[tuple[Any, ...]]) -> list[tuple[list[str], float]]:
    """The rows with equal labels as one; the last of a row is its number."""
    found: dict[tuple[str, ...], float] = {}
    for row in rows:
        *labels, number = row
        key = tuple(map(str, labels))
        found[key] = found.get(key, 0.0) + float(number)
    return [(list(key), total) for key, total in sorted(found.items())]


def _of_log(log: LogFigures, behind: int) -> Iterator[Metric]:
    names = [*(row[0] for row in log.tasks), *(row[0] for row in log.usage), *(row[0] for row in log.judged)]
    agents = limited(names, MAX_AGENTS)
    models = limited((row[1] for row in log.usage), MAX_MODELS)
    usage = [(agents[row[0]], models[row[1]], *row[2:]) for row in log.usage]
    yield _gauge("mailroom_log_messages", "Messages of the log that are indexed", (), [(log.messages,)])
    yield _gauge("mailroom_gateway_events_behind", "Messages that are not indexed yet", (), [(behind,)])
    yield _gauge(
        "mailroom_tasks",
        "Tasks by agent, status and outcome",
        ("agent", "status", "outcome"),
        [(agents[agent], *rest) for agent, *rest in log.tasks],
    )
    yield _gauge("mailroom_goals", "Goals by status and outcome", ("status", "outcome"), log.goals)
    yield _gauge(
        "mailroom_tasks_working",
        "Tasks that a process has begun and not ended, waiting for people included",
        ("agent",),
        [(agents[agent], number) for agent, number in log.working.items()],
    )
    yield _histogram(log, agents)
    tokens = [(a, m, "input", row[1]) for a, m, *row in usage] + [
        (a, m, "output", row[2]) for a, m, *row in usage
    ]
    yield _counter("mailroom_model_tokens", "Tokens of model calls", ("agent", "model", "direction"), tokens)
    calls = [(a, m, row[0]) for a, m, *row in usage]
    yield _counter("mailroom_model_calls", "Calls of models", ("agent", "model"), calls)
    cost = [(a, m, row[3]) for a, m, *row in usage]
    yield _counter("mailroom_model_cost_dollars", "US dollars, by brain_price", ("agent", "model"), cost)
    judged = [(agents[agent], verdict, number) for agent, verdict, number in log.judged]
    yield _counter(
        "mailroom_commands_judged",
        "Commands that the policy denied, or left to a person",
        ("agent", "verdict"),
        judged,
    )
    waiting = [(number,) for number in log.approvals.values()] or [(0,)]
    yield _gauge("mailroom_approvals_waiting", "Requests for approval that wait for a person", (), waiting)


def _histogram(log: LogFigures, agents: dict[str, str]) -> Metric:
    family = HistogramMetricFamily(
        "mailroom_task_hop_seconds",
        "Seconds of tasks by hop: claim is from submitted to claimed or begun, work from then to ended",
        labels=("agent", "hop"),
    )
    merged: dict[tuple[str, str], list[float]] = {}
    for hop in log.hops:
        numbers = [*hop.counts, hop.total, hop.seconds]
        key = (agents[hop.agent], hop.hop)
        before = merged.get(key, [0.0] * len(numbers))
        merged[key] = [a + b for a, b in zip(before, numbers, strict=True)]
    for key, (*counts, total, seconds) in sorted(merged.items()):
        buckets = [(str(bound), count) for bound, count in zip(BUCKETS, counts, strict=True)]
        family.add_metric(list(key), [*buckets, ("+Inf", total)], seconds)
    return family


def _of_server(server: ServerFigures) -> Iterator[Metric]:
    lanes = ("agent", "lane")
    waiting = [(agent, lane, number) for agent, lane, number, _ in server.queues]
    yield _gauge("mailroom_queue_depth", "Messages that wait in a mailbox", lanes, waiting)
    working = [(agent, lane, number) for agent, lane, _, number in server.queues]
    yield _gauge("mailroom_queue_delivered", "Messages delivered and not acknowledged", lanes, working)
    processes = limited(dict.fromkeys(name for name, _ in server.processes), MAX_AGENTS)
    yield _gauge(
        "mailroom_processes",
        "Processes of an agent on a host",
        ("agent", "host"),
        [(processes[name], host, number) for (name, host), number in server.processes.items()],
    )
    yield _gauge(
        "mailroom_mcp_servers",
        "MCP servers that run for an agent",
        ("agent", "server"),
        [(processes[agent], name, number) for (agent, name), number in server.servers.items()],
    )
    names = limited(server.dead, MAX_AGENTS)
    dead = [(names[agent], number) for agent, number in server.dead.items()]
    yield _gauge("mailroom_dead_letters", "Messages that could not be handled", ("agent",), dead)
    yield _gauge("mailroom_memory_version", "The version of memory's graph", (), [(server.memory_version,)])
    yield _gauge("mailroom_memory_lag", "Writes that memory has not applied yet", (), [(server.memory_lag,)])
    unsealed = list(server.unsealed.items())
    yield _gauge("mailroom_unsealed", "Messages of the log that no seal covers", ("stream",), unsealed)
    account = server.account
    yield _gauge("mailroom_nats_storage_bytes", "Bytes that JetStream stores", (), [(account["bytes"],)])
    yield _gauge(
        "mailroom_nats_storage_limit_bytes", "Bytes it may store; -1: no limit", (), [(account["limit"],)]
    )
    yield _gauge("mailroom_nats_streams", "Streams of the office", (), [(account["streams"],)])
    yield _gauge("mailroom_nats_consumers", "Durables of the office", (), [(account["consumers"],)])
    yield _counter("mailroom_nats_api_requests", "Requests to JetStream's API", (), [(account["requests"],)])
    yield _counter("mailroom_nats_api_errors", "Those that failed", (), [(account["errors"],)])
    if server.process is not None:
        yield from _of_process(server.process)


def _of_process(process: ServerProcess) -> Iterator[Metric]:
    """The figures of nats-server itself; counts begin at 0 when it is started."""
    yield from (
        _gauge(f"mailroom_nats_{name}", text, (), [(number,)])
        for name, text, number in (
            ("connections", "Connections to nats-server now", process.connections),
            ("memory_bytes", "Memory that nats-server has", process.mem),
            ("subscriptions", "Subscriptions of all connections", process.subscriptions),
            ("jetstream_bytes", "Bytes of JetStream on disk", process.jetstream.stats.storage),
        )
    )
    sent, received = process.sent, process.received
    yield from (
        _counter(f"mailroom_nats_{name}", text, (), [(number,)])
        for name, text, number in (
            ("connections_opened", "Connections since its start", process.total_connections),
            ("slow_consumers", "Connections closed for reading too slowly", process.slow_consumers),
            ("received_messages", "Messages from clients and other servers", received.msgs),
            ("received_bytes", "Bytes of those", received.bytes),
            ("sent_messages", "Messages to clients and other servers", sent.msgs),
            ("sent_bytes", "Bytes of those", sent.bytes),
        )
    )
