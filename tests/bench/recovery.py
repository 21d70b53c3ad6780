"""How soon everything goes on after ``kill -9``: of the supervisor, and of every agent in turn."""

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from tests.bench.plan import Plan as BenchPlan
from tests.bench.rows import Row, at_most, compare
from tests.storm import Plan, run_storm
from tests.support.back import Back, measure_back

NAME = "recovery"
BACK, TAKEN_OVER = at_most(8), at_most(6)
GOALS = 200
"""Goals of the storm."""


async def measure(plan: BenchPlan) -> list[Row]:
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


async def _storm_rows(goals: int) -> list[Row]:
    """Goals at 3 a second while everything is killed in turn."""
    with TemporaryDirectory(prefix="mailroom-bench-") as folder:
        found = await run_storm(Plan(goals=goals, stops=0), Path(folder))
    print(json.dumps({"measure": "storm", **msgspec.to_builtins(found)}))
    note = f"{found.takeovers} after {json.dumps(found.blows)}; survived: {found.survived}"
    return [
        compare(NAME, "takeover of an interrupted task, p50", found.p50_takeover, "s", note=note),
        compare(
            NAME, "takeover of an interrupted task, longest", found.longest_takeover, "s", target=TAKEN_OVER
        ),
    ]
