"""What a test run comes to: counts and failing tests; those in reports of JUnit's form are read here."""

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
    r"^(?P<file>[^\s:][^:\n]*\.py):(?P<line>\d+):|^ *File \"(?P<path>[^\"\n]+)\", line (?P<number>\d+)",
    re.MULTILINE,
)
NO_NETWORK = re.compile(
    r"(?i)name or service not known|temporary failure in name resolution|nameresolutionerror|getaddrinfo"
    r"|gaierror|network is unreachable|enetunreach|enotfound|eai_again|could not resolve host|no such host"
    r"|nodename nor servname|err_name_not_resolved|unknownhostexception|failed to lookup address"
    r"|unable to resolve"
)
"""What libraries say where there is no network."""


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """How many tests had each outcome; ``networked`` counts the failures that name the missing network.

    ``cut`` says why these are not the results of the whole run, as a sentence without its full stop; it is
    empty if the runner said that it ended and nothing it had collected is missing. ``unselected`` tests were
    collected and left out by the project's own settings.
    """

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    errors: int = 0
    failures: tuple[TestFailure, ...] = ()
    networked: int = 0
    cut: str = ""
    unselected: int = 0


def tally(
    counts: Iterable[tuple[str, int | str]], failures: Iterable[TestFailure] = (), cut: str = ""
) -> Results:
    """Results from pairs such as ``("failing", 2)``; words that name no outcome are left out."""
    totals: Counter[str] = Counter()
    for word, number in counts:
        if outcome := OUTCOMES.get(word):
            totals[outcome] += int(number)
    listed = tuple(failures)
    networked = sum(needs_network(each.message) for each in listed)
    return Results(**totals, failures=distinct(listed), networked=networked, cut=cut)


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
    return tally(Counter(map(_outcome, cases)).items(), _junit_failures(cases, root)) if cases else None


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
            message = (problem.get("message", "") if problem is not None else "") or text.strip().rpartition(
                "\n"
            )[2]
            name, group = case.get("name", ""), case.get("classname", "")
            group = "" if group in ("test", name) else group
            yield failure(
                ".".join(part for part in (group, name) if part), message, _junit_place(case, text, root)
            )


def _junit_place(case: ElementTree.Element, text: str, root: Path) -> str:
    if place := traceback_place(text, root):
        return place
    frames = re.findall(
        r"\(?((?:file://)?[\w./@+-]+\.(?:[cm]?[jt]sx?|java|kt|scala|c|cc|cpp|h|hpp|rs|go)):(\d+)", text
    )
    places = [place for file, line in frames if (place := format_place(file, line, root))]
    if own := [place for place in places if _names(place, case)] or places:
        return own[0]
    file, line = case.get("file", ""), case.get("line", "")
    return format_place(file, line or 1, root) if file else ""


def _names(place: str, case: ElementTree.Element) -> bool:
    """Whether a place such as ``CalcTest.java:7`` is in the file of the case's class."""
    return Path(place.partition(":")[0]).stem in case.get("classname", "").split(".")
