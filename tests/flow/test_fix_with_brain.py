"""'Fix the failing test', with a model: it ends with a patch that the critic had run, or is not approved."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.critic.__main__ import Critic
from services.engineer.__main__ import Engineer
from shared.contracts import Goal, ResultOutcome
from shared.tasks.profiles import Profile, load_profile
from tests.flow.test_conductor_brain import Thoughtful
from tests.flow.test_conductor_goals import Stage
from tests.flow.test_critic_agent import PROFILE
from tests.support.team import open_team

pytestmark = pytest.mark.timeout(110)
ENGINEER = Path(__file__).parents[2] / "services" / "engineer" / "profile.yaml"
TEST = """\
import unittest, sums


class Sums(unittest.TestCase):
    def test_add(self):
        self.assertEqual(sums.add(1, 2), 3)

    def test_zero(self):
        self.assertEqual(sums.add(0, 0), 0)
"""


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    return {"call": {"name": name, "arguments": arguments}}


@asynccontextmanager
async def office(tmp_path: Path, repo: Path, *steps: dict[str, Any]) -> AsyncIterator[Stage]:
    plan = {
        "tasks": [
            {
                "name": "fix",
                "assignee": "engineer",
                "text": f"Fix the failing test of {repo}, as ~nobody-there/notes and /{'x' * 300} say",
            }
        ]
    }
    entries = [
        {"agent": "conductor", "match": "^Make a plan", "replies": [{"json": plan}]},
        {"agent": "conductor", "match": "^The plan", "replies": [{"text": "No."}]},
        {"agent": "conductor", "replies": [{"json": {"answer": "It adds.", "citations": ["fix"]}}]},
        {"agent": "engineer", "replies": list(steps)},
        {"agent": "critic", "replies": [{"json": {"approved": True}}]},
    ]
    path = tmp_path / "script.yaml"
    path.write_text(yaml.safe_dump(json.loads(json.dumps(entries))))
    names = ["conductor", "critic", "engineer", "memory"]
    async with open_team(tmp_path, names, MAILROOM_BRAIN=f"scripted:{path}") as team:
        await team.join(Engineer, load_profile(ENGINEER))
        await team.join(Critic, load_profile(PROFILE))
        await team.join(Thoughtful, Profile(name="conductor", description="Conducts.", concurrency=8))
        yield Stage(team, None, None)  # type: ignore[arg-type]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "sums.py").write_text("def add(a, b):\n    return a - b\n")
    (folder / "test_sums.py").write_text(TEST)
    return folder


async def fixed(tmp_path: Path, repo: Path, *steps: dict[str, Any]) -> Goal:
    async with office(tmp_path, repo, *steps) as stage:
        await stage.submit("g1", {}, f"Fix the failing test in {repo}")
        return await stage.ended("g1")


async def test_the_patch_is_run_by_the_critic_without_and_with_it(tmp_path: Path, repo: Path) -> None:
    goal = await fixed(
        tmp_path,
        repo,
        calls("edit_file", path="shop/sums.py", edits=[{"old": "a - b", "new": "a + b"}]),
        calls("test_changes", folder="shop"),
        {"text": "It subtracted; I fixed it. All tests pass."},
    )
    assert goal.outcome is ResultOutcome.DONE, (goal.verdict, goal.reason)
    counts = "fix: its patch was tried on a copy: without the patch 1 passed, 1 failed; with it 2 passed"
    assert counts in goal.verdict["reasons"]
    report = Path(goal.report_path).read_text()
    assert "+    return a + b" in report
    assert "1 passed, 1 failed" in report
    assert (repo / "sums.py").read_text().endswith("a - b\n")


async def test_a_patch_that_breaks_a_test_is_not_approved(tmp_path: Path, repo: Path) -> None:
    goal = await fixed(
        tmp_path,
        repo,
        calls("copy_project", repo=str(repo), folder="shop"),
        calls("edit_file", path="shop/sums.py", edits=[{"old": "a - b", "new": "3"}]),
        {"text": "Now it gives what is expected."},
    )
    assert goal.outcome is ResultOutcome.FAILED
    counts = "without the patch 1 passed, 1 failed; with it 1 passed, 1 failed"
    assert any(counts in reason for reason in goal.verdict["reasons"]), goal.verdict


async def test_what_was_only_said_is_not_approved(tmp_path: Path, repo: Path) -> None:
    goal = await fixed(tmp_path, repo, {"text": "I fixed it. All tests pass."})
    assert goal.outcome is ResultOutcome.FAILED
    assert "fix: it says 'I fixed', and there is neither a patch nor a file" in goal.verdict["reasons"]
    assert "Not borne out by what is on record" in Path(goal.report_path).read_text()
