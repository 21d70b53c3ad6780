"""What tests of several folders share: a real nats-server with the office's streams, accounts and keys."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import msgspec
import pytest

from services.cli.agents import load_agents
from services.cli.supervisor.provisioning import provision_streams, write_config
from shared import settings, subjects
from shared.bus import Bus
from tests.support.nats_server import NatsServer

ROOT = Path(__file__).resolve().parents[1]


class OfficeServer:
    """A provisioned server without agents; ``environment`` makes a process use it as the running office."""

    def __init__(self, folder: Path) -> None:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("MAILROOM_", "NATS_"))
        }
        self.environment = {
            **kept,
            "MAILROOM_STATE_DIR": str(folder),
            "MAILROOM_NATS_PORT": "0",
            "MAILROOM_NATS_MAX_STORE": str(1 << 30),
            "COLUMNS": "80",
        }
        self.config = settings.load(self.environment)
        self.agents = [member.name for member in load_agents(self.config)]

    async def open(self) -> None:
        write_config(self.config, self.agents)
        self.server = await NatsServer.start(self.config, log=self.config.logs / "nats.log")
        self.url = self.server.url
        await provision_streams(self.config, self.url, self.agents)
        record = self.config.state_dir / "run" / "office.json"
        record.parent.mkdir()
        record.write_text(
            json.dumps({"pid": os.getpid(), "url": self.url, "started_at": "", "state_dir": ""})
        )

    async def restart_server(self) -> None:
        """Kill the server and start it again where it was."""
        self.server.process.kill()
        self.server.process.wait()
        config = msgspec.structs.replace(self.config, nats_port=int(self.url.rpartition(":")[2]))
        self.server = await NatsServer.start(config, log=self.config.logs / "nats.log")

    @asynccontextmanager
    async def connect(self, name: str = subjects.USER) -> AsyncIterator[Bus]:
        """A connection as ``name``, closed at the end of the block."""
        bus = await Bus.connect(name, self.url, self.config.keys / f"{name}.nk")
        try:
            yield bus
        finally:
            await bus.close()

    def mailroom(
        self, *arguments: str, text: str | None = None, **more: str
    ) -> subprocess.CompletedProcess[str]:
        """Run the command to its end; ``text`` is its standard input, ``more`` goes into its environment."""
        return subprocess.run(
            self.command(*arguments),
            cwd=ROOT,
            env={**self.environment, **more},
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start the command and leave it running."""
        return self.start_process(self.command(*arguments))

    def start_process(self, command: list[str]) -> "subprocess.Popen[str]":
        """Start a program that uses this office."""
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env={**self.environment, "NATS_URL": self.url},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "services.cli", *arguments]


@contextmanager
def serve_office(folder: Path) -> Iterator[OfficeServer]:
    """Run an OfficeServer whose state is in ``folder``."""
    office = OfficeServer(folder)
    asyncio.run(office.open())
    try:
        yield office
    finally:
        office.server.stop()


@pytest.fixture(scope="module")
def office_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OfficeServer]:
    """One server for the tests of a module: they share its streams, so each uses ids of its own."""
    with serve_office(tmp_path_factory.mktemp("office")) as office:
        yield office


@pytest.fixture
def fresh_office_server(tmp_path: Path) -> Iterator[OfficeServer]:
    """A server for one test, which may break it."""
    with serve_office(tmp_path / "office") as office:
        yield office


@pytest.fixture
def mailroom(office_server: OfficeServer) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command against ``office_server``."""
    return office_server.mailroom
