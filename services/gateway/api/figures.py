"""Figures: the metrics with their targets, the page for Prometheus, and the description of the bus."""

import asyncio
import time
from functools import partial
from importlib.metadata import version

import msgspec
from starlette.responses import Response

from services.gateway.call import Call
from services.gateway.index.reader import ask
from services.gateway.metrics.exposition import CONTENT_TYPE
from services.gateway.metrics.learning import read_recall
from services.gateway.metrics.targets import Figures, read_figures, read_metrics, with_recall
from services.gateway.routing import Endpoint
from shared.access.scopes import Scope
from shared.bus.records import read_presences
from shared.memory import Memory
from shared.text.times import format_utc, parse_time

FRESH = 5.0  # Seconds for which computed figures are used again


class _Known:
    """What was computed last, and when."""

    def __init__(self) -> None:
        self.figures: Figures | None = None
        self.read_at = float("-inf")
        self.reading = asyncio.Lock()


_known = _Known()


class KpiQuery(msgspec.Struct, frozen=True, kw_only=True):
    """``since`` is the time, in ISO 8601, from which on the metrics count; empty: the last 30 days."""

    since: str = ""


async def read_kpi(call: Call, query: KpiQuery) -> Figures:
    """The metrics with their targets, and their course by day in the last 30 days."""
    figures = await _read_figures(call)
    if not query.since:
        return figures
    since = format_utc(parse_time(query.since))
    metrics = await ask(call.gateway.index.store, partial(read_metrics, since=since))
    metrics = msgspec.structs.replace(metrics, recall=figures.metrics.recall)
    return msgspec.structs.replace(figures, metrics=metrics, since=since)


async def _read_figures(call: Call) -> Figures:
    async with _known.reading:
        if _known.figures is None or time.monotonic() - _known.read_at >= FRESH:
            figures = await ask(call.gateway.index.store, read_figures)
            _known.figures = with_recall(figures, await read_recall(Memory(call.gateway.bus)))
            _known.read_at = time.monotonic()
    return _known.figures


async def export_metrics(call: Call) -> Response:
    """The figures in Prometheus' text format."""
    return Response(await call.gateway.exposition.page(), headers={"Content-Type": CONTENT_TYPE})


async def describe_bus(call: Call) -> Response:
    """Every subject of the bus as an AsyncAPI 3.0 document; the agents are those that run."""
    from shared.asyncapi.document import make_document

    running = {presence.agent for presence in await read_presences(call.gateway.bus)}
    document = make_document(sorted(running), version=version("mailroom"), host=call.gateway.bus.url)
    return Response(msgspec.json.encode(document), media_type="application/json")


ENDPOINTS = (
    Endpoint("GET", "/api/v1/kpi", read_kpi, scope=Scope.READ, tag="figures"),
    Endpoint("GET", "/metrics", export_metrics, scope=Scope.READ, tag="figures"),
    Endpoint("GET", "/asyncapi.json", describe_bus, scope=Scope.READ, tag="figures"),
)
