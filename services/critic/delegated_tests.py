"""Tests of others as evidence: runs that the engineer makes for the critic, and runs that are on record."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from services.critic.claims import Claims, ReviewRecord, as_list, as_mapping
from shared.agent.context import AgentContext
from shared.contracts import Checked, TaskStatus, TestRun
from shared.errors import ActionError

TESTER = "engineer"
TRY, RUN = "try_patch", "run_tests"  # The actions of the engineer that run tests; neither asks a model


class Tested(NamedTuple):
    """A run of tests, and with a patch the run without it."""

    after: TestRun
    before: TestRun | None = None


Tester = Callable[[Path, str], Awaitable[Tested]]
"""Runs the tests of a repository with a patch (empty: as it is); raises ActionError if that cannot be."""


def tester_of(context: AgentContext) -> Tester:
    """A tester that gives the current task's subtasks to the engineer."""

    async def run(repo: Path, patch: str) -> Tested:
        engineer = (await context.directory.read()).get(TESTER)
        if engineer is None or not {TRY, RUN} <= set(engineer.actions):
            raise ActionError(f"{TESTER} is not at work, which runs tests", "Start it")
        if not patch.isascii() and patch != patch.encode("utf-8", "replace").decode("utf-8"):
            raise ActionError("The patch is not UTF-8, so no task can carry it")
        action, params = (TRY, {"repo": str(repo), "patch": patch}) if patch else (RUN, {"repo": str(repo)})
        text = f"Run the tests of {repo} again{' with the patch under review' if patch else ''}"
        result = await context.delegation.run(TESTER, text, action, params)
        if result.status is not TaskStatus.COMPLETED:
            raise ActionError(result.error_message or f"the run ended as {result.status}")
        return Tested(
            _read(result.metadata, "tests"), _read(result.metadata, "tests_before") if patch else None
        )

    return run


def _read(metadata: Mapping[str, Any], key: str) -> TestRun:
    try:
        return TestRun.from_dict(metadata[key])
    except (KeyError, TypeError, ValueError) as error:
        raise ActionError(f"the account of the tests cannot be read: {error}") from None


def judge_tests(record: ReviewRecord, claims: Sequence[Claims], tested: Tested) -> None:
    """Note what a run of tests shows about the ``claims`` that tests pass, and about their patches."""
    after, before = tested
    counts = format_counts(after)
    if after.flaky:
        counts += f" ({after.flaky[0]} failed once and then passed)"
    if before is not None:
        counts = f"without the patch {format_counts(before)}; with it {counts}"
    new = _new_failures(tested)
    for claim in claims:
        how = "its patch was tried on a copy" if claim.patches else "its tests were run again"
        if not after.command:
            note = record.skip if claim.tests else record.confirm
            note(claim.task, f"{how}; there are no tests to run")
        elif after.passed < 0 or ((after.incomplete or after.problem) and not after.failures):
            record.skip(claim.task, f"{how}, which says nothing: {after.problem or counts}")
        elif (after.exit_code and claim.tests) or (claim.patches and new):
            worst = next(iter(new), "") or next((each.test for each in after.failures), "")
            record.refute(claim.task, f"{how}: {counts}{f' ({worst} fails)' if worst else ''}")
        elif after.incomplete:
            record.skip(claim.task, f"{how}: {counts}, and not to the end: {after.problem}")
        else:
            record.confirm(claim.task, f"{how}: {counts}", Checked(tests=1))


def _new_failures(tested: Tested) -> list[str]:
    known = {each.test for each in tested.before.failures} if tested.before else set()
    return [each.test for each in tested.after.failures if each.test not in known]


def format_counts(tests: TestRun) -> str:
    """``3 passed, 1 failed``, or the exit code if nothing was counted."""
    kinds = ("passed", "failed", "errors", "skipped")
    counts = [f"{number:,} {kind}" for kind in kinds if (number := getattr(tests, kind)) > 0]
    return ", ".join(counts) or (f"exit code {tests.exit_code}" if tests.command else "no tests")


# --- runs on record ---------------------------------------------------------------------------------

RUNS = "run the tests"  # What the note of a test run in a task's journal begins with


def find_recorded_runs(results: Mapping[str, Any]) -> dict[str, str]:
    """What bears out the passing tests among ``results``, by task, a sentence each.

    A run counts if its tests were counted, its output is still there, and the journal of the task, which its
    requester read in the trail, has the note of the run.
    """
    found = {}
    for name, result in results.items():
        tests = _counted_run(as_mapping(result))
        if tests is not None and _is_journalled(as_mapping(result)):
            kinds = ("passed", "failed", "errors", "skipped")
            counts = [f"{number:,} {kind}" for kind in kinds if (number := getattr(tests, kind)) > 0]
            shown = ", ".join(counts) or "no tests"
            found[name] = f"checked against the record of the run: {shown}, exit code {tests.exit_code}"
    return found


def _counted_run(result: Mapping[str, Any]) -> TestRun | None:
    """The run of tests in a result, if they were counted and their output is there."""
    for value in as_mapping(result.get("metadata")).values():
        if not isinstance(value, Mapping) or not {"exit_code", "passed", "counted_by"} <= set(value):
            continue
        try:
            tests = msgspec.convert(value, TestRun)
        except (msgspec.ValidationError, ValueError):
            return None
        if tests.incomplete:
            return None
        runs = [run for run in (tests.suites or (tests,)) if not run.problem]
        counted = all(run.counted_by for run in runs)
        there = all(Path(run.log_path).is_file() for run in runs if run.log_path)
        return tests if runs and counted and there else None
    return None


def _is_journalled(result: Mapping[str, Any]) -> bool:
    """Whether the journal of the task has the note that is written before tests are run."""
    notes = map(as_mapping, as_list(result.get("journal")))
    return any(str(note.get("what", "")).startswith(RUNS) for note in notes)
