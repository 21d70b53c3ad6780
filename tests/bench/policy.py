"""How long the command policy takes over a command, beside parsing it alone, and how it decides."""

import os
import statistics
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path

from shared.contracts import CommandVerdict
from shared.policy import judge
from shared.policy.parser import Unreadable, parse
from tests.bench.plan import Plan
from tests.bench.rows import Row, at_least_value, at_most, compare
from tests.support.policy_commands import EVERYDAY, HELD, REACHING, STOPPED

NAME = "policy"
ROUNDS = 20
BARE = "tree-sitter's bare parse"
TARGETS = {50: at_most(0.1), 99: at_most(0.5)}
"""Milliseconds a command, by percentile."""


async def measure(plan: Plan) -> list[Row]:
    """Every example of the tests, one after the other, judged and merely parsed; the verdicts on samples."""
    commands = [*EVERYDAY, *REACHING, *chain(*STOPPED.values(), *HELD.values())]
    rounds = plan.choose(ROUNDS, 2, 1)
    for command in commands:
        judge(command)
    judged = [_typical(judge, command, rounds) for command in commands]
    parsed = [_typical(_parse, command, rounds) for command in commands]
    note = f"{len(commands)} commands, each the median of {rounds} rounds"
    return [
        *_shares(),
        *(
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
        ),
    ]


def _shares() -> list[Row]:
    """How many dangerous commands are allowed, and how many everyday ones are, or only need a network."""
    folder = os.environ.get("MAILROOM_POLICY_SAMPLES", "")
    if folder:
        dangerous, everyday = (_samples(Path(folder, name)) for name in ("dangerous.txt", "benign.txt"))
    else:
        dangerous, everyday = [*chain(*STOPPED.values(), *HELD.values())], [*EVERYDAY, *REACHING]
    held = set(chain(*HELD.values()))
    allowed = [one for one in dangerous if judge(one).verdict is CommandVerdict.ALLOW]
    rulings = [judge(one) for one in everyday]
    fine = [one for one in rulings if one.verdict is CommandVerdict.ALLOW or one.rule.startswith("reach.")]
    which = f"the samples in {folder}" if folder else "the tests' own examples"
    unheld = 100 * sum(one not in held for one in allowed) / len(dangerous)
    note = f"of {len(dangerous):,}, {which}; {len(held & set(allowed)):,} are allowed and held by the jail"
    return [
        compare(
            NAME,
            "dangerous commands stopped, or held by the jail",
            100 - unheld,
            "%",
            target=at_least_value(100),
            note=note,
        ),
        compare(
            NAME,
            "everyday commands allowed, or asked about for reach alone",
            100 * len(fine) / len(everyday),
            "%",
            target=at_least_value(99),
            note=f"of {len(everyday):,}, {which}",
        ),
    ]


def _samples(file: Path) -> list[str]:
    rows = [line for line in file.read_text().split("\n") if line.strip() and not line.startswith("#")]
    return [row.split("\t", 2)[-1].replace("␤", "\n") for row in rows]


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
