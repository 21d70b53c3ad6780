"""What it costs to start a command, against a Python that does nothing."""

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from tempfile import TemporaryDirectory

from tests.bench.plan import Plan
from tests.bench.rows import Row, compare
from tests.support.server import ROOT, environment, mailroom_command

NAME = "commands"
BARE = "python -c pass"
COMMANDS = {"mailroom --help": "--help", "mailroom status": "status"}


async def measure(plan: Plan) -> list[Row]:
    """Each command in turn with the bare start, with no office running."""
    with TemporaryDirectory(prefix="mailroom-bench-") as folder:
        variables = environment(Path(folder) / "state")
        commands = [[sys.executable, "-c", "pass"], *(mailroom_command(each) for each in COMMANDS.values())]
        runs = [[_run(each, variables) for each in commands] for _ in range(plan.choose(15, 5, 2))]
    bare, *others = zip(*runs, strict=True)
    rows = []
    for name, times in zip(COMMANDS, others, strict=True):
        for place, what in ((0, "start to end"), (1, "processor time")):
            value, bound = (statistics.median(run[place] for run in some) * 1e3 for some in (times, bare))
            rows.append(compare(NAME, f"{name}, {what}", value, "ms", BARE, bound))
    return rows


def _run(command: Sequence[str], variables: dict[str, str]) -> tuple[float, float]:
    """The seconds of a command, and those of the processor."""
    begun, before = time.perf_counter(), getrusage(RUSAGE_CHILDREN)
    subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, check=False)
    after = getrusage(RUSAGE_CHILDREN)
    return time.perf_counter() - begun, sum(after[:2]) - sum(before[:2])
