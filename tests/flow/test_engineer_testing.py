"""Running the tests of real little projects."""

import asyncio
import platform
import re
import shutil
import sys
import uuid
from pathlib import Path

import psutil
import pytest

from services.engineer.report import cite_tests, format_tests, outcome_of
from services.engineer.testing import NAME_ONE, NOTHING_FOUND
from shared.contracts import ResultOutcome
from tests.support.python import make_environment
from tests.support.testing import lay_out, make_runner


@pytest.fixture(scope="session")
def environment(tmp_path_factory) -> Path:
    return make_environment(tmp_path_factory.mktemp("python"), "pytest")


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def run(tmp_path, environment, notes):
    return make_runner(tmp_path, environment, notes)


QUICK = "[pytest]\n"
PROJECT = {
    "pyproject.toml": '[tool.pytest.ini_options]\nfilterwarnings = ["error"]\n',
    "src/adder/__init__.py": "def add(a, b):\n    return a + b\n",
    "tests/test_add.py": """\
import os

import pytest

import adder


def test_adds():
    assert adder.add(1, 2) == 3


class TestMore:
    def test_is_wrong(self):
        assert adder.add(1, 2) == 4, "one and two"


@pytest.mark.skip
def test_later():
    pass


@pytest.fixture
def broken():
    raise ValueError("no")


def test_not_set_up(broken):
    pass


def test_copy():
    assert "canary" not in str(dict(os.environ))
    assert "/place/" in adder.__file__
    open("rubbish", "w").close()
""",
}


async def test_pytest_exactly_counted(run, tmp_path, monkeypatch):
    monkeypatch.setenv("MAILROOM_CANARY", "canary")
    result = await run(PROJECT)
    assert (result.passed, result.failed, result.skipped, result.errors) == (2, 1, 1, 1)
    assert (result.exit_code, result.timed_out, result.problem) == (1, False, "")
    assert result.command == "python -m pytest"
    assert result.found == "pyproject.toml:1 (settings of pytest)"
    assert result.interpreter == f"CPython {platform.python_version()}"
    assert (result.counted_by, len(result.suites)) == ("reporter of pytest", 1)
    assert outcome_of(result) is ResultOutcome.FINDINGS
    assert [(each.test, each.source) for each in result.failures] == [
        ("tests/test_add.py::TestMore::test_is_wrong", "tests/test_add.py:14"),
        ("tests/test_add.py::test_not_set_up", "tests/test_add.py:24"),
    ]
    assert "one and two" in result.failures[0].message
    log = Path(result.log_path)
    assert log == tmp_path / "out" / "tests.log"
    assert "1 failed, 2 passed, 1 skipped, 1 error in" in log.read_text()
    assert not (tmp_path / "project" / "rubbish").exists()
    told = format_tests(result, ("escape (a link that leads outside the folder)",))
    assert told.startswith("Tests: 2 passed, 1 failed, 1 error, 1 skipped in ")
    assert f" with CPython {platform.python_version()} (pytest, from pyproject.toml:1)" in told
    assert "tests/test_add.py:14" in told
    assert "escape" in told
    assert cite_tests(result) == (
        "pyproject.toml:1",
        "tests/test_add.py:14",
        "tests/test_add.py:24",
        str(log),
    )


async def test_a_module_that_is_missing_is_a_finding_with_its_cure(run):
    result = await run({"pytest.ini": QUICK, "test_a.py": "import os\nimport adder_not_there.x\n"})
    assert (result.passed, result.errors, result.exit_code) == (0, 1, 2)
    assert result.failures[0].source == "test_a.py:2"
    assert "need the Python module adder_not_there" in result.problem
    assert "pip install adder_not_there" in result.cure


async def test_a_plugin_that_is_missing_is_a_finding_with_its_cure(run):
    result = await run(
        {"pytest.ini": "[pytest]\naddopts = --cov=adder --reruns 2\n", "test_a.py": "def test_a(): ...\n"}
    )
    assert (result.passed, result.exit_code) == (-1, 4)
    assert "pip install pytest-cov pytest-rerunfailures" in result.cure
    assert outcome_of(result) is ResultOutcome.NOT_CHECKED


async def test_a_test_that_hangs_is_named_and_the_others_run(run):
    sleep = 1000 + uuid.uuid4().int % 1_000_000_000
    text = f"""\
import subprocess, time
def test_one(): pass
def test_bad(): assert 0
def test_hangs():
    subprocess.Popen(["sleep", "{sleep}"], start_new_session=True)
    time.sleep(100)
def test_after(): pass
"""
    result = await run({"pytest.ini": QUICK, "test_a.py": text}, one=2.0)
    assert (result.passed, result.failed, result.timed_out) == (2, 2, False)
    assert result.hung == ("test_a.py::test_hangs",)
    hanging = result.failures[-1]
    assert (hanging.source, hanging.message) == ("test_a.py:6", "Failed: The test did not end within 2 s")
    assert "Did not end in time:\n- test_a.py::test_hangs" in format_tests(result)
    assert str(sleep) not in str([process.info["cmdline"] for process in psutil.process_iter(["cmdline"])])


async def test_a_command_without_progress_is_stopped_and_its_last_line_told(run):
    files = {"Makefile": "test:\n\t@echo ok 1 - fast; echo starts slow; sleep 500\n"}
    result = await run(files, one=1.0)
    assert result.timed_out
    assert result.seconds < 20
    assert result.passed == 1
    assert re.fullmatch(
        r"The tests were stopped after \d+ seconds after the line: .*; until then 1 had passed",
        result.problem,
    )


async def test_what_takes_too_long_as_a_whole_is_stopped_and_what_ran_is_named(run, notes, monkeypatch):
    monkeypatch.setattr("services.engineer.invocation.TELL_EVERY", 1.0)
    text = "import time\ndef test_one(): pass\ndef test_two(): time.sleep(100)\n"
    result = await run({"pytest.ini": QUICK, "test_a.py": text}, seconds=6.0)
    assert result.timed_out
    assert (result.passed, result.hung) == (1, ("test_a.py::test_two",))
    assert "seconds in test_a.py::test_two; until then 1 had passed" in result.problem
    assert any(re.fullmatch(r"1 tests so far, 0 failed \(\d s\)", note) for note in notes)
    assert outcome_of(result) is ResultOutcome.FINDINGS


async def test_what_passes_the_second_time_is_flaky(run):
    text = """\
import pathlib
def test_flaky():
    mark = pathlib.Path(__file__).with_name("mark")
    first = not mark.exists()
    mark.touch()
    assert not first
def test_bad(): assert 0
"""
    result = await run({"pytest.ini": QUICK, "test_a.py": text})
    assert (result.passed, result.failed) == (1, 1)
    assert result.flaky == ("test_a.py::test_flaky",)
    assert [each.test for each in result.failures] == ["test_a.py::test_bad"]


async def test_pytest_s_own_words_are_counted_as_pytest_counts(run):
    text = """\
import pytest
@pytest.mark.xfail
def test_x(): assert 0
@pytest.mark.xfail
def test_y(): pass
@pytest.fixture
def torn():
    yield
    raise ValueError
def test_z(torn): pass
"""
    files = {
        "pytest.ini": QUICK,
        "test_a.py": text,
        "test_b.py": "import pytest\npytest.skip(allow_module_level=True)\n",
    }
    result = await run(files)
    assert "1 passed, 1 skipped, 1 xfailed, 1 xpassed, 1 error in" in Path(result.log_path).read_text()
    assert (result.passed, result.failed, result.skipped, result.errors) == (2, 0, 2, 1)


RERUNS = """\
import pytest
from _pytest.runner import runtestprotocol
@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    if any(each.failed for each in reports):
        for each in reports:
            each.outcome = "rerun" if each.failed else each.outcome
            item.ihook.pytest_runtest_logreport(report=each)
        item._initrequest()
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for each in reports:
        item.ihook.pytest_runtest_logreport(report=each)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
def pytest_report_teststatus(report):
    return ("rerun", "R", "RERUN") if report.outcome == "rerun" else None
"""
PARTS = """\
import unittest
class T(unittest.TestCase):
    def test_two_of_four(self):
        for i in range(4):
            with self.subTest(i=i): self.assertEqual(i % 2, 0)
    def test_all(self):
        for i in range(3):
            with self.subTest(i=i): pass
    @unittest.expectedFailure
    def test_unexpected(self): pass
"""


LOOP = "def test_a(subtests):\n    for i in range(4):\n        with subtests.test(i=i): assert i"
TORN = "class TestA:\n    def teardown_method(self): raise OSError('torn')\n    def test_a(self): pass\n"


@pytest.mark.parametrize(
    ("files", "counts", "message"),
    [
        ({"test_a.py": f"{LOOP} % 2\n"}, (0, 1, 0), "assert (0 % 2)"),
        ({"test_a.py": f"{LOOP} < 4\n"}, (1, 0, 0), ""),
        ({"test_a.py": f"{LOOP} < 3\n    assert 1 == 2\n"}, (0, 1, 0), "assert 3 < 3"),
        ({"test_a.py": PARTS}, (1, 2, 0), "1 != 0"),
        (
            {"conftest.py": RERUNS, "test_a.py": "n = []\ndef test_a(): n.append(1); assert n[1:]\n"},
            (1, 0, 0),
            "",
        ),
        ({"conftest.py": RERUNS, "test_a.py": TORN}, (1, 0, 1), "torn"),
    ],
)
async def test_each_test_counts_once(run, files, counts, message):
    result = await run({"pytest.ini": QUICK, **files})
    assert (result.passed, result.failed, result.errors) == counts
    assert len({each.test for each in result.failures}) == len(result.failures) == sum(counts[1:])
    assert message in " ".join(each.message for each in result.failures)


@pytest.mark.parametrize(
    ("files", "place", "message"),
    [
        ({"a.py": "\ndef f(:\n", "test_a.py": "import a\n"}, "a.py:2", "SyntaxError"),
        ({"a.py": "import nothing_like_this\n", "test_a.py": "import a\n"}, "a.py:1", "nothing_like_this"),
        (
            {"a.py": "x = 1\nraise ValueError('no')\n", "test_a.py": "\nimport a\n"},
            "a.py:2",
            "ValueError: no",
        ),
        ({"test_a.py": "def test_a(:\n"}, "test_a.py:1", "SyntaxError"),
        ({"one/test_a.py": "", "two/test_a.py": ""}, "", "import file mismatch"),
        (
            {"p/__init__.py": "from p import gone\n", "test_a.py": "import p\n"},
            "p/__init__.py:1",
            "cannot import name",
        ),
    ],
)
async def test_what_cannot_be_collected_is_placed_where_it_breaks(run, files, place, message):
    result = await run({"pytest.ini": QUICK, **files})
    (failure,) = result.failures
    assert message in failure.message
    assert failure.source.endswith(place)


async def test_skips_are_told_with_their_reasons(run):
    text = """\
import pytest
@pytest.mark.skip(reason="no display")
def test_a(): pass
@pytest.mark.parametrize("n", range(3))
def test_b(n): pytest.skip("no translations")
def test_c(): pytest.importorskip("nothing_like_this")
"""
    result = await run({"pytest.ini": QUICK, "test_a.py": text})
    assert result.skipped == 5
    assert result.notes[0].startswith("Skipped: no translations (3), no display (1)")


async def test_the_variant_of_ci_that_skips_fewer_counts(run):
    steps = "      - run: pytest\n      - run: pytest --run-slow\n      - run: pytest --broken\n"
    conftest = """\
import pytest
def pytest_addoption(parser):
    parser.addoption("--run-slow", action="store_true")
    parser.addoption("--broken", action="store_true")
def pytest_collection_modifyitems(config, items):
    if not config.getoption("--run-slow"):
        items[0].add_marker(pytest.mark.skip(reason="slow"))
"""
    files = {
        ".github/workflows/test.yml": f"on: push\njobs:\n  t:\n    steps:\n{steps}",
        "pytest.ini": QUICK,
        "conftest.py": conftest,
        "test_a.py": "def test_a(): pass\ndef test_b(): pass\n",
    }
    result = await run(files)
    assert (result.passed, result.skipped, result.command) == (2, 0, "pytest --run-slow")
    assert "the variant of CI that skips fewer tests" in result.notes[-1]


async def test_what_passes_alone_is_flaky_for_every_runner(run):
    body = """\
import os, unittest
class T(unittest.TestCase):
    def test_bad(self): self.fail()
    def test_slow(self):
        seen = os.path.exists("seen")
        open("seen", "w").close()
        self.assertTrue(seen)
"""
    result = await run({"test_a.py": body})
    assert (result.passed, result.failed, result.flaky) == (1, 1, ("test_a.T.test_slow",))


async def test_what_is_built_before_the_tests_may_fail(run, tmp_path):
    calls = ("./made.sh", "touch seen{1,2}", "cp se*2 copied", "bash broken.sh", "sh gone/make.sh")
    steps = "".join(f"      - run: {call}\n" for call in (*calls, "python -m unittest"))
    there = "all(map(os.path.exists, ('made2', 'seen2', 'copied')))"
    files = {
        ".github/workflows/test.yml": f"on: push\njobs:\n  t:\n    steps:\n{steps}",
        "broken.sh": "nothing-like-this\n",
        "test_a.py": "import os, unittest\nclass T(unittest.TestCase):\n"
        f"    def test_a(self): self.assertTrue({there})\n",
    }
    # CI runs its steps by bash, and so a script that does not say by what.
    lay_out(tmp_path / "project", {"made.sh": "touch made{1,2}\n"})
    (tmp_path / "project/made.sh").chmod(0o755)
    result = await run(files)
    assert (result.passed, result.failed) == (1, 0)
    said = "`bash broken.sh`, a step before the tests, failed: it needs nothing-like-this"
    assert result.notes[0].startswith(said)


async def test_failures_for_want_of_a_network_are_told(run):
    text = """\
import socket
def test_far(): socket.create_connection(("example.org", 80))
def test_bad(): assert 0
def test_near():
    server = socket.create_server(("127.0.0.1", 0))
    socket.create_connection(server.getsockname())
"""
    result = await run({"pytest.ini": QUICK, "test_a.py": text})
    assert (result.passed, result.failed) == (1, 2)
    assert result.notes[0].startswith("1 of 2 failures needs a network.")


async def test_each_command_of_the_ci_is_a_suite(run):
    test = "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): pass\n"
    steps = "".join(
        f"      - run: {step}\n"
        for step in ("cd one && pytest", "python -m unittest discover two", "pytest -v one")
    )
    workflow = f"on: push\njobs:\n  a:\n    runs-on: ubuntu-latest\n    steps:\n{steps}"
    files = {
        ".github/workflows/ci.yml": workflow,
        "one/test_a.py": "def test_a(): pass\n",
        "two/test_b.py": test,
    }
    result = await run(files)
    assert [(each.folder, each.command, each.passed, each.counted_by) for each in result.suites] == [
        ("one", "pytest", 1, "reporter of pytest"),
        (".", "python -m unittest discover two", 1, "reporter of unittest"),
        (".", "pytest -v one", 1, "reporter of pytest"),
    ]
    assert (result.passed, result.failed, result.problem) == (3, 0, "")
    assert "Test commands:\n- `pytest` in one: 1 passed" in format_tests(result)


async def test_no_tests_in_what_pytest_finds(run):
    result = await run({"pytest.ini": QUICK, "a.py": ""})
    assert (result.passed, result.failed, result.exit_code) == (0, 0, 5)
    assert result.problem == "The command found no tests to run"


async def test_no_way_to_test_and_no_sense_in_the_way_stated(run):
    result = await run({"notes.csv": "x"})
    assert (result.problem, result.cure, result.command, result.passed) == (NOTHING_FOUND, NAME_ONE, "", -1)
    result = await run({".mailroom.yaml": "test: 5\n"})
    assert result.problem.startswith(".mailroom.yaml:1: test must be a command")
    assert cite_tests(result) == ()


async def test_the_projects_own_environment_is_used_where_it_lies(run, tmp_path):
    python = lay_out(
        tmp_path / "project", {".venv/bin/python": f'#!/bin/sh\nUSED=own exec {sys.executable} "$@"\n'}
    )
    (python / ".venv" / "bin" / "python").chmod(0o755)
    test = """\
import os, unittest
class T(unittest.TestCase):
    def test_a(self): self.assertEqual(os.environ['USED'], 'own')
"""
    result = await run({"test_a.py": test})
    assert (result.command, result.passed) == ("python -m unittest discover", 1)
    assert result.problem == ""


async def test_mailroom_s_own_environment_is_never_lent(run):
    text = f"import sys\ndef test_a(): assert sys.prefix != {sys.prefix!r}\n"
    result = await run({"pytest.ini": "[pytest]\n", "test_a.py": text}, bare=True)
    if result.passed < 0:  # the machine's own Python need not have pytest
        assert result.problem == "The tests need the Python module pytest, which the environment lacks"
        assert "pip install pytest" in result.cure
    else:
        assert (result.passed, result.failed) == (1, 0)


async def test_unittest(run):
    test = """\
import unittest
class T(unittest.TestCase):
    def test_good(self): pass
    def test_bad(self): self.assertEqual(1, 2)
    @unittest.skip("no")
    def test_later(self): pass
"""
    result = await run({"tests/__init__.py": "", "tests/test_a.py": test})
    assert (result.passed, result.failed, result.skipped, result.errors) == (1, 1, 1, 0)
    assert result.failures[0].source == "tests/test_a.py:4"


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
async def test_node(run):
    test = """\
const test = require('node:test');
const assert = require('assert');
test('good', () => {});
test('later', { skip: true }, () => {});
test('bad', () => {
  assert.equal(1, 2);
});
"""
    package = '{\n  "scripts": {\n    "test": "node --test"\n  }\n}\n'
    result = await run({"package.json": package, "a.test.js": test})
    assert (result.passed, result.failed, result.skipped) == (1, 1, 1)
    assert result.counted_by in ("reporter of node:test", "console text")  # the first from Node.js 20 on
    assert result.found == "package.json:3 (scripts.test: node --test)"
    assert [(each.test, each.source) for each in result.failures] == [("bad", "a.test.js:6")]


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
async def test_node_without_its_packages(run):
    package = '{"scripts": {"test": "mocha-not-there"}, "devDependencies": {"mocha-not-there": "*"}}'
    result = await run({"package.json": package})
    assert (result.passed, result.exit_code) == (-1, 127)
    assert result.problem == "The program mocha-not-there is not installed"
    result = await run(
        {"package.json": '{"scripts": {"test": "node t.js"}}', "t.js": "require('@x/left-pad')"}
    )
    assert result.problem == "The Node package @x/left-pad is not installed"
    assert result.cure == "Run npm install in the repository"


@pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not installed")
async def test_cargo(run):
    code = "#[cfg(test)]\nmod tests {\n#[test]\nfn good() {}\n#[test]\nfn bad() { assert!(false); }\n}\n"
    result = await run({"Cargo.toml": '[package]\nname = "x"\nversion = "0.1.0"\n', "src/lib.rs": code})
    assert (result.passed, result.failed) == (1, 1)
    assert result.failures[0].source == "src/lib.rs:6"
    broken = await run({"src/lib.rs": "fn x( {}\n"})
    assert broken.passed == -1
    assert "exit code 101: error: could not compile" in broken.problem


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
async def test_output_that_tells_no_counts(run):
    result = await run({"Makefile": "test:\n\t@echo fine\n"})
    assert (result.exit_code, result.passed) == (0, -1)
    assert result.problem == "The command succeeded, but its output does not tell how many tests ran"
    result = await run({"Makefile": "test:\n\t@echo bad; exit 3\n"})
    assert result.exit_code == 2
    assert result.problem.startswith("Nothing was counted: the command ended with exit code 2: make: ***")
    result = await run({"Makefile": "test:\n\t@echo '3 passed in 0.10s'; exit 1\n"})
    assert (result.passed, result.failed) == (3, 0)
    assert result.problem.startswith("No test failed, but the command ended with exit code 2")


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
async def test_a_program_that_is_missing_behind_make_is_named(run):
    result = await run({"Makefile": "test:\n\t@echo builds\n\tno-such-tool --all\n"})
    assert (result.problem, result.exit_code) == ("The program no-such-tool is not installed", 2)
    result = await run({"Makefile": "test:\n\t@sh -c 'gradle test'\n"})
    if shutil.which("gradle") is None:
        assert result.problem == "The program gradle is not installed"
        assert result.cure == "Install gradle (apt install gradle or brew install gradle)"


async def test_a_program_that_is_not_there(run):
    result = await run({".mailroom.yaml": "test: no-such-runner --all\n"})
    assert result.problem == "The program no-such-runner is not installed"
    assert result.command == "no-such-runner --all"


async def test_output_without_end_is_in_the_log(run):
    script = "import sys\nfor _ in range(60_000): print('x' * 100)\nprint('7 passed in 0.10s')\n"
    result = await run({".mailroom.yaml": "test: python3 big.py\n", "big.py": script})
    assert (result.passed, result.problem) == (7, "")
    assert Path(result.log_path).stat().st_size == 60_000 * 101 + 18


async def test_cancelling_leaves_nothing_behind(run, tmp_path):
    sleep = f"{1000 + uuid.uuid4().int % 1_000_000_000}"
    running = asyncio.create_task(run({".mailroom.yaml": f"test: sleep {sleep}\n"}))

    def asleep() -> bool:
        return ["sleep", sleep] in [process.info["cmdline"] for process in psutil.process_iter(["cmdline"])]

    async with asyncio.timeout(20):
        while not await asyncio.to_thread(asleep):
            await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not asleep()
    assert not (tmp_path / "place").exists()


async def test_settings_of_folders_above_are_not_the_project_s(run, tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\naddopts = '--no-such-option'\n")
    result = await run({"test_it.py": "def test_bad():\n    assert False\n"})
    assert result.failed == 1
    assert result.failures[0].test == "test_it.py::test_bad"


@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")
async def test_ctest(run):
    cmake = """\
cmake_minimum_required(VERSION 3.10)
project(x NONE)
option(X_BUILD_TESTS "Build the tests" OFF)
if(X_BUILD_TESTS)
  enable_testing()
  add_test(NAME good COMMAND ${CMAKE_COMMAND} -E true)
  add_test(NAME bad COMMAND ${CMAKE_COMMAND} -E false)
endif()
"""
    result = await run({"CMakeLists.txt": cmake, "Makefile": "test:\n\t@echo 5 passed in 0.1s\n"})
    assert (result.passed, result.failed, result.counted_by) == (1, 1, "JUnit report")
    assert result.found == "CMakeLists.txt:5 (tests of CTest)"
    assert [each.test for each in result.failures] == ["bad"]
