"""Where memory is measured: an office of nothing but the memory daemon, filled with made-up memories."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec

from shared import subjects
from shared.bus import Bus
from shared.contracts import MemoryWrite
from shared.errors import BusUnavailable
from shared.memory import Memory
from tests.bench.machine import cpu_seconds, rss_mb
from tests.bench.memory_corpus import Corpus
from tests.support.office import Office
from tests.support.server import ROOT
from tests.support.waiting import eventually

MEMORY = "memory"
IN_FLIGHT = 4
"""Bulk writes that are under way at once."""
CHUNK = 10
"""Bulk writes made before they are sent: making them is not measured."""
STORE_SUBJECT = "bench.store"
PATIENCE = 120.0


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """Rows and the seconds until the last of them was answered."""

    rows: int
    seconds: float

    @property
    def rate(self) -> float:
        """Rows a second."""
        return self.rows / self.seconds


class Times(NamedTuple):
    """The seconds that each of some questions took, and the mean processor time of it."""

    seconds: list[float]
    cpu: float


class MemoryGround:
    """A server of its own, the memory daemon as a process, and ``corpus``, of which it may hold some."""

    def __init__(self, folder: Path, size: int, name: int) -> None:
        self.corpus = Corpus(size, name)
        self.office = Office(
            folder,
            MAILROOM_LINKER_INTERVAL="1000000",  # made-up memories are linked already
            MAILROOM_TASK_ACK_WAIT="30",
            MAILROOM_LOG_LEVEL="warning",
            PYTHONPATH=str(ROOT),
        )
        self.memory: Memory
        self.admin: Bus

    async def open(self) -> None:
        """Start it; what is started is stopped by ``close``, whatever happens here."""
        await self.office.open([MEMORY])
        self.memory = Memory(self.office.user)
        self.admin = await self.office.connect(subjects.ADMIN)
        await self._add_stream()
        await self._start_echo()

    async def close(self) -> None:
        """Stop all of it."""
        if hasattr(self, "admin"):
            await self.admin.close()
        await self.office.close()

    @property
    def pid(self) -> int:
        """The daemon's process."""
        return self.office.processes[MEMORY].pid

    async def time(self, verb: str, queries: Iterable[Any]) -> "Times":
        """One question after another, and what of it is the daemon's processor time."""
        begun = cpu_seconds(self.pid)
        seconds = await time_each([partial(self.ask, verb, query) for query in queries])
        return Times(seconds, (cpu_seconds(self.pid) - begun) / len(seconds))

    @property
    def rss(self) -> float:
        """The daemon's resident memory, in MB."""
        return rss_mb(self.pid)

    async def fill(self) -> tuple[Load, Load]:
        """Store the whole corpus: the memories, then their edges."""
        size = self.corpus.size
        return await self._load(self.corpus.writes, size), await self._load(self.corpus.link_writes, size)

    async def send(self, writes: Iterable[MemoryWrite], in_flight: int) -> float:
        """Store writes, so many at once; returns the seconds until the last was answered."""
        queue = iter(writes)

        async def work() -> None:
            for write in queue:
                await self._store(write)

        begun = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(in_flight)))
        return time.perf_counter() - begun

    async def store_bare(self, payloads: Sequence[bytes], in_flight: int) -> float:
        """The same with nothing but a stream on the same server."""
        queue = iter(payloads)

        async def work() -> None:
            for payload in queue:
                await self.admin.store(STORE_SUBJECT, payload, timeout=PATIENCE)

        begun = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(in_flight)))
        return time.perf_counter() - begun

    async def ask(self, verb: str, query: Any) -> bytes:
        """A question to the daemon; the answer is not read."""
        return await self.office.user.request(
            subjects.memory(verb), msgspec.json.encode(query), timeout=PATIENCE
        )

    async def echo(self, size: int) -> bytes:
        """A question that is answered with so many bytes by somebody who does nothing else."""
        return await self.admin.request("bench.echo", str(size).encode())

    async def restart(self) -> float:
        """Stop the daemon and start it again; returns the seconds from its start until it was ready."""
        await self.stop()
        begun = time.perf_counter()
        self.office.start(MEMORY)
        await self.office.ready(MEMORY)
        return time.perf_counter() - begun

    async def stop(self) -> None:
        """Stop the daemon as ``mailroom down`` does."""
        process = self.office.processes[MEMORY]
        process.terminate()
        await asyncio.to_thread(process.wait, PATIENCE)

    def count_files(self) -> int:
        """The files in the daemon's folder."""
        return sum(path.is_file() for path in (self.office.config.state_dir / MEMORY).rglob("*"))

    async def _store(self, write: MemoryWrite) -> None:
        """Until it is answered: on a busy machine a large one may take longer than a client waits."""
        ends = time.monotonic() + PATIENCE
        while True:
            try:
                await self.memory.write(write)
                return
            except BusUnavailable:
                if time.monotonic() > ends:
                    raise

    async def _load(self, make: Callable[[int, int], list[MemoryWrite]], size: int) -> Load:
        rows, seconds, step = 0, 0.0, CHUNK * 1_000
        for first in range(0, size, step):
            writes = await asyncio.to_thread(make, first, min(first + step, size))
            seconds += await self.send(writes, IN_FLIGHT)
            rows += sum(len(write.nodes) + len(write.edges) for write in writes)
        return Load(rows=rows, seconds=seconds)

    async def _add_stream(self) -> None:
        config = {"name": "BENCH", "subjects": [STORE_SUBJECT], "storage": "file"}
        answer = await self.admin.request("$JS.API.STREAM.CREATE.BENCH", json.dumps(config).encode())
        assert "error" not in json.loads(answer), answer

    async def _start_echo(self) -> None:
        office = self.office
        seed = str(office.config.keys / f"{subjects.ADMIN}.nk")
        command = [
            sys.executable,
            "-m",
            "tests.bench.rivals.echo",
            "--url",
            office.server.url,
            "--seed",
            seed,
        ]
        log = office.config.logs / "echo.log"
        with log.open("wb") as output:
            process = await asyncio.to_thread(
                subprocess.Popen, command, cwd=ROOT, env=office.environment, stdout=output, stderr=output
            )
        office.processes["echo"] = process
        await eventually(lambda: b"ready" in log.read_bytes() or process.poll() is not None, PATIENCE)
        assert process.poll() is None, log.read_text()[-2000:]


@asynccontextmanager
async def open_memory(size: int, name: int = 1) -> AsyncIterator[MemoryGround]:
    """A MemoryGround that is up and empty; gone afterwards."""
    with TemporaryDirectory(prefix="mailroom-bench-") as folder:
        ground = MemoryGround(Path(folder), size, name)
        try:
            await ground.open()
            yield ground
        finally:
            await ground.close()


async def time_each(questions: Iterable[Callable[[], Awaitable[object]]]) -> list[float]:
    """The seconds that each of them takes, one after another."""
    times = []
    for question in questions:
        begun = time.perf_counter()
        await question()
        times.append(time.perf_counter() - begun)
    return times
