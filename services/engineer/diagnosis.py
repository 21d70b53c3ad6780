"""Why tests could not be run or counted, in a sentence that names the cure."""

import re
import shlex
import sys
from pathlib import Path

from services.engineer.results import Results
from services.engineer.runners import TestCommand
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

MISSING = (
    (
        r"Cannot find (?:module|package) '((?:@[\w.-]+/)?\w[\w.-]*)",
        "The Node package {} is not installed. Run npm install in the repository",
    ),
    (
        r"^(?:/bin/)?sh: (?:line )?\d*:? ?([\w./-]+): (?:command )?not found$",
        "The program {} is not installed. Install it, or the project's dependencies",
    ),
    (
        r"^(.*(?i:could not resolve (?:host|dependencies)|failed to download).*)$",
        "A dependency could not be fetched: {}",
    ),
)
"""What a runner prints if something is missing, and what to tell the user."""
MISSING_MODULE = r"^(?:E +)?ModuleNotFoundError: No module named '([\w.]+)'"
NO_TESTS = "The command found no tests to run"
NOTHING_RAN = r"^(no tests ran in .*|No tests? (files )?found.*|\?[ \t]+\S+[ \t]+\[no test files\])$"


def diagnose(command: TestCommand, result: CommandResult, results: Results | None, root: Path) -> str:
    """What kept the tests from being run or counted; empty if nothing did."""
    if result.timed_out:
        return _format_timeout(result, results)
    if result.problem:
        return f"The tests were stopped, because {result.problem}"
    missing = _find_missing(command, result, root) if result.exit_code else ""
    if missing:
        return missing
    if results is None:
        nothing = re.search(NOTHING_RAN, result.output, re.MULTILINE)
        return NO_TESTS if nothing else _format_uncounted(result)
    if results.failed or results.errors:
        return ""
    if results.passed or results.skipped:
        return f"No test failed, but {_format_end(result)}" if result.exit_code else ""
    return NO_TESTS if result.exit_code in (0, 5) else _format_uncounted(result)


def _format_timeout(result: CommandResult, results: Results | None) -> str:
    where = f" at {results.at}" if results and results.at else ""
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
    errors = [line for line in lines if re.match(r"(ERROR|error|Error|E  |fatal)\b", line)]
    return ([*lines[-1:], *errors[-1:]] or ["it printed nothing"])[-1][:300]


def _find_missing(command: TestCommand, result: CommandResult, root: Path) -> str:
    if command.argv[0] == "python":
        return _find_missing_python(result, root)
    found = ((re.search(form, result.output, re.MULTILINE), text) for form, text in MISSING)
    return next((text.format(match[1].strip()[:300]) for match, text in found if match), "")


def _find_missing_python(result: CommandResult, root: Path) -> str:
    if options := re.search(r"error: unrecognized arguments: (.+)", result.output):
        plugins = {
            name for word in options[1].split() for start, name in PLUGINS.items() if word.startswith(start)
        }
        if plugins:
            names = " ".join(sorted(plugins))
            cure = format_install(result.argv[0], names)
            return f"The project's pytest options {options[1]} need {names}. {cure}"
    found = re.findall(MISSING_MODULE, result.output, re.MULTILINE)
    modules = sorted({name.partition(".")[0] for name in found if not _is_own(name.partition(".")[0], root)})
    if not modules:
        return ""
    names = " ".join(modules)
    noun = "module" if len(modules) == 1 else "modules"
    cause = f"The tests need the Python {noun} {names}, which {result.argv[0]} lacks"
    return f"{cause}. {format_install(result.argv[0], names)}"


def format_install(python: str, names: str) -> str:
    """How to give the tests what ``python`` lacks: never by changing the environment Mailroom runs in."""
    if python == sys.executable:
        return f"In the repository: python3 -m venv .venv && .venv/bin/pip install {names}"
    return f"Install: {shlex.quote(python)} -m pip install {names}"


def _is_own(module: str, root: Path) -> bool:
    return any((root / base / name).exists() for base in ("", "src") for name in (module, f"{module}.py"))
