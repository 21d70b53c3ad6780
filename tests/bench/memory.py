"""The memory daemon over the bus: what it takes in, what it answers, and how that grows with its content."""

import math
from collections.abc import Sequence
from statistics import median

import msgspec

from shared.contracts import MemoryQuery, TraverseQuery
from tests.bench.memory_ground import MemoryGround, open_memory, time_each
from tests.bench.memory_questions import brief_rows, restart_rows, search_rows, walk_rows
from tests.bench.memory_writes import bulk_rows, day_rows, embedding_rows, single_rows
from tests.bench.plan import Plan
from tests.bench.rows import NO_TARGET, Row, at_most_times, compare

NAME = "memory"
SIZES = (1_000, 10_000, 100_000)
BIG = 1_000_000


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """How much of everything is measured; what is 0 is left out."""

    sizes: tuple[int, ...]
    main: int
    questions: int
    singles: int
    embedded: int
    batches: int
    restarts: int


QUICK = Scale(sizes=(300,), main=300, questions=10, singles=80, embedded=16, batches=3, restarts=1)


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """What so many memories cost: seconds to load them and to start with them, a search and a walk, MB."""

    size: int
    load: float
    start: float
    search: float
    walk: float
    rss: float


SMALL = Scale(sizes=(5_000,), main=5_000, questions=50, singles=400, embedded=0, batches=0, restarts=0)


async def measure(plan: Plan) -> list[Row]:
    """Each size once; with the main one everything else as well."""
    scale = plan.choose(_full(plan), SMALL, QUICK)
    rows: list[Row] = []
    growth: list[Growth] = []
    for size in scale.sizes:
        async with open_memory(size) as ground:
            nodes, edges = await ground.fill()
            held = await ground.memory.stats()
            assert (held["nodes"], held["edges"]) == (nodes.rows, edges.rows), held
            if size == scale.main:
                rows += bulk_rows(ground, nodes, edges, 20_000)
                rows += await _rest(ground, scale)
            if not plan.small:
                growth.append(await _grow(ground, scale, nodes.seconds + edges.seconds))
    return [*rows, *_growth_rows(growth)]


def _full(plan: Plan) -> Scale:
    if plan.nodes:
        return msgspec.structs.replace(
            SMALL, sizes=(plan.nodes,), main=plan.nodes, questions=200, singles=2_000, restarts=1
        )
    sizes = (*SIZES, BIG) if plan.big else SIZES
    return Scale(
        sizes=sizes, main=100_000, questions=400, singles=8_000, embedded=800, batches=1_000, restarts=3
    )


async def _rest(ground: MemoryGround, scale: Scale) -> list[Row]:
    rows = [
        *await search_rows(ground, scale.questions),
        *await walk_rows(ground, scale.questions),
        *await brief_rows(ground, scale.questions),
        *await single_rows(ground, scale.singles),
    ]
    if scale.batches:
        rows += await day_rows(ground, scale.batches, scale.questions // 2)
    if scale.embedded:
        rows += await embedding_rows(ground, scale.embedded)
    if scale.restarts:
        rows += await restart_rows(ground, scale.restarts)
    return rows


async def _grow(ground: MemoryGround, scale: Scale, load: float) -> Growth:
    start = await ground.restart()
    questions = ground.corpus.questions(scale.questions)
    queries = [MemoryQuery(text=text, vector=tuple(vector)) for text, vector in questions]
    searches = await time_each([lambda query=query: ground.ask("search", query) for query in queries])
    starts = ground.corpus.ids(range(0, ground.corpus.size, max(1, ground.corpus.size // scale.questions)))
    walks = [TraverseQuery(start=(node_id,), depth=2) for node_id in starts]
    walked = await time_each([lambda query=query: ground.ask("traverse", query) for query in walks])
    return Growth(
        size=ground.corpus.size,
        load=load,
        start=start,
        search=median(searches) * 1e3,
        walk=median(walked) * 1e3,
        rss=ground.rss,
    )


def _growth_rows(growth: Sequence[Growth]) -> list[Row]:
    """Each size beside what n log n makes of the smallest one; what does not grow at all is far below."""
    if not growth:
        return []
    first = growth[0]
    bound = f"n log n from {first.size:,}"
    rows = []
    for name, unit in (("load", "s"), ("start", "s"), ("search", "ms"), ("walk", "ms"), ("rss", "MB")):
        for one in growth:
            factor = one.size * math.log(one.size) / (first.size * math.log(first.size))
            value, least = getattr(one, name), getattr(first, name)
            title = f"{_TITLES[name]}, {one.size:,} memories"
            target = NO_TARGET if one is first else at_most_times(1)
            rows.append(compare(NAME, title, value, unit, bound, least * factor, target))
    return rows


_TITLES = {
    "load": "load with edges",
    "start": "restart",
    "search": "search, p50",
    "walk": "two hops, p50",
    "rss": "resident memory",
}
