"""Tasks that change one project side by side: each in a clone of its own, delivered as one merged patch."""

import json
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.cortex.__main__ import Cortex
from services.critic.__main__ import Critic
from services.engineer.__main__ import Engineer
from shared.contracts import Goal, ResultOutcome
from shared.operations.patches import apply_patch, fit_patch
from shared.queries.results import read_patches
from shared.tasks.profiles import Profile, load_profile
from tests.flow.test_conductor_brain import Thoughtful
from tests.flow.test_conductor_goals import Stage
from tests.flow.test_critic_agent import PROFILE
from tests.flow.test_fix_with_brain import ENGINEER, calls
from tests.support.team import open_team

pytestmark = pytest.mark.timeout(110)
SUMS = "def add(a, b):\n    return a - b\n\n\n# between them\n\n\ndef double(a):\n    return a\n"
TEST = """\
import unittest, sums


class Sums(unittest.TestCase):
    def test_add(self):
        self.assertEqual(sums.add(1, 2), 3)

    def test_double(self):
        self.assertEqual(sums.double(2), 4)
"""
Steps = Sequence[dict[str, Any]]


def engineers_task(name: str, text: str, *needs: str) -> dict[str, Any]:
    return {"name": name, "assignee": "engineer", "text": text, "depends_on": needs}


def change(repo: Path, search: str, replace: str, folder: str = "shop") -> Steps:
    return [
        calls("copy_project", repo=str(repo), folder=folder),
        calls("edit_file", path=f"{folder}/sums.py", edits=[{"old": search, "new": replace}]),
        {"text": "I changed it."},
    ]


@asynccontextmanager
async def office(
    tmp_path: Path, tasks: list[dict[str, Any]], work: Mapping[str, Steps]
) -> AsyncIterator[Stage]:
    """A team whose conductor plans ``tasks``; its engineer does ``work``, by how its tasks begin."""
    entries = [
        {"agent": "conductor", "match": "^Make a plan", "replies": [{"json": {"tasks": tasks}}]},
        {"agent": "conductor", "match": "^The plan", "replies": [{"text": "No."}]},
        {"agent": "conductor", "replies": [{"json": {"answer": "Done.", "citations": [tasks[0]["name"]]}}]},
        *({"agent": "engineer", "match": words, "replies": list(steps)} for words, steps in work.items()),
        {"agent": "critic", "replies": [{"json": {"approved": True}}]},
    ]
    path = tmp_path / "script.yaml"
    path.write_text(yaml.safe_dump(json.loads(json.dumps(entries))))
    names = ["conductor", "cortex", "critic", "engineer", "memory"]
    async with open_team(tmp_path, names, MAILROOM_BRAIN=f"scripted:{path}") as team:
        await team.join(Engineer, load_profile(ENGINEER))
        await team.join(Critic, load_profile(PROFILE))
        await team.join(Thoughtful, Profile(name="conductor", description="Conducts.", concurrency=8))
        yield Stage(team, None, None)  # type: ignore[arg-type]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "sums.py").write_text(SUMS)
    (folder / "test_sums.py").write_text(TEST)
    git = ["git", "-C", str(folder), "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "add", "--all"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message", "Begin"], check=True)
    return folder


async def patches_of(stage: Stage, goal: Goal) -> list[Path]:
    """The patches that the goal delivers."""
    return [Path(patch.path) for patch in await read_patches(stage.user, goal, 1_000_000)]


def pair(repo: Path) -> list[dict[str, Any]]:
    return [
        engineers_task("add", f"Job A: make add of {repo} right"),
        engineers_task("double", f"Job B: make add and double of {repo} right"),
    ]


async def test_two_changes_at_the_same_time_become_one_patch(tmp_path: Path, repo: Path) -> None:
    work = {
        "Job A": change(repo, "a - b", "a + b"),
        "Job B": change(repo, "return a\n", "return 2 * a\n"),
    }
    async with office(tmp_path, pair(repo), work) as stage:
        await stage.submit("g1", {}, f"Make add and double of {repo} right")
        goal = await stage.ended("g1")
        (patch,) = await patches_of(stage, goal)
    assert goal.outcome is ResultOutcome.DONE, (goal.reason, goal.verdict)
    add, double, merge = goal.tasks
    assert (merge.action, merge.depends_on) == ("merge_changes", ("add", "double"))
    own = [Path(task.changes[0].path).read_text() for task in (add, double)]
    assert ["return a + b" in text for text in own] == [True, False]
    assert ["return 2 * a" in text for text in own] == [False, True]
    assert patch == Path(merge.changes[0].path)
    assert "Tests: 2 passed" in Path(goal.report_path).read_text()
    assert fit_patch(patch, repo).problem == ""
    apply_patch(patch, repo)
    text = (repo / "sums.py").read_text()
    assert "return a + b" in text
    assert "return 2 * a" in text


WRONG, BOTH = "def add(a, b):\n    return a - b", "def add(a, b, c=0):\n    return a + b + c"


async def test_a_conflict_becomes_a_task_with_both_sides(tmp_path: Path, repo: Path) -> None:
    settled = [
        calls("read_file", path="shop/sums.py"),
        calls("write_file", path="shop/sums.py", content=SUMS.replace(WRONG, BOTH)),
        calls("test_changes", folder="shop"),
        {"text": "Both are there."},
    ]
    work = {
        "Make both sides of a conflict one": settled,
        "Job A": change(repo, WRONG, WRONG.replace("-", "+")),
        "Job B": change(repo, WRONG, BOTH.replace("+ b", "- b")),
    }
    async with office(tmp_path, pair(repo), work) as stage:
        await stage.submit("g1", {}, f"Make add and double of {repo} right")
        goal = await stage.ended("g1")
        (patch,) = await patches_of(stage, goal)
    names = [(task.name, task.action, str(task.status)) for task in goal.tasks]
    assert names[2:] == [("merge", "", "completed"), ("merge-2", "merge_changes", "completed")], goal.reason
    asked = goal.tasks[2]
    assert "except in sums.py" in asked.text
    assert "- double: Job B: make add and double" in asked.text
    assert asked.merges == tuple(task.changes[0].path for task in goal.tasks[:2])
    text = patch.read_text()
    assert "+    return a + b + c" in text
    assert "<<<<<<<" not in text
    assert "Tests: 1 passed, 1 failed" in Path(goal.report_path).read_text()  # double was not made right


async def test_what_could_not_be_merged_is_said(tmp_path: Path, repo: Path) -> None:
    work = {
        "Make both sides of a conflict one": [{"text": "I cannot tell what is right."}],
        "Job A": change(repo, "return a - b", "return a + b"),
        "Job B": change(repo, "return a - b", "return sum((a, b))"),
    }
    async with office(tmp_path, pair(repo), work) as stage:
        await stage.submit("g1", {}, f"Make add and double of {repo} right")
        goal = await stage.ended("g1")
        patches = await patches_of(stage, goal)
    assert goal.outcome is ResultOutcome.FAILED
    left = goal.tasks[1].changes[0].path
    assert (
        f"what double changed could not be merged with add, and its patch is left as it is, {left}"
        in goal.reason
    )
    assert "conflict marks in shop/sums.py" in goal.reason
    assert patches == [Path(task.changes[0].path) for task in goal.tasks[:2]]  # for a person to decide
    assert "return sum((a, b))" in Path(left).read_text()


async def test_a_task_begins_with_what_those_it_depends_on_made(tmp_path: Path, repo: Path) -> None:
    plan = [
        *pair(repo),
        engineers_task("note", "Job C: make a note"),
        engineers_task("check", "Job D: check it all", "add", "double", "note"),
    ]
    work = {
        "Job A": change(repo, "a - b", "a + b", "first"),
        "Job B": change(repo, "return a\n", "return 2 * a\n", "second"),
        "Job C": [calls("write_file", path="notes/a.md", content="A note"), {"text": "Wrote it."}],
        "Job D": [
            calls("copy_project", repo=str(repo)),
            calls("run_shell", command="ls; cat notes/a.md first/sums.py; cd first; git status --short"),
            calls("write_file", path="first/README.md", content="Sums.\n"),
            {"text": "It is all there."},
        ],
    }
    async with office(tmp_path, plan, work) as stage:
        await stage.submit("g1", {}, f"Make add and double of {repo} right")
        goal = await stage.ended("g1")
        (patch,) = await patches_of(stage, goal)
    names = [task.name for task in goal.tasks]
    assert names == ["add", "double", "note", "merge", "check", "merge-2"], (goal.reason, goal.tasks)
    check = next(task for task in goal.tasks if task.name == "check")
    seen = "".join(path.read_text() for path in tmp_path.glob("state/outputs/g1/commands/*.log"))
    assert seen.startswith("first\nnotes\nA note")
    assert "return a + b" in seen
    assert "return 2 * a" in seen
    own = Path(check.changes[0].path).read_text()
    assert "README.md" in own
    assert "sums.py" not in own
    assert all(part in patch.read_text() for part in ("return a + b", "return 2 * a", "README.md"))


async def test_changes_of_a_plan_of_cortex_are_merged_too(tmp_path: Path, repo: Path) -> None:
    work = {
        "Job A": change(repo, "a - b", "a + b"),
        "Job B": change(repo, "return a\n", "return 2 * a\n"),
    }
    texts = [task["text"] for task in pair(repo)]
    steps = [
        {"step_number": number, "action": text, "context": {"assignee": "engineer"}}
        for number, text in enumerate(texts, start=1)
    ]
    async with office(tmp_path, pair(repo), work) as stage:
        await stage.team.join(Cortex, load_profile(ENGINEER.parents[1] / "cortex" / "profile.yaml"))
        goals = []
        for name, some in (("g1", steps), ("g2", steps[:1])):
            params = {"plan": {"steps": some}}
            context = {"assignee": "cortex", "action": "execute_plan", "params": params}
            await stage.submit(name, context, "Do it")
            goals.append(await stage.ended(name))
        goal, single = goals
        (patch,) = await patches_of(stage, goal)
        (alone,) = await patches_of(stage, single)
    assert len(single.tasks) == 1
    assert "return a + b" in alone.read_text()
    (plan,) = goal.tasks
    assert [patch] == [Path(each.path) for each in plan.changes]  # merged where it was planned
    assert all(part in patch.read_text() for part in ("return a + b", "return 2 * a"))
