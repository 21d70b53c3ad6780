"""Which of the servers that keep the log lead it, and how far the others follow."""

import asyncio
from collections.abc import Mapping
from typing import Any

from shared import subjects
from shared.bus import Bus
from shared.errors import BusError
from shared.queries.records import call_server
from shared.views.status import Replica

NANOSECOND = 1e-9


async def read_replicas(bus: Bus) -> tuple[Replica, ...]:
    """The servers of the log by name, as those that lead know them; none if there is one server alone."""
    if not bus.clustered:
        return ()
    infos = await asyncio.gather(*(_read(bus, stream) for stream in subjects.LOG))
    found: dict[str, Replica] = {}
    for stream, info in zip(subjects.LOG, infos, strict=True):
        for each in replicas_of(stream, info):
            known = found.get(each.server, each)
            found[each.server] = Replica(
                server=each.server,
                leads=tuple(dict.fromkeys((*known.leads, *each.leads))),
                lag=max(known.lag, each.lag),
                silent=max(known.silent, each.silent),
                current=known.current and each.current,
            )
    return tuple(found[name] for name in sorted(found))


async def _read(bus: Bus, stream: str) -> Mapping[str, Any]:
    try:
        return await call_server(bus, f"STREAM.INFO.{stream}")
    except BusError:  # nobody leads it
        return {}


def replicas_of(stream: str, info: Mapping[str, Any]) -> list[Replica]:
    """The servers of a stream by what the server tells of it."""
    cluster = info.get("cluster") or {}
    leader = [Replica(server=cluster["leader"], leads=(stream,))] if cluster.get("leader") else []
    return leader + [
        Replica(
            server=each["name"],
            lag=each.get("lag", 0),
            silent=each.get("active", 0) * NANOSECOND,
            current=bool(each.get("current")) and not each.get("offline"),
        )
        for each in cluster.get("replicas") or []
    ]
