"""Reading what test runners print: recorded output of each."""

import time
from pathlib import Path

import pytest

from services.engineer.collecting import RUNNERS, strip_output
from services.engineer.console_results import (
    parse_ava,
    parse_cargo,
    parse_ctest,
    parse_go,
    parse_jest,
    parse_mocha,
    parse_plain,
    parse_prove,
    parse_pytest,
    parse_tap,
    parse_unittest,
    parse_vitest,
)
from services.engineer.reruns import name_tests
from services.engineer.results import (
    MAX_FAILURES,
    MAX_MESSAGE,
    UNPROVED,
    Results,
    distinct,
    failure,
    format_place,
    needs_network,
    read_junit,
)
from services.engineer.testing import find_coverage, name_absent
from shared.projects.reading import ProjectFiles
from shared.projects.reading.test_commands import TestCommand

ROOT = Path("/copy/project")


def counts(results: Results | None) -> tuple[int, int, int, int]:
    assert results is not None
    return (results.passed, results.failed, results.skipped, results.errors)


def failures(results: Results | None) -> list[tuple[str, str, str]]:
    assert results is not None
    return [(each.test, each.message, each.source) for each in results.failures]


PYTEST = """\
FsE.x                                                                    [100%]
=================================== FAILURES ===================================
tests/test_a.py:5: in test_bad
    assert 1 == 2
E   assert 1 == 2
=========================== short test summary info ============================
SKIPPED [1] tests/test_a.py:6: unconditional skip
FAILED tests/test_a.py::TestX::test_bad - assert 1 == 2
ERROR tests/test_b.py
1 failed, 1 passed, 1 skipped, 1 xfailed, 1 error in 0.05s
"""


LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"


@pytest.mark.parametrize(
    ("text", "expected", "complete"),
    [
        (
            "t/a.t .. ok\nAll tests successful.\nFiles=1, Tests=5,  0 secs\nResult: PASS\n",
            (5, 0, 0, 0),
            True,
        ),
        (
            "t/a.t .. skipped: no Foo\nt/b.t .. ok\nFiles=2, Tests=3,  1 wallclock secs\nResult: PASS\n",
            (3, 0, 1, 0),
            True,
        ),
        (
            "Test Summary Report\n-------\nt/a.t (Wstat: 256 (exited 1) Tests: 4 Failed: 1)\n"
            "  Failed test:  2\n  Non-zero exit status: 1\nFiles=1, Tests=4,  0 secs\nResult: FAIL\n",
            (3, 1, 0, 0),
            True,
        ),
        (
            "t/a.t (Wstat: 512 (exited 2) Tests: 0 Failed: 0)\n  Non-zero exit status: 2\n"
            "  Parse errors: Bad plan.  You planned 8 tests but ran 0.\nFiles=70, Tests=7, 3 wallclock secs\n"
            "Result: FAIL\nFailed 1/70 test programs. 0/7 subtests failed.\n",
            (7, 0, 0, 1),
            True,
        ),
        (
            "Files=2, Tests=6,  0 secs\nResult: PASS\nFiles=1, Tests=4,  0 secs\nResult: PASS\n",
            (10, 0, 0, 0),
            True,
        ),
        ("Files=2, Tests=6,  0 secs\n", (6, 0, 0, 0), False),
    ],
)
def test_perls_harness_counts_programs_that_died_as_errors(text, expected, complete):
    results = parse_prove(text, ROOT)
    assert results is not None
    assert (results.passed, results.failed, results.skipped, results.errors) == expected
    assert bool(results.cut) is not complete


def test_pytest_text():
    results = parse_pytest(PYTEST, ROOT)
    assert counts(results) == (1, 1, 2, 1)
    assert failures(results) == [
        ("tests/test_a.py::TestX::test_bad", "assert 1 == 2", "tests/test_a.py::TestX::test_bad"),
        ("tests/test_b.py", "", "tests/test_b.py"),
    ]
    assert counts(parse_pytest("======= 3 passed, 1 warning in 61.20s (0:01:01) =======\n", ROOT)) == (
        3,
        0,
        0,
        0,
    )


def test_pytest_stopped_on_its_way():
    assert counts(parse_pytest("..F..s.E [ 50%]\n...\n", ROOT)) == (8, 1, 1, 1)
    assert counts(parse_pytest("tests/test_a.py ..F\n", ROOT)) == (2, 1, 0, 0)
    assert parse_pytest("nothing\nof the kind.\n...\x00", ROOT) is None


JUNIT = """<?xml version="1.0" encoding="utf-8"?><testsuites name="x"><testsuite name="x" \
errors="1" failures="1" skipped="1" tests="4" time="0.1">\
<testcase classname="tests.TestX" name="test_ok" time="0.0" />\
<testcase classname="tests.TestX" name="test_bad[1-a b]" file="tests/test_a.py" line="4" time="0.0">\
<failure message="assert 1 == 2">tests/test_a.py:8: in test_bad
    check(1)
tests/checks.py:3: in check
    assert 1 == 2
/usr/lib/python3/site-packages/x.py:9: in y
E   assert 1 == 2</failure></testcase>\
<testcase classname="tests.test_a" name="test_skip" file="tests/test_a.py" line="9">\
<skipped type="pytest.skip" message="no">x</skipped></testcase>\
<testcase classname="tests.test_a" name="test_setup" file="tests/test_a.py" line="20">\
<error message="failed on setup">raise ValueError</error></testcase>\
</testsuite></testsuites>"""
SUREFIRE = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="org.x.CalcTest" time="0.05" tests="2" errors="0" skipped="0" failures="1">
  <properties><property name="java.version" value="17"/></properties>
  <testcase name="adds" classname="org.x.CalcTest" time="0.01"/>
  <testcase name="divides" classname="org.x.CalcTest" time="0.02">
    <failure message="expected: &lt;3> but was: &lt;2>" type="org.opentest4j.AssertionFailedError"><![CDATA[\
org.opentest4j.AssertionFailedError: expected: <3> but was: <2>
\tat org.junit.jupiter.api.AssertionUtils.fail(AssertionUtils.java:55)
\tat org.x.CalcTest.divides(CalcTest.java:14)
]]></failure>
  </testcase>
</testsuite>"""
CTEST_JUNIT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="(empty)" tests="3" failures="1" disabled="0" skipped="1" hostname="" time="0">
\t<testcase name="good" classname="good" time="0.002" status="run"><system-out></system-out></testcase>
\t<testcase name="bad" classname="bad" time="0.002" status="fail"><failure message=""/>
\t\t<system-out>/src/bad.c:7: expected 1</system-out></testcase>
\t<testcase name="later" classname="later" time="0" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>
\t\t<system-out></system-out></testcase>
</testsuite>"""


def read(tmp_path: Path, text: str) -> Results | None:
    (tmp_path / "junit.xml").write_text(text)
    return read_junit(tmp_path / "junit.xml", ROOT)


def test_junit_report(tmp_path):
    results = read(tmp_path, JUNIT)
    assert counts(results) == (1, 1, 1, 1)
    assert failures(results) == [
        ("tests.TestX.test_bad[1-a b]", "assert 1 == 2", "tests/checks.py:3"),
        ("tests.test_a.test_setup", "failed on setup", "tests/test_a.py:20"),
    ]


def test_the_reports_of_maven_and_ctest(tmp_path):
    results = read(tmp_path, SUREFIRE)
    assert counts(results) == (1, 1, 0, 0)
    assert failures(results) == [("org.x.CalcTest.divides", "expected: <3> but was: <2>", "CalcTest.java:14")]
    assert counts(read(tmp_path, CTEST_JUNIT)) == (1, 1, 1, 0)


def test_junit_reports_that_are_not_to_be_read(tmp_path):
    report = tmp_path / "junit.xml"
    assert read_junit(report, ROOT) is None
    report.write_text("<testsuites><broken")
    assert read_junit(report, ROOT) is None
    bomb = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><x>&b;</x>'
    report.write_text(bomb)
    assert read_junit(report, ROOT) is None


UNITTEST = """\
test_bad (test_a.T.test_bad) ... FAIL
test_ok (test_a.T.test_ok)
What it shows ... ok
test_s (test_a.T.test_s) ... skipped 'no'
test_z (pkg.test_a.T) ... ERROR

======================================================================
ERROR: test_z (pkg.test_a.T)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "/copy/project/pkg/test_a.py", line 6, in test_z
    json.loads("x")
  File "/usr/lib/python3.11/json/decoder.py", line 337, in decode
    raise JSONDecodeError
json.decoder.JSONDecodeError: Expecting value

======================================================================
FAIL: test_bad (test_a.T.test_bad)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "/copy/project/test_a.py", line 5, in test_bad
    self.assertEqual(1, 2)
AssertionError: 1 != 2

----------------------------------------------------------------------
"""


def test_unittest_text():
    results = parse_unittest(
        UNITTEST + "Ran 6 tests in 0.001s\n\nFAILED (failures=1, errors=1, skipped=1)\n", ROOT
    )
    assert counts(results) == (3, 1, 1, 1)
    assert failures(results) == [
        ("pkg.test_a.T.test_z", "json.decoder.JSONDecodeError: Expecting value", "pkg/test_a.py:6"),
        ("test_a.T.test_bad", "AssertionError: 1 != 2", "test_a.py:5"),
    ]
    closing = "Ran 4 tests in 0.1s\n\nOK (expected failures=1, unexpected successes=1)\n"
    assert counts(parse_unittest(closing, ROOT)) == (2, 1, 1, 0)
    assert counts(parse_unittest("Ran 0 tests in 0.000s\n\nNO TESTS RAN\n", ROOT)) == (0, 0, 0, 0)


def test_unittest_stopped_on_its_way():
    assert counts(parse_unittest(UNITTEST.partition("\n\n")[0], ROOT)) == (1, 1, 1, 1)
    assert parse_unittest("hello\n", ROOT) is None


TAP = """\
TAP version 13
# Subtest: ok one
ok 1 - ok one
  ---
  duration_ms: 1.5
  ...
# Subtest: bad one
not ok 2 - bad one
  ---
  duration_ms: 1.3
  location: '/copy/project/a.test.js:2:24'
  failureType: 'testCodeFailure'
  error: |-
    Expected values to be equal
  stack: |-
    TestContext.<anonymous> (/copy/project/a.test.js:3:51)
    Test.run (node:internal/test_runner/test:796:25)
  ...
# Subtest: suite
    # Subtest: inner bad
    not ok 1 - inner bad
      ---
      location: '/copy/project/a.test.js:7:34'
      failureType: 'testCodeFailure'
      error: 'boom'
      ...
    1..1
not ok 3 - suite
  ---
  type: 'suite'
  failureType: 'subtestsFailed'
  error: '1 subtest failed'
  ...
1..3
"""


def test_node_in_tap():
    summary = "# tests 4\n# suites 1\n# pass 1\n# fail 2\n# cancelled 0\n# skipped 1\n# todo 0\n"
    results = parse_tap(TAP + summary, ROOT)
    assert counts(results) == (1, 2, 1, 0)
    assert failures(results) == [
        ("bad one", "Expected values to be equal", "a.test.js:3"),
        ("inner bad", "boom", "a.test.js:7"),
    ]
    assert counts(parse_tap(TAP, ROOT)) == (1, 2, 0, 0)
    assert counts(parse_tap("1..3\nok 1 - a\nok 2 # SKIP no\nnot ok 3 - c # TODO later\n", ROOT)) == (
        1,
        0,
        2,
        0,
    )
    assert parse_tap("all ok\n", ROOT) is None


def test_node_in_the_form_for_people():
    text = """\
✔ ok one (1.4ms)
✖ bad one (1.1ms)
ℹ tests 3
ℹ pass 1
ℹ fail 1
ℹ cancelled 0
ℹ skipped 1
ℹ todo 0

✖ failing tests:

test at test/a.test.js:2:24
✖ bad one (1.181286ms)
  AssertionError [ERR_ASSERTION]: 1 == 2
      at TestContext.<anonymous> (/copy/project/test/a.test.js:5:51)
"""
    results = parse_tap(text, ROOT)
    assert counts(results) == (1, 1, 1, 0)
    assert failures(results) == [("bad one", "AssertionError [ERR_ASSERTION]: 1 == 2", "test/a.test.js:5")]


def test_jest():
    text = """\
FAIL j/a.test.js
  ● sum › fails here

    expect(received).toBe(expected) // Object.is equality

    > 1 | describe('sum', () => {
      at Object.toBe (j/a.test.js:1:86)

  ● throws

    boom

      at Object.<anonymous> (j/a.test.js:2:30)

FAIL j/b.test.js
  ● Test suite failed to run

    Cannot find module 'not-there' from 'j/b.test.js'

      at Resolver._throwModNotFoundError (node_modules/jest-resolve/build/resolver.js:427:11)

Test Suites: 2 failed, 2 total
Tests:       2 failed, 1 skipped, 1 passed, 4 total
Snapshots:   0 total
"""
    results = parse_jest(text, ROOT)
    assert counts(results) == (1, 2, 1, 1)
    assert failures(results) == [
        (
            "j/a.test.js › sum › fails here",
            "expect(received).toBe(expected) // Object.is equality",
            "j/a.test.js:1",
        ),
        ("j/a.test.js › throws", "boom", "j/a.test.js:2"),
        (
            "j/b.test.js › Test suite failed to run",
            "Cannot find module 'not-there' from 'j/b.test.js'",
            "j/b.test.js",
        ),
    ]


def test_vitest():
    text = """\
 FAIL  v/b.test.js [ v/b.test.js ]
Error: Failed to load url not-there
 ❯ loadAndTransform node_modules/vite/dist/node/chunks/dep.js:51969:17

 FAIL  v/a.test.js > sum > fails here
AssertionError: expected 1 to be 2 // Object.is equality

 ❯ v/a.test.js:2:86
      1| import {test} from 'vitest';

 Test Files  2 failed (2)
      Tests  1 failed | 1 passed | 1 skipped (3)
   Duration  652ms (transform 28ms, setup 0ms)
"""
    results = parse_vitest(text, ROOT)
    assert counts(results) == (1, 1, 1, 1)
    assert failures(results) == [
        ("v/b.test.js", "Error: Failed to load url not-there", "v/b.test.js"),
        (
            "v/a.test.js > sum > fails here",
            "AssertionError: expected 1 to be 2 // Object.is equality",
            "v/a.test.js:2",
        ),
    ]


def test_mocha():
    text = """\
  1) throws
  sum
    ✔ adds
    2) fails here
    - later


  1 passing (5ms)
  1 pending
  2 failing

  1) throws:
     Error: boom
      at Context.<anonymous> (m/a.js:3:28)
      at process.processImmediate (node:internal/timers:483:21)

  2) sum
       fails here:

      AssertionError [ERR_ASSERTION]: 1 == 2
      at Context.<anonymous> (m/a.js:2:79)
"""
    results = parse_mocha(text, ROOT)
    assert counts(results) == (1, 2, 1, 0)
    assert failures(results) == [
        ("throws", "Error: boom", "m/a.js:3"),
        ("sum fails here", "AssertionError [ERR_ASSERTION]: 1 == 2", "m/a.js:2"),
    ]


def test_cargo():
    text = """\
running 3 tests
test tests::ig ... ignored
test tests::ok ... ok
test tests::bad ... FAILED
test tests::old ... FAILED

---- tests::bad stdout ----

thread 'tests::bad' (2817) panicked at src/lib.rs:4:22:
assertion `left == right` failed
  left: 1
thread 'tests::old' panicked at 'boom', src/old.rs:9:5

test result: FAILED. 1 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

   Doc-tests x
test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
"""
    results = parse_cargo(text, ROOT)
    assert counts(results) == (3, 2, 1, 0)
    assert failures(results) == [
        ("tests::bad", "assertion `left == right` failed", "src/lib.rs:4"),
        ("tests::old", "boom", "src/old.rs:9"),
    ]
    assert parse_cargo("error[E0425]: cannot find value\n", ROOT) is None


def test_go():
    text = """\
=== RUN   TestSum
=== RUN   TestSum/small
=== RUN   TestSum/big
    sum_test.go:15: got 3, want 4
--- FAIL: TestSum (0.00s)
    --- PASS: TestSum/small (0.00s)
    --- FAIL: TestSum/big (0.00s)
=== RUN   TestLater
    sum_test.go:20: not now
--- SKIP: TestLater (0.00s)
FAIL
FAIL\texample.org/x\t0.002s
FAIL\texample.org/x/broken [build failed]
?   \texample.org/x/none\t[no test files]
FAIL
"""
    results = parse_go(text, ROOT)
    assert counts(results) == (1, 1, 1, 1)
    assert failures(results) == [
        ("TestSum/big", "got 3, want 4", "sum_test.go:15"),
        ("example.org/x/broken", "build failed", "example.org/x/broken"),
    ]


def test_ctest():
    text = """\
67% tests passed, 1 tests failed out of 3

The following tests FAILED:
\t  2 - parser (Failed)
Errors while running CTest
"""
    results = parse_ctest(text, ROOT)
    assert counts(results) == (2, 1, 0, 0)
    assert failures(results) == [("parser", "Failed", "parser")]


def test_the_output_of_an_unknown_runner_is_read_by_who_can():
    for text, passed in (
        ("make: x\n===== 3 passed in 0.10s =====\n", 3),
        ("ok 1 - a\nok 2 - b\n", 2),
        ("Ran 4 tests in 0.1s\n\nOK\n", 4),
        ("test result: ok. 5 passed; 0 failed; 0 ignored; x\n", 5),
        ("  6 passing (5ms)\n", 6),
        ("100% tests passed, 0 tests failed out of 7\n", 7),
    ):
        results = [results for parse in RUNNERS["any"].parsers if (results := parse(text, ROOT))]
        assert [each.passed for each in results[:1]] == [passed]


def test_places_are_those_of_the_project():
    assert format_place("/copy/project/a/b.py", 3, ROOT) == "a/b.py:3"
    assert format_place("file:///copy/project/b.mjs", "3", ROOT) == "b.mjs:3"
    assert format_place("a/b.py", 3, ROOT) == "a/b.py:3"
    assert format_place("/usr/lib/b.py", 3, ROOT) == ""
    assert format_place("../b.py", 3, ROOT) == ""
    assert format_place("node_modules/x/b.js", 3, ROOT) == ""


def test_failures_are_few_short_and_distinct():
    long = failure("t", "x \n" * 1000, "")
    assert len(long.message) == MAX_MESSAGE
    assert long.source == "t"
    assert len(distinct(failure(str(number % 300), "", "") for number in range(900))) == MAX_FAILURES


def test_no_reader_takes_long_over_hostile_output():
    lines = [
        "not ok 1 - x\n  ---\n",
        "test_x (a) ... \n",
        "FAIL  x\n",
        "  1) x\n",
        "======\n",
        "● x\n",
        "\n",
        " ",
    ]
    for line in lines:
        text = line * (200_000 // len(line))
        for parse in RUNNERS["any"].parsers:
            started = time.process_time()
            parse(strip_output(text), ROOT)
            assert time.process_time() - started < 5, f"{parse.__name__} over {line!r}"


UVU = """\
test/index.js
• • • • • • • •   (8 / 8)

  Total:     15
  Passed:    15
  Skipped:   0
  Duration:  10.35ms
"""
AVA = """\
  ✔ main › reads
  ✘ [fail]: main › times out Value is not `true`
  - main › later
  ─

  main › times out

  test/main.ts:923

   922:
   923:   t.true(isTimely);

  Value is not `true`:

  false

  › test/main.ts:923:4

  ─

  1 test failed
  1 test skipped
"""


def test_ava():
    results = parse_ava(AVA, ROOT)
    assert counts(results) == (1, 1, 1, 0)
    assert failures(results) == [("main › times out", "Value is not `true`:", "test/main.ts:923")]
    assert counts(parse_ava("\n  ✔ a › b\n  ─\n\n  134 tests passed\n  1 known failure\n", ROOT))[0] == 134
    assert parse_ava("3 passed", ROOT) is None


def test_runners_that_nobody_knows():
    for text, expected in (
        (UVU, (15, 0, 0, 0)),
        ("Total: 32\nPassed: 32\n", (32, 0, 0, 0)),
        ("32 tests, 0 failures\n", (32, 0, 0, 0)),
        ("12 examples, 2 failures, 1 pending\n", (9, 2, 1, 0)),
        ("# TOTAL: 5\n# PASS:  3\n# SKIP:  1\n# XFAIL: 0\n# FAIL:  1\n# ERROR: 0\n", (3, 1, 0, 0)),
        ("Ok:                 7   \nFail:               1   \nSkipped:            2\n", (7, 1, 2, 0)),
        ("OK (10 tests, 24 assertions)\n", (10, 0, 0, 0)),
        ("All 17 tests passed\n", (17, 0, 0, 0)),
        ("10 runs, 20 assertions, 1 failures, 0 errors, 2 skips\n", (7, 1, 2, 0)),
    ):
        assert counts(parse_plain(text, ROOT)) == expected, text
    assert parse_plain("3 files changed, all good\nBuilt in 3 passes\n", ROOT) is None


CARGO_END = "test result: ok. {} passed; 0 failed; 0 ignored;"


@pytest.mark.parametrize(
    ("parse", "text", "cut"),
    [
        (parse_pytest, "collected 3 items\n\ntest_a.py .\n= 1 passed in 0.10s =\n", "2 tests never ran"),
        (parse_pytest, "collected 9 items / 7 deselected / 2 selected\n\n= 2 passed in 0.10s =\n", ""),
        (parse_pytest, "!!!! Interrupted: 1 error !!!!\n= 1 error in 0.10s =\n", "Interrupted: 1 error"),
        (parse_pytest, "test_a.py ..F\n", UNPROVED),
        (parse_unittest, "test_a (t.T) ... ok\ntest_b (t.T) ... ", UNPROVED),
        (parse_unittest, "Found 3 test(s).\n..\nRan 2 tests in 0.1s\n\nOK\n", "1 test never ran"),
        (parse_unittest, "Ran 2 tests in 0.1s\n", UNPROVED),
        (parse_unittest, "Found 2 test(s).\nRan 2 tests in 0.1s\n\nOK\n", ""),
        (parse_tap, "ok 1 - a\n", UNPROVED),
        (parse_tap, "1..3\nok 1 - a\nok 2\n", "1 test never ran"),
        (parse_tap, "ok 1 - a\nok 2\n1..2\n", ""),
        (parse_jest, "Test Suites: 1 failed, 1 of 4 total\nTests:   1 failed, 1 total\n", "not all of 4"),
        (parse_vitest, "      Tests  1 passed (3)\n", "2 tests never ran"),
        (parse_vitest, "      Tests  1 passed | 2 skipped (3)\n", ""),
        (parse_cargo, f"running 3 tests\ntest a ... ok\nrunning 0 tests\n{CARGO_END.format(0)}", "3 tests"),
        (parse_cargo, f"running 1 test\n{CARGO_END.format(1)}", ""),
        (parse_go, "=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\nok  \tx\n", "in TestB"),
        (parse_go, "=== RUN   TestA\n--- PASS: TestA (0.00s)\nPASS\n", ""),
        (parse_plain, "..  2 / 5 ( 40%)\nOK (2 tests, 2 assertions)\n", "3 tests never ran"),
    ],
)
def test_text_without_the_proof_of_its_end_is_cut(parse, text, cut):
    results = parse(text, ROOT)
    assert results is not None
    assert (cut in results.cut) if cut else not results.cut


@pytest.mark.parametrize(
    ("said", "networked"),
    [
        ("socket.gaierror: [Errno -3] Temporary failure in name resolution", True),
        ("Error: getaddrinfo ENOTFOUND example.org", True),
        ("dial tcp: lookup example.org: no such host", True),
        ("curl: (6) Could not resolve host: example.org", True),
        ("java.net.UnknownHostException: example.org", True),
        ("ModuleNotFoundError: No module named 'nothing'", False),
        ("FileNotFoundError: [Errno 2] No such file: 'host'", False),
        ("ResolutionError: unable to resolve ./module", False),
        ("AssertionError: assert 404 == 200", False),
        ("KeyNotFound eNotFoundation", False),
    ],
)
def test_only_what_names_the_network_needs_one(said, networked):
    assert needs_network(said) == networked


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("4 passed, 0 failed\n12 passed, 1 failed\n3 passed, 0 failed\n", (19, 1)),
        ("a: 9 passed, 0 failed, 2 skipped\nb: 5 passed, 2 failed, 0 skipped\n", (14, 2)),
        ("7 passed, 0 errors\n\n2 passed, 3 errors\n", (9, 0)),
        ("2 passed, 1 failed\n3 passed, 0 failed\n5 passed, 1 failed\n", (5, 1)),  # the last is the sum
        ("1 passed, 0 failed\n2 passed, 0 failed\n5 passed, 0 failed\n", (5, 0)),  # one that goes on
        ("PASSED: 16\nFAILED: 0\n./test\nPASSED: 16\nFAILED: 0\nPASSED: 15\nFAILED: 1\n", (47, 1)),
        ("16 passed, 0 failed\n" * 3, (48, 0)),
        ("PASSED: 1\nFAILED: 0\nPASSED: 2\nFAILED: 0\n", (2, 0)),
        ("PASSED: 4\nFAILED: 0\nPASSED: 4\nFAILED: 0\n", (4, 0)),  # said twice
        ("PASSED: 4\nPASSED: 5\nFAILED: 1\n", (5, 1)),
        ("10 passed, 1 failed\n", (10, 1)),
    ],
)
def test_the_results_of_several_programs_are_added(text, counts):
    found = parse_plain(text, Path("/repo"))
    assert found is not None
    assert (found.passed, found.failed) == counts


@pytest.mark.parametrize(
    ("runner", "names", "words"),
    [
        ("pytest", ["t.py::a", "t.py::B::c[x y]"], "python -m pytest -v t.py::a t.py::B::c[x y]"),
        ("unittest", ["m.T.test_a", "m.T.test_b (i=1)"], "python -m unittest m.T.test_a m.T.test_b"),
        ("cargo", ["a::b", "c"], "cargo test --workspace -- --exact a::b c"),
        ("ctest", ["a.b", "c"], r"ctest -R ^(a\.b|c)$"),
        (
            "go",
            ["example.org/x/y.TestA/sub_1", "example.org/x.TestB"],
            "go test -count=1 -run ^(TestA|TestB)$ example.org/x/y example.org/x",
        ),
        ("node", ["a b"], None),
        ("unittest", ["not a name"], None),
        ("go", ["example.org/x"], None),
    ],
)
def test_failing_tests_are_named_to_their_runner(runner, names, words):
    argv = {
        "pytest": ("python", "-m", "pytest", "-v", "tests"),
        "unittest": ("python", "-m", "unittest"),
        "cargo": ("cargo", "test", "--workspace", "--", "--nocapture"),
        "ctest": ("ctest",),
        "go": ("go", "test", "./..."),
        "node": ("npm", "run", "test"),
    }
    named = frozenset({"tests"}) if runner == "pytest" else frozenset[str]()
    command = name_tests(TestCommand(runner=runner, argv=argv[runner], found="", names=named), names)
    assert (command and " ".join(command.argv)) == words


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("TOTAL                      812     31   96%", "96"),
        ("TOTAL   812   31   200   12   95.2%", "95.2"),
        ("All files          |   91.27 |    88.5 |", "91.27"),
        ("total:\t\t(statements)\t\t83.1%", "83.1"),
        ("  lines......: 92.3% (1200 of 1300 lines)", "92.3"),
        ("a TOTAL of 5 tests, 100%", ""),
        ("", ""),
    ],
)
def test_the_coverage_that_a_command_prints_is_told(line, number):
    said = [f"Coverage, as the command counts it: {number} %"] if number else []
    assert find_coverage(f"ok\n{line}\n") == said


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (
            {".gitmodules": '[submodule "a"]\n\tpath = ext/a\n\turl = x\n'},
            "1 submodule was not fetched: ext/a",
        ),
        ({".gitmodules": '[submodule "a"]\n\tpath = a\n', "a/x.c": ""}, ""),
        ({".gitmodules": "[submodule]\npath = ../out\npath = /etc\n"}, ""),
        ({".gitattributes": "*.bin filter=lfs diff=lfs\n", "d/a.bin": LFS}, "1 file of Git LFS hold"),
        ({".gitattributes": "/d/** filter=lfs -text\n", "d/a.bin": LFS, "d/b": LFS}, "2 files of Git LFS"),
        ({".gitattributes": "*.bin filter=lfs\n", "a.bin": "real"}, ""),
        ({".gitattributes": "# *.bin filter=lfs\n[[[ filter=lfs\n", "a.bin": LFS}, ""),
    ],
)
def test_what_a_clone_lacks_is_named(tmp_path, files, said):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert " ".join(name_absent(ProjectFiles(tmp_path))).startswith(said)
    assert said or not name_absent(ProjectFiles(tmp_path))
