"""Runs of tests that end before their end: whatever ended them, they are never taken for whole."""

import json
import shutil
from pathlib import Path

import pytest

from services.engineer.console_results import parse_cargo
from services.engineer.report import format_headline, outcome_of
from services.engineer.results import parse_go, read_go_results
from shared.contracts import ResultOutcome, TestRun
from tests.support.python import make_environment
from tests.support.testing import make_runner

THREE = """\
{imports}
def test_a(): pass
def test_b(): {body}
def test_c(): assert 0
"""
needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")


@pytest.fixture(scope="session")
def environment(tmp_path_factory) -> Path:
    return make_environment(tmp_path_factory.mktemp("python"), "pytest", "pytest-xdist")


@pytest.fixture
def run(tmp_path, environment):
    return make_runner(tmp_path, environment)


def three(body: str, imports: str = "import os, sys, signal, threading, time, pytest, faulthandler") -> str:
    return THREE.format(body=body, imports=imports)


def is_cut(result: TestRun, *said: str) -> None:
    assert result.incomplete, result
    for text in said:
        assert text in result.problem, result
    assert format_headline(result).startswith(("Tests, incomplete: ", "The tests could not be run: "))
    expected = ResultOutcome.FINDINGS if result.failed or result.errors else ResultOutcome.NOT_CHECKED
    assert outcome_of(result) is expected


IN_B = ("The run ended in test_a.py::test_b; what it had not come to ran by itself",)


@pytest.mark.parametrize(
    "body",
    [
        "os._exit(0)",
        "pytest.exit('enough', returncode=0)",
        "os.kill(os.getpid(), signal.SIGKILL)",
        "os.abort()",
        "os.kill(os.getpid(), signal.SIGSEGV)",
        "os.execvp('true', ['true'])",
        "(threading.Thread(target=os._exit, args=(0,)).start(), time.sleep(30))",
        "(os.write(1, b'\\n========= 3 passed in 0.10s =========\\n'), os._exit(0))",
        "(os.write(1, b'\\n3 passed in 0.10s\\n'), os._exit(0))",
        "(faulthandler.dump_traceback_later(0.1, exit=True), time.sleep(30))",
    ],
)
async def test_a_process_that_a_test_ends(run, body):
    result = await run({"pytest.ini": "[pytest]\n", "test_a.py": three(body)})
    is_cut(result, *IN_B)
    assert (result.passed, result.failed) == (1, 1)
    assert [each.test for each in result.failures] == ["test_a.py::test_c"]


@pytest.mark.parametrize(
    ("conftest", "said"),
    [
        ("raise SystemExit(0)", ""),
        ("import os; os._exit(0)", ""),
        ("import os; print('3 passed in 0.10s', flush=True); os._exit(0)", ""),
        ("def pytest_sessionstart(session):\n    import pytest; pytest.exit('x', returncode=0)", ""),
        ("def pytest_collection_finish(session):\n    import os; os._exit(0)", ""),
        ("def pytest_sessionfinish(session):\n    import os; os._exit(0)", "did not say that it ended"),
        (
            "def pytest_runtest_teardown(item):\n    import os\n    if 'b' in item.name: os._exit(0)",
            "test_a.py::test_b; what it had not come to ran by itself",
        ),
        (
            "import os, pytest\n@pytest.fixture(autouse=True, scope='session')\n"
            "def x():\n    yield\n    os._exit(0)",
            "The run ended in test_a.py::test_c",
        ),
        (
            "def pytest_sessionstart(session):\n"
            "    session.config.pluginmanager.unregister(name='mailroom-reporter')",
            "",
        ),
    ],
)
async def test_a_conftest_that_ends_the_process(run, conftest, said):
    files = {"pytest.ini": "[pytest]\n", "conftest.py": conftest, "test_a.py": "def test_a(): ...\n"}
    files["test_a.py"] += "def test_b(): ...\ndef test_c(): ...\n"
    result = await run(files)
    assert outcome_of(result) is ResultOutcome.NOT_CHECKED
    assert said in result.problem
    assert result.problem
    assert result.incomplete or result.passed < 0


async def test_what_a_project_deselects_is_told(run):
    conftest = "def pytest_collection_modifyitems(items):\n    del items[1:]\n"
    result = await run({"pytest.ini": "[pytest]\n", "conftest.py": conftest, "test_a.py": three("pass")})
    assert (result.passed, result.incomplete) == (1, False)
    assert "2 collected tests not selected, by the project's own settings" in result.notes


async def test_an_internal_error_is_never_a_count_of_the_whole(run):
    conftest = "def pytest_runtest_logfinish(nodeid):\n    if 'b' in nodeid: raise RuntimeError('inside')\n"
    text = "def test_0(): assert 0\ndef test_b(): pass\n" + "".join(
        f"def test_{n}(): pass\n" for n in range(1, 20)
    )
    result = await run({"pytest.ini": "[pytest]\n", "conftest.py": conftest, "test_a.py": text})
    is_cut(result, "pytest ended with an internal error", "19 tests never ran")
    assert (result.exit_code, result.passed, result.failed) == (3, 1, 1)


async def test_files_that_cannot_be_collected_make_a_run_incomplete(run):
    files = {"pytest.ini": "[pytest]\n", "test_a.py": "1 / 0\n", "test_b.py": "def test_b(): pass\n"}
    result = await run(files)
    is_cut(result, "pytest could not collect the tests of 1 file; what it had not come to ran by itself")
    assert (result.exit_code, result.errors, result.passed) == (2, 1, 1)


async def test_a_run_that_breaks_off_again_and_again_goes_on(run):
    bodies = ["pass", "os._exit(0)", "pass", "os.abort()", "assert 0", "pass", "os._exit(3)"]
    text = "import os\n" + "".join(f"def test_{n}(): {body}\n" for n, body in enumerate(bodies))
    result = await run({"pytest.ini": "[pytest]\n", "test_a.py": text})
    is_cut(result, "test_a.py::test_1", "test_a.py::test_3", "test_a.py::test_6")
    assert (result.passed, result.failed) == (3, 1)
    assert "never ran" not in result.problem


async def test_a_first_failure_that_ends_the_run(run):
    files = {"pytest.ini": "[pytest]\naddopts = -x\n", "test_a.py": three("assert 0")}
    is_cut(await run(files), "The run ended early: 1 test never ran")


async def test_workers_that_end_are_failures_or_cut(run):
    ini = "[pytest]\naddopts = -n 2 {}\n"
    dies = {"pytest.ini": ini.format(""), "test_a.py": three("os._exit(0)")}
    result = await run(dies)
    assert (result.passed, result.failed, result.incomplete) == (1, 2, False)
    assert outcome_of(result) is ResultOutcome.FINDINGS
    result = await run(
        {**dies, "pytest.ini": ini.format("--max-worker-restart=0"), "test_z.py": three("pass")}
    )
    assert outcome_of(result) is ResultOutcome.FINDINGS
    assert result.failed
    everywhere = {"conftest.py": "import os\ndef pytest_sessionfinish():\n    os._exit(0)\n"}
    is_cut(await run({**dies, "pytest.ini": ini.format(""), **everywhere}))


UNIT = """\
import os, sys, unittest
class T(unittest.TestCase):
    def test_a(self): pass
    def test_b(self): {body}
    def test_c(self): self.fail()
"""


@pytest.mark.parametrize(
    "body", ["os._exit(0)", "os.abort()", "(os.write(1, b'\\nRan 3 tests in 0.1s\\n\\nOK\\n'), os._exit(0))"]
)
async def test_unittest_that_a_test_ends(run, body):
    result = await run({"test_a.py": UNIT.format(body=body)}, bare=True)
    is_cut(result, "The run ended in test_a.T.test_b; what it had not come to ran by itself")
    assert (result.passed, result.failed, result.counted_by) == (1, 1, "reporter of unittest")


async def test_unittest_that_a_module_ends(run):
    test = UNIT.format(body="pass") + "def setUpModule():\n    sys.exit(0)\n"
    result = await run({"test_a.py": test}, bare=True)
    is_cut(result, "3 tests never ran")
    test = UNIT.format(body="pass").replace("def test_c(self): self.fail()", "")
    skipped = "class S(T):\n    @classmethod\n    def setUpClass(cls): raise unittest.SkipTest('no')\n"
    result = await run({"test_a.py": test + skipped}, bare=True)
    assert (result.passed, result.skipped, result.incomplete) == (2, 1, False)


async def test_what_make_runs_is_cut_too(run):
    makefile = "test:\n\tpython -m pytest -q test_a.py; python -m pytest -q test_b.py; exit 0\n"
    stated = "test: make test\n"
    files = {
        ".mailroom.yaml": stated,
        "Makefile": makefile,
        "test_a.py": three("os._exit(0)"),
        "test_b.py": "def test_z(): ...\n",
    }
    result = await run(files)
    is_cut(result, "The run ended in test_a.py::test_b, 1 test never ran")
    assert result.passed == 2
    suite = "test:\n\t@echo 1..3; echo ok 1; exit 0; echo ok 2; echo ok 3\n"
    is_cut(await run({"Makefile": suite}), "2 tests never ran")


NODE = """\
const test = require('node:test');
test('a', () => {});
test('b', async () => { await new Promise((done) => setTimeout(done, 5)); process.exit(0); });
test('c', () => { throw new Error('no'); });
"""


@needs_npm
async def test_node_that_a_test_ends(run):
    package = '{"scripts": {"test": "node --test"}}'
    is_cut(
        await run({"package.json": package, "a.test.js": NODE}),
        "The run ended in a.test.js:3: b",
        "1 test never",
    )
    sync = "const { describe, it } = require('node:test');\n"
    sync += "describe('s', () => { it('a', () => process.exit(0)); });\n"
    more = "require('node:test')('good', () => {});\n"
    result = await run({"a.test.js": sync, "b.test.js": more})
    is_cut(result, "The run ended in a.test.js")
    assert result.passed == 1
    direct = '{"scripts": {"test": "node a.test.js"}}'
    is_cut(await run({"package.json": direct, "a.test.js": NODE}), "did not say that it ended")


@needs_npm
async def test_a_script_without_tests_of_its_own_is_whole(run):
    files = {"package.json": '{"scripts": {"test": "node --test"}}', "a.test.js": "require('assert')(1);\n"}
    result = await run(files)
    assert (result.passed, result.incomplete, outcome_of(result)) == (1, False, ResultOutcome.DONE)


GO = 'package x\nimport ("os"; "syscall"; "testing")\nvar _, _ = os.Exit, syscall.Exit\n'
GO += (
    "func TestA(t *testing.T) {}\nfunc TestB(t *testing.T) { %s }\nfunc TestC(t *testing.T) { t.Fatal(1) }\n"
)
GOOD = {
    "go.mod": "module example.org/x\n\ngo 1.19\n",
    "good/g_test.go": 'package good\nimport "testing"\nfunc TestG(t *testing.T) {}\n',
    "empty/e.go": "package empty\n",
}
needs_go = pytest.mark.skipif(shutil.which("go") is None, reason="go is not installed")


@needs_go
@pytest.mark.parametrize("made", [False, True])
@pytest.mark.parametrize(
    ("body", "more"),
    [
        ("syscall.Exit(0)", ""),
        ("t.Cleanup(func() { syscall.Exit(0) })", ""),
        ("", "func TestMain(m *testing.M) { os.Exit(0) }\n"),
    ],
)
async def test_go_that_a_test_ends(run, body, more, made):
    files = {**GOOD, "x/x_test.go": GO % body + more}
    if made:
        files |= {".mailroom.yaml": "test: make test\n", "Makefile": "test:\n\tgo test -v ./...\n"}
    result = await run(files, bare=True)
    is_cut(result)
    assert result.exit_code == 0
    assert outcome_of(result) is ResultOutcome.NOT_CHECKED


@needs_go
async def test_go_that_ends_is_whole(run):
    result = await run({**GOOD, "x/x_test.go": 'package x\nimport "testing"\nfunc TestA(t *testing.T) {}\n'})
    assert (result.passed, result.incomplete, outcome_of(result)) == (2, False, ResultOutcome.DONE)


def test_a_go_package_that_does_not_say_that_it_ended_is_cut(tmp_path):
    """As ``go test -json`` prints it of a test that ends the process: it passes by its exit code."""
    said = [
        {"Action": "run", "Package": "example.org/x", "Test": "TestA"},
        {"Action": "output", "Package": "example.org/x", "Test": "TestA", "Output": "=== RUN   TestA\n"},
        {"Action": "output", "Package": "example.org/x", "Output": "ok  \texample.org/x\t0.004s\n"},
        {"Action": "pass", "Package": "example.org/x", "Test": "TestA"},
        {"Action": "pass", "Package": "example.org/x"},
    ]
    cut = read_go_results(parse_go("\n".join(map(json.dumps, said))), tmp_path)
    assert cut.cut == "The run ended early in the package example.org/x"
    said.insert(2, {"Action": "output", "Package": "example.org/x", "Output": "PASS\n"})
    whole = read_go_results(parse_go("\n".join(map(json.dumps, said))), tmp_path)
    assert (whole.passed, whole.cut) == (1, "")


RUST = "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out"


def test_a_program_of_cargo_has_as_many_ends_as_it_counts(tmp_path):
    printed = f"running 3 tests\ntest a ... ok\n\n{RUST}\n"
    assert parse_cargo(printed, tmp_path).cut == "The run ended early: 2 tests never ran"
    ends = "test a ... ok\ntest b - should panic ... ok\ntest c ... said\nok"
    assert parse_cargo(f"running 3 tests\n{ends}\n\n{RUST}\n", tmp_path).cut == ""
    assert parse_cargo(f"running 3 tests\n...\n{RUST}\n", tmp_path).cut == ""  # --quiet


SPEC = "RSpec.describe 'x' do\n  it('a') { expect(1).to eq(1) }\n  it('b') { %s }\n  it('c') { %s }\nend\n"
needs_rspec = pytest.mark.skipif(shutil.which("rspec") is None, reason="rspec is not installed")


@needs_rspec
@pytest.mark.parametrize("body", ["exit(0)", "exit!(0)", "RSpec.world.wants_to_quit = true"])
async def test_rspec_that_an_example_ends(run, body):
    files = {".mailroom.yaml": "test: rspec --order defined\n", "spec/x_spec.rb": SPEC % (body, "raise 'no'")}
    result = await run(files, bare=True)
    is_cut(result)
    assert result.counted_by == "reporter of rspec"
    assert outcome_of(result) is ResultOutcome.NOT_CHECKED


@needs_rspec
async def test_rspec_that_ends_is_whole(run):
    files = {".mailroom.yaml": "test: rspec\n", "spec/x_spec.rb": SPEC % ("skip", "")}
    result = await run(files, bare=True)
    assert (result.passed, result.skipped, outcome_of(result)) == (2, 1, ResultOutcome.DONE)
    failing = {**files, "spec/x_spec.rb": SPEC % ("expect(1).to eq(2)", "")}
    result = await run(failing, bare=True)
    assert (result.passed, result.failed, result.incomplete) == (2, 1, False)
    assert result.failures[0].source == "spec/x_spec.rb:3"
