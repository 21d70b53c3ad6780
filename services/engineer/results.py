"""What a test run comes to: counts and failing tests; read from the JUnit report if the runner writes one."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import msgspec

from shared.contracts import TestFailure
from shared.errors import ActionError
from shared.sandbox.confined import ConfinedFolder

MAX_FAILURES = 100
MAX_MESSAGE = 500
MAX_REPORT = 50_000_000
"""The most bytes of a JUnit report that are read."""

OUTCOMES = {
    **dict.fromkeys(("passed", "pass", "passing", "xpassed"), "passed"),
    **dict.fromkeys(("failed", "fail", "failing", "failures", "cancelled", "unexpected successes"), "failed"),
    **dict.fromkeys(("skipped", "todo", "pending", "ignored", "xfailed", "expected failures"), "skipped"),
    **dict.fromkeys(("error", "errors"), "errors"),
}
"""What the words mean that runners put beside their counts."""

TRACEBACK_LINE = re.compile(r"^(?P<file>[^\s:][^:\n]*\.py):(?P<line>\d+):", re.MULTILINE)


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """How many tests had each outcome; ``at`` is where an interrupted run was, if it says so."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    errors: int = 0
    failures: tuple[TestFailure, ...] = ()
    at: str = ""


def tally(
    counts: Iterable[tuple[str, int | str]], failures: Iterable[TestFailure] = (), at: str = ""
) -> Results:
    """Results from pairs such as ``("failing", 2)``; words that name no outcome are left out."""
    totals: Counter[str] = Counter()
    for word, number in counts:
        if outcome := OUTCOMES.get(word):
            totals[outcome] += int(number)
    return Results(**totals, failures=distinct(failures), at=at)


def parse_counts(pattern: str, text: str) -> dict[str, int]:
    """The numbers before words, such as ``2 passed, 1 failed``, by word."""
    return {word: int(number) for number, word in re.findall(pattern, text)}


def failure(test: str, message: str, source: str) -> TestFailure:
    """A TestFailure with its message on one line of at most MAX_MESSAGE characters."""
    text = " ".join(message.split())
    text = text if len(text) <= MAX_MESSAGE else f"{text[: MAX_MESSAGE - 1]}…"
    return TestFailure(test=test, message=text, source=source or test)


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


def read_junit(report: Path, root: Path) -> Results | None:
    """The results in a JUnit report (pytest's, family xunit1); None if there is no readable one."""
    try:
        # The tested code could have put a link or a pipe in its place.
        with ConfinedFolder(report.parent) as results:
            data = results.read(report.name, MAX_REPORT)
    except ActionError:
        return None
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        return None  # pytest writes neither, and nested entities could fill the memory
    try:
        tree = ElementTree.fromstring(data)  # noqa: S314 - has no entities, see above
    except ElementTree.ParseError:
        return None
    # A case looks the same if it passed and if it was running when all was stopped: suites count them.
    counts: Counter[str] = Counter()
    for suite in tree.iter("testsuite"):
        for kind in ("tests", "failures", "errors", "skipped"):
            counts[kind] += int(suite.get(kind, "0"))
    counts["passed"] = max(0, counts.pop("tests", 0) - counts.total())
    return tally(counts.items(), _junit_failures(tree.iter("testcase"), root))


def _junit_failures(cases: Iterable[ElementTree.Element], root: Path) -> Iterator[TestFailure]:
    for case in cases:
        for problem in (*case.iterfind("failure"), *case.iterfind("error")):
            text = problem.text or ""
            message = _exception_line(problem.get("message", ""), text)
            yield failure(_junit_name(case), message, _junit_place(case, text, root))


def _junit_name(case: ElementTree.Element) -> str:
    """The test as one would name it to pytest: ``tests/test_a.py::TestX::test_y``."""
    file, name, group = case.get("file", ""), case.get("name", ""), case.get("classname", "")
    module = file.removesuffix(".py").replace("/", ".")
    if not file:
        return ".".join(part for part in (group, name) if part)
    classes = group.removeprefix(module).strip(".").split(".") if group.startswith(module) else []
    return "::".join([file, *(part for part in classes if part), name])


def _exception_line(message: str, text: str) -> str:
    """The line that names the exception: for a broken import the message is only "collection failure"."""
    if message not in ("", "collection failure"):
        return message
    lines = [line[2:] for line in text.splitlines() if line.startswith("E ")]
    return lines[-1] if lines else message or text[-200:]


def _junit_place(case: ElementTree.Element, text: str, root: Path) -> str:
    lines = [format_place(match["file"], match["line"], root) for match in TRACEBACK_LINE.finditer(text)]
    if inside := [line for line in lines if line]:
        return inside[-1]
    file, line = case.get("file", ""), case.get("line", "")
    return format_place(file, int(line) + 1, root) if file and line.isdigit() else ""
