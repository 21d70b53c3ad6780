"""A real nats-server for each test, provisioned as the office's."""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from services.cli.supervisor.provisioning import provision_streams, write_config
from shared import settings, subjects
from shared.bus import Bus, Delivery
from shared.bus.consumer import Consumer
from shared.settings import Settings
from tests.support.nats_server import NatsServer

AGENTS = ("conductor", "critic", "engineer", "memory", "nexus")
ACK_WAIT = 1.0


class TestOffice:
    """A running server, and connections to it under any name."""

    __test__ = False

    def __init__(self, config: Settings, server: NatsServer) -> None:
        self.config = config
        self.server = server
        self._buses: list[Bus] = []

    async def connect(self, name: str) -> Bus:
        bus = await Bus.connect(name, self.server.url, self.config.keys / f"{name}.nk", wait=3)
        self._buses.append(bus)
        return bus

    async def consume(
        self,
        bus: Bus,
        handler: Callable[[Delivery], Awaitable[None]],
        *,
        buried: list[str] | None = None,
        concurrency: int = 4,
        max_attempts: int = 5,
    ) -> Consumer:
        async def bury(delivery: Delivery, reason: str) -> None:
            if buried is not None:
                buried.append(reason)

        return await bus.consume(
            subjects.OFFICE,
            bus.name,
            handler,
            bury,
            concurrency=concurrency,
            ack_wait=ACK_WAIT,
            max_attempts=max_attempts,
        )

    async def kill_server(self) -> None:
        self.server.process.send_signal(signal.SIGKILL)
        self.server.process.wait()

    async def restart_server(self) -> None:
        port = self.server.url.rpartition(":")[2]
        config = settings.load(
            {
                "MAILROOM_STATE_DIR": str(self.config.state_dir),
                "MAILROOM_NATS_PORT": port,
                "HOME": "/nonexistent",
            }
        )
        self.server = await NatsServer.start(config, log=config.logs / "nats.log")

    async def close(self) -> None:
        await asyncio.gather(*(bus.close() for bus in self._buses))
        self.server.stop()


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    return {
        "MAILROOM_STATE_DIR": str(tmp_path / "state"),
        "MAILROOM_NATS_PORT": "0",
        "MAILROOM_NATS_MAX_STORE": str(1 << 30),
        "MAILROOM_TASK_ACK_WAIT": str(ACK_WAIT),
        "HOME": str(tmp_path),
        **more,
    }


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[TestOffice]:
    config = settings.load(environment(tmp_path))
    write_config(config, AGENTS)
    server = await NatsServer.start(config, log=config.logs / "nats.log")
    running = TestOffice(config, server)
    try:
        await provision_streams(config, server.url, AGENTS)
        yield running
    finally:
        await running.close()


async def eventually(condition: Callable[[], object], timeout: float = 5.0) -> None:
    """Wait until ``condition()`` is true."""
    async with asyncio.timeout(timeout):
        while not condition():
            await asyncio.sleep(0.01)
