"""What is read for one scrape: the index's tables, and what the server says of streams and durables."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from services.gateway.index.store import PART, Store
from shared import subjects
from shared.bus import Bus
from shared.bus.records import read_presences
from shared.contracts import GraphVersion
from shared.errors import BusError
from shared.queries.office import count_dead_letters
from shared.queries.records import call_server
from shared.queries.seals import read_unsealed

BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
"""Upper bounds of the histograms of hops, in seconds."""
MAX_AGENTS = 64
MAX_MODELS = 16
"""The most agents and models that have a series of their own; the others are ``other`` together."""
OTHER = "other"
STATISTICS_WAIT = 1.0  # Seconds that a scrape waits for the figures of nats-server itself


class Hop(msgspec.Struct, frozen=True):
    """How long tasks of an agent took for a hop: counts up to each bound of BUCKETS, of all, and the sum."""

    agent: str
    hop: str
    counts: tuple[int, ...]
    total: int
    seconds: float


class LogFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What the tables hold, each row its labels and then the number."""

    hops: list[Hop]
    tasks: list[tuple[str, str, str, int]]
    goals: list[tuple[str, str, int]]
    working: dict[str, int]
    usage: list[tuple[str, str, int, int, int, float]]
    judged: list[tuple[str, str, int]]
    approvals: dict[str, int]
    messages: int


class ServerFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What the server says; ``queues`` are by agent and lane: waiting, and delivered but not acknowledged;
    ``processes`` are by agent and host.
    """

    queues: list[tuple[str, str, int, int]]
    processes: dict[tuple[str, str], int]
    servers: dict[tuple[str, str], int]
    dead: dict[str, int]
    memory_version: int
    memory_lag: int
    unsealed: dict[str, int]
    account: dict[str, float]
    process: "ServerProcess | None"


class _Traffic(msgspec.Struct, frozen=True):
    msgs: int = 0
    bytes: int = 0


class _Stored(msgspec.Struct, frozen=True):
    storage: int = 0


class _JetStream(msgspec.Struct, frozen=True):
    stats: _Stored = _Stored()


class ServerProcess(msgspec.Struct, frozen=True, kw_only=True):
    """What nats-server says of itself, by its own names: ``mem`` in bytes, counts since its start."""

    mem: int
    connections: int
    total_connections: int
    subscriptions: int
    slow_consumers: int
    sent: _Traffic = _Traffic()
    received: _Traffic = _Traffic()
    jetstream: _JetStream = _JetStream()


class _Statistics(msgspec.Struct, frozen=True):
    statsz: ServerProcess


def limited(names: Iterable[str], most: int) -> dict[str, str]:
    """Each name as a label: the first ``most`` in order as they are, the others as ``other``."""
    ordered = sorted(set(names))
    return {name: name if place < most else OTHER for place, name in enumerate(ordered)}


# --- the index ----------------------------------------------------------------------------------


def read_log(store: Store) -> LogFigures:
    """The figures of all that is indexed."""
    return LogFigures(
        hops=[*_hops(store, "claim", "waited"), *_hops(store, "work", "worked")],
        tasks=store.query("SELECT agent, status, outcome, count(*) FROM tasks GROUP BY 1, 2, 3"),
        goals=store.query(
            "SELECT status, outcome, count(*) FROM goals WHERE status != ? GROUP BY 1, 2", [PART]
        ),
        working=dict(store.query(_WORKING)),
        usage=store.query(_USAGE),
        judged=store.query(_JUDGED),
        approvals=dict(store.query(_WAITING, [datetime.now(UTC).isoformat()])),
        messages=store.count,
    )


_WORKING = """
    SELECT agent, count(*) FROM tasks WHERE ended_at = '' AND claimed_at != '' GROUP BY agent"""
_USAGE = """
    SELECT agent, model, sum(calls), sum(input), sum(output), sum(cost) FROM usage GROUP BY agent, model"""
_JUDGED = """
    SELECT agent, substr(label, 1, instr(label, ':') - 1), count(*) FROM policy WHERE kind = 'judged'
    GROUP BY 1, 2"""
_WAITING = """
    SELECT agent, count(*) FROM policy AS asked WHERE kind = 'asked' AND at > ?
    AND NOT EXISTS (SELECT 1 FROM policy WHERE kind = 'answered' AND name = asked.name)
    AND NOT EXISTS (SELECT 1 FROM goals WHERE goal_id = asked.goal_id
                    AND status NOT IN ('pending', 'in_progress', 'review')) GROUP BY agent"""


def _hops(store: Store, hop: str, column: str) -> list[Hop]:
    bounds = ", ".join(f"sum({column} <= {bound})" for bound in BUCKETS)
    found = store.query(
        f"SELECT agent, {bounds}, count(*), sum({column}) FROM tasks "  # noqa: S608  # names of our own
        f"WHERE {column} IS NOT NULL GROUP BY agent"
    )
    return [Hop(agent, hop, tuple(counts), total, seconds) for agent, *counts, total, seconds in found]


# --- the server ---------------------------------------------------------------------------------


async def read_server(bus: Bus) -> ServerFigures:
    """What the server says now; raises BusError."""
    presences = await read_presences(bus)
    names = sorted({presence.agent for presence in presences} | {subjects.USER})
    lanes = await asyncio.gather(*(read_lanes(bus, name) for name in names[:MAX_AGENTS]))
    dead, last, lag, unsealed, account = await asyncio.gather(
        count_dead_letters(bus),
        bus.last(subjects.OFFICE, subjects.GRAPH_VERSION),
        _read_depth(bus, subjects.MEMORY, subjects.MEMORY_DAEMON),
        read_unsealed(bus),
        call_server(bus, "INFO"),
    )
    try:
        version = GraphVersion.from_json(last.data).version if last else 0
    except ValueError:
        version = 0
    try:
        # nothing comes from a server whose configuration is an earlier one
        answer = await bus.request(subjects.SERVER_STATISTICS, timeout=STATISTICS_WAIT)
        process = msgspec.json.decode(answer, type=_Statistics).statsz
    except (BusError, msgspec.DecodeError):
        process = None
    return ServerFigures(
        queues=[
            (name, lane, *depth)
            for name, depths in zip(names, lanes, strict=False)
            for lane, depth in depths.items()
            if depth is not None
        ],
        processes=Counter((each.agent, subjects.host_of(each.instance)) for each in presences),
        servers=Counter((each.agent, server) for each in presences for server in each.servers),
        dead=dead,
        memory_version=version,
        memory_lag=sum(lag or ()),
        unsealed=unsealed,
        account=_account(account),
        process=process,
    )


async def read_lanes(bus: Bus, name: str) -> dict[str, tuple[int, int] | None]:
    """How many messages wait in each lane of an agent's mailbox, and are in hand; None without a durable."""
    durables = subjects.mailboxes(name)
    depths = await asyncio.gather(*(_read_depth(bus, subjects.OFFICE, durable) for durable in durables))
    lanes = (durable.removeprefix(name).lstrip("_") or "mail" for durable in durables)
    return dict(zip(lanes, depths, strict=True))


async def _read_depth(bus: Bus, stream: str, durable: str) -> tuple[int, int] | None:
    """How many messages wait in a durable, and how many are delivered; None if there is no such durable."""
    try:
        info: dict[str, Any] = await call_server(bus, f"CONSUMER.INFO.{stream}.{durable}")
    except BusError:
        return None
    return int(info["num_pending"]), int(info["num_ack_pending"])


def _account(info: dict[str, Any]) -> dict[str, float]:
    api, limits = info.get("api", {}), info.get("limits", {})
    return {
        "bytes": float(info.get("storage", 0)),
        "limit": float(limits.get("max_storage", -1)),
        "streams": float(info.get("streams", 0)),
        "consumers": float(info.get("consumers", 0)),
        "requests": float(api.get("total", 0)),
        "errors": float(api.get("errors", 0)),
    }
