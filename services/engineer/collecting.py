"""Collects the results of a run from what its runner wrote: events, reports, and at last what it printed."""

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from services.engineer import console_results as console
from services.engineer.console_results import script_place
from services.engineer.events import list_running, parse_go, read_events, read_go_results
from services.engineer.invocation import Invocation
from services.engineer.results import UNPROVED, Results, add_up, failure, format_cut, read_junit, tally
from shared.errors import ActionError
from shared.projects.reading.test_commands import TestCommand
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


class Runner(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of test runner.

    ``parsers`` read what it prints; the first that finds results counts. ``ecosystem`` is that of the
    environment its tests need (as in Preparation).
    """

    parsers: tuple[Callable[[str, Path], Results | None], ...]
    ecosystem: str = ""


JAVASCRIPT = (
    console.parse_jest,
    console.parse_vitest,
    console.parse_tap,
    console.parse_mocha,
    console.parse_ava,
)
PYTHON = (console.parse_unittest, console.parse_pytest)
RUNNERS = {
    "pytest": Runner(parsers=(console.parse_pytest,), ecosystem="python"),
    "unittest": Runner(parsers=(console.parse_unittest,), ecosystem="python"),
    "django": Runner(parsers=PYTHON, ecosystem="python"),
    "node": Runner(parsers=(*JAVASCRIPT, console.parse_plain), ecosystem="javascript"),
    "cargo": Runner(parsers=(console.parse_cargo,), ecosystem="rust"),
    "go": Runner(parsers=(console.parse_go,), ecosystem="go"),
    "ctest": Runner(parsers=(console.parse_ctest,), ecosystem="c"),
    "java": Runner(parsers=(console.parse_maven, console.parse_gradle), ecosystem="java"),
    "any": Runner(  # make, a script and the like: what they start in turn is not known
        parsers=(
            *(console.parse_cargo, console.parse_go, console.parse_ctest, console.parse_maven),
            *(console.parse_gradle, *JAVASCRIPT, *PYTHON, console.parse_plain),
        )
    ),
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
                failures.append(
                    failure(f"{place} › {case.full_name}", _first(said), script_place(said, root) or place)
                )
    cut = UNPROVED if report.was_interrupted else ""
    return tally(counts, failures, cut) if counts else None


def _first(text: str) -> str:
    return next((line for line in strip_output(text).splitlines() if line.strip()), "")


def strip_output(output: str) -> str:
    """``output`` without colours, its lines cut to LONGEST_LINE."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output).replace("\r\n", "\n")
    return "\n".join(line[:LONGEST_LINE] for line in plain.split("\n"))
