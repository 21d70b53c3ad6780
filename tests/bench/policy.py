"""How long the command policy takes over a command, beside parsing it alone."""

import statistics
import time
from collections.abc import Callable

from shared.policy import judge
from shared.policy.parser import Unreadable, parse
from tests.bench.plan import Plan
from tests.bench.rows import Row, at_most, compare
from tests.unit.policy_examples import EVERYDAY, STOPPED

NAME = "policy"
ROUNDS = 20
BARE = "tree-sitter's bare parse"
TARGETS = {50: at_most(0.2), 99: at_most(2)}
"""Milliseconds a command, by percentile."""


async def measure(plan: Plan) -> list[Row]:
    """Every example of the tests, one after the other, judged and merely parsed."""
    text = "\n".join([EVERYDAY, *STOPPED.values()])
    commands = [line.replace("␤", "\n") for line in text.split("\n") if line.strip()]
    rounds = 1 if plan.quick else ROUNDS
    for command in commands:
        judge(command)
    judged = [_typical(judge, command, rounds) for command in commands]
    parsed = [_typical(_parse, command, rounds) for command in commands]
    note = f"{len(commands)} commands, each the median of {rounds} rounds"
    return [
        compare(
            NAME,
            f"a command judged, p{percentile}",
            _percentile(judged, percentile),
            "ms",
            f"{BARE}, p{percentile}",
            _percentile(parsed, percentile),
            target,
            note,
        )
        for percentile, target in TARGETS.items()
    ]


def _parse(command: str) -> None:
    try:
        parse(command)
    except Unreadable:
        return


def _typical(function: Callable[[str], object], command: str, rounds: int) -> float:
    """Milliseconds; the median, since other processes on the machine take turns."""
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        function(command)
        times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e3


def _percentile(values: list[float], percentile: int) -> float:
    return statistics.quantiles(values, n=100)[percentile - 1]
