"""Tests that are run again: what a run that broke off had not come to, and what failed, alone."""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

from services.engineer.results import distinct, list_unrun
from shared.contracts import TestSuite
from shared.projects.reading.test_commands import TestCommand
from shared.text.display import count

MOST = 20  # The most failing tests that are run once more
LOADED = 1.5  # Processes for each processor from which a machine is called busy
MOST_PARTS = 4  # The most times that a run goes on with the tests it had not come to
MOST_NAMED = 200_000  # The most characters of names in one command
SHORT = 60.0
"""Seconds: a command that took no longer is run as a whole once more if its tests cannot be named to it."""
BROKE_OFF = ("The run ended in", "The tests were stopped", "pytest could not collect")
"""How the problem of a run begins that the tests which it had not come to have no part in."""

Again = Callable[[TestCommand, float], Awaitable[TestSuite]]
"""Runs a command once more, for at most as many seconds."""
Part = Callable[[TestCommand, float, int], Awaitable[tuple[TestSuite, Path]]]
"""Runs the tests of a part of that number: how it went, and the file of its events."""


NEVER_RAN = re.compile(r"[.,](?: The run ended early:)? [0-9,]+ tests? never ran$")


async def run_rest(
    command: TestCommand, suite: TestSuite, events: Path, whole: float, part: Part
) -> TestSuite:
    """``suite`` with the tests that a run which broke off had not come to, within ``whole`` seconds in all.

    It stays incomplete: the tests that it broke off in have no result.
    """
    said = suite.problem
    for number in range(MOST_PARTS):
        rest = await asyncio.to_thread(list_unrun, events)
        left = whole - suite.seconds
        named = name_tests(command, rest) if command.runner in ("pytest", "unittest") and rest else None
        if named is None or left < 1 or not suite.incomplete or not said.startswith(BROKE_OFF):
            break
        if sum(map(len, rest)) > MOST_NAMED:
            break
        done, events = await part(named, left, number)
        if done.passed < 0:
            break
        said = done.problem
        ended = f"{NEVER_RAN.sub('', suite.problem)}; what it had not come to ran by itself"
        suite = msgspec.structs.replace(
            suite,
            passed=suite.passed + done.passed,
            failed=suite.failed + done.failed,
            skipped=suite.skipped + done.skipped,
            errors=suite.errors + done.errors,
            seconds=round(suite.seconds + done.seconds, 3),
            timed_out=done.timed_out,
            failures=distinct((*suite.failures, *done.failures)),
            hung=tuple(dict.fromkeys((*suite.hung, *done.hung))),
            notes=tuple(dict.fromkeys((*suite.notes, *done.notes))),
            problem=f"{ended}. {said}" if said else ended,
        )
    return suite


async def rerun_failures(command: TestCommand, suite: TestSuite, again: Again) -> TestSuite:
    """``suite`` with its flaky tests named and counted as passed; ``again`` runs a command once more.

    What failed or did not end in time is run alone where its runner takes the names of tests. Nothing is run
    again after a stop, nor if nothing was counted or every failure lies in the machine.
    """
    failing = list(dict.fromkeys((*(each.test for each in suite.failures), *suite.hung)))
    broken = suite.failed + suite.errors
    # Only the network or a missing module made them fail, or more than the command was run.
    is_known = suite.problem or any(note.startswith((f"{broken} of ", "`")) for note in suite.notes)
    if suite.timed_out or broken <= 0 or not failing or is_known:
        return suite
    if busy := _describe_load():
        suite = msgspec.structs.replace(suite, notes=(*suite.notes, busy))
    alone = name_tests(command, failing[:MOST])
    if alone is None and suite.seconds > SHORT:
        return suite
    second = await again(alone or command, max(SHORT, 2 * suite.seconds))
    # A runner that names nothing of what it was told has run nothing.
    if second.passed + max(second.broken, 0) <= 0 or second.incomplete:
        return suite
    still = {each.test for each in second.failures}
    candidates = failing[:MOST] if alone else failing
    flaky = tuple(name for name in candidates if name not in still)
    if len(still) < second.failed + second.errors or not flaky or second.passed < len(flaky):
        return suite  # if not all that failed is named, what passed is not known
    kept = tuple(each for each in suite.failures if each.test not in flaky)
    number = min(len(flaky), broken)
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
        hung=tuple(name for name in suite.hung if name not in flaky),
        exit_code=ended,
    )


def _describe_load() -> str:
    """That the machine had more to do than it could while tests failed; empty if it had not."""
    load, processors = os.getloadavg()[0], os.cpu_count() or 1
    if load <= LOADED * processors:
        return ""
    said = (
        f"The machine was busy while tests failed: a load of {load:.1f} on {count(processors, 'processor')}"
    )
    return f"{said}. A test that waits for a time may fail for that"


def name_tests(command: TestCommand, names: Sequence[str]) -> TestCommand | None:
    """``command`` for the tests of these ``names`` alone; None if its runner takes no such names."""
    plain = [name.partition(" (")[0] for name in names]
    options = [word for word in command.argv if word.rstrip("/") not in command.names]
    if command.runner == "pytest" and all("::" in name for name in names):
        argv = (*options, *names)  # in place of those that it names itself
    elif (
        command.runner == "unittest"
        and "-s" not in options
        and all(re.fullmatch(r"[\w.]+\.\w+", name) for name in plain)
    ):
        argv = (*command.argv[: command.argv.index("unittest") + 1], *dict.fromkeys(plain))
    elif command.runner == "cargo" and all(re.fullmatch(r"\w+(::\w+)*", name) for name in names):
        kept = command.argv[: command.argv.index("--")] if "--" in command.argv else command.argv
        argv = (*kept, "--", "--exact", *names)
    elif command.runner == "ctest":
        argv = (*command.argv, "-R", f"^({'|'.join(map(re.escape, names))})$")
    elif command.runner == "go" and all(
        re.search(r"\.(Test|Example|Fuzz)\w*(/.*)?$", name) for name in names
    ):
        parted = [re.split(r"\.(?=(?:Test|Example|Fuzz)\w*(?:/|$))", name, maxsplit=1) for name in names]
        chosen = "|".join(dict.fromkeys(test.partition("/")[0] for _, test in parted))
        argv = ("go", "test", "-count=1", "-run", f"^({chosen})$", *dict.fromkeys(of for of, _ in parted))
    else:
        return None
    return msgspec.structs.replace(command, argv=tuple(argv), names=frozenset(names))
