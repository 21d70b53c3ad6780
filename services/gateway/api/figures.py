"""Figures: the metrics with their targets, the page for Prometheus, the bus described, doctor's checks."""

import asyncio
import time
from collections import OrderedDict
from functools import partial
from importlib.metadata import version
from pathlib import Path

import msgspec
from starlette.responses import Response

from services.gateway.api.agents import list_keys
from services.gateway.call import Call
from services.gateway.index.index import LogIndex
from services.gateway.index.reader import ask
from services.gateway.metrics.computing import read_recall
from services.gateway.metrics.exposition import CONTENT_TYPE
from services.gateway.metrics.targets import Period, read_figures, with_recall
from services.gateway.routing import Endpoint
from shared.access.scopes import Scope
from shared.bus.records import read_presences
from shared.memory import Memory
from shared.queries.checks import (
    ANSWER_WAIT,
    Check,
    check_agents,
    check_deliver,
    check_disk,
    check_memory,
    check_rates,
    check_seals,
    check_server,
    check_streams,
    fail,
    ok,
    run_checks,
    warn,
)
from shared.views.metrics import Figures

FRESH = 5.0  # Seconds for which computed figures are used again
KEPT = 8  # Periods whose figures are kept


class _Known:
    """What was computed last of each period, and when."""

    def __init__(self) -> None:
        self.figures: OrderedDict[KpiQuery, tuple[float, Figures]] = OrderedDict()
        self.reading = asyncio.Lock()


_known = _Known()


class KpiQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The period that counts, in ISO 8601: from ``since`` on until before ``until``.

    Without a beginning it is the last 30 days, without an end up to now.
    """

    since: str = ""
    until: str = ""


async def read_kpi(call: Call, query: KpiQuery) -> Figures:
    """The metrics of a period with their targets, and their course by day, or by hour if it has two days."""
    period = Period.make(query.since, query.until)
    async with _known.reading:
        read_at, figures = _known.figures.pop(query, (float("-inf"), None))
        if figures is None or time.monotonic() - read_at >= FRESH:
            figures = await ask(call.gateway.index.store, partial(read_figures, period=period))
            figures = with_recall(figures, await read_recall(Memory(call.gateway.bus)))
            read_at = time.monotonic()
        _known.figures[query] = read_at, figures
        if len(_known.figures) > KEPT:
            _known.figures.popitem(last=False)
    return figures


async def export_metrics(call: Call) -> Response:
    """The figures in Prometheus' text format."""
    return Response(await call.gateway.exposition.page(), headers={"Content-Type": CONTENT_TYPE})


async def describe_bus(call: Call) -> Response:
    """Every subject of the bus as an AsyncAPI 3.0 document; the agents are those that run."""
    from shared.asyncapi.document import make_document

    running = {presence.agent for presence in await read_presences(call.gateway.bus)}
    document = make_document(sorted(running), version=version("mailroom"), host=call.gateway.bus.url)
    return Response(msgspec.json.encode(document), media_type="application/json")


SERVICES = Path(__file__).parents[2]


class Checks(msgspec.Struct, frozen=True, kw_only=True):
    """The results of the checks, and the worst of their verdicts."""

    verdict: str
    checks: list[Check]


async def check_installation(call: Call) -> Checks:
    """Check server, streams, agents, memory and disk, and say how to fix problems.

    ``mailroom doctor`` checks more: keys, commits, models and the sandbox, on the machine it runs on.
    """
    bus, settings = call.gateway.bus, call.gateway.settings
    # those that come with Mailroom, and those that have a key here: in a container one alone has
    agents = sorted({*list_keys(settings), *(path.parent.name for path in SERVICES.glob("*/profile.yaml"))})
    checks = [check_server(bus), check_disk(settings), _check_index(call.gateway.index)]
    probes = {
        "streams": check_streams(bus, settings, agents),
        "agents": check_agents(bus, settings, agents),
        "memory": check_memory(bus),
        "rates": check_rates(bus),
        "deliver": check_deliver(bus, settings),
        "seals": check_seals(bus, settings),
    }
    await run_checks(probes, checks.append, ANSWER_WAIT)
    verdicts = {check.verdict for check in checks}
    worst = next(each for each in ("fail", "warn", "ok") if each in verdicts)
    return Checks(verdict=worst, checks=checks)


def _check_index(index: LogIndex) -> Check:
    folder = index.store.path.parent
    if index.problem:
        fix = f"Free space for {folder}; it goes on by itself"
        return fail("index", f"new messages cannot be indexed: {index.problem}", fix)
    if index.behind:
        return warn("index", f"{index.behind:,} messages are not indexed yet", "Wait until it is done")
    return ok("index", f"{index.store.count:,} messages in {index.store.path}")


ENDPOINTS = (
    Endpoint("GET", "/api/v1/kpi", read_kpi, scope=Scope.READ, tag="figures"),
    Endpoint("GET", "/metrics", export_metrics, scope=Scope.READ, tag="figures"),
    Endpoint("GET", "/asyncapi.json", describe_bus, scope=Scope.READ, tag="figures"),
    Endpoint("GET", "/api/v1/doctor", check_installation, scope=Scope.READ, tag="figures"),
)
