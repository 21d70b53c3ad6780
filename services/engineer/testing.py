"""Running a project's tests in a working copy of it."""

import asyncio
import os
import re
import shlex
import shutil
import signal
import sys
from pathlib import Path

import msgspec

from services.engineer.console_results import find_interrupt
from services.engineer.diagnosis import diagnose, format_install
from services.engineer.results import Results, read_junit
from services.engineer.runners import RUNNERS, TestCommand, configures_pytest, find_tests
from services.engineer.working_copy import WorkingCopy
from shared.contracts import TestRun
from shared.errors import ActionError
from shared.sandbox import CommandResult, run_command

OUTPUT_LIMIT = 4_000_000
LONGEST_LINE = 2_000
"""The most characters of a line that are read: the patterns are meant for lines a person could read."""

NOTHING_FOUND = (
    'No way to test this project was found. Name one in pyproject.toml: [tool.mailroom] test = "...", '
    "or in .mailroom.yaml: test: ..."
)


class TestPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What will be run, where and with what environment, and the JUnit ``report`` it is to write.

    ``line`` is the command as a person would type it in the project; ``readable`` are the folders it needs
    beside its own.
    """

    __test__ = False

    command: TestCommand
    line: str
    argv: tuple[str, ...]
    cwd: Path
    env: dict[str, str]
    report: Path
    readable: tuple[Path, ...] = ()


async def plan_tests(repo: Path, copy: WorkingCopy) -> TestPlan | TestRun:
    """How to test ``repo`` in its copy; if that cannot be done, a TestRun whose ``problem`` says why."""
    try:
        command = await asyncio.to_thread(find_tests, copy.root)
    except ActionError as error:
        return TestRun(problem=str(error))
    if command is None:
        return TestRun(problem=NOTHING_FOUND)
    cwd = copy.root / command.folder
    report = copy.results / "junit.xml"
    argv, line, readable = command.argv, shlex.join(command.argv), tuple[Path, ...]()
    if argv[0] == "python":
        python = await _choose_python(repo, command)
        if python is None:
            lacking = _interpreters(repo, command.folder)[0]
            cure = format_install(lacking, "pytest")
            problem = f"The tests need pytest, which {lacking} lacks. {cure}"
            return TestRun(command=line, found=command.found, problem=problem)
        argv, readable = (python, *argv[1:]), (Path(python).parents[1],)
        own = Path(python).is_relative_to(repo / command.folder)
        line = shlex.join([os.path.relpath(python, repo / command.folder) if own else "python", *argv[1:]])
    if command.runner == "pytest":
        argv += _pytest_options(cwd, copy, report)
    env = _environment(cwd, copy)
    return TestPlan(command=command, line=line, argv=argv, cwd=cwd, env=env, report=report, readable=readable)


def _environment(cwd: Path, copy: WorkingCopy) -> dict[str, str]:
    paths = [str(path) for path in (cwd / "src", cwd, copy.root) if path.is_dir()]
    return {
        "CI": "true",  # keeps runners from watching for changes and from asking
        "NO_COLOR": "1",
        "FORCE_COLOR": "0",
        "CARGO_TERM_COLOR": "never",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": ":".join(dict.fromkeys(paths)),
    }


def _pytest_options(cwd: Path, copy: WorkingCopy, report: Path) -> tuple[str, ...]:
    # A cache elsewhere rather than none: without one, pytest refuses projects that set cache_dir or --ff.
    options: tuple[str, ...] = ("-o", f"cache_dir={copy.results / 'cache'}", "-o", "junit_family=xunit1")
    if not (configures_pytest(cwd) or configures_pytest(copy.root)):
        # Else pytest looks for settings in the folders above, which are not the project's.
        options += ("-c", os.devnull, "--rootdir", str(copy.root))
    return ("-q", "-ra", "--tb=short", f"--junitxml={report}", *options)


def _interpreters(repo: Path, folder: str) -> list[str]:
    """The Pythons that may have the project's dependencies: its own environments', Mailroom's, the PATH's."""
    places = [repo / folder / name for name in (".venv", "venv", "env")] + [repo / ".venv", repo / "venv"]
    own = [str(place / "bin" / "python") for place in places if (place / "bin" / "python").exists()]
    return list(dict.fromkeys([*own, sys.executable, shutil.which("python3") or sys.executable]))


async def _choose_python(repo: Path, command: TestCommand) -> str | None:
    """The interpreter for ``command``: of those that may do, the first that has pytest if it needs that."""
    candidates = _interpreters(repo, command.folder)
    if command.runner != "pytest":
        return candidates[0]
    probe = "import importlib.util, sys; sys.exit(importlib.util.find_spec('pytest') is None)"
    for python in candidates:
        answer = await run_command([python, "-I", "-c", probe], cwd=Path("/"), timeout=20, readable=[repo])
        if answer.exit_code == 0:
            return python
    return None


async def run_tests(plan: TestPlan, copy: WorkingCopy, log_path: Path, seconds: float) -> TestRun:
    """Run the tests for at most ``seconds``; failures and what keeps them from running are in the result."""
    try:
        # Test runners report what they have when interrupted from the keyboard; SIGTERM just ends them.
        result = await run_command(
            plan.argv,
            cwd=plan.cwd,
            timeout=seconds,
            writable=[copy.root, copy.results],
            readable=plan.readable,
            env=plan.env,
            output_limit=OUTPUT_LIMIT,
            log_path=log_path,
            stop_signal=signal.SIGINT,
        )
    except ActionError as error:
        return TestRun(command=plan.line, found=plan.command.found, problem=str(error))
    return await asyncio.to_thread(_conclude, plan, copy, result, log_path)


def _conclude(plan: TestPlan, copy: WorkingCopy, result: CommandResult, log_path: Path) -> TestRun:
    result = msgspec.structs.replace(result, output=strip_output(result.output))
    results = _read_results(plan, copy.root, result)
    counts = results or Results(passed=-1, failed=-1, skipped=-1, errors=-1)
    return TestRun(
        command=plan.line,
        found=plan.command.found,
        exit_code=result.exit_code,
        passed=counts.passed,
        failed=counts.failed,
        skipped=counts.skipped,
        errors=counts.errors,
        seconds=round(result.seconds, 3),
        timed_out=result.timed_out,
        failures=counts.failures,
        problem=diagnose(plan.command, result, results, copy.root),
        log_path=str(log_path),
    )


def _read_results(plan: TestPlan, root: Path, result: CommandResult) -> Results | None:
    runner = RUNNERS[plan.command.runner]
    if runner.writes_junit and (report := read_junit(plan.report, root)):
        return msgspec.structs.replace(report, at=find_interrupt(result.output, root))
    readings = (parse(result.output, root) for parse in runner.parsers)
    return next((results for results in readings if results), None)


def strip_output(output: str) -> str:
    """``output`` without colours, its lines cut to LONGEST_LINE."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output).replace("\r\n", "\n")
    return "\n".join(line[:LONGEST_LINE] for line in plain.split("\n"))
