"""How soon everything goes on after ``kill -9``: of the supervisor, and of every agent in turn."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from tests.bench.plan import Plan
from tests.bench.rows import Row, at_most, compare
from tests.support.back import PATIENCE, Back, measure_back
from tests.support.office import Office
from tests.support.slow import install_slow_agent, slow_goal
from tests.support.storm import Storm

NAME = "recovery"
BACK, TAKEN_OVER = at_most(8), at_most(3)
GOALS, SECONDS = 200, 1.0
"""Goals of the storm, and the seconds that each one's task takes."""


async def measure(plan: Plan) -> list[Row]:
    """The office back on a quiet machine and on a busy one, then takeovers among many kills."""
    rows = []
    for busy in (0,) if plan.quick else (0, 2 * (os.cpu_count() or 1)):
        rows += _back_rows(await measure_back(busy), busy)
    return [*rows, *await _storm_rows(20 if plan.quick else GOALS)]


def _back_rows(back: Back, busy: int) -> list[Row]:
    where = f"beside {busy} busy processes" if busy else "on a quiet machine"
    phases = json.dumps(msgspec.to_builtins(back))
    print(json.dumps({"measure": "back", "busy": busy, **msgspec.to_builtins(back)}))
    whole = max(back.agents, back.memory, back.goal)
    return [
        compare(NAME, f"office back after a kill, {where}", whole, "s", target=BACK, note=phases),
        compare(NAME, f"tasks in hand at that kill, {where}", back.in_hand, "s"),
    ]


# --- the storm -----------------------------------------------------------------------------------


@asynccontextmanager
async def _open_office() -> AsyncIterator[Office]:
    with TemporaryDirectory(prefix="mailroom-bench-") as folder:
        more = install_slow_agent(Path(folder))
        office = Office(Path(folder), MAILROOM_TASK_ACK_WAIT="30", MAILROOM_MAX_ATTEMPTS="20", **more)
        try:
            await office.open()
            yield office
        finally:
            await office.close()


async def _storm_rows(goals: int) -> list[Row]:
    """Every agent killed in turn, the busy one after each of them."""
    async with _open_office() as office:
        for number in range(goals):
            await office.submit(slow_goal(f"g{number}", SECONDS))
        storm = Storm(office)
        for name in list(office.processes):
            await storm.strike(name)
            await storm.strike("slow")
        await asyncio.gather(*(office.finished(f"g{number}", PATIENCE) for number in range(goals)))
        found = await storm.takeovers()
    print(json.dumps({"measure": "takeovers", **msgspec.to_builtins(found)}))
    note = f"{found.takeovers} after {found.kills} kills of processes"
    return [
        compare(NAME, "takeover of an interrupted task, p50", found.p50, "s", note=note),
        compare(NAME, "takeover of an interrupted task, longest", found.longest, "s", target=TAKEN_OVER),
    ]
