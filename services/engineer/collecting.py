"""Collects the results of a run from what its runner wrote, and says why there are none if so."""

import contextlib
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from services.engineer import console_results as console
from services.engineer.invocation import Invocation
from services.engineer.results import (
    UNPROVED,
    Results,
    add_up,
    failure,
    format_cut,
    list_running,
    parse_go,
    read_events,
    read_go_results,
    read_junit,
    script_place,
    tally,
)
from shared.errors import ActionError
from shared.projects.reading.test_commands import TestCommand, drives_browser
from shared.projects.reading.test_environments import find_plugins
from shared.projects.toolchains import PROGRAMS, format_package
from shared.sandbox import CommandResult
from shared.sandbox.confined import ConfinedFolder

LONGEST_LINE = 2_000
"""The most characters of a line that are read: the patterns are meant for lines a person could read."""
MAX_REPORTS = 5_000
REPORT_FOLDERS = (
    "**/target/surefire-reports/TEST-*.xml",
    "**/target/failsafe-reports/TEST-*.xml",
    "**/build/test-results/**/TEST-*.xml",
    "**/meson-logs/testlog.junit.xml",
)
LONG_RUNNING = re.compile(r"^test (\S+) has been running for over \d+ seconds", re.MULTILINE)


CRASHED = re.compile(
    r"(?:The forked VM terminated|Worker exited unexpectedly|Worker (?:forks|threads) emitted error"
    r"|Premature end of PHP process|Process 'Gradle Test Executor \d+' finished with non-zero).*"
)
"""What runners say that lost one of the processes in which they run tests."""


CONSOLE = "console text"


class Runner(NamedTuple):
    """A kind of test runner: the ``ecosystem`` of the environment that its tests need (as in Preparation).

    ``parsers`` read what it prints; the first that finds results counts.
    """

    ecosystem: str
    parsers: tuple[Callable[[str, Path], Results | None], ...]


JAVASCRIPT = (
    console.parse_jest,
    console.parse_vitest,
    console.parse_tap,
    console.parse_mocha,
    console.parse_ava,
)
PYTHON = (console.parse_unittest, console.parse_pytest)
COMPILED = (console.parse_cargo, console.parse_go, console.parse_ctest)
RUNNERS = {
    "pytest": Runner("python", (console.parse_pytest,)),
    "unittest": Runner("python", (console.parse_unittest,)),
    "django": Runner("python", PYTHON),
    "node": Runner("javascript", (*JAVASCRIPT, console.parse_plain)),
    "cargo": Runner("rust", (console.parse_cargo,)),
    "go": Runner("go", (console.parse_go,)),
    "ctest": Runner("c", (console.parse_ctest,)),
    "java": Runner("java", ()),  # its reports tell
    # make, a script and the like: what they start in turn is not known
    "any": Runner("", (console.parse_prove, *COMPILED, *JAVASCRIPT, *PYTHON, console.parse_plain)),
}


class Collected(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a run, if there are any; what they come from, and the tests that hung."""

    results: Results | None = None
    counted_by: str = ""
    hung: tuple[str, ...] = ()


class _JestCase(msgspec.Struct, frozen=True, rename="camel"):
    full_name: str = ""
    status: str = ""
    failure_messages: tuple[str, ...] = ()


class _JestFile(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    status: str = ""
    message: str = ""
    assertion_results: tuple[_JestCase, ...] = ()


class _Jest(msgspec.Struct, frozen=True, rename="camel"):
    test_results: tuple[_JestFile, ...] = ()
    was_interrupted: bool = False


def collect(
    command: TestCommand,
    invocation: Invocation,
    output: str,
    root: Path,
    started: float,
    *,
    stopped: bool,
    argv: Sequence[str] = (),
) -> Collected:
    """The results of a run of ``argv`` that began at the time ``started``.

    ``stopped`` says that it was interrupted. What the runner printed proves nothing if it was to report
    elsewhere and did not: a test can print the same.
    """
    found = _read_results(command, invocation, output, root, started, stopped=stopped)
    results = found.results
    if results is None or results.cut:
        return found
    crash = CRASHED.search(output)
    if found.counted_by == CONSOLE and invocation.reports(argv):
        results = msgspec.structs.replace(results, cut=UNPROVED)
    elif crash and not (results.failed or results.errors):
        results = msgspec.structs.replace(results, cut=f"The run broke off: {crash[0][:200]}")
    return msgspec.structs.replace(found, results=results)


def _read_results(
    command: TestCommand, invocation: Invocation, output: str, root: Path, started: float, *, stopped: bool
) -> Collected:
    if events := read_events(invocation.events, root):
        hung = (*events.hung, *(events.running if stopped else ()))
        return Collected(
            results=events.results, counted_by=f"reporter of {events.runner}", hung=tuple(dict.fromkeys(hung))
        )
    if results := read_junit(invocation.junit, root):
        return Collected(results=results, counted_by="JUnit report")
    if results := _read_jest(invocation.jest, root):
        return Collected(results=results, counted_by="JSON of Jest")
    if command.runner == "go" and (lines := parse_go(output)):
        running = list_running(lines)
        results = read_go_results(lines, root)
        if results and running:
            results = msgspec.structs.replace(results, cut=format_cut(running, 0))
        hung = tuple(running) if stopped else ()
        return Collected(results=results, counted_by="go test -json", hung=hung)
    if command.runner in ("java", "any") and (results := add_up(_read_found(root, started))):
        return Collected(results=results, counted_by="JUnit report")
    readings = (parse(output, root) for parse in RUNNERS[command.runner].parsers)
    results = next((results for results in readings if results), None)
    return Collected(
        results=results,
        counted_by=CONSOLE if results else "",
        hung=tuple(LONG_RUNNING.findall(output)) if stopped else (),
    )


def _read_found(root: Path, started: float) -> Iterator[Results]:
    """The results of the reports that Maven, Gradle and Meson left in the project since ``started``."""
    found = 0
    for pattern in REPORT_FOLDERS:
        for path in root.glob(pattern):
            found += 1
            with contextlib.suppress(OSError):
                if (
                    found <= MAX_REPORTS
                    and path.stat().st_mtime >= started - 1
                    and (results := read_junit(path, root))
                ):
                    yield results


def _read_jest(path: Path, root: Path) -> Results | None:
    try:
        with ConfinedFolder(path.parent) as folder:
            report = msgspec.json.decode(folder.read(path.name, 100_000_000), type=_Jest)
    except (ActionError, msgspec.MsgspecError, ValueError):
        return None
    counts: list[tuple[str, int]] = []
    failures = []
    for file in report.test_results:
        place = file.name.removeprefix(f"{root}/")
        if file.status == "failed" and not file.assertion_results:
            counts.append(("error", 1))
            failures.append(failure(place, _first(file.message), script_place(file.message, root) or place))
        for case in file.assertion_results:
            counts.append((case.status, 1))
            if case.status == "failed":
                said = "\n".join(case.failure_messages)
                name = f"{place} › {case.full_name}"
                failures.append(failure(name, _first(said), script_place(said, root) or place))
    cut = UNPROVED if report.was_interrupted else ""
    return tally(counts, failures, cut) if counts else None


def _first(text: str) -> str:
    return next((line for line in strip_output(text).splitlines() if line.strip()), "")


def strip_output(output: str) -> str:
    """``output`` without colours, its lines cut to LONGEST_LINE."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output).replace("\r\n", "\n")
    return "\n".join(line[:LONGEST_LINE] for line in plain.split("\n"))


# --- why tests could not be run or counted: a sentence with the cause, and one with the cure --------

NOT_FOUND = (
    r"^(?:/bin/)?(?:ba|da)?sh: (?:\S+: )?(?:line )?\d*:? ?([\w./+-]+): (?:command )?not found$",
    r"^(?:/\S*/)?env: [‘'\"]?([\w./+-]+)[’'\"]?: No such file or directory$",
    r"^(?:g?make)(?:\[\d+\])?: ([\w./+-]+): No such file or directory$",
    r"^(?:\S+: )?(?:line )?\d+: (?:exec: )?([\w./+-]+): (?:command )?not found$",
    r"^No CMAKE_(?:C|CXX)_COMPILER could be found()",
)
"""What shells, env and make print if a program is missing."""
MISSING_NODE = r"Cannot find (?:module|package) '((?:@[\w.-]+/)?\w[\w.-]*)"
UNFETCHED = (
    r"^(.*(?i:could not resolve (?:host|dependencies)|failed to download"
    r"|could not transfer artifact|failed to get .+ as a"
    r" dependency).*)$"
)
MISSING_MODULE = r"(?:^|: )(?:E +)?(?:ModuleNotFoundError: )?No module named '?([\w.]+)'?"
MISSING_PERL = r"\(you may need to install the (\w[\w:]*) module\)"
UNCOUNTED = "The command succeeded, but its output does not tell how many tests ran"
NO_TESTS = "The command found no tests to run"
NOTHING_RAN = (
    r"^(no tests ran in .*|No tests? (files )?found.*|No tests defined\.|\?[ \t]+\S+[ \t]+\[no test files\])$"
)

OUTSIDE = "Run it outside of Mailroom"
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
        where = f" in {hung[0]}" if hung else f" after the line: {_last_words(result.output)}"
        done = f"{results.passed} had passed" if results else "the output does not tell how many had passed"
        stopped = f"The tests were stopped after {result.seconds:.0f} seconds{where}; until then {done}"
        return stopped, "Give a larger test_timeout, or see what it waits for"
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
    if result.exit_code and (step := next((each for each in command.names if drives_browser(each)), "")):
        return f"No test failed, but its step `{step}` drives a browser, and the jail has none", OUTSIDE
    if results.passed or results.skipped:
        return (f"No test failed, but {_format_end(result)}" if result.exit_code else ""), ""
    return (NO_TESTS if result.exit_code in (0, 5) else _format_uncounted(result)), ""


def _format_uncounted(result: CommandResult) -> str:
    if result.exit_code == 0:
        return UNCOUNTED
    if result.exit_code < 0:
        return f"The command was ended by signal {-result.exit_code}"
    return f"Nothing was counted: {_format_end(result)}"


def _format_end(result: CommandResult) -> str:
    return f"the command ended with exit code {result.exit_code}: {_last_words(result.output)}"


def _last_words(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    lines = [line for line in lines if not re.match(r"npm (error|ERR!)|\{", line)] or lines
    errors = [line for line in lines if re.match(r"(ERROR|error|Error|E  |fatal|\w*Error:)\b", line)]
    return ([*lines[-1:], *errors[-1:]] or ["it printed nothing"])[-1][:300]


def format_missing(program: str) -> Diagnosis:
    """That a program is missing, and which package has it."""
    name = program.rpartition("/")[2] or "cc"
    cause = f"The program {name} is not installed"
    if name in PROGRAMS.packages:
        return cause, format_package(name)
    return cause, "Install it, or the project's dependencies, and put its folder on the PATH"


def _find_missing(
    command: TestCommand, result: CommandResult, results: Results | None, root: Path
) -> Diagnosis | None:
    """What is missing, if that is why nothing was counted or why tests could not be collected."""
    python = RUNNERS[command.runner].ecosystem == "python"
    if python and (missing := _find_missing_python(result, root)):
        return missing
    if modules := sorted(set(re.findall(MISSING_PERL, result.output, re.MULTILINE))):
        package = " ".join(f"lib{each.lower().replace('::', '-')}-perl" for each in modules)
        cause = f"The tests need the Perl {'modules' if modules[1:] else 'module'} {' '.join(modules)}"
        return (
            f"{cause}, which is not here",
            f"Install {' '.join(modules)} (apt install {package} or cpanm {' '.join(modules)})",
        )
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
    options = re.search(r"error: unrecognized arguments: (.+)", result.output)
    if options and (names := " ".join(sorted(find_plugins(options[1])))):
        return f"The project's pytest options {options[1]} need {names}", _format_install(names)
    missing = {name.partition(".")[0] for name in re.findall(MISSING_MODULE, result.output, re.MULTILINE)}
    bases = (root, root / "src")
    modules = sorted(
        name
        for name in missing
        if not any((base / name).exists() or (base / f"{name}.py").exists() for base in bases)
    )
    if not modules:
        return None
    packages = " ".join(PROGRAMS.modules.get(name, name) for name in modules)
    noun = "module" if len(modules) == 1 else "modules"
    cause = f"The tests need the Python {noun} {' '.join(modules)}, which the environment lacks"
    return cause, _format_install(packages)


def _format_install(names: str) -> str:
    install = shlex.join(["pip", "install", *names.split()])
    return f"Name it among the project's test dependencies, or: python3 -m venv .venv && .venv/bin/{install}"
