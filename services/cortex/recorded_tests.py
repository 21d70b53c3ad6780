"""Runs of tests on record: work on a repository ends with one by the engineer, and says what it came to."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from services.cortex.goals import GoalClient, lift
from shared import subjects
from shared.contracts import ResultOutcome, TaskStep, TestRun
from shared.contracts.task import worst_of
from shared.errors import ActionError
from shared.projects.reading import read_project
from shared.settings import Settings
from shared.skills.git import find_any
from shared.tasks.actions import Outcome
from shared.tasks.context import is_own
from shared.text.prose import PATH_IN_TEXT

RUN_TESTS, TRY_PATCH = "run_tests", "try_patch"
MAX_PATCH = 500_000  # Bytes of a patch that is tried; the tests of what a larger one changes are not run


def require_repo(path: str, settings: Settings) -> str:
    """``path`` as the absolute path of a folder outside of the office's own; raises ActionError."""
    folder = Path(path)
    if "\0" in path or not folder.is_absolute():
        raise ActionError(
            f"{path[:200]!r} is not an absolute path", "Give the whole path of the repository, from / on"
        )
    folder = folder.resolve()
    if not folder.is_dir() or is_own(settings, folder):
        raise ActionError(f"{path[:200]} is no folder of a project", "Name an existing one on this machine")
    return str(folder)


def find_repo(text: str, context: Mapping[str, Any], settings: Settings) -> str:
    """The repository that a job is about: the ``repo`` of its context, else the first project that it names.

    Empty for none; raises ActionError if the context names something else.
    """
    if named := context.get("repo"):
        return require_repo(str(named), settings)
    for found in PATH_IN_TEXT.finditer(text):
        path = (found["quoted"] or found["bare"]).rstrip(".,;:!?)")
        try:
            repo = require_repo(str(Path(path).expanduser()), settings)
        except (ActionError, OSError, RuntimeError):
            continue
        if find_any(Path(repo)) or read_project(Path(repo)).parts:
            return repo
    return ""


def plan_tests(repo: str, data: Sequence[Mapping[str, Any]], *, always: bool) -> TaskStep | None:
    """The step that puts a run of the tests of ``repo`` on record; None if the data of a step have one.

    If a step handed over a patch for it and no tests were run since, they are run with that; without a patch
    they are run if that is to be done ``always``.
    """
    untested, patch, text = always, "", ""
    for each in data:
        targets = each.get("patch_targets") or ()
        if changed := [str(target.get("path")) for target in targets if target.get("folder") == repo]:
            untested, patch = True, changed[-1]
        if each.get("tests"):
            untested = False
    if not untested:
        return None
    if patch:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            text = Path(patch).read_bytes()[: MAX_PATCH + 1].decode("utf-8")
    words, action, params = f"Run the tests of {repo}", RUN_TESTS, {"repo": repo}
    if 0 < len(text) <= MAX_PATCH:
        words, action, params = f"{words} with what was changed", TRY_PATCH, {"repo": repo, "patch": text}
    context = {"assignee": subjects.ENGINEER, "action": action, "params": params}
    return TaskStep(step_number=1, action=words, context=context)


async def end_with_tests(goals: GoalClient, outcome: Outcome, repo: str, *, always: bool) -> Outcome:
    """``outcome`` with what the tests of ``repo`` came to, run by the engineer unless that is on record."""
    step = await asyncio.to_thread(plan_tests, repo, [outcome.data], always=always)
    if step is None and "tests" not in outcome.data:
        return outcome
    tested, problem, came_to = None, "", outcome.outcome
    if step is not None:
        try:
            (tested,) = await goals.run_plan((step,), step.action, "tests")
            problem = tested.reason
        except ActionError as error:
            problem = str(error)
        came_to = tested.outcome if tested and tested.done else ResultOutcome.NOT_CHECKED
    data = [outcome.data, *([tested.data] if tested else ())]
    return msgspec.structs.replace(
        outcome,
        output=f"{outcome.output}\n\n{describe_tests(repo, data, problem)}",
        data={**outcome.data, **lift(data)},
        evidence_refs=(*outcome.evidence_refs, *(tested.evidence_refs if tested else ())),
        output_paths=(*outcome.output_paths, *(tested.output_paths if tested else ())),
        outcome=worst_of((outcome.outcome, came_to)),
    )


def describe_tests(repo: str, data: Sequence[Mapping[str, Any]], problem: str = "") -> str:
    """What the last run of tests on record came to; ``problem`` is why there is none."""
    tests = lift(data).get("tests")
    if not tests:
        return f"The tests of {repo} were not run: {problem or 'no run is on record'}"
    try:
        run = TestRun.from_dict(tests)
    except ValueError as error:
        return f"The tests of {repo} were run, and what they came to cannot be read: {error}"
    cut = f" (cut short: {run.problem})" if run.incomplete and run.counts else ""
    return f"The tests of {repo}: {run.counts or run.problem or 'none were counted'}{cut}."
