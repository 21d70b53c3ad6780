"""What a client owes its server: it tells how its connection is, and goes on by itself or not at all."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from services.cli.supervisor.provisioning import provision_streams
from shared import subjects
from shared.bus import Bus, Delivery, Entry
from shared.errors import BusError
from tests.bus.conftest import consume
from tests.support.server import Server
from tests.support.waiting import eventually

MAIL = subjects.mail("engineer", subjects.USER)
USES: dict[str, Callable[[Bus], Awaitable[object]]] = {
    "commit": lambda bus: bus.commit([Entry(MAIL, b"x", "id")]),
    "store": lambda bus: bus.store(MAIL, b"x"),
    "append": lambda bus: bus.append(Entry(MAIL, b"x", "id")),
    "publish": lambda bus: bus.publish(MAIL, b"x"),
    "request": lambda bus: bus.request("memory.search", b"{}", timeout=5),
    "last": lambda bus: bus.last(subjects.OFFICE, MAIL),
}


class Log:
    """The events that a module logs, whatever level other tests have set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
        self.events: list[tuple[str, dict[str, object]]] = []
        monkeypatch.setattr(f"shared.bus.{module}.log", self)

    def _note(self, event: str, **about: object) -> None:
        self.events.append((event, about))

    info = warning = error = _note

    def place(self, event: str) -> int:
        """Which it was; -1 if it was none."""
        return next((at for at, each in enumerate(self.events) if each[0] == event), -1)


async def test_a_closed_connection_refuses_at_once(server: Server) -> None:
    bus = await server.connect(subjects.USER)
    await bus.close()
    for use in USES.values():
        with pytest.raises(BusError):
            async with asyncio.timeout(2):
                await use(bus)


async def test_it_tells_that_it_lost_the_server_found_it_again_and_was_denied(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(monkeypatch, "connection")
    bus = await server.connect("engineer")
    server.kill()
    await eventually(lambda: not bus.connected)
    await server.restart()
    await eventually(lambda: bus.connected)
    await bus.publish(subjects.mail("critic", "nexus"), b"not its own name")
    await eventually(lambda: log.place("denied_by_broker") >= 0)
    assert 0 <= log.place("bus_disconnected") < log.place("bus_reconnected")


async def test_a_durable_that_is_gone_is_told_and_bound_again_once_it_is_back(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bytes] = []

    async def handle(delivery: Delivery) -> None:
        seen.append(delivery.data)

    monkeypatch.setattr("shared.bus.pulls.TOLD_AFTER", 0.0)
    log = Log(monkeypatch, "pulls")
    await consume(await server.connect("engineer"), handle)
    async with server.connection(subjects.ADMIN) as admin:
        await admin.call(f"CONSUMER.DELETE.{subjects.OFFICE}.engineer")
    await eventually(lambda: any(about.get("durable") == "engineer" for _, about in log.events))
    await provision_streams(server.config, server.url, server.agents)
    async with server.connection(subjects.USER) as user:
        await user.store(MAIL, b"after")
    await eventually(lambda: seen == [b"after"])


async def test_clients_do_not_come_back_all_at_once(server: Server) -> None:
    agents = [await server.connect("engineer") for _ in range(8)]
    waits = {bus._client.options["reconnect_time_wait"] for bus in agents}
    assert len(waits) == len(agents)
    assert max(waits) <= 0.5
