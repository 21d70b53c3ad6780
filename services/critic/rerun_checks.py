"""The checks of a review: code is compiled, linted and parsed; tests that are said to pass are run again."""

import asyncio
import re
import shlex
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from services.critic.claims import CODE, Claims, NamedFile, ReviewRecord, last_line, read_file
from services.critic.drift import check_drift
from shared.contracts import Checked, CommandVerdict
from shared.projects import Environment
from shared.projects.environment import format_path
from shared.projects.surroundings import find_surroundings
from shared.sandbox import CommandResult
from shared.source.tree import read_tree

if TYPE_CHECKING:
    from shared.policy import Ruling

BROKEN = "E9,F63,F7,F82"
"""The rules of ruff that find code that cannot work: syntax, undefined names."""
OWN_PYTHON = (sys.executable, "-I")
RUFF = (
    *(*OWN_PYTHON, "-m", "ruff", "check", "--isolated", "--no-cache", "--quiet"),
    *("--output-format", "concise", "--select", BROKEN),
)
LOAD_JSON = "import json, sys; json.load(open(sys.argv[1]))"

SLACK = 60.0
"""Seconds beyond twice what the tests took before that they may take again."""
NOT_RUN = (4, 5, 126, 127)
"""Exit codes of commands that ran no test: pytest's usage error and nothing found, a shell's not found."""
COUNTS = re.compile(r"\b\d+ (?:passed|failed|skipped|errors?)\b")
COUNTED_LINES = 5
"""The last lines of a runner's output, in which it counts."""
MISSING_MODULE = re.compile(r"No module named '?([\w.]+)")

ECOSYSTEMS = {
    **dict.fromkeys(("python", "pytest", "tox", "nox"), "python"),
    **dict.fromkeys(("npm", "npx", "pnpm", "yarn", "bun", "node"), "javascript"),
    "cargo": "rust",
    "go": "go",
}
"""What a test command needs prepared, by its program."""

Judge = Callable[[str], Awaitable["Ruling"]]
"""Asks the policy for its verdict on a command."""

Violations = dict[tuple[str, str], str]
"""The places where code breaks the rules its repository states, by rule and message."""


async def check_files(record: ReviewRecord, claim: Claims, folder: Path) -> None:
    """Check the files that ``claim`` names, in copies beneath ``folder``."""
    names = []
    for number, file in enumerate(claim.files):
        place = folder / str(number) / Path(file.name).name
        await asyncio.to_thread(_copy_file, file, place)
        names.append(str(place.relative_to(folder)))
    if names:
        await check_code(record, claim.task, folder, names)


async def check_code(record: ReviewRecord, task: str, folder: Path, names: Sequence[str]) -> None:
    """Compile and lint the Python among ``names``, and parse shell and JSON; the first fault is noted."""
    for command in _checks(names):
        result = await record.execute(task, command, folder)
        if result is None:
            return
        if result.timed_out or result.problem:
            record.skip(task, f"its code: {Path(command[0]).name} {result.find_failure()}")
            return
        if result.exit_code:
            record.refute(task, f"its code does not hold: {last_line(result)}")
            return
    record.count(Checked(code=sum(name.endswith(CODE) for name in names)))


def _checks(names: Sequence[str]) -> list[list[str]]:
    python = [name for name in names if name.endswith((".py", ".pyi"))]
    checks = [[*OWN_PYTHON, "-m", "compileall", "-q", "-f", *python], [*RUFF, *python]] if python else []
    checks += [["bash", "-n", name] for name in names if name.endswith((".sh", ".bash"))]
    return checks + [[*OWN_PYTHON, "-c", LOAD_JSON, name] for name in names if name.endswith(".json")]


def find_violations(root: Path) -> Violations:
    """The places where the code beneath ``root`` breaks the rules that are stated there."""
    return {
        (rule.source, broken.message): (
            f"it breaks the rule {rule.rule!r} [{rule.source}]: {broken.message} [{broken.source}]"
        )
        for rule in check_drift(read_tree(root)).rules
        for broken in rule.violations
    }


def changed_files(patch: str) -> list[str]:
    """The files that a unified diff leaves behind."""
    found = re.findall(r"^\+\+\+ (?:b/)?([^\t\n]+)", patch, re.MULTILINE)
    return [name for name in found if name != "/dev/null" and ".." not in Path(name).parts][:200]


def _copy_file(file: NamedFile, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(read_file(file))


class TestSite(NamedTuple):
    """Where tests are run again: a copy of ``repo``, and the environments of the projects in it."""

    repo: Path
    copy: Path
    prepared: Sequence[Environment] = ()


async def rerun_tests(record: ReviewRecord, claim: Claims, judge: Judge, site: TestSite) -> None:
    """Run the tests of ``claim`` at ``site``; a failure has to come twice to refute it.

    What the policy does not allow outright is not run; tests that need what is not here refute nothing.
    """
    line = shlex.join(claim.tests)
    ruling = await judge(line)
    if ruling.verdict is not CommandVerdict.ALLOW:
        record.skip(claim.task, f"{line}: the policy would not let it ({ruling.rule}): {ruling.why}")
        return
    folder = site.copy
    result = await _run_tests(record, claim, site, folder)
    if result is not None and result.exit_code and (inner := _named_folder(claim.found, site.copy)):
        folder = inner
        result = await _run_tests(record, claim, site, folder)
    if result is None:
        return
    if result.exit_code == 0:
        record.confirm(claim.task, f"its tests were run again: {_format_counts(result)}", Checked(tests=1))
        return
    if why := _missing_here(result, site.copy):
        record.skip(claim.task, f"{line}: it does not run here ({why})")
        return
    again = await _run_tests(record, claim, site, folder)
    if again is not None and again.exit_code == 0:
        record.skip(claim.task, f"{line}: it failed once and then passed ({last_line(result)})")
        return
    ended = f"run again, {line} ended with exit code {result.exit_code}: {last_line(result)}"
    record.refute(claim.task, f"the tests are said to pass; {ended}")


def _format_counts(result: CommandResult) -> str:
    """The counts in the last lines of a runner's output, and its exit code."""
    lines = result.output.strip().splitlines()[-COUNTED_LINES:]
    counts = next((found for line in reversed(lines) if (found := COUNTS.findall(line))), [])
    return ", ".join([*counts, f"exit code {result.exit_code}"])


async def _run_tests(
    record: ReviewRecord, claim: Claims, site: TestSite, folder: Path
) -> CommandResult | None:
    """Run them in ``folder``, with what was prepared for it; None, which is noted, if they cannot be run."""
    place = str(folder.relative_to(site.copy))
    program = Path(claim.tests[0]).name.rstrip("0123456789.")
    around = await find_surroundings(site.prepared, ECOSYSTEMS.get(program, ""), site.repo, site.copy, place)
    if around.problem:
        record.skip(claim.task, f"{shlex.join(claim.tests)}: {around.problem}")
        return None
    argv = _pytest_arguments(["python", *claim.tests[1:]] if program == "python" else claim.tests)
    env = {"PATH": format_path(*around.path), **around.env, "PYTHONDONTWRITEBYTECODE": "1", "CI": "true"}
    # The whole copy is visible and writable beneath the folder it runs in: tests may reach up.
    return await record.execute(
        claim.task,
        argv,
        folder,
        seconds=2 * claim.seconds + SLACK,
        readable=around.readable,
        writable=(site.copy, *around.writable),
        env=env,
    )


def _named_folder(found: str, copy: Path) -> Path | None:
    """The folder within the project that ``found`` says the command was found in."""
    first = PurePosixPath(found.partition(":")[0].partition(" ")[0]).parts[:1]
    folder = copy.joinpath(*first)
    return folder if first and first[0] != ".." and folder != copy and folder.is_dir() else None


def _missing_here(result: CommandResult, copy: Path) -> str:
    """Why tests that failed may still pass elsewhere: this machine lacks something. Empty if they may not."""
    if result.timed_out:
        return "its time was up"
    if result.exit_code < 0 or result.exit_code in NOT_RUN:
        return f"exit code {result.exit_code}, {last_line(result)}"
    found = MISSING_MODULE.search(result.output)
    if found is None:
        return ""
    name = found[1].partition(".")[0]
    places = [folder / end for folder in (copy, copy / "src") for end in (name, f"{name}.py")]
    return "" if any(place.exists() for place in places) else f"No module named {found[1]}"


def _pytest_arguments(rest: Sequence[str]) -> list[str]:
    """A cache elsewhere: without any, pytest refuses projects that configure its place."""
    if list(rest[:3]) == ["python", "-m", "pytest"]:
        return [*rest, "-q", "-o", "cache_dir=/tmp/pytest-cache"]
    return list(rest)
