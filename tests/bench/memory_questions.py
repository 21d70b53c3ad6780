"""How quickly memory answers: searches, walks, ways, briefings; and what a restart and its memory take."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from statistics import median

import numpy as np
from numpy.typing import NDArray

from shared.contracts import BriefQuery, MemoryQuery, MemoryWrite, Node, PathsQuery, Source, TraverseQuery
from tests.bench.latency import at
from tests.bench.machine import cpu_seconds
from tests.bench.memory_corpus import Corpus
from tests.bench.memory_ground import MemoryGround, Times, time_each
from tests.bench.rows import NO_TARGET, Row, Target, at_most, at_most_times, compare

NAME = "memory"
BARE = "bare request, equal bytes"
EXACT = "exact product in numpy"
LOOP = "a loop of 100,000 steps in Python"
"""What processor time is compared with: that of a small product depends on who else uses the cache."""
QUIET = "without them, p50"
ECHO = "a bare request's"
LOAD = 200
"""Writes a second while it is searched."""
AGENT = "agent3"


async def search_rows(ground: MemoryGround, count: int) -> list[Row]:
    """With the vector given, from text, and while others write."""
    questions = ground.corpus.questions(count)
    given = [MemoryQuery(text=text, vector=tuple(vector)) for text, vector in questions]
    plain = [MemoryQuery(text=text) for text, _ in questions]
    await ground.time("search", [*given[:20], *plain[:20]])
    exact = _time_exact(ground.corpus, [vector for _, vector in questions])
    quiet, text = await ground.time("search", given), await ground.time("search", plain)
    async with _Writers(ground) as writers:
        busy = []
        for query in given:
            busy += (await ground.time("search", [query])).seconds
            await writers.pause()
    size, bound, least = f"{ground.corpus.size:,}", at(exact.seconds, 50), at(quiet.seconds, 50)
    note = f"{writers.rate:.0f} writes/s were answered"
    return [
        _row(f"search of {size}, vector given, p50", least, EXACT, bound, at_most_times(0.6)),
        _row(f"search of {size}, vector given, p99", at(quiet.seconds, 99), EXACT, bound),
        _row(f"search of {size}, processor time", quiet.cpu, LOOP, _time_loop()),
        _row(f"search of {size}, from text, p50", at(text.seconds, 50), EXACT, bound),
        _row(f"search of {size}, from text, p99", at(text.seconds, 99), EXACT, bound),
        _row(f"search of {size}, from text, processor time", text.cpu, LOOP, _time_loop()),
        _row(f"search among {LOAD} writes/s, p50", at(busy, 50), QUIET, least, note=note),
        _row(f"search among {LOAD} writes/s, p99", at(busy, 99), QUIET, least, at_most_times(3)),
    ]


async def walk_rows(ground: MemoryGround, count: int) -> list[Row]:
    """Two hops in both directions, in turn with bare requests that bring as many bytes; and the best ways."""
    starts = np.random.default_rng(5).integers(0, ground.corpus.size, count)
    walks, bare, sizes = [], [], []
    begun_cpu = cpu_seconds(ground.pid)
    for node_id in ground.corpus.ids(starts):
        query = TraverseQuery(start=(node_id,), depth=2, direction="out")
        begun = time.perf_counter()
        answer = await ground.ask("traverse", query)
        walks.append(time.perf_counter() - begun)
        sizes.append(len(answer))
        bare += await time_each([partial(ground.echo, len(answer))])
    spent = (cpu_seconds(ground.pid) - begun_cpu) / count
    over = [walk - request for walk, request in zip(walks, bare, strict=True)]
    pairs = zip(ground.corpus.ids(starts), ground.corpus.ids(starts[::-1]), strict=True)
    ways = [PathsQuery(from_id=one, to_id=other, k=3) for one, other in pairs if one != other][
        : count // 10 + 1
    ]
    paths = await time_each([partial(ground.ask, "paths", query) for query in ways])
    note = f"{median(sizes) / 1e3:.0f} kB"
    return [
        _row("two hops, p50", at(walks, 50), BARE, at(bare, 50), note=note),
        _row("two hops, p99", at(walks, 99), BARE, at(bare, 99)),
        _row("two hops, over a bare request, p50", median(over), BARE, at(bare, 50), at_most(1.5)),
        _row("two hops, processor time", spent, LOOP, _time_loop()),
        _row("three best ways, p50", median(paths), BARE, at(bare, 50)),
    ]


async def brief_rows(ground: MemoryGround, count: int) -> list[Row]:
    """Made anew after each write that shows in it; then from the cache, in turn with bare requests."""
    query = BriefQuery(agent=AGENT)
    cold, spent, cached, bare = [], [], [], []
    for number in range(max(4, count // 10)):
        await ground.memory.write(_remember(ground, number))
        seconds, cpu = await ground.time("brief", [query])
        cold += seconds
        spent.append(cpu)
    size = len(await ground.ask("brief", query))
    pids = [ground.pid, ground.office.processes["echo"].pid]
    begun = [*map(cpu_seconds, pids)]
    for _ in range(count):
        cached += await time_each([partial(ground.ask, "brief", query)])
        bare += await time_each([partial(ground.echo, size)])
    asked = [(cpu_seconds(pid) - before) / count for pid, before in zip(pids, begun, strict=True)]
    note = f"{size / 1e3:.0f} kB"
    return [
        _row("briefing, made anew, p50", at(cold, 50), BARE, at(bare, 50), at_most(40), note),
        _row("briefing, made anew, p99", at(cold, 99), BARE, at(bare, 99)),
        _row("briefing, made anew, processor time", median(spent), LOOP, _time_loop()),
        _row("briefing, from the cache, processor time", asked[0], ECHO, asked[1]),
        _row("briefing, from the cache, p50", at(cached, 50), BARE, at(bare, 50), at_most_times(1.3)),
        _row("briefing, from the cache, p99", at(cached, 99), BARE, at(bare, 99)),
    ]


async def restart_rows(ground: MemoryGround, rounds: int) -> list[Row]:
    """From the start of the process until it is ready, in turn with an import of lancedb; and its memory."""
    used = ground.rss
    starts, imports = [], []
    for _ in range(rounds):
        await ground.stop()
        imports.append(await asyncio.to_thread(_time_import))
        starts.append(await ground.restart())
    over = [start - bare for start, bare in zip(starts, imports, strict=True)]
    vectors = ground.corpus.vectors.nbytes / 1e6
    bound, size = "python -c 'import lancedb'", f"{ground.corpus.size:,}"
    return [
        compare(NAME, f"restart with {size}, to ready", median(starts), "s", bound, median(imports)),
        compare(NAME, "restart, over the import", median(over), "s", bound, median(imports), at_most(2)),
        compare(NAME, "the daemon's memory after all this", used, "MB", "the vectors", vectors, at_most(900)),
        compare(
            NAME,
            "the daemon's memory after a restart",
            ground.rss,
            "MB",
            "the vectors",
            vectors,
            at_most(650),
        ),
    ]


class _Writers:
    """Somebody who stores ``LOAD`` single memories a second, whether they are answered or not."""

    def __init__(self, ground: MemoryGround) -> None:
        self._ground = ground
        self._tasks: list[asyncio.Task[object]] = []
        self._begun = 0.0
        self.rate = 0.0

    async def __aenter__(self) -> "_Writers":
        extra = Corpus(4_000, name=9)
        self._writes = iter(extra.writes(0, 4_000, each=1))
        self._begun = time.perf_counter()
        self._pacing = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._pacing.cancel()
        answered = sum(task.done() for task in self._tasks)
        self.rate = answered / (time.perf_counter() - self._begun)
        await asyncio.gather(*self._tasks)

    async def pause(self) -> None:
        """Between two searches, so that they last as long as some of the writes take."""
        await asyncio.sleep(0.01)

    async def _run(self) -> None:
        for number, write in enumerate(self._writes):
            await asyncio.sleep(max(0.0, self._begun + number / LOAD - time.perf_counter()))
            self._tasks.append(asyncio.create_task(self._ground.memory.write(write)))


def _time_exact(corpus: Corpus, vectors: Sequence[Sequence[float]] | NDArray[np.float32]) -> Times:
    """The ten nearest of all vectors, without anything else."""
    times, spent = [], time.process_time()
    for vector in np.asarray(vectors, np.float32):
        begun = time.perf_counter()
        near = corpus.vectors @ vector
        best = np.argpartition(near, -10)[-10:]
        best[np.argsort(-near[best])]
        times.append(time.perf_counter() - begun)
    return Times(times, (time.process_time() - spent) / len(times))


def _time_loop() -> float:
    """Seconds of processor time, in the middle of fifteen tries."""
    tries = []
    for _ in range(15):
        begun = time.process_time()
        sum(step & 7 for step in range(100_000))
        tries.append(time.process_time() - begun)
    return median(tries)


def _remember(ground: MemoryGround, number: int) -> MemoryWrite:
    """Something that the agent's next briefing has to show."""
    node = Node(
        kind="decision",
        title=f"Decision number {number} of the benchmark",
        importance=0.95,
        source=Source(agent=AGENT, session="bench"),
    )
    return MemoryWrite(
        sender="user", nodes=(node,), vectors=ground.corpus.vectors[number].tobytes(), insist=True
    )


def _time_import() -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import lancedb"], check=True)
    return time.perf_counter() - begun


def _row(
    name: str,
    seconds: float,
    bound: str = "",
    bound_seconds: float = 0,
    target: Target = NO_TARGET,
    note: str = "",
) -> Row:
    return compare(NAME, name, seconds * 1e3, "ms", bound, bound_seconds * 1e3 or None, target, note)
