"""A real office of real processes, on a random port and in a temporary folder."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import msgspec
import pytest
import structlog
import structlog.testing

from services.cli.agents import InstalledAgent, load_agents
from services.cli.supervisor.provisioning import provision_streams, write_config
from shared import settings, subjects
from shared.bus import Bus
from shared.contracts import Goal, StateChanged
from shared.settings import Settings
from tests.support.nats_server import NatsServer

START_TIMEOUT = 40.0
ROOT = Path(__file__).resolve().parents[2]


class Office:
    """Processes of agents against a server of their own; any of them can be killed and started again."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.environment = {
            **{name: os.environ[name] for name in ("PATH", "HOME", "XDG_CACHE_HOME") if name in os.environ},
            "MAILROOM_STATE_DIR": str(folder / "state"),
            "MAILROOM_NATS_PORT": "0",
            "MAILROOM_NATS_MAX_STORE": str(4 << 30),
            "MAILROOM_TASK_ACK_WAIT": "2",
            **environment,
        }
        self.config: Settings = settings.load(self.environment)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.members: dict[str, InstalledAgent] = {}

    async def open(self, names: Sequence[str] = ()) -> None:
        self.members = {member.name: member for member in load_agents(self.config)}
        write_config(self.config, list(self.members))
        self.server = await NatsServer.start(self.config, log=self.config.logs / "nats.log")
        self.environment["NATS_URL"] = self.server.url
        await provision_streams(self.config, self.server.url, list(self.members))
        self.user = await self.connect(subjects.USER)
        for name in names or self.members:
            self.start(name)
        for name in names or self.members:
            await self.ready(name)

    async def connect(self, name: str) -> Bus:
        return await Bus.connect(name, self.server.url, self.config.keys / f"{name}.nk")

    def start(self, name: str, instance: str = "") -> None:
        """Start a process of an agent; ``instance`` tells several of one apart."""
        log = self.config.logs / f"{name}{instance}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self.processes[name + instance] = subprocess.Popen(
                self.members[name].command,
                env=self.environment,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    async def ready(self, name: str, instance: str = "") -> None:
        process = self.processes[name + instance]
        folder = self.config.state_dir / "run"

        def alive() -> bool:
            assert process.poll() is None, (self.config.logs / f"{name}{instance}.log").read_text()[-2000:]
            return any(folder.glob(f"{name}-*-{process.pid}.alive"))

        await eventually(alive, START_TIMEOUT)

    def signal(self, name: str, number: int) -> None:
        self.processes[name].send_signal(number)

    def kill(self, name: str) -> None:
        self.signal(name, signal.SIGKILL)
        self.processes[name].wait()

    async def submit(self, body: dict[str, object] | bytes) -> None:
        await self.user.store(subjects.SUBMIT, body if isinstance(body, bytes) else msgspec.json.encode(body))

    async def goal(self, goal_id: str) -> Goal | None:
        stored = await self.user.last(subjects.OFFICE, subjects.goal(goal_id))
        return StateChanged.from_json(stored.data).goal if stored else None

    async def finished(self, goal_id: str, timeout: float = 30.0) -> Goal:
        found: list[Goal] = []

        async def ended() -> bool:
            goal = await self.goal(goal_id)
            if goal is not None and goal.status.final:
                found.append(goal)
            return bool(found)

        await eventually_async(ended, timeout)
        return found[0]

    async def stored(self, pattern: str = ">", stream: str = subjects.OFFICE) -> list[tuple[int, str, bytes]]:
        """Everything a stream holds on subjects that fit, oldest first."""
        result: list[tuple[int, str, bytes]] = []
        seq = 1
        while True:
            request = {"seq": seq, "batch": 500, "next_by_subj": pattern}
            batch = [(m.seq, m.subject, m.data) async for m in self.user.read(stream, request)]
            if not batch:
                return result
            result += batch
            seq = batch[-1][0] + 1

    async def close(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        for process in self.processes.values():
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        await self.user.close()
        self.server.stop()


async def eventually(condition: Callable[[], object], timeout: float = 10.0) -> None:
    async with asyncio.timeout(timeout):
        while not condition():
            await asyncio.sleep(0.02)


async def eventually_async(condition: Callable[[], Awaitable[object]], timeout: float = 10.0) -> None:
    async with asyncio.timeout(timeout):
        while not await condition():
            await asyncio.sleep(0.05)


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    """The whole office, up and ready."""
    running = Office(tmp_path)
    try:
        await running.open()
        yield running
    finally:
        await running.close()


def capture_log(monkeypatch: pytest.MonkeyPatch, module: object) -> list[dict[str, object]]:
    """What ``module`` logs from now on, whatever logging was set up by others in this process."""
    capture = structlog.testing.LogCapture()
    quiet = structlog.wrap_logger(
        None, processors=[capture], wrapper_class=structlog.BoundLogger, cache_logger_on_first_use=False
    )
    monkeypatch.setattr(module, "log", quiet)
    return capture.entries  # type: ignore[return-value]


@pytest.fixture
def python() -> str:
    return sys.executable
