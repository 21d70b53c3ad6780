"""What runners write in forms of their own: events of reporters, lines of go, the JSON of Jest; and sums."""

import json
from pathlib import Path

import msgspec
import pytest

from services.engineer.collecting import UNCOUNTED, collect, diagnose
from services.engineer.invocation import Invocation
from services.engineer.report import format_tests, outcome_of
from services.engineer.results import (
    Results,
    count_events,
    format_go,
    list_running,
    needs_network,
    parse_go,
    read_events,
    read_go_results,
)
from services.engineer.testing import add_suites
from shared.contracts import NotChecked, ResultOutcome, TestFailure, TestSuite
from shared.projects.reading.test_commands import TestCommand
from shared.sandbox import CommandResult

ROOT = Path("/copy/project")
AT = "    at x (a.test.js:3:1)"
FAR = "tests/test_a.py::test_far"
COMMAND = TestCommand(runner="node", argv=("npm", "test"), found="package.json:3")


def write(path: Path, *events: dict[str, object] | str) -> Path:
    path.write_text("".join((each if isinstance(each, str) else json.dumps(each)) + "\n" for each in events))
    return path


def test_events_of_a_run_that_was_stopped(tmp_path):
    text = "tests/test_a.py:7: in test_far\n    socket.create\nE   gaierror: Name or service not known"
    path = write(
        tmp_path / "events.jsonl",
        {"event": "runner", "name": "pytest"},
        {"event": "start", "test": "tests/test_a.py::test_good"},
        {"event": "end", "test": "tests/test_a.py::test_good", "outcome": "passed"},
        {"event": "start", "test": FAR},
        {
            "event": "end",
            "test": "tests/test_a.py::test_far",
            "outcome": "failed",
            "message": "no",
            "text": text,
        },
        {"event": "end", "test": "tests/test_a.py::test_x", "outcome": "xfailed"},
        {"event": "end", "test": "tests/test_a.py::test_y", "outcome": "rerun"},
        {"event": "start", "test": "tests/test_a.py::test_slow"},
        "not json",
        '{"event": ["forged"]}',
        '{"event": "end", "test": "cut',
    )
    events = read_events(path, ROOT)
    assert events is not None
    found = events.results
    assert (found.passed, found.failed, found.skipped, found.networked) == (1, 1, 1, 1)
    assert found.failures == (TestFailure(test=FAR, message="no", source="tests/test_a.py:7"),)
    assert (events.runner, events.running) == ("pytest", ("tests/test_a.py::test_slow",))
    assert count_events(path) == (4, 1)
    assert read_events(tmp_path / "none", ROOT) is None
    (tmp_path / "link").symlink_to(path)
    assert read_events(tmp_path / "link", ROOT) is None


def test_counts_that_node_tells_win_over_a_sum(tmp_path):
    end = {"event": "end", "outcome": "failed", "place": ["/copy/project/a.test.js", 3], "name": "bad"}
    path = write(
        tmp_path / "events.jsonl",
        {"event": "runner", "name": "node:test"},
        {
            **end,
            "test": "a",
            "message": "1 == 2",
            "text": "Error\n    at x (file:///copy/project/a.test.js:5:9)",
        },
        {**end, "test": "b", "nested": True, "name": "group"},
        {"event": "counts", "counts": {"pass": 6, "fail": 1, "cancelled": 1, "skipped": 1, "todo": 1}},
    )
    events = read_events(path, ROOT)
    assert events is not None
    assert (events.results.passed, events.results.failed, events.results.skipped) == (6, 2, 2)
    assert [(each.test, each.source) for each in events.results.failures] == [("bad", "a.test.js:5")]


GO = """\
{"Action":"start","Package":"example.org/cart"}
{"Action":"run","Package":"example.org/cart","Test":"TestAdd"}
{"Action":"run","Package":"example.org/cart","Test":"TestAdd/one"}
{"Action":"output","Package":"example.org/cart","Test":"TestAdd/one","Output":"    cart_test.go:9: got 2\\n"}
{"Action":"fail","Package":"example.org/cart","Test":"TestAdd/one","Elapsed":0}
{"Action":"pass","Package":"example.org/cart","Test":"TestAdd/two","Elapsed":0}
{"Action":"fail","Package":"example.org/cart","Test":"TestAdd","Elapsed":0}
{"Action":"skip","Package":"example.org/cart","Test":"TestLater","Elapsed":0}
{"Action":"fail","Package":"example.org/cart","Elapsed":0.1}
# example.org/pay
{"Action":"fail","Package":"example.org/pay","Elapsed":0}
{"Action":"run","Package":"example.org/post","Test":"TestHangs"}
"""


def test_go():
    lines = parse_go(GO)
    results = read_go_results(lines, ROOT)
    assert results is not None
    assert (results.passed, results.failed, results.skipped, results.errors) == (1, 1, 1, 1)
    assert [(each.test, each.message, each.source) for each in results.failures] == [
        ("example.org/cart.TestAdd/one", "got 2", "cart_test.go:9"),
        ("example.org/pay", "the package was not tested", "example.org/pay"),
    ]
    assert list_running(lines) == ["example.org/post.TestHangs"]
    assert format_go(lines) == "    cart_test.go:9: got 2\n"


def test_jest(tmp_path):
    case = {
        "fullName": "adds",
        "status": "failed",
        "failureMessages": [f"Error: no\n{AT}"],
    }
    passing = [{"fullName": "x", "status": "passed"}, {"fullName": "y", "status": "pending"}]
    report = {
        "numTotalTests": 3,
        "testResults": [
            {"name": "/copy/project/a.test.js", "status": "failed", "assertionResults": [case, *passing]},
            {
                "name": "/copy/project/b.test.js",
                "status": "failed",
                "message": "SyntaxError",
                "assertionResults": [],
            },
        ],
    }
    (tmp_path / "jest.json").write_text(json.dumps(report))
    found = collect(COMMAND, invocation(tmp_path), "", ROOT, 0.0, stopped=False)
    assert found.counted_by == "JSON of Jest"
    assert found.results is not None
    assert (found.results.passed, found.results.failed, found.results.skipped) == (1, 1, 1)
    assert found.results.errors == 1
    assert [(each.test, each.message, each.source) for each in found.results.failures] == [
        ("a.test.js › adds", "Error: no", "a.test.js:3"),
        ("b.test.js", "SyntaxError", "b.test.js"),
    ]


def invocation(folder: Path) -> Invocation:
    names = {name: folder / file for name, file in (("events", "e"), ("junit", "j"), ("jest", "jest.json"))}
    return Invocation(argv=("x",), line="x", cwd=folder, env={}, readable=(), writable=(), **names)


def test_reports_that_the_build_left_are_found_unless_they_are_older(tmp_path):
    folder = tmp_path / "core" / "target" / "surefire-reports"
    folder.mkdir(parents=True)
    report = '<testsuite tests="1"><testcase classname="a.B" name="c"/></testsuite>'
    (folder / "TEST-a.B.xml").write_text(report)
    command = TestCommand(runner="java", argv=("mvn", "test"), found="pom.xml:1")
    written = (folder / "TEST-a.B.xml").stat().st_mtime
    found = collect(command, invocation(tmp_path), "", tmp_path, written, stopped=False)
    assert (found.results and found.results.passed, found.counted_by) == (1, "JUnit report")
    assert collect(command, invocation(tmp_path), "", tmp_path, written + 60, stopped=False).results is None


def test_what_says_that_there_is_no_network():
    for text in (
        "requests.exceptions.ConnectionError: Failed to resolve 'x' ([Errno -2] Name or service not known)",
        "Error: getaddrinfo EAI_AGAIN example.org",
        "dial tcp: lookup example.org: no such host",
        "OSError: [Errno 101] Network is unreachable",
    ):
        assert needs_network(text)
    assert not needs_network("ConnectionRefusedError: [Errno 111] Connection refused")


@pytest.mark.parametrize(
    ("output", "names", "problem", "cure"),
    [
        (
            "Can't locate File/Next.pm in @INC (you may need to install the File::Next module)",
            (),
            "The tests need the Perl module File::Next, which is not here",
            "apt install libfile-next-perl or cpanm File::Next",
        ),
        (
            "DEBUG [framework.browserify]: cleaning up",
            ("mocha test.js", "karma start --single-run"),
            "No test failed, but its step `karma start --single-run` drives a browser, and the jail has none",
            "Run it outside of Mailroom",
        ),
        (
            "the end",
            ("mocha test.js", "xo"),
            "No test failed, but the command ended with exit code 1: the end",
            "",
        ),
    ],
)
def test_a_step_that_cannot_run_here_is_named(tmp_path, output, names, problem, cure):
    command = TestCommand(runner="any", argv=("x",), found="a:1", names=frozenset(names))
    result = CommandResult(argv=("x",), exit_code=1, output=output, seconds=1.0)
    found = diagnose(command, result, Results(passed=7, failed=0, skipped=0, errors=0), tmp_path)
    assert found[0] == problem
    assert cure in found[1]


def test_sums_of_suites():
    one = TestSuite(
        command="pytest", found="a:1", exit_code=0, passed=3, failed=0, skipped=1, errors=0, seconds=1.0
    )
    failed = TestSuite(command="npm test", found="b:1", exit_code=1, passed=1, failed=2, skipped=0, errors=0)
    broken = TestSuite(command="go test", found="c:1", problem="go is not installed", cure="Install it")
    run = add_suites([one, failed])
    assert (run.passed, run.failed, run.skipped, run.exit_code) == (4, 2, 1, 1)
    assert (run.command, outcome_of(run)) == ("pytest; npm test", ResultOutcome.FINDINGS)
    assert outcome_of(add_suites([one])) is ResultOutcome.DONE
    partly = add_suites([one, broken])
    assert (partly.passed, partly.problem) == (3, "`go test`: go is not installed")
    assert outcome_of(partly) is ResultOutcome.NOT_CHECKED
    silent = TestSuite(command="make check", found="d:1", exit_code=0, problem=UNCOUNTED)
    quiet = add_suites([one, silent])
    assert (quiet.passed, quiet.problem, outcome_of(quiet)) == (3, "", ResultOutcome.DONE)
    assert quiet.notes == ("`make check` ended well, and does not tell how many tests ran",)
    assert add_suites([silent]).problem == UNCOUNTED
    assert add_suites([broken]).passed == -1
    text = format_tests(add_suites([broken]))
    assert text.startswith("The tests could not be run: go is not installed.\nInstall it.\n")


def test_what_was_not_run_is_in_the_text():
    left = NotChecked(what="npm run e2e", why="it drives a browser", cure="x")
    suite = TestSuite(command="pytest", found="a:1", exit_code=0, passed=3, failed=0, skipped=0, errors=0)
    run = add_suites([suite])
    text = format_tests(msgspec.structs.replace(run, not_run=(left,)))
    assert "Not run:\n- npm run e2e: it drives a browser" in text
