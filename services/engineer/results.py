"""What a test run comes to, counts and failing tests: from JUnit reports, events of reporters, and go."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

import msgspec

from shared.contracts import TestFailure
from shared.errors import ActionError
from shared.sandbox.confined import ConfinedFolder
from shared.text.display import count

MAX_FAILURES = 100
MAX_MESSAGE = 500
MAX_REPORT = 50_000_000  # The most bytes of a JUnit report that are read

OUTCOMES = {
    **dict.fromkeys(("passed", "pass", "passing", "xpassed"), "passed"),
    **dict.fromkeys(("failed", "fail", "failing", "failures", "cancelled", "unexpected successes"), "failed"),
    **dict.fromkeys(("skipped", "todo", "pending", "ignored", "xfailed", "expected failures"), "skipped"),
    **dict.fromkeys(("error", "errors"), "errors"),
}
"""What the words mean that runners put beside their counts."""

TRACEBACK_LINE = re.compile(
    r"^(?P<file>[^\s:][^:\n]*\.py):(?P<line>\d+):"
    r"|^(?:E )? *File \"(?P<path>[^\"\n]+)\", line (?P<number>\d+)",
    re.MULTILINE,
)
NO_NETWORK = re.compile(
    r"(?i)\b(?:name or service not known|temporary failure in name resolution|nameresolutionerror|getaddrinfo"
    r"|gaierror|network is unreachable|enetunreach|enotfound|eai_again|could not resolve host|no such host"
    r"|nodename nor servname|err_name_not_resolved|unknownhostexception|failed to lookup address"
    r"|unable to resolve host)\b"
)
"""What libraries say where there is no network."""


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """How many tests had each outcome; ``networked`` counts the failures that name the missing network.

    ``cut`` says why these are not the results of the whole run, as a sentence without its full stop; it is
    empty if the runner said that it ended and nothing it had collected is missing. ``unselected`` tests were
    collected and left out by the project's own settings. ``reasons`` say why tests were skipped, each with
    its number, most first.
    """

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    errors: int = 0
    failures: tuple[TestFailure, ...] = ()
    networked: int = 0
    cut: str = ""
    unselected: int = 0
    reasons: tuple[tuple[str, int], ...] = ()


def tally(
    counts: Iterable[tuple[str, int | str]],
    failures: Iterable[TestFailure] = (),
    cut: str = "",
    reasons: Iterable[str] = (),
) -> Results:
    """Results from pairs such as ``("failing", 2)``; words that name no outcome are left out."""
    totals: Counter[str] = Counter()
    for word, number in counts:
        if outcome := OUTCOMES.get(word):
            totals[outcome] += int(number)
    listed = tuple(failures)
    networked = sum(needs_network(each.message) for each in listed)
    plain = (re.sub(r"^(?:Skipped|reason): *", "", " ".join(each.split()))[:200] for each in reasons)
    return Results(
        **totals,
        failures=distinct(listed),
        networked=networked,
        cut=cut,
        reasons=tuple(Counter(filter(None, plain)).most_common()),
    )


def add_up(results: Iterable[Results]) -> Results | None:
    """The sums of several results; None for none."""
    every = list(results)
    if not every:
        return None
    return Results(
        passed=sum(each.passed for each in every),
        failed=sum(each.failed for each in every),
        skipped=sum(each.skipped for each in every),
        errors=sum(each.errors for each in every),
        failures=distinct(failure for each in every for failure in each.failures),
        networked=sum(each.networked for each in every),
        unselected=sum(each.unselected for each in every),
        cut=next((each.cut for each in every if each.cut), ""),
        reasons=tuple(reason for each in every for reason in each.reasons),
    )


UNPROVED = "The run broke off: its runner did not say that it ended"
"""Why counts are not those of a whole run if nothing tells where it ended."""


def format_cut(running: Sequence[str], never_ran: int) -> str:
    """That a run ended in the tests that were ``running``, and how many others never ran."""
    left = f"{count(never_ran, 'test')} never ran" if never_ran else ""
    if not running:
        return f"The run ended early: {left}" if left else UNPROVED
    more = f" and {count(len(running) - 1, 'other')}" if running[1:] else ""
    return f"The run ended in {running[0]}{more}{f', {left}' if left else ''}"


def parse_counts(pattern: str, text: str) -> dict[str, int]:
    """The numbers before words, such as ``2 passed, 1 failed``, by word."""
    return {word: int(number) for number, word in re.findall(pattern, text)}


def needs_network(text: str) -> bool:
    """Whether a failure says that there is no network."""
    return bool(NO_NETWORK.search(text))


def failure(test: str, message: str, source: str) -> TestFailure:
    """A TestFailure with its message on one line of at most MAX_MESSAGE characters."""
    text = " ".join(message.split())
    text = text if len(text) <= MAX_MESSAGE else f"{text[: MAX_MESSAGE - 1]}…"
    return TestFailure(test=test[:1_000], message=text, source=source or test[:1_000])


def distinct(failures: Iterable[TestFailure]) -> tuple[TestFailure, ...]:
    """The first MAX_FAILURES failures, those of one test once."""
    return tuple({(each.test, each.source): each for each in failures}.values())[:MAX_FAILURES]


def format_place(file: str, line: str | int, root: Path) -> str:
    """``file:line`` relative to ``root``; empty for a file outside of it or among the installed packages."""
    path = Path(file.removeprefix("file://"))
    if path.is_absolute():
        if not path.is_relative_to(root):
            return ""
        path = path.relative_to(root)
    if path.parts[:1] == ("..",) or {"node_modules", "site-packages"} & set(path.parts):
        return ""
    return f"{path}:{line}"


def traceback_place(text: str, root: Path) -> str:
    """The last place of a Python traceback that is in the project itself; empty if there is none."""
    places = (
        format_place(match["file"] or match["path"], match["line"] or match["number"], root)
        for match in TRACEBACK_LINE.finditer(text)
    )
    return ([each for each in places if each] or [""])[-1]


SCRIPT_FRAME = re.compile(
    r"(?:[('\s]|^)(?P<file>(?:file://)?[\w./@+-]+\.[cm]?[jt]sx?):(?P<line>\d+):\d+", re.MULTILINE
)


def script_place(text: str, root: Path) -> str:
    """The first place in a stack of JavaScript that is in the project itself."""
    places = (format_place(frame["file"], frame["line"], root) for frame in SCRIPT_FRAME.finditer(text))
    return next((each for each in places if each), "")


def read_junit(report: Path, root: Path) -> Results | None:
    """The results in a report of JUnit's form; None if there is no readable one."""
    try:
        # The tested code could have put a link or a pipe in its place.
        with ConfinedFolder(report.parent) as results:
            data = results.read(report.name, MAX_REPORT)
    except ActionError:
        return None
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        return None  # no runner writes either, and nested entities could fill the memory
    try:
        tree = ElementTree.fromstring(data)  # noqa: S314 - has no entities, see above
    except ElementTree.ParseError:
        return None
    cases = list(tree.iter("testcase"))
    skips = (found.get("message", "") for case in cases if (found := case.find("skipped")) is not None)
    counts = Counter(map(_outcome, cases))
    return tally(counts.items(), _junit_failures(cases, root), reasons=skips) if cases else None


def _outcome(case: ElementTree.Element) -> str:
    if case.find("failure") is not None:
        return "failed"
    if case.find("error") is not None:
        return "errors"
    # CTest has no element for what it could not start, only a status.
    skipped = case.find("skipped") is not None or case.get("status") in ("notrun", "disabled")
    return "skipped" if skipped else "failed" if case.get("status") == "fail" else "passed"


def _junit_failures(cases: Iterable[ElementTree.Element], root: Path) -> Iterator[TestFailure]:
    for case in cases:
        problem = case.find("failure")
        problem = case.find("error") if problem is None else problem
        if problem is not None or case.get("status") == "fail":
            text = (problem.text or "") if problem is not None else case.findtext("system-out") or ""
            said = problem.get("message", "") if problem is not None else ""
            message = said or text.strip().rpartition("\n")[2]
            name, group = case.get("name", ""), case.get("classname", "")
            group = "" if group in ("test", name) else group
            test = ".".join(filter(None, (group, name)))
            yield failure(test, message, _junit_place(case, text, root))


def _junit_place(case: ElementTree.Element, text: str, root: Path) -> str:
    if place := traceback_place(text, root):
        return place
    frames = re.findall(
        r"\(?((?:file://)?[\w./@+-]+\.(?:[cm]?[jt]sx?|java|kt|scala|c|cc|cpp|h|hpp|rs|go)):(\d+)", text
    )
    places = [place for file, line in frames if (place := format_place(file, line, root))]
    # A place such as CalcTest.java:7 is in the file of the case's class.
    names = case.get("classname", "").split(".")
    if own := [place for place in places if Path(place.partition(":")[0]).stem in names] or places:
        return own[0]
    file, line = case.get("file", ""), case.get("line", "")
    return format_place(file, line or 1, root) if file else ""


# --- events of reporters in the tested project ------------------------------------------------------

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
    """What the events come to: ``running`` tests have not ended, ``unrun`` not begun; who wrote them."""

    results: Results
    runner: str
    running: tuple[str, ...] = ()
    hung: tuple[str, ...] = ()
    unrun: tuple[str, ...] = ()


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
    skips: list[str] = []
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
                place = traceback_place(event.text, root) or script_place(event.text, root)
                if not place and event.place and event.place[0]:
                    place = format_place(*event.place, root)
                message = event.message or _find_message(event.text)
                failures.append(failure(event.name or event.test.removeprefix(f"{root}/"), message, place))
                raised = re.findall(r"(?mi)^(?:E +)?[\w.]*(?:error|exception)\b.*", event.text)
                networked += needs_network("\n".join((event.message, *raised)))
            elif event.message and OUTCOMES.get(event.outcome) == "skipped":
                skips.append(event.message)
        if event.run in latest:
            latest[event.run].note(event)
    if not runner:
        return None
    cut = next((found for each in runs if (found := each.find_cut(root))), "")
    results = tally((said or counts).items(), failures, cut, skips)
    unselected = sum(each.unselected for each in runs)
    results = msgspec.structs.replace(results, networked=networked, unselected=unselected)
    running = tuple(test for each in runs for test in each.running)
    begun = {*running, *(test for each in runs for test in each.ended)}
    unrun = tuple(test for each in runs for test in each.collected if test not in begun)
    return Events(results=results, runner=runner, running=running, hung=tuple(hung), unrun=unrun)


def list_unrun(path: Path) -> list[str]:
    """The tests that were collected and have not begun, in their order, as the events in a file tell."""
    events = read_events(path, path.parent)
    return list(events.unrun) if events else []


def _find_message(text: str) -> str:
    """What a failure says that has no message of its own: its last marked line, else its first error."""
    rows = text.splitlines()
    marked = [row.removeprefix("E ").strip() for row in rows if row.startswith("E ")]
    named = [row.strip() for row in rows if re.match(r"[\w. ]*(?:Error|Exception|mismatch)\b", row.strip())]
    return (marked[-1:] or named[:1] or rows[-1:] or [""])[0]


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
    skips = [PLACE.search(each.output) for each in lines if ends.get((each.package, each.test)) == "skip"]
    return tally([*counts, ("errors", len(broken))], failures, cut, (each[2] for each in skips if each))


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
