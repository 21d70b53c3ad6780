"""Reading what pytest and unittest report."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.etree import ElementTree

from services.engineer.results import Results, count, distinct, failure, place
from shared.contracts import TestFailure
from shared.errors import ActionError
from shared.sandbox.beneath import Beneath

MAX_REPORT = 50_000_000
"""The most bytes of a JUnit report that are read."""

FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+\.py\S*)(?: - (.*))?$", re.MULTILINE)
SIGNS = re.compile(r"^(?:\S+\.py )?([.FEsxX]{2,}|[.FEsxX](?= +\[))(?: +\[ *\d+%\])?$", re.MULTILINE)
TRACEBACK_LINE = re.compile(r"^(?P<file>[^\s:][^:\n]*\.py):(?P<line>\d+):", re.MULTILINE)


def read_junit(report: Path, root: Path) -> Results | None:
    """The results in pytest's JUnit report (family xunit1), None where there is no readable one."""
    try:
        # What was tested could have put a link or a pipe in its place.
        with Beneath(report.parent) as results:
            data = results.read(report.name, MAX_REPORT)
    except ActionError:
        return None
    if (
        b"<!DOCTYPE" in data or b"<!ENTITY" in data
    ):  # pytest writes neither, and entities can be made to explode
        return None
    try:
        tree = ElementTree.fromstring(data)  # noqa: S314 - has no entities, see above
    except ElementTree.ParseError:
        return None
    # The cases do not tell one that passed from one that was on its way when the run was stopped.
    total, failed, errors, skipped = (
        sum(int(suite.get(kind, "0")) for suite in tree.iter("testsuite"))
        for kind in ("tests", "failures", "errors", "skipped")
    )
    return Results(
        passed=max(0, total - failed - errors - skipped),
        failed=failed,
        skipped=skipped,
        errors=errors,
        failures=distinct(_read_failures(tree.iter("testcase"), root)),
    )


def _read_failures(cases: Iterable[ElementTree.Element], root: Path) -> Iterator[TestFailure]:
    for case in cases:
        for kind in ("failure", "error"):
            for problem in case.iterfind(kind):
                text = problem.text or ""
                yield failure(_name(case), _say(problem.get("message", ""), text), _locate(case, text, root))


def _name(case: ElementTree.Element) -> str:
    """The test as one would name it to pytest: ``tests/test_a.py::TestX::test_y``."""
    file, name, group = case.get("file", ""), case.get("name", ""), case.get("classname", "")
    module = file.removesuffix(".py").replace("/", ".")
    if not file:
        return ".".join(part for part in (group, name) if part)
    classes = group.removeprefix(module).strip(".").split(".") if group.startswith(module) else []
    return "::".join([file, *(part for part in classes if part), name])


def _say(message: str, text: str) -> str:
    """The line that names the exception: of a broken import the message is only "collection failure"."""
    if message not in ("", "collection failure"):
        return message
    lines = [line[2:] for line in text.splitlines() if line.startswith("E ")]
    return lines[-1] if lines else message or text[-200:]


def _locate(case: ElementTree.Element, text: str, root: Path) -> str:
    lines = [place(match["file"], match["line"], root) for match in TRACEBACK_LINE.finditer(text)]
    if inside := [line for line in lines if line]:
        return inside[-1]
    file, line = case.get("file", ""), case.get("line", "")
    return place(file, int(line) + 1, root) if file and line.isdigit() else ""


def read_pytest(text: str, root: Path) -> Results | None:
    """The results in what pytest prints: its closing line, else the signs it printed until it was stopped."""
    closing = re.findall(r"^=* ?(?=\d+ \w)(.*?) in [\d.]+s\b.*$", text, re.MULTILINE)
    numbers = count(r"(\d+) (passed|failed|skipped|xfailed|xpassed|errors?)", closing[-1]) if closing else {}
    if not numbers:
        return _read_signs(text)
    return Results(
        passed=numbers.get("passed", 0) + numbers.get("xpassed", 0),
        failed=numbers.get("failed", 0),
        skipped=numbers.get("skipped", 0) + numbers.get("xfailed", 0),
        errors=numbers.get("error", 0) + numbers.get("errors", 0),
        failures=distinct(failure(name, message, "") for name, message in FAILED.findall(text)),
        at=find_interrupt(text, root),
    )


def _read_signs(text: str) -> Results | None:
    signs = "".join(SIGNS.findall(text))
    if not signs:
        return None
    return Results(
        passed=signs.count(".") + signs.count("X"),
        failed=signs.count("F"),
        skipped=signs.count("s") + signs.count("x"),
        errors=signs.count("E"),
    )


def find_interrupt(text: str, root: Path) -> str:
    """Where pytest was when it was interrupted, as ``file:line``; empty where it does not say."""
    places = re.findall(r"^(\S+\.py):(\d+): KeyboardInterrupt$", text, re.MULTILINE)
    return place(places[-1][0], places[-1][1], root) if places else ""


def read_unittest(text: str, root: Path) -> Results | None:
    """The results in what unittest (and Django) prints with ``-v``, complete or stopped on its way."""
    ran = re.findall(r"^Ran (\d+) tests? in ", text, re.MULTILINE)
    if not ran:
        return _read_unittest_lines(text)
    closing = re.findall(r"^(?:OK|FAILED|NO TESTS RAN)(?: \((.*)\))?$", text, re.MULTILINE)
    numbers = {
        key: int(value) for key, value in re.findall(r"([a-z ]+)=(\d+)", closing[-1] if closing else "")
    }
    numbers = {key.strip(): value for key, value in numbers.items()}
    failed = numbers.get("failures", 0) + numbers.get("unexpected successes", 0)
    skipped = numbers.get("skipped", 0) + numbers.get("expected failures", 0)
    errors = numbers.get("errors", 0)
    return Results(
        passed=max(0, int(ran[-1]) - failed - skipped - errors),
        failed=failed,
        skipped=skipped,
        errors=errors,
        failures=distinct(_read_unittest_failures(text, root)),
    )


def _read_unittest_lines(text: str) -> Results | None:
    ends = re.findall(r"^.* \.\.\. (ok$|FAIL$|ERROR$|skipped\b)", text, re.MULTILINE)
    if not ends:
        return None
    return Results(
        passed=ends.count("ok"),
        failed=ends.count("FAIL"),
        skipped=ends.count("skipped"),
        errors=ends.count("ERROR"),
    )


def _read_unittest_failures(text: str, root: Path) -> Iterator[TestFailure]:
    blocks = re.split(r"^={70}\n", text, flags=re.MULTILINE)[1:]
    for block in blocks:
        head = re.match(r"(?:FAIL|ERROR): (\S+)(?: \((.+?)\))?", block)
        if head is None:
            continue
        body = re.split(r"^-{70}\n", block, flags=re.MULTILINE)[1]
        places = [place(file, line, root) for file, line in re.findall(r'File "(.+?)", line (\d+)', body)]
        reasons = re.findall(r"^(\w[\w.]*(?:: .*)?)$", body.split("Traceback", 1)[-1], re.MULTILINE)
        name, case = head.groups()
        test = case if case and case.endswith(f".{name}") else ".".join(part for part in (case, name) if part)
        yield failure(test, reasons[-1] if reasons else "", next((p for p in reversed(places) if p), ""))
