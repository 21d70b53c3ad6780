"""Running a project's tests in its working copy."""

import asyncio
import os
import re
import shlex
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from services.engineer.clues import TestCommand
from services.engineer.compiled_results import read_cargo, read_ctest, read_go, read_gradle, read_maven
from services.engineer.detection import find_tests
from services.engineer.diagnosis import diagnose, tell_install
from services.engineer.javascript_results import read_jest, read_mocha, read_tap, read_vitest
from services.engineer.python_results import find_interrupt, read_junit, read_pytest, read_unittest
from services.engineer.python_tests import configures_pytest
from services.engineer.results import Results
from services.engineer.workspace import Workspace
from shared.contracts import TestRun
from shared.errors import ActionError
from shared.sandbox import CommandResult, run_command

OUTPUT_LIMIT = 4_000_000
LONGEST_LINE = 2_000
"""The most characters of a line that are read: the patterns are meant for lines a person could read."""

JAVASCRIPT = (read_jest, read_vitest, read_tap, read_mocha)
READERS: dict[str, tuple[Callable[[str, Path], Results | None], ...]] = {
    "pytest": (read_pytest,),
    "unittest": (read_unittest,),
    "node": JAVASCRIPT,
    "cargo": (read_cargo,),
    "go": (read_go,),
    "any": (
        *(read_cargo, read_go, read_ctest, read_maven, read_gradle, *JAVASCRIPT),
        *(read_unittest, read_pytest),
    ),
}
"""Who can read what a runner prints; of an unknown one (make, a script) the first who finds counts."""

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


async def plan_tests(repo: Path, workspace: Workspace) -> TestPlan | TestRun:
    """How to test ``repo`` in its copy; where that cannot be done, a TestRun whose ``problem`` says why."""
    try:
        command = await asyncio.to_thread(find_tests, workspace.root)
    except ActionError as error:
        return TestRun(problem=str(error))
    if command is None:
        return TestRun(problem=NOTHING_FOUND)
    cwd = workspace.root / command.folder
    report = workspace.results / "junit.xml"
    argv, line, env = command.argv, shlex.join(command.argv), _environment(cwd, workspace)
    readable: tuple[Path, ...] = ()
    if argv[0] == "python":
        python = await _choose_python(repo, command)
        if python is None:
            return TestRun(
                command=shlex.join(argv), found=command.found, problem=_tell_no_pytest(repo, command)
            )
        argv, readable = (python, *argv[1:]), (Path(python).parents[1],)
        line = shlex.join([_tell_python(python, repo / command.folder), *argv[1:]])
    if command.runner == "pytest":
        argv += _pytest_options(cwd, workspace, report)
    return TestPlan(command=command, line=line, argv=argv, cwd=cwd, env=env, report=report, readable=readable)


def _environment(cwd: Path, workspace: Workspace) -> dict[str, str]:
    paths = [str(path) for path in (cwd / "src", cwd, workspace.root) if path.is_dir()]
    return {
        "CI": "true",  # keeps runners from watching for changes and from asking
        "NO_COLOR": "1",
        "FORCE_COLOR": "0",
        "CARGO_TERM_COLOR": "never",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": ":".join(dict.fromkeys(paths)),
        **_tool_folders(),
    }


def _tool_folders() -> dict[str, str]:
    """Where version managers keep what their stand-ins on the PATH start: by default they look in HOME."""
    places = {
        "RUSTUP_HOME": ".rustup",
        "PYENV_ROOT": ".pyenv",
        "VOLTA_HOME": ".volta",
        "ASDF_DATA_DIR": ".asdf",
    }
    return {
        name: str(Path.home() / place) for name, place in places.items() if (Path.home() / place).is_dir()
    }


def _pytest_options(cwd: Path, workspace: Workspace, report: Path) -> tuple[str, ...]:
    # A cache elsewhere rather than none: without one, pytest refuses projects that set cache_dir or --ff.
    options: tuple[str, ...] = ("-o", f"cache_dir={workspace.results / 'cache'}", "-o", "junit_family=xunit1")
    if not (configures_pytest(cwd) or configures_pytest(workspace.root)):
        # Else pytest looks for settings in the folders above, which are not the project's.
        options += ("-c", os.devnull, "--rootdir", str(workspace.root))
    return ("-q", "-ra", "--tb=short", f"--junitxml={report}", *options)


def _interpreters(repo: Path, folder: str) -> list[str]:
    """The Pythons that may have the project's dependencies: its own environments', Mailroom's, the PATH's."""
    places = [repo / folder / name for name in (".venv", "venv", "env")] + [repo / ".venv", repo / "venv"]
    own = [str(place / "bin" / "python") for place in places if (place / "bin" / "python").exists()]
    others = [sys.executable, shutil.which("python3") or sys.executable]
    return list(dict.fromkeys(own + others))


async def _choose_python(repo: Path, command: TestCommand) -> str | None:
    candidates = _interpreters(repo, command.folder)
    if command.runner != "pytest":
        return candidates[0]
    probe = "import importlib.util, sys; sys.exit(importlib.util.find_spec('pytest') is None)"
    for python in candidates:
        answer = await run_command(
            [python, "-I", "-c", probe], cwd=Path("/"), timeout=20, readable=[repo], env=_tool_folders()
        )
        if answer.exit_code == 0:
            return python
    return None


def _tell_python(python: str, folder: Path) -> str:
    return str(Path(python).relative_to(folder)) if Path(python).is_relative_to(folder) else "python"


def _tell_no_pytest(repo: Path, command: TestCommand) -> str:
    python = _interpreters(repo, command.folder)[0]
    return f"The tests need pytest, which {python} lacks. {tell_install(python, 'pytest')}"


async def run_tests(plan: TestPlan, workspace: Workspace, log_path: Path, seconds: float) -> TestRun:
    """Run the tests for at most ``seconds``; what fails, and what is missing, is in the result."""
    try:
        # Test runners report what they have when interrupted from the keyboard; SIGTERM just ends them.
        result = await run_command(
            plan.argv,
            cwd=plan.cwd,
            timeout=seconds,
            writable=[workspace.root, workspace.results],
            readable=plan.readable,
            env=plan.env,
            output_limit=OUTPUT_LIMIT,
            log_path=log_path,
            stop_signal=signal.SIGINT,
        )
    except ActionError as error:
        return TestRun(command=plan.line, found=plan.command.found, problem=str(error))
    return await asyncio.to_thread(_conclude, plan, workspace, result, log_path)


def _conclude(plan: TestPlan, workspace: Workspace, result: CommandResult, log_path: Path) -> TestRun:
    result = msgspec.structs.replace(result, output=tidy(result.output))
    results = _read(plan, workspace.root, result)
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
        problem=diagnose(plan.command, result, results, workspace.root),
        log_path=str(log_path),
    )


def _read(plan: TestPlan, root: Path, result: CommandResult) -> Results | None:
    if plan.command.runner == "pytest":
        report = read_junit(plan.report, root)
        if report:
            return msgspec.structs.replace(report, at=find_interrupt(result.output, root))
    readings = (read(result.output, root) for read in READERS[plan.command.runner])
    return next((results for results in readings if results), None)


def tidy(output: str) -> str:
    """``output`` without colours, its lines cut to LONGEST_LINE."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output).replace("\r\n", "\n")
    return "\n".join(line[:LONGEST_LINE] for line in plain.split("\n"))
