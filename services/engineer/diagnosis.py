"""Why tests could not be run or counted: a sentence with the cause, and one with the cure."""

import re
import shlex
from pathlib import Path

from services.engineer.collecting import RUNNERS
from services.engineer.results import Results
from shared.projects.reading.test_commands import TestCommand
from shared.projects.toolchains import PACKAGES, format_package
from shared.sandbox import CommandResult

PLUGINS = {
    "--cov": "pytest-cov",
    "--no-cov": "pytest-cov",
    "-n": "pytest-xdist",
    "--numprocesses": "pytest-xdist",
    "--dist": "pytest-xdist",
    "--timeout": "pytest-timeout",
    "--asyncio": "pytest-asyncio",
    "--benchmark": "pytest-benchmark",
    "--reruns": "pytest-rerunfailures",
    "--mypy": "pytest-mypy",
    "--ds": "pytest-django",
    "--random-order": "pytest-random-order",
    "--html": "pytest-html",
    "--snapshot": "syrupy",
}
"""The plugin that brings an option, by the option's start."""

NOT_FOUND = (
    r"^(?:/bin/)?(?:ba|da)?sh: (?:\S+: )?(?:line )?\d*:? ?([\w./+-]+): (?:command )?not found$",
    r"^(?:/\S*/)?env: [‘'\"]?([\w./+-]+)[’'\"]?: No such file or directory$",
    r"^(?:g?make)(?:\[\d+\])?: ([\w./+-]+): No such file or directory$",
    r"^(?:\S+: )?line \d+: ([\w./+-]+): command not found$",
    r"^No CMAKE_(?:C|CXX)_COMPILER could be found()",
)
"""What shells, env and make print if a program is missing."""
MISSING_NODE = r"Cannot find (?:module|package) '((?:@[\w.-]+/)?\w[\w.-]*)"
UNFETCHED = (
    r"^(.*(?i:could not resolve (?:host|dependencies)|failed to download"
    r"|could not transfer artifact|failed to get .+ as a"
    r" dependency).*)$"
)
MISSING_MODULE = r"^(?:E +)?(?:ModuleNotFoundError: )?No module named '?([\w.]+)'?"
NO_TESTS = "The command found no tests to run"
NOTHING_RAN = r"^(no tests ran in .*|No tests? (files )?found.*|\?[ \t]+\S+[ \t]+\[no test files\])$"

Diagnosis = tuple[str, str]  # A problem and its cure; both empty if there is none


def diagnose(
    command: TestCommand,
    result: CommandResult,
    results: Results | None,
    root: Path,
    hung: tuple[str, ...] = (),
) -> Diagnosis:
    """What kept the tests from being run or counted, and what to do."""
    if result.timed_out:
        return _format_timeout(result, results, hung), "Give a larger test_timeout, or see what it waits for"
    if result.problem:
        return f"The tests were stopped, because {result.problem}", ""
    if result.exit_code and (missing := _find_missing(command, result, results, root)):
        return missing
    if results and results.cut:
        return results.cut, "See in the log what ended it, and run the tests again"
    if results is None:
        nothing = re.search(NOTHING_RAN, result.output, re.MULTILINE)
        return (NO_TESTS if nothing else _format_uncounted(result)), ""
    if results.failed or results.errors:
        return "", ""
    if results.passed or results.skipped:
        return (f"No test failed, but {_format_end(result)}" if result.exit_code else ""), ""
    return (NO_TESTS if result.exit_code in (0, 5) else _format_uncounted(result)), ""


def _format_timeout(result: CommandResult, results: Results | None, hung: tuple[str, ...]) -> str:
    where = f" in {hung[0]}" if hung else f" after the line: {_last_line(result.output)}"
    done = f"{results.passed} had passed" if results else "the output does not tell how many had passed"
    return f"The tests were stopped after {result.seconds:.0f} seconds{where}; until then {done}"


def _format_uncounted(result: CommandResult) -> str:
    if result.exit_code == 0:
        return "The command succeeded, but its output does not tell how many tests ran"
    if result.exit_code < 0:
        return f"The command was ended by signal {-result.exit_code}"
    return f"Nothing was counted: {_format_end(result)}"


def _format_end(result: CommandResult) -> str:
    return f"the command ended with exit code {result.exit_code}: {_last_line(result.output)}"


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    lines = [line for line in lines if not re.match(r"npm (error|ERR!)|\{", line)] or lines
    errors = [line for line in lines if re.match(r"(ERROR|error|Error|E  |fatal|\w*Error:)\b", line)]
    return ([*lines[-1:], *errors[-1:]] or ["it printed nothing"])[-1][:300]


def format_missing(program: str) -> Diagnosis:
    """That a program is missing, and which package has it."""
    name = program.rpartition("/")[2] or "cc"
    cause = f"The program {name} is not installed"
    if name in PACKAGES:
        return cause, format_package(name)
    return cause, "Install it, or the project's dependencies, and put its folder on the PATH"


def _find_missing(
    command: TestCommand, result: CommandResult, results: Results | None, root: Path
) -> Diagnosis | None:
    """What is missing, if that is why nothing was counted or why tests could not be collected."""
    python = RUNNERS[command.runner].ecosystem == "python"
    if python and (missing := _find_missing_python(result, root)):
        return missing
    if results is not None and (results.passed or results.failed):
        return None
    for pattern in NOT_FOUND:
        if found := re.search(pattern, result.output, re.MULTILINE):
            return format_missing(found[1])
    if found := re.search(UNFETCHED, result.output, re.MULTILINE):
        return f"A dependency could not be fetched: {found[1].strip()[:300]}", ""
    if found := re.search(MISSING_NODE, result.output, re.MULTILINE):
        cure = "Run npm install in the repository" if command.runner == "node" else ""
        return f"The Node package {found[1]} is not installed", cure
    return None if python else _find_missing_python(result, root)


def _find_missing_python(result: CommandResult, root: Path) -> Diagnosis | None:
    if options := re.search(r"error: unrecognized arguments: (.+)", result.output):
        plugins = {
            name for word in options[1].split() for start, name in PLUGINS.items() if word.startswith(start)
        }
        if plugins:
            names = " ".join(sorted(plugins))
            return f"The project's pytest options {options[1]} need {names}", _format_install(names)
    found = re.findall(r"(?:^|: )" + MISSING_MODULE.removeprefix("^"), result.output, re.MULTILINE)
    modules = sorted({name.partition(".")[0] for name in found if not _is_own(name.partition(".")[0], root)})
    if not modules:
        return None
    names = " ".join(modules)
    noun = "module" if len(modules) == 1 else "modules"
    return f"The tests need the Python {noun} {names}, which the environment lacks", _format_install(names)


def _format_install(names: str) -> str:
    install = shlex.join(["pip", "install", *names.split()])
    return f"Name it among the project's test dependencies, or: python3 -m venv .venv && .venv/bin/{install}"


def _is_own(module: str, root: Path) -> bool:
    return any((root / base / name).exists() for base in ("", "src") for name in (module, f"{module}.py"))
