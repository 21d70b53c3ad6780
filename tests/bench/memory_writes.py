"""How quickly memory takes things in: in bulk, one by one, with embedding, and a day's worth of singles."""

import asyncio
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from services.memory.local_model import LocalEmbedder
from services.memory.writes.change import embedded_text
from shared.contracts import MemoryQuery
from tests.bench.machine import cpu_seconds
from tests.bench.memory_corpus import Corpus
from tests.bench.memory_ground import Load, MemoryGround, open_memory, time_each
from tests.bench.rows import Row, at_least, at_least_value, at_most, at_most_times, compare

NAME = "memory"
WRITERS = 64
"""Writers of single memories at once."""
LANCE = "LanceDB alone, equal batches"
STREAM = "bare JetStream, equal bytes"


def bulk_rows(ground: MemoryGround, nodes: Load, edges: Load, plan_rows: int) -> list[Row]:
    """The bulk load, against LanceDB's own ``add`` of memories of the same text and vectors."""
    bound = _add_to_lance(ground.corpus, min(plan_rows, ground.corpus.size))
    return [
        compare(
            NAME,
            "memories with vectors, 1,000 a write",
            nodes.rate,
            "rows/s",
            LANCE,
            bound,
            at_least_value(20_000),
        ),
        compare(NAME, "edges, 5,000 a write", edges.rate, "rows/s", LANCE, bound),
    ]


async def single_rows(ground: MemoryGround, count: int) -> list[Row]:
    """Single memories of many writers, in turn with bare stores of the same bytes."""
    extra = Corpus(count, name=7)
    rates, bounds, spent, bare = [], [], [], []
    for first in range(0, count, count // 4):
        writes = extra.writes(first, min(first + count // 4, count), each=1)
        payloads = [write.to_json() for write in writes]
        begun = time.process_time()
        bounds.append(len(writes) / await ground.store_bare(payloads, WRITERS))
        bare.append((time.process_time() - begun) / len(writes))
        begun = cpu_seconds(ground.pid)
        rates.append(len(writes) / await ground.send(writes, WRITERS))
        spent.append((cpu_seconds(ground.pid) - begun) / len(writes))
    return [
        compare(
            NAME,
            "single memory, processor time of the daemon",
            median(spent) * 1e6,
            "us",
            "storing it bare, of the client",
            median(bare) * 1e6,
        ),
        compare(
            NAME,
            f"single memories, {WRITERS} writers",
            median(rates),
            "rows/s",
            STREAM,
            median(bounds),
            at_least_value(2_000),
        ),
    ]


async def embedding_rows(ground: MemoryGround, count: int) -> list[Row]:
    """Memories without vectors, in turn with the embedder alone, both in the same process count."""
    embedder = LocalEmbedder(ground.office.config.models)
    extra = Corpus(count, name=8)
    rates, bounds = [], []
    try:
        for first in range(0, count, count // 4):
            writes = extra.writes(first, min(first + count // 4, count), each=50, embedded=False)
            texts = [embedded_text(node) for write in writes for node in write.nodes]
            begun = time.perf_counter()
            await asyncio.to_thread(embedder.embed, texts)
            bounds.append(len(texts) / (time.perf_counter() - begun))
            rates.append(len(texts) / await ground.send(writes, 2))
    finally:
        embedder.close()
    return [
        compare(
            NAME,
            "memories to be embedded, 50 a write",
            median(rates),
            "rows/s",
            "the embedder alone",
            median(bounds),
            at_least(0.9),
        )
    ]


async def day_rows(bulk: MemoryGround, batches: int, questions: int) -> list[Row]:
    """As many memories as ``bulk`` has, one by one, ``batches`` times; then the same questions to both."""
    size = bulk.corpus.size
    async with open_memory(size) as ground:
        ground.corpus = bulk.corpus
        each, seconds, most = size // batches, 0.0, 0
        for first in range(0, size, each):
            writes = await asyncio.to_thread(bulk.corpus.writes, first, first + each, 1)
            seconds += await ground.send(writes, len(writes))
            most = max(most, ground.count_files())
        kept = (await ground.memory.stats())["nodes"]
        assert kept == size, f"{kept:,} of {size:,} memories were kept"
        times: dict[MemoryGround, list[float]] = {bulk: [], ground: []}
        for text, vector in bulk.corpus.questions(questions):
            query = MemoryQuery(text=text, vector=tuple(vector))
            for side in times:
                times[side] += await time_each([lambda side=side, query=query: side.ask("search", query)])
        files = ground.count_files()
    name = f"{size:,} singles in {batches:,} batches"
    return [
        compare(NAME, f"{name}: files left", files, "", target=at_most(199), note=f"at most {most:,}"),
        compare(NAME, f"{name}: rate", size / seconds, "rows/s"),
        compare(
            NAME,
            f"{name}: search, p50",
            median(times[ground]) * 1e3,
            "ms",
            "one bulk load",
            median(times[bulk]) * 1e3,
            at_most_times(1.2),
        ),
    ]


def _add_to_lance(corpus: Corpus, count: int) -> float:
    """Rows a second that LanceDB adds by itself, 1,000 at once: nothing synced, logged or searchable."""
    import lancedb
    import pyarrow as pa

    batches = [corpus.nodes(first, min(first + 1_000, count)) for first in range(0, count, 1_000)]
    tables = [
        pa.table(
            {
                "id": [node.id for node in nodes],
                "kind": [node.kind for node in nodes],
                "title": [node.title for node in nodes],
                "body": [node.body for node in nodes],
                "created_at": [node.created_at for node in nodes],
                "embedding": _column(corpus.vectors[number * 1_000 : number * 1_000 + len(nodes)]),
            }
        )
        for number, nodes in enumerate(batches)
    ]
    with TemporaryDirectory(prefix="mailroom-bench-") as folder:
        table = lancedb.connect(Path(folder)).create_table("bound", schema=tables[0].schema)
        begun = time.perf_counter()
        for rows in tables:
            table.add(rows)
        return count / (time.perf_counter() - begun)


def _column(vectors: NDArray[np.float32]) -> object:
    import pyarrow as pa

    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])
