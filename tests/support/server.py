"""A nats-server for tests, with the streams, accounts and keys of Mailroom, and commands that use it."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import msgspec
from nats.aio.client import Client

from services.cli.supervisor.provisioning import provision_streams, write_servers
from shared import settings, subjects
from shared.access.credentials import find_address
from shared.bus import Bus
from shared.bus.client import BusClient
from shared.errors import StartError
from shared.tasks.installed_agents import load_agents
from tests.support.forking import ROOT, ForkedProcess, may_fork, run_command, start_program
from tests.support.nats_server import NatsServer
from tests.support.stores import fill_store, keep_store, store_of
from tests.support.waiting import eventually

GATEWAY_TIMEOUT = 40.0
INHERITED = ("PATH", "HOME", "LANG", "XDG_CACHE_HOME")
"""The variables that a process under test gets from the environment of the tests."""


def environment(state_dir: Path, **more: str) -> dict[str, str]:
    """The environment of a process whose state is in ``state_dir``; ``more`` adds to it and overrides it."""
    return {
        **{name: os.environ[name] for name in INHERITED if name in os.environ},
        "MAILROOM_STATE_DIR": str(state_dir),
        "MAILROOM_NATS_PORT": "0",
        "MAILROOM_GATEWAY_PORT": "0",
        "MAILROOM_NATS_MAX_STORE": str(1 << 30),
        # Whenever tests run, jobs of the overnight queue begin at once.
        "MAILROOM_NIGHT": "always",
        "MAILROOM_NIGHT_LOAD": "0",
        "MAILROOM_NIGHT_ON_BATTERY": "true",
        "COLUMNS": "80",
        **more,
    }


def mailroom_command(*arguments: str) -> list[str]:
    """The command line of ``mailroom`` with ``arguments``."""
    return [sys.executable, "-m", "services.cli", *arguments]


def run_mailroom(
    variables: Mapping[str, str], *arguments: str, text: str | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run ``mailroom`` in the environment ``variables`` to its end; ``text`` is its standard input."""
    if may_fork(mailroom_command(), variables):
        return run_command(arguments, variables, text or "", 60)
    return subprocess.run(
        mailroom_command(*arguments),
        cwd=ROOT,
        env=variables,
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
    )


class Server:
    """A provisioned nats-server on a free port; no agent runs.

    ``agents`` get accounts; if none are named, all agents of ``services``.
    """

    def __init__(self, folder: Path, agents: Sequence[str] = (), **more: str) -> None:
        self.environment = environment(folder / "state", **more)
        self.config = settings.load(self.environment)
        self.agents = list(agents) or [member.name for member in load_agents(self.config)]
        self._nats: NatsServer | None = None
        self._gateway: subprocess.Popen[bytes] | ForkedProcess | None = None
        self._buses: list[Bus] = []

    @property
    def url(self) -> str:
        return self._running.url

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        return self._running.process

    async def freeze(self) -> None:
        """Stop every thread of the server: on a busy machine that takes a moment, in which it may answer."""
        self.process.send_signal(signal.SIGSTOP)
        threads = Path(f"/proc/{self.process.pid}/task")
        await eventually(lambda: all(") T " in (each / "stat").read_text() for each in threads.iterdir()))

    @property
    def _running(self) -> NatsServer:
        assert self._nats is not None, "The server was not started"
        return self._nats

    async def start(self) -> None:
        """Start the server and provision it; call ``end`` or ``close`` in any case."""
        fresh = not store_of(self.config).exists()
        filled = fill_store(self.config, self.agents)
        write_servers(self.config, self.agents)
        self._nats = await NatsServer.start(self.config, log=self.config.logs / "nats.log")
        if not filled:
            await provision_streams(self.config, self.url, self.agents)
            if fresh:
                keep_store(self.config, self.agents)

    def announce(self) -> None:
        """Write the file by which a ``mailroom`` command finds the running server."""
        record = self.config.state_dir / "run" / "office.json"
        record.parent.mkdir(exist_ok=True)
        record.write_text(
            json.dumps({"pid": os.getpid(), "url": self.url, "started_at": "", "state_dir": ""})
        )

    def start_gateway(self) -> None:
        """Start the gateway, which commands ask, and wait until it listens."""
        command = [sys.executable, "-m", "services.gateway"]
        variables = {**self.environment, "NATS_URL": self.url}
        log = self.config.logs / "gateway.log"
        self._gateway = start_program(command, variables, log)
        deadline = time.monotonic() + GATEWAY_TIMEOUT
        while not self._gateway_listens():
            assert self._gateway.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(0.02)

    def kill_gateway(self) -> None:
        """Kill the gateway, if it runs."""
        if self._gateway is not None:
            self._gateway.kill()
            self._gateway.wait()
            self._gateway = None

    def _gateway_listens(self) -> bool:
        try:
            return bool(find_address(self.config))
        except StartError:
            return False

    async def connect(self, name: str = subjects.USER) -> Bus:
        """A connection as ``name``; ``close`` closes it if the test does not."""
        self._buses.append(await Bus.connect(name, self.url, self.config.keys / f"{name}.nk"))
        return self._buses[-1]

    @asynccontextmanager
    async def connection(self, name: str = subjects.USER) -> AsyncIterator[Bus]:
        """A connection as ``name``, closed at the end of the block."""
        bus = await Bus.connect(name, self.url, self.config.keys / f"{name}.nk")
        try:
            yield bus
        finally:
            await bus.close()

    @asynccontextmanager
    async def raw_client(self, name: str) -> AsyncIterator[Client]:
        """A client of nats with the key of ``name``, which does what a Bus would not do."""
        seed = (self.config.keys / f"{name}.nk").read_text().strip()
        client = BusClient()
        await client.connect(self.url, nkeys_seed_str=seed)
        try:
            yield client
        finally:
            await client.close()

    def reload(self) -> None:
        """Have the server read its configuration again."""
        self._running.reload()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    async def restart(self) -> None:
        """Kill the server if it runs, and start it again on the same port."""
        self.kill()
        config = msgspec.structs.replace(self.config, nats_port=int(self.url.rpartition(":")[2]))
        self._nats = await NatsServer.start(config, log=self.config.logs / "nats.log")

    def end(self) -> None:
        """Kill what was started: stopping takes half a second, and nothing reads the store."""
        self.kill_gateway()
        if self._nats is not None:
            self.kill()

    async def close(self) -> None:
        """Close the connections that are still open, and end the server."""
        await asyncio.gather(*(bus.close() for bus in self._buses if not bus.closed.is_set()))
        self.end()

    def mailroom(
        self, *arguments: str, text: str | None = None, **more: str
    ) -> "subprocess.CompletedProcess[str]":
        """Run ``mailroom`` to its end; ``text`` is its standard input, ``more`` goes into its environment."""
        return run_mailroom({**self.environment, **more}, *arguments, text=text)

    def start_mailroom(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start ``mailroom`` and leave it running."""
        return self.start_process(mailroom_command(*arguments))

    def start_process(self, command: list[str]) -> "subprocess.Popen[str]":
        """Start a program that uses this server."""
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env={**self.environment, "NATS_URL": self.url},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@contextmanager
def serve(folder: Path) -> Iterator[Server]:
    """An announced server for tests of the command, which are not coroutines."""
    server = Server(folder)
    try:
        asyncio.run(server.start())
        server.announce()
        yield server
    finally:
        server.end()
