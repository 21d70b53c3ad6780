"""How quickly files are taken in, against the embedder alone, and what others wait for meanwhile."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from services.memory.local_model import LocalEmbedder
from services.memory.writes.change import embedded_text
from shared.contracts import ListQuery, MemoryWrite, Node
from shared.memory import Memory
from tests.bench import ingest_files
from tests.bench.machine import cpu_seconds
from tests.bench.memory_ground import MemoryGround, open_memory
from tests.bench.plan import Plan
from tests.bench.rows import Row, at_most_times, compare

NAME = "ingest"
ALONE = "embedding alone"
MOST = 1.3
"""How many times as long as embedding its texts taking in a file may take."""
POLL = 0.1
PAUSE = 0.2
"""Seconds between two questions of the one who works on while files are taken in."""
FULL, SMALL, TINY, SMOKE = 1.0, 0.05, 0.001, 0.002
"""The shares of the full sizes that are measured with --big, by default, for the budget of speed, and with
--quick."""


async def measure(plan: Plan) -> list[Row]:
    """A note of 10 MB, 20,000 events, a document of 2,000 pages, and a mail with 2 MB of headers."""
    share = FULL if plan.big else plan.choose(SMALL, TINY, SMOKE)
    kinds: dict[str, tuple[str, Callable[[int], bytes]]] = {
        f"Markdown, {10 * share:.3g} MB": (
            "handbook.md",
            lambda seed: ingest_files.make_markdown(round(9.9e6 * share), seed=seed).encode(),
        ),
        f"calendar, {20_000 * share:,.0f} events": (
            "calendar.ics",
            lambda seed: ingest_files.make_calendar(round(20_000 * share), seed=seed).encode(),
        ),
        f"PDF, {2_000 * share:,.0f} pages": (
            "document.pdf",
            lambda seed: ingest_files.make_pdf(round(2_000 * share), seed=seed),
        ),
        "mail, 2 MB of headers": ("letter.eml", lambda seed: ingest_files.make_mail(2_000_000, seed=seed)),
    }
    rows: list[Row] = []
    async with open_memory(1) as ground:
        embedder = LocalEmbedder(ground.office.config.models)
        try:
            await _warm_up(ground)
            if plan.small:
                return [await _spend(ground, embedder, ingest_files.make_markdown(round(9.9e6 * share)))]
            for kind, (name, make) in kinds.items():
                rows += await _measure_pace(ground, embedder, kind, name, make(1))
                rows += await _measure_waits(ground, kind, f"another-{name}", make(2))
        finally:
            embedder.close()
    return rows


async def _measure_pace(
    ground: MemoryGround, embedder: LocalEmbedder, kind: str, name: str, data: bytes
) -> list[Row]:
    stored, taken = await _take_in(ground, name, data)
    nodes = [node async for node in ground.memory.iterate_nodes(ListQuery(session=name, limit=500))]
    texts = [embedded_text(node) for node in nodes]
    begun = time.perf_counter()
    await asyncio.to_thread(embedder.embed, texts)
    alone = time.perf_counter() - begun
    # A mail of five sentences is embedded before the folder has been looked at.
    target = at_most_times(MOST) if len(texts) > 100 else at_most_times(MOST + 10 / alone)
    count = f"{len(texts):,} memories"
    return [
        compare(NAME, f"{kind}: taken in", taken, "s", ALONE, alone, target, note=count),
        compare(NAME, f"{kind}: found by words", stored, "s", "taken in", taken),
    ]


async def _measure_waits(ground: MemoryGround, kind: str, name: str, data: bytes) -> list[Row]:
    waits = Waits(await ground.office.connect("scout"))
    idle = await waits.measure(lambda: len(waits.searches) < 20)
    waits = Waits(await ground.office.connect("scout"))
    _, busy = await asyncio.gather(
        _take_in(ground, name, data), waits.measure(lambda: not _is_done(ground, name))
    )
    rows = []
    for place, what in enumerate(("search", "write")):
        for percent, label in ((50, "p50"), (99, "p99")):
            values = [float(np.percentile(side[place], percent)) * 1e3 for side in (busy, idle)]
            name_of_row = f"{kind}: another's {what} meanwhile, {label}"
            rows.append(compare(NAME, name_of_row, values[0], "ms", "idle", values[1]))
    return rows


async def _spend(ground: MemoryGround, embedder: LocalEmbedder, text: str) -> Row:
    """The processor time of taking in a file while nobody asks."""
    begun = cpu_seconds(ground.pid)
    await _take_in(ground, "handbook.md", text.encode())
    taken = cpu_seconds(ground.pid) - begun
    nodes = [node async for node in ground.memory.iterate_nodes(ListQuery(session="handbook.md", limit=500))]
    begun = time.process_time()
    await asyncio.to_thread(embedder.embed, [embedded_text(node) for node in nodes])
    alone = time.process_time() - begun
    note = f"{len(nodes):,} memories"
    return compare(NAME, "Markdown taken in, processor time", taken, "s", ALONE, alone, note=note)


class Waits:
    """An agent that goes on searching and writing, and how long it waits."""

    def __init__(self, bus: object) -> None:
        self._memory = Memory(bus)  # type: ignore[arg-type]
        self.searches: list[float] = []
        self.writes: list[float] = []

    async def measure(self, goes_on: Callable[[], bool]) -> tuple[list[float], list[float]]:
        """The seconds of each search and of each write, in turns while it ``goes_on``."""
        number = 0
        while goes_on() or not self.writes:
            number += 1
            begun = time.perf_counter()
            await self._memory.search("who repaired the printer in Oslo?")
            self.searches.append(time.perf_counter() - begun)
            node = Node(title=f"Shelf {time.time_ns()} holds {number} boxes of toner", kind="observation")
            begun = time.perf_counter()
            await self._memory.write(MemoryWrite(nodes=(node,), insist=True))
            self.writes.append(time.perf_counter() - begun)
            await asyncio.sleep(PAUSE)
        return self.searches, self.writes


async def _warm_up(ground: MemoryGround) -> None:
    """The kinds' examples are embedded with the first file."""
    await _take_in(ground, "first.md", ingest_files.make_markdown(2_000, seed=9).encode())


def _is_done(ground: MemoryGround, name: str) -> bool:
    return (ground.office.config.ingest / "processed" / name).exists()


async def _take_in(ground: MemoryGround, name: str, data: bytes) -> tuple[float, float]:
    """The seconds until a file's last piece was found by words, and until all of it was done."""
    folder: Path = ground.office.config.ingest
    folder.mkdir(parents=True, exist_ok=True)
    begun = time.perf_counter()
    (folder / ".new").write_bytes(data)
    (folder / ".new").rename(folder / name)
    stored = 0.0
    while not _is_done(ground, name):
        assert not (folder / "failed" / name).exists(), f"{name} was not taken in"
        under_way = (await ground.memory.health())["ingest"]["under_way"].get(name)
        if under_way and not stored and under_way["stored"] >= under_way["of"]:
            stored = time.perf_counter() - begun
        await asyncio.sleep(POLL)
    taken = time.perf_counter() - begun
    return stored or taken, taken
