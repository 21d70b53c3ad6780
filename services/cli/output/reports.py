"""Files that a command writes: whole or not at all; findings as SARIF 2.1.0, tests as JUnit XML."""

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote
from xml.etree import ElementTree

from shared.contracts import Finding, TestRun, TestSuite, ToolRun
from shared.errors import ActionError

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {"high": "error", "medium": "warning", "low": "note"}
SCORES = {"high": "8.0", "medium": "5.0", "low": "2.0"}
"""What GitHub reads as the severity of a security rule, from 0 to 10."""
SECURITY = ("bandit", "secrets", "zizmor", "vulnerabilities")
RUNS = {"secrets": "secret scan"}  # The run of a tool whose findings carry another name
UNPRINTABLE = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What no XML document may hold."""


def format_sarif(findings: Sequence[Finding], tools: Sequence[ToolRun]) -> str:
    """The findings as a SARIF log: one run for each tool that ran, also for those that found nothing.

    Paths are relative to the repository (uriBaseId ``%SRCROOT%``). A tool that could not run has a run whose
    invocation was not successful and says why.
    """
    named = {tool.name: tool for tool in tools}
    for finding in findings:
        name = RUNS.get(finding.tool, finding.tool)
        named.setdefault(name, ToolRun(name=name))
    by_tool: dict[str, list[Finding]] = {name: [] for name in named}
    for finding in findings:
        by_tool[RUNS.get(finding.tool, finding.tool)].append(finding)
    runs = [_sarif_run(tool, by_tool[name]) for name, tool in named.items()]
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": runs}, indent=2, ensure_ascii=False)


def _sarif_run(tool: ToolRun, findings: Sequence[Finding]) -> dict[str, Any]:
    rules = list(dict.fromkeys(finding.rule for finding in findings))
    worst = {
        rule: min((f for f in findings if f.rule == rule), key=lambda f: list(LEVELS).index(f.severity))
        for rule in rules
    }
    ran = bool(tool.version or not tool.problem)
    invocation: dict[str, Any] = {"executionSuccessful": ran}
    if tool.problem:
        level = "warning" if ran else "error"
        invocation["toolExecutionNotifications"] = [{"level": level, "message": {"text": tool.problem}}]
    driver = {
        "name": tool.name,
        **({"version": tool.version} if tool.version else {}),
        "rules": [_sarif_rule(worst[rule]) for rule in rules],
    }
    return {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(finding, rules.index(finding.rule)) for finding in findings],
    }


def _sarif_rule(worst: Finding) -> dict[str, Any]:
    security = worst.tool in SECURITY
    properties = {"tags": ["security"], "security-severity": SCORES[worst.severity]} if security else {}
    return {
        "id": worst.rule,
        "shortDescription": {"text": worst.message or worst.rule},
        "defaultConfiguration": {"level": LEVELS[worst.severity]},
        **({"properties": properties} if properties else {}),
    }


def _sarif_result(finding: Finding, index: int) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": quote(finding.file), "uriBaseId": "%SRCROOT%"}}
    if finding.line:
        place["region"] = {"startLine": finding.line}
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": LEVELS[finding.severity],
        "message": {"text": finding.message or finding.rule},
        "locations": [{"physicalLocation": place}],
    }


def format_junit(tests: TestRun) -> str:
    """The results as JUnit XML: a suite for each test command, with its counts and the failures by name.

    Passed and skipped tests are counted, and not listed one by one: their names are not kept. A command that
    could not be run or counted, or was cut short, has one error more that says why.
    """
    suites = tests.suites or (tests,)
    root = ElementTree.Element("testsuites", _junit_counts(suites) | {"name": "mailroom"})
    for suite in suites:
        root.append(_junit_suite(suite))
    for gap in tests.not_run:
        element = ElementTree.SubElement(
            root, "testsuite", _counts(1, 0, 0, 1, 0.0) | {"name": _xml(gap.what)}
        )
        case = ElementTree.SubElement(element, "testcase", name=_xml(gap.what), classname="mailroom")
        ElementTree.SubElement(case, "skipped", message=_xml(f"{gap.why}. {gap.cure}".strip()))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _junit_suite(suite: TestSuite) -> ElementTree.Element:
    name = _xml(suite.command or suite.found or "tests")
    element = ElementTree.Element("testsuite", _junit_counts([suite]) | {"name": name})
    for failure in suite.failures:
        file, _, line = failure.source.rpartition(":")
        case = ElementTree.SubElement(element, "testcase", name=_xml(failure.test), classname=name)
        if file and line.isdigit():
            case.set("file", _xml(file))
            case.set("line", line)
        node = ElementTree.SubElement(case, "failure", message=_xml(failure.message))
        node.text = _xml(f"{failure.source}: {failure.message}")
    if suite.passed < 0 or suite.incomplete:
        case = ElementTree.SubElement(element, "testcase", name=name, classname="mailroom")
        why = suite.problem or ("the time was up" if suite.timed_out else "the output has no counts")
        ElementTree.SubElement(case, "error", message=_xml(f"{why}. {suite.cure}".strip()))
    return element


def _junit_counts(suites: Iterable[TestSuite]) -> dict[str, str]:
    every = list(suites)
    uncounted = sum(suite.passed < 0 or suite.incomplete for suite in every)
    passed, failed, skipped, errors = (
        sum(max(getattr(suite, name), 0) for suite in every)
        for name in ("passed", "failed", "skipped", "errors")
    )
    seconds = sum(suite.seconds for suite in every)
    tests = passed + failed + skipped + errors + uncounted
    return _counts(tests, failed, errors + uncounted, skipped, seconds)


def _counts(tests: int, failures: int, errors: int, skipped: int, seconds: float) -> dict[str, str]:
    numbers: Mapping[str, int] = {"tests": tests, "failures": failures, "errors": errors, "skipped": skipped}
    return {name: str(number) for name, number in numbers.items()} | {"time": f"{seconds:.3f}"}


def _xml(text: str) -> str:
    return UNPRINTABLE.sub("\ufffd", text)


@contextlib.contextmanager
def replaced_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of ``path`` at the end of the block.

    After an error or Ctrl-C ``path`` is as it was. Raises ActionError if it cannot be written.
    """
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    except OSError as error:
        raise not_written(path, error) from None
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        part.chmod(0o644)
        part.replace(path)
    except OSError as error:
        raise not_written(path, error) from None
    finally:
        part.unlink(missing_ok=True)


def not_written(path: Path, error: OSError) -> ActionError:
    """The error that ``path`` cannot be written."""
    cure = "Name another place, or free disk space"
    return ActionError(f"{path} cannot be written: {error.strerror}", cure)
