"""The events that reporters in the tested project write: which tests started, and how they ended."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from services.engineer.console_results import script_place
from services.engineer.results import (
    Results,
    failure,
    format_cut,
    format_place,
    needs_network,
    tally,
    traceback_place,
)
from shared.contracts import TestFailure
from shared.errors import ActionError
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
