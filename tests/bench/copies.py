"""Copies of memory beside its writer: how soon one takes over, how they lag, what readers add and cost.

``python -m tests.bench.copies`` fills memory with 100,000 made-up nodes and prints what came of it; the last
line is JSON. ``--nodes`` chooses less.
"""

import argparse
import asyncio
import json
import signal
import time
from statistics import median
from typing import Any

import msgspec

from shared.contracts import MemoryQuery, Node
from shared.memory import Memory
from tests.bench.machine import rss_mb
from tests.bench.memory_ground import MEMORY, MemoryGround, open_memory
from tests.support.waiting import eventually

READS = 600  # Searches of each measurement
AT_ONCE = 8  # Searches that are under way at once
LAGS = 50  # Writes whose way to every copy is measured
PATIENCE = 900.0  # Seconds that a copy has to be made


async def measure(size: int) -> dict[str, Any]:
    """All of it, one after another."""
    found: dict[str, Any] = {"nodes": size}
    async with open_memory(size) as ground:
        await ground.fill()
        found["reads_per_second"] = {"1": await read(ground)}
        found["rss_mb"] = {"writer": round(ground.rss)}
        for number in (2, 3):
            begun = time.monotonic()
            await add(ground, f"reader{number}", "reader")
            await until_level(ground, number - 1)
            found.setdefault("seconds_to_make_a_copy", []).append(round(time.monotonic() - begun, 1))
            found["reads_per_second"][str(number)] = await read(ground)
        found["lag_ms"] = await lag(ground)
        found["rss_mb"] |= {"reader": round(rss_mb(ground.office.processes["memoryreader2"].pid))}
        for number in (2, 3):
            ground.office.kill(f"memoryreader{number}")
        for number, blow in enumerate((signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP, signal.SIGSTOP)):
            await add(ground, f"standby{number}")
            await until_level(ground, 1)
            found["rss_mb"]["standby"] = round(rss_mb(ground.office.processes[f"memorystandby{number}"].pid))
            before = MEMORY if not number else f"memorystandby{number - 1}"
            seconds = await takeover(ground, before, blow)
            found.setdefault("takeover_seconds", []).append([blow.name, seconds])
            print(json.dumps(found), flush=True)
    return found


async def add(ground: MemoryGround, name: str, *arguments: str) -> None:
    """Start a further process of memory."""
    office = ground.office
    member = office.members[MEMORY]
    office.members[MEMORY] = msgspec.structs.replace(member, command=(*member.command, *arguments))
    office.start(MEMORY, name)
    office.members[MEMORY] = member
    await eventually(lambda: office.processes[MEMORY + name].poll() is None, 5)


async def until_level(ground: MemoryGround, copies: int) -> None:
    """Return when so many copies have all that there is."""

    async def level() -> bool:
        found = (await ground.memory.health()).get("copies", [])
        return len(found) == copies and not any(each["behind"] for each in found)

    await eventually(level, PATIENCE)
    await asyncio.sleep(3)  # it answers from now on


async def read(ground: MemoryGround) -> float:
    """Searches a second."""
    questions = ground.corpus.questions(READS)
    queries = iter([MemoryQuery(text=text, vector=tuple(vector)) for text, vector in questions])

    async def work() -> None:
        for query in queries:
            await ground.ask("search", query)

    begun = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return round(READS / (time.perf_counter() - begun), 1)


async def lag(ground: MemoryGround) -> dict[str, float]:
    """How long until what was just written is found on any process, in milliseconds."""
    took = []
    for number in range(LAGS):
        await ground.memory.add(Node(id=f"lag{number}", title=f"Lag {number} of the copies"), insist=True)
        begun = time.perf_counter()
        assert await ground.memory.get(f"lag{number}")
        took.append((time.perf_counter() - begun) * 1_000)
    return {"p50": round(median(took), 1), "longest": round(max(took), 1)}


async def takeover(ground: MemoryGround, name: str, blow: int) -> float:
    """The seconds from a blow to the writer until a write after it was answered."""
    memory = Memory(ground.office.user)
    await memory.add(Node(title=f"Before the blow at {time.time()}"), insist=True)
    ground.office.signal(name, blow)
    begun = time.monotonic()
    await memory.add(Node(title=f"After the blow at {time.time()}"), insist=True)
    return round(time.monotonic() - begun, 2)


def main() -> None:
    """Measure, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100_000)
    print(json.dumps(asyncio.run(measure(parser.parse_args().nodes))))


if __name__ == "__main__":
    main()
