"""SARIF and JUnit files, held against the required fields of their schemas."""

import json
from typing import Any
from xml.etree import ElementTree

from services.cli.output.reports import format_junit, format_sarif
from shared.contracts import Finding, NotChecked, TestFailure, TestRun, TestSuite, ToolRun

FINDINGS = [
    Finding(tool="ruff", rule="F821", severity="high", file="a b/é.py", line=3, message="Undefined name"),
    Finding(tool="ruff", rule="F401", severity="low", file="x.py", message="unused"),
    Finding(tool="secrets", rule="AWS", severity="medium", file="x.py", line=1, message="AWS: AKIA…"),
]
TOOLS = [
    ToolRun(name="ruff", version="0.17", findings=2, files=9),
    ToolRun(name="secret scan", version="1.5", findings=1, files=9),
    ToolRun(name="clippy", problem="cargo is not installed"),
    ToolRun(name="bandit", version="1.9", problem="2 files could not be parsed"),
]


def sarif() -> Any:
    return json.loads(format_sarif(FINDINGS, TOOLS))


def test_a_sarif_log_has_what_its_schema_requires() -> None:
    log = sarif()
    assert (log["version"], sorted(log)) == ("2.1.0", ["$schema", "runs", "version"])
    for run in log["runs"]:
        driver = run["tool"]["driver"]
        assert driver["name"]
        assert all(isinstance(each["executionSuccessful"], bool) for each in run["invocations"])
        identities = [rule["id"] for rule in driver["rules"]]
        assert len(set(identities)) == len(identities)
        for result in run["results"]:
            assert result["message"]["text"]
            assert result["level"] in ("none", "note", "warning", "error")
            assert identities[result["ruleIndex"]] == result["ruleId"]
            region = result["locations"][0]["physicalLocation"].get("region", {"startLine": 1})
            assert region["startLine"] >= 1


def test_sarif_names_each_tool_and_what_it_found() -> None:
    runs = {run["tool"]["driver"]["name"]: run for run in sarif()["runs"]}
    assert {name: len(run["results"]) for name, run in runs.items()} == {
        "ruff": 2,
        "secret scan": 1,
        "clippy": 0,
        "bandit": 0,
    }
    assert [result["level"] for result in runs["ruff"]["results"]] == ["error", "note"]
    place = runs["ruff"]["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "a%20b/%C3%A9.py", "uriBaseId": "%SRCROOT%"}
    assert "region" not in runs["ruff"]["results"][1]["locations"][0]["physicalLocation"]
    assert runs["secret scan"]["tool"]["driver"]["rules"][0]["properties"]["security-severity"] == "5.0"
    assert runs["clippy"]["invocations"][0] == {
        "executionSuccessful": False,
        "toolExecutionNotifications": [{"level": "error", "message": {"text": "cargo is not installed"}}],
    }
    assert runs["bandit"]["invocations"][0]["executionSuccessful"] is True


def test_sarif_of_nothing_is_a_log() -> None:
    assert json.loads(format_sarif([], []))["runs"] == []


def test_junit_counts_every_suite_and_lists_the_failures() -> None:
    failure = TestFailure(test="test_a", message="assert 1 == 2\x00\x1b", source="tests/test_a.py:7")
    tests = TestRun(
        passed=5,
        failed=1,
        skipped=1,
        errors=0,
        suites=(
            TestSuite(
                command="pytest", passed=5, failed=1, skipped=1, errors=0, seconds=1.5, failures=(failure,)
            ),
            TestSuite(command="go test", problem="there is no go here", cure="apt install golang-go"),
        ),
        not_run=(NotChecked(what="make demo", why="it is no test"),),
    )
    root = ElementTree.fromstring(format_junit(tests))
    assert root.tag == "testsuites"
    assert {name: root.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "8",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
    }
    pytest, go, demo = root.findall("testsuite")
    assert (pytest.get("name"), pytest.get("tests"), pytest.get("time")) == ("pytest", "7", "1.500")
    case = pytest.findall("testcase")[0]
    assert (case.get("name"), case.get("file"), case.get("line")) == ("test_a", "tests/test_a.py", "7")
    assert str(case.findall("failure")[0].get("message")).startswith("assert 1 == 2")
    assert go.findall("testcase/error")[0].get("message") == "there is no go here. apt install golang-go"
    assert demo.findall("testcase/skipped")[0].get("message") == "it is no test."


def test_junit_of_one_command_is_one_suite() -> None:
    root = ElementTree.fromstring(
        format_junit(TestRun(command="npm test", passed=3, failed=0, skipped=0, errors=0, seconds=2))
    )
    assert [suite.get("name") for suite in root] == ["npm test"]
    assert root.get("tests") == "3"
    assert root.findall(".//testcase") == []
