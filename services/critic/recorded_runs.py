"""Runs of tests that are on record, so that they need not take their time twice."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from services.critic.claims import as_list, as_mapping
from shared.contracts import TestRun

RUNS = "run the tests"
"""What the note of a test run in a task's journal begins with."""


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
        runs = [run for run in (tests.suites or (tests,)) if not run.problem]
        counted = all(run.counted_by for run in runs)
        there = all(Path(run.log_path).is_file() for run in runs if run.log_path)
        return tests if runs and counted and there else None
    return None


def _is_journalled(result: Mapping[str, Any]) -> bool:
    """Whether the journal of the task has the note that is written before tests are run."""
    notes = map(as_mapping, as_list(result.get("journal")))
    return any(str(note.get("what", "")).startswith(RUNS) for note in notes)
