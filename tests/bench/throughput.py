"""How many no-op tasks one worker process does in a second, with all that belongs to a task."""

import statistics
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from msgspec.structs import replace

from tests.bench.ground import CLAIMED, QUICK, Ground, Lane, MailroomLane, RivalLane, Run, open_ground
from tests.bench.plan import Plan
from tests.bench.rows import NO_TARGET, Row, at_least, compare

NAME = "throughput"
OURS = {"full lifecycle": QUICK, "full lifecycle, claimed": CLAIMED}
"""Ours, and what the no-op agent does."""
QUICKEST = "full lifecycle"
BARE = "bare loop, acks only"
NAIVE = "naive loop, full lifecycle"
FASTSTREAM = "FastStream, acks only"
RIVALS = {BARE: ("bare", 256, 4), NAIVE: ("naive", 64, 1), FASTSTREAM: ("faststream", 256, 2)}
"""Each rival's module, how many tasks it has in hand, and how many times as many tasks it gets: the
windows are those at which each was fastest."""
TARGETS = {"always": {NAIVE: 5.0}, "2m": {FASTSTREAM: 1.2, NAIVE: 3.0}}
"""At each sync setting the ratios to reach, by bound."""


async def measure(plan: Plan) -> list[Row]:
    """The rates at both sync settings."""
    rows = []
    for sync in ["2m"] if plan.small else TARGETS:
        async with open_ground(sync) as ground:
            runs = await _race(ground, plan)
        rows += _rows(sync, runs)
    return rows


async def _race(ground: Ground, plan: Plan) -> Mapping[str, Sequence[Run]]:
    """Everybody in turn, ``plan.rounds`` times: what disturbs the machine disturbs all of them."""
    lanes = await _line_up(ground)
    runs: dict[str, list[Run]] = {name: [] for name in lanes}
    for name, lane in lanes.items():
        await lane.run(_share(name, plan.tasks) // 4)
    for _ in range(plan.rounds):
        for name, lane in lanes.items():
            runs[name].append(await lane.run(_share(name, plan.tasks)))
    return runs


async def _line_up(ground: Ground) -> dict[str, Lane]:
    lanes: dict[str, Lane] = {}
    for name, action in OURS.items():
        lanes[name] = ours = MailroomLane(ground, action)
        await ours.start()
    for name, (module, window, _) in RIVALS.items():
        if name == FASTSTREAM and find_spec("faststream") is None:
            continue
        rival = RivalLane(ground, module)
        await rival.start(window)
        lanes[name] = rival
    return lanes


def _share(name: str, tasks: int) -> int:
    return tasks * RIVALS[name][2] if name in RIVALS else tasks


def _rows(sync: str, runs: Mapping[str, Sequence[Run]]) -> list[Row]:
    rows = []
    for ours in OURS:
        targets = TARGETS[sync] if ours == QUICKEST else {}
        for bound in RIVALS:
            if bound not in runs:
                row = Row(measure=NAME, name=f"{ours}, sync {sync}", value=_rate(runs[ours]), unit="tasks/s")
                rows.append(replace(row, bound=f"{bound}: not installed"))
                continue
            target = at_least(targets[bound]) if bound in targets else NO_TARGET
            rates = _rate(runs[ours]), "tasks/s", bound, _rate(runs[bound])
            rows.append(compare(NAME, f"{ours}, sync {sync}", *rates, target))
        for part in ("worker", "server"):
            for bound in filter(runs.__contains__, RIVALS):
                name = f"processor time of its {part}{ours.removeprefix(QUICKEST)}, sync {sync}"
                costs = _cost(runs[ours], part), "us/task", bound, _cost(runs[bound], part)
                rows.append(compare(NAME, name, *costs))
    return rows


def _rate(runs: Sequence[Run]) -> float:
    return statistics.median(run.rate for run in runs)


def _cost(runs: Sequence[Run], part: str) -> float:
    return statistics.median(getattr(run, f"{part}_cpu") / run.tasks * 1e6 for run in runs)
