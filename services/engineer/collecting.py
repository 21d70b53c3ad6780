"""Collects the results of a run from what its runner wrote: events, reports, and at last what it printed."""

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from services.engineer import console_results as console
from services.engineer.console_results import script_place
from services.engineer.invocation import Invocation
from services.engineer.results import (
    UNPROVED,
    Results,
    add_up,
    failure,
    format_cut,
    format_place,
    needs_network,
    read_junit,
    tally,
    traceback_place,
)
from shared.contracts import TestFailure
from shared.errors import ActionError
from shared.projects.reading.test_commands import TestCommand
from shared.sandbox.confined import ConfinedFolder

MAX_EVENTS = 100_000_000  # The most bytes of events that are read


class Event(msgspec.Struct, frozen=True):
    """One line of the file; all of it is written by the tested project. ``run`` is a process of a runner."""

    event: str
    test: str = ""
    outcome: str = ""
    name: str = ""
    message: str = ""
    text: str = ""
    place: tuple[str, int] | None = None
    nested: bool | None = None
    counts: dict[str, int] = {}
    tests: tuple[str, ...] = ()
    run: int = 0


class Events(msgspec.Struct, frozen=True, kw_only=True):
    """What the events come to: ``running`` are tests that have not ended, ``runner`` who wrote them."""

    results: Results
    runner: str
    running: tuple[str, ...] = ()
    hung: tuple[str, ...] = ()


class _Run:
    """One process of a runner: the tests it collected, and how far it came."""

    def __init__(self) -> None:
        self.collected: dict[str, None] = {}
        self.running: dict[str, None] = {}
        self.ended: set[str] = set()
        self.left: int | None = None
        """How many tests never ran, if the runner says so: those of a skipped class are not missed."""
        self.unselected = 0
        self.problem: str | None = None
        """Why the runner says it ended early; empty: it did not; None: it did not say that it ended."""

    def note(self, event: Event) -> None:
        if event.event == "start":
            self.running[event.test] = None
        elif event.event == "collected":
            self.collected |= dict.fromkeys(event.tests)
        elif event.event == "end":
            self.running.pop(event.test, None)
            self.ended.add(event.test)
        elif event.event == "done":
            self.problem, self.left = event.message, event.counts.get("left")
            self.unselected = event.counts.get("unselected", 0)

    def find_cut(self, root: Path) -> str:
        """Why this is not the whole run; empty if it is."""
        missing = [test for test in self.collected if test not in self.ended and self.left is None]
        # The end of a test that is part of another is not always told: once all is done, only those count
        # that were collected.
        begun = [test for test in self.running if self.problem is None or test in missing]
        never = (self.left or 0) + sum(test not in self.running for test in missing)
        if self.problem is None or begun or never:
            cut = format_cut([test.removeprefix(f"{root}/") for test in begun], never)
            return f"{self.problem}. {cut}" if self.problem else cut
        return self.problem


def read_events(path: Path, root: Path) -> Events | None:
    """The events in a file; None if there are none."""
    decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event, strict=False)
    counts: Counter[str] = Counter()
    said: Counter[str] = Counter()
    failures: list[TestFailure] = []
    runs: list[_Run] = []
    latest: dict[int, _Run] = {}
    hung: dict[str, None] = {}
    runner, networked = "", 0
    for line in _read(path).splitlines():
        try:
            event = decoder.decode(line)
        except (msgspec.MsgspecError, ValueError):
            continue
        if event.event == "runner":
            runner = event.name
            runs.append(_Run())
            latest[event.run] = runs[-1]
        elif event.event == "hung":
            hung[event.test] = None
        elif event.event == "counts":
            said.update(event.counts)
        elif event.event == "end":
            if not event.nested:
                counts[event.outcome] += 1
            if event.outcome in ("failed", "error") and not event.nested:
                failures.append(_failure(event, root))
                networked += needs_network(f"{event.message}\n{event.text}")
        if event.run in latest:
            latest[event.run].note(event)
    if not runner:
        return None
    cut = next((found for each in runs if (found := each.find_cut(root))), "")
    results = tally((said or counts).items(), failures, cut)
    unselected = sum(each.unselected for each in runs)
    results = msgspec.structs.replace(results, networked=networked, unselected=unselected)
    running = (test for each in runs for test in each.running)
    return Events(results=results, runner=runner, running=tuple(running), hung=tuple(hung))


def count_events(path: Path) -> tuple[int, int]:
    """How many tests have ended so far, and how many of them failed."""
    data = _read(path)
    ended = data.count(b'"outcome"') - data.count(b'"nested":true')
    return ended, len(re.findall(rb'"outcome": ?"(?:failed|error)"', data))


def _read(path: Path) -> bytes:
    try:
        # The tested code could have put a link or a pipe in its place.
        with ConfinedFolder(path.parent) as folder:
            return folder.read(path.name, MAX_EVENTS)
    except ActionError:
        return b""


def _failure(event: Event, root: Path) -> TestFailure:
    source = traceback_place(event.text, root)
    source = source or script_place(event.text, root)
    if not source and event.place:
        source = format_place(*event.place, root) if event.place[0] else ""
    name = event.name or event.test.removeprefix(f"{root}/")
    return failure(name, event.message or _last_line(event.text), source)


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.startswith("E ")] or text.splitlines()
    return lines[-1].removeprefix("E ").strip() if lines else ""


# --- go test -json ----------------------------------------------------------------------------------

ENDS = {"pass": "passed", "fail": "failed", "skip": "skipped"}
PLACE = re.compile(r"^\s+([\w./-]+\.go:\d+): (.*)", re.MULTILINE)


class Line(msgspec.Struct, frozen=True, rename="pascal"):
    """One line: what happened (``action``) to a test of a package, or to the package itself."""

    action: str
    package: str = ""
    test: str = ""
    output: str = ""


def parse_go(text: str) -> list[Line]:
    """The lines of ``go test -json`` in ``text``; others, such as those of the compiler, are left out."""
    decoder, found = msgspec.json.Decoder(Line), []
    for row in text.splitlines():
        if row.startswith("{"):
            try:
                found.append(decoder.decode(row))
            except (msgspec.MsgspecError, ValueError):
                continue
    return found


def read_go_results(lines: list[Line], root: Path) -> Results | None:
    """The results; a test with subtests is not counted beside them."""
    ends = {(each.package, each.test): each.action for each in lines if each.test and each.action in ENDS}
    broken = [each.package for each in lines if not each.test and each.action == "fail"]
    parents = {(package, name.rpartition("/")[0]) for package, name in ends}
    broken = [package for package in broken if not any(of == package for of, _ in ends)]
    if not ends and not broken:
        return None
    # The test program of each package says that it ended; one that ends its process with 0 passes without it.
    begun = {each.package for each in lines if each.test or each.output.startswith("ok  \t")}
    said = {each.package for each in lines if not each.test and each.output in ("PASS\n", "FAIL\n")}
    silent = sorted(begun - said - set(broken))
    cut = f"The run ended early in the package {silent[0]}" if silent else ""
    counts = [(ENDS[action], 1) for key, action in ends.items() if key not in parents]
    failed = _read_failures(lines, {key for key, end in ends.items() if end == "fail"} - parents)
    failures = [*failed, *(failure(package, "the package was not tested", "") for package in broken)]
    return tally([*counts, ("errors", len(broken))], failures, cut)


def _read_failures(lines: list[Line], failed: set[tuple[str, str]]) -> Iterator[TestFailure]:
    said: dict[tuple[str, str], str] = {}
    for each in lines:
        if (each.package, each.test) in failed and each.action == "output":
            said[each.package, each.test] = said.get((each.package, each.test), "") + each.output
    for package, name in sorted(failed):
        text = said.get((package, name), "")
        spoken = PLACE.search(text)
        folder = "/".join(package.split("/")[3:])
        place = f"{folder}/{spoken[1]}".lstrip("/") if spoken else ""
        message = spoken[2] if spoken else (re.findall(r"^panic: .*", text, re.MULTILINE) or [""])[0]
        yield failure(f"{package}.{name}", message, place)


def list_running(lines: list[Line]) -> list[str]:
    """The tests that had started and not ended."""
    open_tests: dict[str, None] = {}
    for each in lines:
        name = f"{each.package}.{each.test}"
        if each.test and each.action == "run":
            open_tests[name] = None
        elif each.test and each.action in ENDS:
            open_tests.pop(name, None)
    return [name for name in open_tests if not any(other.startswith(f"{name}/") for other in open_tests)]


def format_go(lines: list[Line]) -> str:
    """What ``go test`` would have printed for people."""
    return "".join(each.output for each in lines)


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
