"""Runs what failed once more: what passes then is flaky, and counts as passed."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from services.engineer.runners import TestCommand
from shared.contracts import TestSuite

MOST = 20
"""The most failing tests that are run once more."""
SHORT = 60.0
"""Seconds: a command that took no longer is run as a whole once more if its tests cannot be named to it."""

Again = Callable[[TestCommand, float], Awaitable[TestSuite]]


async def rerun_failures(command: TestCommand, suite: TestSuite, repo: Path, again: Again) -> TestSuite:
    """``suite`` with its flaky tests named and counted as passed; ``again`` runs a command once more.

    Nothing is run again after a stop, nor if nothing was counted or every failure lies in the machine.
    """
    failing = [each.test for each in suite.failures if each.test not in suite.hung]
    broken = suite.failed + suite.errors
    if suite.timed_out or broken <= 0 or not failing or _is_known(suite):
        return suite
    named = command.runner == "pytest" and all("::" in name for name in failing[:MOST])
    if not named and suite.seconds > SHORT:
        return suite
    second = await again(
        _narrow(command, failing[:MOST]) if named else command, max(SHORT, 2 * suite.seconds)
    )
    if second.passed <= 0:
        return suite
    still = {each.test for each in second.failures}
    candidates = failing[:MOST] if named else failing
    flaky = tuple(name for name in candidates if name not in still)
    if len(still) < second.failed + second.errors:
        return suite  # not all that failed is named, so what passed is not known
    return _settle(suite, flaky, second)


def _is_known(suite: TestSuite) -> bool:
    """Whether only the network or a missing module made them fail, or more than the command was run."""
    every = f"{suite.failed + suite.errors} of "
    return bool(suite.problem) or any(note.startswith((every, "`")) for note in suite.notes)


def _narrow(command: TestCommand, names: list[str]) -> TestCommand:
    """The command with the tests ``names`` in place of those it names itself."""
    options = tuple(word for word in command.argv if word.rstrip("/") not in command.names)
    return msgspec.structs.replace(command, argv=(*options, *names), names=frozenset(names))


def _settle(suite: TestSuite, flaky: tuple[str, ...], second: TestSuite) -> TestSuite:
    if not flaky:
        return suite
    kept = tuple(each for each in suite.failures if each.test not in flaky)
    number = min(len(flaky), suite.failed + suite.errors)
    failed = max(0, suite.failed - number)
    errors = suite.errors - max(0, number - suite.failed)
    ended = suite.exit_code if failed or errors else second.exit_code
    return msgspec.structs.replace(
        suite,
        passed=suite.passed + number,
        failed=failed,
        errors=errors,
        failures=kept,
        flaky=flaky,
        exit_code=ended,
    )
