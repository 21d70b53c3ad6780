"""A failed test is run again if, and only if, the machine stood still meanwhile."""

import pytest

pytest_plugins = ["pytester"]

TEST = """
import ctypes
import pytest

tries = []

@pytest.fixture
def fresh():
    return []

def test_it(fresh):
    fresh.append(1)
    tries.append(1)
    if {stalls}:
        ctypes.PyDLL(None).usleep(2_800_000)  # holds the interpreter, as a stopped machine does
    assert len(tries) == 2 and fresh == [1]
"""


@pytest.mark.parametrize(("stalls", "outcome"), [("len(tries) == 1", "passed"), ("False", "failed")])
def test_a_failure_counts_unless_the_machine_stood_still(
    pytester: pytest.Pytester, stalls: str, outcome: str
) -> None:
    pytester.makeconftest(
        "from tests.support.stalls import RunAgain\n"
        "def pytest_configure(config):\n    config.pluginmanager.register(RunAgain(), 'again')\n"
    )
    pytester.makepyfile(TEST.format(stalls=stalls))
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:schemathesis")
    result.assert_outcomes(**{outcome: 1})
    assert ("run again after a stall of seconds: 2." in result.stdout.str()) is (outcome == "passed")
