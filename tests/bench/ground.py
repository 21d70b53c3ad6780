"""Where it is measured: a server of its own, the no-op agent as a process, and rivals on equal streams."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from shared import subjects
from shared.bus import Bus, Entry
from shared.bus.records import submission_entry
from shared.contracts import Task, generate_id
from tests.bench.machine import cpu_seconds
from tests.support.office import Office
from tests.support.server import ROOT
from tests.support.waiting import eventually

AGENTS = Path(__file__).parent / "agents"
NOOP = "noop"
QUICK, CLAIMED = "rest", "note"
"""Its actions: one that only computes, and one that does more, so that its tasks are claimed."""
SIZE = 1024
"""Bytes of a task."""
PATIENCE = 120.0
"""Seconds any step may take before the bench gives up."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """So many tasks from the first to the last: wall time and processor time, in seconds."""

    tasks: int
    seconds: float
    worker_cpu: float
    server_cpu: float

    @property
    def rate(self) -> float:
        """Tasks a second."""
        return self.tasks / self.seconds


class Lane:
    """A stream that republishes itself, with a durable, and the processes that work on it."""

    def __init__(self, ground: "Ground", *, stream: str, durable: str) -> None:
        self.ground, self.stream, self.durable = ground, stream, durable
        self.workers: list[subprocess.Popen[bytes]] = []

    async def load(self, count: int) -> None:
        """Store ``count`` tasks."""
        raise NotImplementedError

    async def run(self, count: int) -> Run:
        """Have ``count`` tasks done: they are stored while the workers are held."""
        for worker in self.workers:
            worker.send_signal(signal.SIGSTOP)
        await self.load(count)
        pids, server = [worker.pid for worker in self.workers], self.ground.office.server.process.pid
        cpu, server_cpu = sum(map(cpu_seconds, pids)), cpu_seconds(server)
        begun = time.perf_counter()
        for worker in self.workers:
            worker.send_signal(signal.SIGCONT)
        await self._settled(begun)
        seconds = time.perf_counter() - begun
        return Run(
            tasks=count,
            seconds=seconds,
            worker_cpu=sum(map(cpu_seconds, pids)) - cpu,
            server_cpu=cpu_seconds(server) - server_cpu,
        )

    async def _settled(self, begun: float) -> None:
        """Wait until nothing is left to do, with few looks: each costs the server as much as a task."""
        first = left = await self._count_left()
        while left:
            spent = time.perf_counter() - begun
            if spent > PATIENCE:
                raise TimeoutError(f"{self.stream} did not come to rest within {PATIENCE:g} s")
            await asyncio.sleep(min(max(0.01, spent * left / max(1, first - left) / 2), 0.2))
            left = await self._count_left()

    async def _count_left(self) -> int:
        info = await self.ground.api(f"CONSUMER.INFO.{self.stream}.{self.durable}")
        return int(info["num_pending"] + info["num_ack_pending"])


class MailroomLane(Lane):
    """The no-op agent, as Mailroom runs it."""

    def __init__(self, ground: "Ground", action: str = QUICK) -> None:
        super().__init__(ground, stream=subjects.OFFICE, durable=f"{NOOP}_medium")
        self._action = action
        self._serial = 0

    async def start(self, processes: int = 1) -> None:
        """Start further processes of the agent until there are so many."""
        office = self.ground.office
        for number in range(len(self.workers), processes):
            if f"{NOOP}-{number}" not in office.processes:
                office.start(NOOP, f"-{number}")
                await office.ready(NOOP, f"-{number}")
            self.workers.append(office.processes[f"{NOOP}-{number}"])

    async def load(self, count: int) -> None:
        names = [f"{self._action}{self._serial + number}" for number in range(count)]
        tasks = [noop_task(name, action=self._action) for name in names]
        self._serial += count
        user = self.ground.office.user
        await commit_all(user, [submission_entry(task) for task in tasks])


class RivalLane(Lane):
    """A loop of tests/bench/rivals on a stream like the office's."""

    def __init__(self, ground: "Ground", name: str) -> None:
        super().__init__(ground, stream=f"BENCH_{name}", durable=name)
        self.name, self.subject = name, f"bench.{name}"

    async def start(self, window: int) -> None:
        """Make the stream and the durable, and start the loop with ``window`` tasks in hand."""
        await self.provision()
        office = self.ground.office
        values = {
            "url": office.server.url,
            "seed": office.config.keys / f"{subjects.ADMIN}.nk",
            "stream": self.stream,
            "durable": self.durable,
            "subject": self.subject,
            "window": window,
        }
        options = [part for name, value in values.items() for part in (f"--{name}", str(value))]
        command = [sys.executable, "-m", f"tests.bench.rivals.{self.name}", *options]
        log = office.config.logs / f"{self.name}.log"
        with log.open("wb") as output:
            process = await asyncio.to_thread(
                subprocess.Popen, command, cwd=ROOT, env=office.environment, stdout=output, stderr=output
            )
        self.workers.append(process)
        office.processes[self.name] = process
        await eventually(lambda: b"ready" in log.read_bytes() or process.poll() is not None, PATIENCE)
        assert process.poll() is None, log.read_text()[-2000:]

    async def load(self, count: int) -> None:
        entries = []
        for _ in range(count):
            task_id = generate_id()
            payload = json.dumps({"task_id": task_id, "text": "x" * (SIZE - 64)}).encode()
            entries.append(Entry(f"{self.subject}.task", payload.ljust(SIZE), task_id))
        await commit_all(self.ground.admin, entries)

    async def provision(self) -> None:
        """Make the office's own stream and durable once more, under other names."""
        api = self.ground.api
        stream = (await api(f"STREAM.INFO.{subjects.OFFICE}"))["config"]
        durable = (await api(f"CONSUMER.INFO.{subjects.OFFICE}.{NOOP}"))["config"]
        stream |= {"name": self.stream, "subjects": [f"{self.subject}.>"]}
        stream["republish"] = {"src": ">", "dest": f"audit_of_{self.name}.>"}
        durable |= {
            "name": self.durable,
            "durable_name": self.durable,
            "filter_subjects": [f"{self.subject}.task"],
        }
        await api(f"STREAM.CREATE.{self.stream}", stream)
        body = {"stream_name": self.stream, "config": durable}
        await api(f"CONSUMER.DURABLE.CREATE.{self.stream}.{self.durable}", body)


class Ground:
    """A server of its own with the office's streams, and whoever is measured on it."""

    def __init__(self, folder: Path, sync: str) -> None:
        environment = {
            "MAILROOM_NATS_SYNC": sync,
            "MAILROOM_AGENTS_DIR": str(AGENTS),
            "MAILROOM_TASK_ACK_WAIT": "30",
            "MAILROOM_LOG_LEVEL": "warning",
            "PYTHONPATH": str(ROOT),
        }
        self.office = Office(folder, **environment)

    async def open(self, ends: AsyncExitStack, *, everybody: bool) -> None:
        """Start the server, and all agents if ``everybody``; ``ends`` learns how to stop what was started."""
        ends.push_async_callback(self.office.close)
        await self.office.open(None if everybody else ())
        self.admin = await self.office.connect(subjects.ADMIN)

    async def api(self, verb: str, body: Any = None) -> dict[str, Any]:
        """Ask JetStream as the admin; raises RuntimeError with its reason."""
        payload = json.dumps(body).encode() if body else b""
        result: dict[str, Any] = json.loads(await self.admin.request(f"$JS.API.{verb}", payload, timeout=30))
        if "error" in result:
            raise RuntimeError(f"{verb}: {result['error']['description']}")
        return result


@asynccontextmanager
async def open_ground(sync: str, *, everybody: bool = False) -> AsyncIterator[Ground]:
    """A Ground with the server, and with all agents if ``everybody``; gone afterwards."""
    with TemporaryDirectory(prefix="mailroom-bench-") as folder:
        async with AsyncExitStack() as ends:
            ground = Ground(Path(folder), sync)
            await ground.open(ends, everybody=everybody)
            yield ground


def noop_task(task_id: str, requester: str = subjects.USER, action: str = QUICK) -> Task:
    """A task of 1 KiB for the no-op agent."""
    task = Task(task_id=task_id, text="x", assignee=NOOP, requester=requester, context={"action": action})
    return msgspec.structs.replace(task, text="x" * (SIZE - len(task.to_json())))


async def commit_all(bus: Bus, entries: Sequence[Entry]) -> None:
    """Store ``entries`` in as few commits as the limit allows."""
    for start in range(0, len(entries), subjects.MAX_BATCH):
        await bus.commit(entries[start : start + subjects.MAX_BATCH])
