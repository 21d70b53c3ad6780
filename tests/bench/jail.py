"""What the jail costs a command, against bubblewrap alone."""

import os
import statistics
import subprocess
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from shared.jailer.mounts import USER
from shared.sandbox import Reach, check_jail, run_command
from shared.sandbox.jail import find_bubblewrap
from tests.bench.plan import Plan
from tests.bench.rows import NO_TARGET, Row, at_most_times, compare

NAME = "jail"
BARE = "bubblewrap alone"
"""The bound: the same namespaces, /usr and a folder, by bubblewrap with nothing around it."""
OPTIONS = (
    *("--unshare-user --unshare-ipc --unshare-pid --unshare-net --unshare-uts --unshare-cgroup-try").split(),
    *("--disable-userns --die-with-parent --new-session --cap-drop ALL --ro-bind /usr /usr").split(),
    *("--symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64").split(),
    *("--proc /proc --dev /dev --size 1000000 --tmpfs /tmp").split(),
)
QUICK, MANY = 5, 100
IN_JAIL = "the same without reach"
REACH = Reach(hosts=("example.org",))


async def measure(plan: Plan) -> list[Row]:
    """The time of ``true`` in the jail, under bubblewrap alone, and in the jail with reach, in turns."""
    if reason := await check_jail():
        return [compare(NAME, "no jail works here", 0.0, "ms", note=reason)]
    with TemporaryDirectory(prefix="mailroom-bench-") as folder:
        place = Path(folder)
        place.chmod(0o755)

        async def in_jail() -> None:
            result = await run_command(["true"], cwd=place, timeout=30, writable=[place])
            assert result.exit_code == 0, result.output

        async def bare() -> None:
            _run_bare(place)

        async def with_reach() -> None:
            result = await run_command(["true"], cwd=place, timeout=30, writable=[place], reach=REACH)
            assert result.exit_code == 0, result.output

        await with_reach()  # starts the gate
        runs = (in_jail, bare, with_reach)
        jailed, alone, reaching = await _take_turns(runs, plan.choose(MANY, 25, QUICK))
    return [
        compare(
            NAME, "a command, start to end, p50", _ms(jailed), "ms", BARE, _ms(alone), at_most_times(1.5)
        ),
        compare(NAME, "the same, p95", _ms(jailed, 95), "ms", BARE, _ms(alone, 95), NO_TARGET),
        compare(NAME, "a command with reach, p50", _ms(reaching), "ms", IN_JAIL, _ms(jailed), NO_TARGET),
    ]


def _run_bare(place: Path) -> None:
    command = [
        *(find_bubblewrap(), *OPTIONS, "--ro-bind", str(place), str(place)),
        "--chdir",
        str(place),
        "true",
    ]
    environment = {"PATH": "/usr/bin:/bin"}
    if os.geteuid() == 0:  # root steps down for it as the jail does
        subprocess.run(
            command, env=environment, capture_output=True, check=True, user=USER, group=USER, extra_groups=[]
        )
    else:
        subprocess.run(command, env=environment, capture_output=True, check=True)


async def _take_turns(runs: Sequence[Callable[[], Awaitable[None]]], times: int) -> list[list[float]]:
    taken: list[list[float]] = [[] for _ in runs]
    for _ in range(times):
        for run, seconds in zip(runs, taken, strict=True):
            begun = time.perf_counter()
            await run()
            seconds.append(time.perf_counter() - begun)
    return taken


def _ms(seconds: list[float], percentile: int = 50) -> float:
    return statistics.quantiles(seconds, n=100, method="inclusive")[percentile - 1] * 1000
