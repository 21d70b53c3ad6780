"""What a briefing is made of: colleagues that answer at once, weather from a server, a calendar file."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from shared.agent.base import Agent
from shared.bus import Bus
from shared.contracts import Edge, EdgePage, EdgesQuery, GetQuery, Node, NodePage, Relation
from shared.tasks.actions import Outcome, register_action
from shared.tasks.profiles import Profile
from tests.support.classifying import open_endpoint, serve_memory
from tests.support.http import HttpServer, Request

DAYS = 3
CORTEX = Profile(name="cortex", description="Works at night.")
FRONTIER = Profile(name="frontier", description="Discovers.")


class NightWorker(Agent):
    """Stands in for cortex, with ``jobs`` in its queue."""

    jobs: ClassVar = [
        {"id": "gulls", "state": "waiting", "task": "Count the gulls", "reason": "until tonight"}
    ]

    @register_action("Say how the queue stands")
    async def queue_status(self) -> Outcome:
        return Outcome(output="Overnight queue", data={"jobs": self.jobs, "failed": []})


class Discoverer(Agent):
    """Stands in for frontier."""

    @register_action("Look for what is new", {"topics": "What for"})
    async def daily_discovery(self, topics: tuple[str, ...] = ()) -> Outcome:
        papers = [{"title": "Remembering\n# in graphs", "arxiv_id": "2601.00001v1"}]
        discovery = {"papers": papers, "news_items": [], "output_path": "/outputs/brief.md"}
        return Outcome(output="1 paper", data={"discovery": discovery}, evidence_refs=("arxiv:2601.00001v1",))


def forecast() -> str:
    """What Open-Meteo answers."""
    today = datetime.now(UTC).date()
    return json.dumps(
        {
            "current": {
                "temperature_2m": 3.4,
                "apparent_temperature": 1.0,
                "weather_code": 3,
                "wind_speed_10m": 11.0,
            },
            "daily": {
                "time": [(today + timedelta(days=ahead)).isoformat() for ahead in range(DAYS)],
                "weather_code": [3, 61, 0],
                "temperature_2m_max": [5.0, 7.0, 9.0],
                "temperature_2m_min": [1.0, 2.0, 3.0],
                "precipitation_sum": [0.0, 4.0, 0.0],
                "precipitation_probability_max": [10, 80, 0],
            },
        }
    )


def places() -> str:
    """What Open-Meteo's geocoding answers."""
    bern = {"name": "Bern", "latitude": 46.95, "longitude": 7.45, "country": "Switzerland"}
    return json.dumps({"results": [bern]})


@contextmanager
def serve_weather() -> Iterator[str]:
    """A server that answers as Open-Meteo at once: ``/forecast`` and ``/search`` below its address."""

    def answer(request: Request) -> None:
        body = forecast() if request.path.startswith("/forecast") else places()
        request.respond(200, {"Content-Type": "application/json"}, body.encode())

    with HttpServer(answer) as server:
        yield server.root


def write_calendar(path: Path, *events: Sequence[str]) -> str:
    """An ICS file with a daily all-day event and ``events``, each the lines of one; its path."""
    first = ("UID:daily", "SUMMARY:Water the plants", "DTSTART;VALUE=DATE:20260101", "RRULE:FREQ=DAILY")
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//Test//EN"]
    for event in (first, *events):
        lines += ["BEGIN:VEVENT", *event, "END:VEVENT"]
    path.write_text("\r\n".join([*lines, "END:VCALENDAR", ""]))
    return str(path)


async def remember(daemon: Bus) -> None:
    """Answer as the memory daemon does, with one contradiction and nothing else."""
    nodes = {
        "a1": Node(id="a1", title="The server is called heron"),
        "b2": Node(id="b2", title="The server is called stork"),
    }
    edge = Edge(from_id="a1", to_id="b2", relation=Relation.CONTRADICTS)

    async def get(payload: bytes) -> bytes:
        query = msgspec.json.decode(payload, type=GetQuery)
        return msgspec.json.encode([nodes[each] for each in query.ids if each in nodes])

    async def edges(payload: bytes) -> bytes:
        query = msgspec.json.decode(payload, type=EdgesQuery)
        return msgspec.json.encode(EdgePage(edges=(edge,) if edge.relation in query.relations else ()))

    async def listed(_: bytes) -> bytes:
        return msgspec.json.encode(NodePage(nodes=tuple(nodes.values())))

    async def health(_: bytes) -> bytes:
        return b"{}"

    async def search(_: bytes) -> bytes:
        return b"[]"

    async def embed(payload: bytes) -> bytes:
        texts: Sequence[str] = msgspec.json.decode(payload)["texts"]
        return msgspec.json.encode([[1.0, *[0.0] * 383] for _ in texts])

    endpoints: Mapping[str, Any] = {
        "get": get,
        "edges": edges,
        "list": listed,
        "health": health,
        "search": search,
        "embed": embed,
        "classify": open_endpoint(),
    }
    await serve_memory(daemon, endpoints)
