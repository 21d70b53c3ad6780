"""Tests that are said to pass, run again in a copy of the project."""

import re
import shlex
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from services.critic.claims import Claims
from services.critic.docket import Docket, last_line
from shared.contracts import CommandVerdict
from shared.sandbox import CommandResult

if TYPE_CHECKING:
    from shared.policy import Ruling

SLACK = 60.0
"""Seconds beyond twice what the tests took before that they may take again."""
NOT_RUN = (4, 5, 126, 127)
"""Exit codes of commands that ran no test: pytest's usage error and nothing found, a shell's not found."""
LACKING = re.compile(r"No module named '?([\w.]+)")

Judge = Callable[[str], Awaitable["Ruling"]]
"""What the policy says of a command."""


async def repeat_tests(docket: Docket, claim: Claims, judge: Judge, repo: Path, copy: Path) -> None:
    """Run the tests of ``claim`` in ``copy``; a failure has to come twice to refute it.

    What the policy does not simply allow is not run, nor what lacks something here that it had there.
    """
    line = shlex.join(claim.tests)
    ruling = await judge(line)
    if ruling.verdict is not CommandVerdict.ALLOW:
        docket.leave(claim.task, f"{line}: the policy would not let it ({ruling.rule}): {ruling.why}")
        return
    folder = copy
    result = await _run(docket, claim, repo, copy, folder)
    if result is not None and result.exit_code and (inner := _named_folder(claim.found, copy)):
        folder = inner
        result = await _run(docket, claim, repo, copy, folder)
    if result is None or result.exit_code == 0:
        return
    if why := _excuse(result, copy):
        docket.leave(claim.task, f"{line}: it does not run here ({why})")
        return
    again = await _run(docket, claim, repo, copy, folder)
    if again is not None and again.exit_code == 0:
        docket.leave(claim.task, f"{line}: it failed once and then passed ({last_line(result)})")
        return
    ended = f"run again, {line} ended with exit code {result.exit_code}: {last_line(result)}"
    docket.refute(claim.task, f"the tests are said to pass; {ended}")


async def _run(docket: Docket, claim: Claims, repo: Path, copy: Path, folder: Path) -> CommandResult | None:
    argv, readable = _runnable(claim.tests, repo / folder.relative_to(copy))
    places = (folder / "src", folder, copy)
    paths = dict.fromkeys(str(path) for path in places if path.is_dir())
    env = {"PYTHONPATH": ":".join(paths), "PYTHONDONTWRITEBYTECODE": "1", "CI": "true", "NO_COLOR": "1"}
    seconds = 2 * claim.seconds + SLACK
    # The whole copy is visible and writable beneath the folder it runs in: tests may reach up.
    return await docket.execute(
        claim.task, argv, folder, seconds=seconds, readable=[*readable, copy], env=env
    )


def _named_folder(found: str, copy: Path) -> Path | None:
    """The folder within the project that ``found`` says the command was found in."""
    first = PurePosixPath(found.partition(":")[0].partition(" ")[0]).parts[:1]
    folder = copy.joinpath(*first)
    return folder if first and first[0] != ".." and folder != copy and folder.is_dir() else None


def _excuse(result: CommandResult, copy: Path) -> str:
    """Why tests that did not end well may be no worse than claimed: it is this place that lacks something."""
    if result.timed_out:
        return "its time was up"
    if result.exit_code < 0 or result.exit_code in NOT_RUN:
        return f"exit code {result.exit_code}, {last_line(result)}"
    found = LACKING.search(result.output)
    if found is None:
        return ""
    name = found[1].partition(".")[0]
    places = [folder / end for folder in (copy, copy / "src") for end in (name, f"{name}.py")]
    return "" if any(place.exists() for place in places) else f"No module named {found[1]}"


def _runnable(argv: Sequence[str], folder: Path) -> tuple[list[str], list[Path]]:
    """The command with the Python it means: one beneath ``folder`` where it names that, else this one."""
    program, *rest = argv
    pure = PurePosixPath(program)
    within = not pure.is_absolute() and ".." not in pure.parts and len(pure.parts) > 2
    if within and pure.parts[-2:] == ("bin", "python") and (folder / pure).exists():
        return [str(folder / pure), *_quietly(rest)], [(folder / pure).parents[1]]
    if program in ("python", "python3"):
        return [sys.executable, *_quietly(rest)], []
    return list(argv), []


def _quietly(rest: Sequence[str]) -> list[str]:
    """Without a cache pytest refuses projects that set where it lies."""
    if list(rest[:2]) == ["-m", "pytest"]:
        return [*rest, "-q", "-o", "cache_dir=/tmp/pytest-cache"]
    return list(rest)
