"""The engineer's actions, called as a task would call them; only the bus is missing."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from services.engineer.__main__ import Engineer
from services.engineer.working_copy import remove_old
from shared.contracts import HistoryReading, ResultOutcome, Task, TestRun
from shared.errors import ActionError
from shared.settings import Settings
from shared.tasks.actions import collect_actions
from shared.tasks.context import TaskContext, current_task
from shared.tasks.profiles import load_profile

PROFILE = Path(__file__).parents[2] / "services" / "engineer" / "profile.yaml"


class Journal:
    """Stands in for the claim of a task: keeps what would be written into its record."""

    def __init__(self) -> None:
        self.task = Task(
            task_id="task_1", parent_goal_id="goal_1", text="x", assignee="engineer", requester="conductor"
        )
        self.attempt = 1
        self.entries: list[str] = []

    async def note(self, text: str, others: object = ()) -> None:
        self.entries.append(text)

    @contextlib.asynccontextmanager
    async def effect(self, what: str, *, repeatable: bool = False, confined: bool = False, step: str = ""):
        self.entries.append(f"begins to {what} ({repeatable})")
        yield
        self.entries.append("done")


@pytest.fixture
def journal():
    journal = Journal()
    token = current_task.set(TaskContext(journal))
    yield journal
    current_task.reset(token)


@pytest.fixture
def engineer(tmp_path):
    settings = Settings(state_dir=tmp_path / "state", command_timeout=60)
    return Engineer(load_profile(PROFILE), settings, SimpleNamespace(name="engineer", host="office"))


@pytest.fixture
def repo(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    test = "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): self.assertEqual(1, 2)\n"
    (folder / "test_a.py").write_text(test)
    git = ["git", "-C", str(folder), "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    subprocess.run([*git, "init", "--quiet", "--initial-branch=trunk"], check=True)
    subprocess.run([*git, "add", "--all"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message", "Begin"], check=True)
    return folder


async def call(engineer: Engineer, name: str, **params: Any):
    return await engineer.context.actions.perform(name, params)


async def test_runs_tests_and_journals_it(engineer, journal, repo, tmp_path):
    outcome = await call(engineer, "run_tests", repo=str(repo))
    tests = TestRun.from_dict(outcome.data["tests"])
    assert (tests.passed, tests.failed) == (0, 1)
    assert outcome.output.startswith("Tests: 0 passed, 1 failed in ")
    log = str(tmp_path / "state" / "outputs" / "goal_1" / "tests.log")
    assert outcome.output_paths == (log,)
    assert outcome.outcome is ResultOutcome.FINDINGS
    assert [each.ecosystem for each in tests.prepared] == ["python"]
    assert outcome.evidence_refs == ("test_a.py:1", "test_a.py:3", log)
    assert [entry for entry in journal.entries if "venv" not in entry and "version" not in entry] == [
        f"copies {repo}",
        "begins to run the tests in a copy: python -m unittest discover (True)",
        "runs python -m unittest discover, found in test_a.py:1 (imports unittest)",
        "runs python -m unittest test_a.T.test_a once more",
        "done",
    ]
    assert not list((tmp_path / "state" / "workspaces").iterdir())


async def test_tells_status_log_and_history(engineer, journal, repo):
    (repo / "new.py").touch()
    status = await call(engineer, "git_status", repo=str(repo))
    assert status.output == "On branch trunk, with 1 uncommitted change:\n- untracked new.py"
    log = await call(engineer, "git_log", repo=str(repo), limit=1)
    assert log.output.startswith("1 commit, the latest: ")
    history = await call(engineer, "read_history", repo=str(repo))
    reading = HistoryReading.from_dict(history.data["history"])
    assert (reading.branch, reading.commits, reading.changes) == ("trunk", 1, ("untracked new.py",))
    assert history.evidence_refs == (reading.latest[0].source,)
    assert history.output == f"{status.output}\n{log.output}"


async def test_a_folder_without_git(engineer, journal, tmp_path):
    history = await call(engineer, "read_history", repo=str(tmp_path))
    assert "is not in a git repository" in history.data["history"]["problem"]
    for action in ("git_status", "git_log"):
        with pytest.raises(ActionError, match="is not in a git repository"):
            await call(engineer, action, repo=str(tmp_path))


@pytest.mark.parametrize("action", ["run_tests", "git_status", "git_log", "read_history"])
@pytest.mark.parametrize("path", ["", "project", "/no/such/folder", sys.executable])
async def test_a_path_that_will_not_do_is_refused_with_the_cure(engineer, journal, action, path):
    with pytest.raises(ActionError) as refused:
        await call(engineer, action, repo=path)
    assert refused.value.cure


@pytest.mark.parametrize("limit", [0, -1, 1001])
async def test_a_limit_out_of_bounds_is_refused(engineer, journal, repo, limit):
    with pytest.raises(ActionError, match="limit must be between 1 and 1000"):
        await call(engineer, "git_log", repo=str(repo), limit=limit)


def test_old_working_copies_are_removed(engineer, tmp_path):
    old = tmp_path / "state" / "workspaces" / "task_0.copies" / "attempt-1"
    old.mkdir(parents=True)
    os.utime(old, (0, 0))
    remove_old(engineer.context.settings, ())
    assert not old.exists()


def test_the_profile_and_the_actions_fit(engineer):
    assert engineer.context.profile.name == "engineer"
    own = {"copy_project", "git_log", "git_status", "read_history", "run_tests", "test_changes", "try_patch"}
    assert own <= set(collect_actions(engineer))
