"""The tests of public repositories, by hand and by Mailroom: ``make bench-repositories DATA=folder``.

``folder`` holds clones by the names in repositories.toml; those that are not there are skipped, but for this
repository, of which a clone without an environment is made. By hand
means: a fresh copy, an empty home, the commands of repositories.toml, and the counts that the runner prints.
Mailroom is asked to run the tests of another fresh copy, twice. The target is equal counts, or a reason where
the tests cannot run by hand either, in at most FIRST times the seconds by hand, the second time in at most
SECOND times those of the test command alone.
"""

import argparse
import asyncio
import json
import os
import re
import shutil
import subprocess
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from shared import log, subjects
from shared.contracts import Goal, TestRun
from tests.bench import machine
from tests.support.office import Office
from tests.support.sweeper import leave_nothing

TABLE = Path(__file__).with_suffix(".toml")
FIRST, SECOND = 1.3, 1.1
"""The most that Mailroom may take, as a multiple of the time by hand."""
PATIENCE = 1_800.0
HERE = "."
"""The source of this repository."""
PATTERNS: Mapping[str, Sequence[str]] = {
    "pytest": (
        r"(\d+) passed(?=.* in [\d.]+s)",
        r"(\d+) (?:failed|errors?)(?=.* in [\d.]+s)",
        r"(\d+) (?:skipped|xfailed)(?=.* in [\d.]+s)",
    ),
    "ava": (
        r"(\d+) tests? passed",
        r"(\d+) (?:tests? failed|uncaught exceptions?)",
        r"(\d+) tests? (?:skipped|todo)",
    ),
    "vitest": (r"^ +Tests .*?(\d+) passed", r"^ +Tests .*?(\d+) failed", r"^ +Tests .*?(\d+) skipped"),
    "prove": (r"^Files=\d+, Tests=(\d+)", r"Failed (\d+)/\d+ subtests", r"skipped: (\d+)"),
    "jsmn": (r"^PASSED: (\d+)", r"^FAILED: (\d+)", r"^SKIPPED: (\d+)"),
    "uvu": (r"Passed: +(\d+)", r"Failed: +(\d+)", r"Skipped: +(\d+)"),
    "mocha": (r"(\d+) passing", r"(\d+) failing", r"(\d+) pending"),
    "unittest": (r"\.\.\. (ok)$", r"\.\.\. (FAIL|ERROR)$", r"\.\.\. (skipped)"),
    "totals": (r"^Tests passed: (\d+)", r"^Tests failed: (\d+)", r"^Tests skipped: (\d+)"),
    "lines": (r"(\d+) passed", r"(\d+) (?:failed|errored)", r"(\d+) skipped"),
    "ctest": (r"( )Passed +[\d.]+ sec", r"\*\*\*(Failed|Timeout|Exception)", r"\*\*\*(Not Run|Skipped)"),
    "node": (r"(?m)^(?:#|ℹ) pass (\d+)", r"(?m)^(?:#|ℹ) fail (\d+)", r"(?m)^(?:#|ℹ) skipped (\d+)"),
    "cargo": (r"(\d+) passed", r"(\d+) failed", r"(\d+) ignored"),
    "go": (r"(?m)^ *--- (PASS)", r"(?m)^ *--- (FAIL)", r"(?m)^ *--- (SKIP)"),
}
"""For each runner the patterns of how many tests passed, failed and were skipped; a word counts as one."""


MEASURED = "## Measured"
"""The heading of the section of docs/repositories.md that is written; what stands before it is kept."""
PREFACE = """
This section is written by `make bench-repositories DATA=FOLDER ARGS="--write docs/repositories.md"`, where
FOLDER holds a clone of each; the name of a clone is the last part of the repository's. Counts are passed /
failed / skipped. By hand means a fresh copy, an empty home and the commands in
tests/bench/repositories.toml. "Again" is a second run: by hand of the test command alone. Seconds by
Mailroom are those of the whole goal, from its submission to the report. The caches of both were empty at the
start.
"""


class Counts(msgspec.Struct, frozen=True):
    """How many tests passed, failed (or could not be run), and were skipped."""

    passed: int
    failed: int
    skipped: int

    def __str__(self) -> str:
        return f"{self.passed} / {self.failed} / {self.skipped}"


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One repository: counts and seconds by hand and by Mailroom; ``problem`` is Mailroom's reason."""

    name: str
    source: str
    by_hand: Counts | None
    by_mailroom: Counts | None
    outcome: str
    problem: str
    hand_seconds: float
    hand_again: float
    seconds: float
    again: float

    @property
    def is_right(self) -> bool:
        """Whether the counts are equal, or there are none and Mailroom says why."""
        return self.by_hand == self.by_mailroom and bool(self.by_hand or self.problem)


def main() -> None:
    """Measure the clones in a folder; print the table, and the JSON last."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.repositories")
    parser.add_argument("folder", type=Path, help="the folder of the clones")
    parser.add_argument("--only", action="append", metavar="NAME", help="measure only this; may be repeated")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the table to FILE as Markdown")
    args = parser.parse_args()
    log.configure("bench", level="warning")
    leave_nothing()
    rows = {
        name: row
        for name, row in tomllib.loads(TABLE.read_text()).items()
        if (row["source"] == HERE or (args.folder / name).is_dir()) and name in (args.only or [name])
    }
    if not rows:
        parser.error(f"{args.folder} holds none of the repositories that {TABLE.name} names")
    found = asyncio.run(measure(args.folder.resolve(), rows))
    print(table := format_table(found))
    if args.write:
        kept = args.write.read_text().partition(MEASURED)[0]
        args.write.write_text(f"{kept}{MEASURED}\n{PREFACE}\n{table}")
    right = sum(one.is_right for one in found)
    result = {**machine.describe(), "right": right, "of": len(found), "met": right == len(found)}
    print(json.dumps({**result, "repositories": msgspec.to_builtins(found)}))


async def measure(folder: Path, rows: Mapping[str, Mapping[str, Any]]) -> list[Measured]:
    """Each repository by hand, then twice by one office, whose caches are empty at the start."""
    found = []
    with TemporaryDirectory(prefix="repositories-") as place:
        office = Office(Path(place) / "office", MAILROOM_GOAL_TIMEOUT=str(PATIENCE))
        try:
            await office.open()
            for name, row in rows.items():
                clone = folder / name
                if row["source"] == HERE:
                    clone = await asyncio.to_thread(_clone_this, Path(place, "clones", name))
                found.append(await _measure_one(office, Path(place), clone, row))
                print(f"{name}: by hand {found[-1].by_hand}, by Mailroom {found[-1].by_mailroom}", flush=True)
        finally:
            await office.close()
    return found


def _clone_this(place: Path) -> Path:
    """A clone of this repository: what is committed, and no environment."""
    subprocess.run(["git", "clone", "--quiet", TABLE.parents[2], place], check=True)
    return place


async def _measure_one(office: Office, place: Path, clone: Path, row: Mapping[str, Any]) -> Measured:
    name = clone.name
    counts, first, again = await asyncio.to_thread(_by_hand, place / "hand", clone, row)
    copy = place / "repositories" / name
    shutil.copytree(clone, copy, symlinks=True)
    runs = [await _by_mailroom(office, copy, f"{name}-{turn}") for turn in (1, 2)]
    (goal, tests, seconds), (_, _, seconds_again) = runs
    return Measured(
        name=name,
        source=row["source"],
        by_hand=counts,
        by_mailroom=_counts(tests),
        outcome=str(goal.outcome or goal.status),
        problem=". ".join(filter(None, [tests.problem.rstrip("."), tests.cure])),
        hand_seconds=first,
        hand_again=again,
        seconds=seconds,
        again=seconds_again,
    )


def _by_hand(place: Path, clone: Path, row: Mapping[str, Any]) -> tuple[Counts | None, float, float]:
    """The counts, the seconds of preparation and tests, and those of the tests once more."""
    home, copy = place / "home", place / clone.name
    home.mkdir(parents=True, exist_ok=True)
    shutil.copytree(clone, copy, symlinks=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAILROOM_")}
    environment |= {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    for name in ("VIRTUAL_ENV", "NO_COLOR", "FORCE_COLOR", "TERM"):
        environment.pop(name, None)
    begun = time.monotonic()
    prepared = _run(row["prepare"], copy, environment)
    output = _run(row["test"], copy, environment) if prepared is not None else None
    first, begun = time.monotonic() - begun, time.monotonic()
    if output is None:
        return None, first, 0.0
    _run(row["test"], copy, environment)
    again = time.monotonic() - begun
    numbers = [_sum(re.findall(pattern, output, re.MULTILINE)) for pattern in PATTERNS[row["runner"]]]
    shutil.rmtree(place)
    return (Counts(*numbers) if sum(numbers) else None), first, again


def _sum(found: Sequence[str]) -> int:
    return sum(int(each) if each.isdigit() else 1 for each in found)


def _run(command: str, folder: Path, environment: Mapping[str, str]) -> str | None:
    """What a command printed; None for a preparation that failed."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        timeout=PATIENCE,
    )
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", done.stdout.decode(errors="replace"))
    return text if done.returncode == 0 or "test" in command else None


async def _by_mailroom(office: Office, repo: Path, goal_id: str) -> tuple[Goal, TestRun, float]:
    begun = time.monotonic()
    await office.submit({"text": f"Run the tests of '{repo}'", "goal_id": goal_id})
    goal = await office.finished(goal_id, PATIENCE)
    seconds = time.monotonic() - begun
    for task in goal.tasks:
        result = await office.result(task.assignee, task.task_id, subjects.CONDUCTOR)
        if "tests" in result.metadata:
            return goal, TestRun.from_dict(result.metadata["tests"]), seconds
    return goal, TestRun(problem=goal.reason or goal.answer), seconds


def _counts(tests: TestRun) -> Counts | None:
    if tests.passed < 0:
        return None
    return Counts(tests.passed, max(tests.failed, 0) + max(tests.errors, 0), max(tests.skipped, 0))


def format_table(found: Sequence[Measured]) -> str:
    """The rows as a table in Markdown."""
    lines = [
        "| repository | by hand | by Mailroom | outcome | s by hand, again | s by Mailroom, again | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in found:
        said = str(one.by_mailroom) if one.by_mailroom else one.problem
        times = f"{one.hand_seconds:.1f}, {one.hand_again:.1f} | {one.seconds:.1f}, {one.again:.1f}"
        ratio = f"{one.seconds / one.hand_seconds:.2f}"
        if one.hand_again:
            ratio += f", {one.again / one.hand_again:.2f}"
        hand = one.by_hand or "cannot run"
        lines.append(f"| {one.source} | {hand} | {said} | {one.outcome} | {times} | {ratio} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
