"""Tests whose run is on record are not run twice; one that is not, or was changed since, is."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from services.critic.__main__ import Critic
from services.engineer.__main__ import Engineer
from shared import subjects
from shared.agent.base import Agent
from shared.bus.records import submission_entry
from shared.contracts import Task, TaskChanged, TaskResult, TestRun, Verdict, generate_task_id
from shared.tasks.actions import Outcome, register_action
from shared.tasks.profiles import Profile, load_profile
from tests.flow.test_critic_agent import PROFILE
from tests.flow.test_engineer_agent import PROFILE as ENGINEER
from tests.support.team import Team, open_team
from tests.unit.test_source_tree import plant

FAILING = "import unittest\n\nclass It(unittest.TestCase):\n    def test_it(self):\n        self.fail()\n"


class Claimant(Agent):
    """Runs no tests, but writes what an engineer writes who did: the note, and the account."""

    @register_action("Run the tests", {"counted_by": "By what", "noted": "Whether it is noted"})
    async def run_tests(self, counted_by: str, noted: bool = True) -> Outcome:
        """An account of tests that pass."""
        if noted:
            async with self.context.effect("run the tests in a copy: python -m pytest", repeatable=True):
                pass
        log = self.context.settings.outputs / "tests.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("12 passed")
        run = TestRun(
            command="python -m pytest",
            exit_code=0,
            passed=12,
            failed=0,
            skipped=1,
            errors=0,
            counted_by=counted_by,
            log_path=str(log),
        )
        return Outcome(output="Tests: 12 passed", data={"tests": run.to_dict()})


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    async with open_team(tmp_path, ["critic", "engineer", "claimant"]) as team:
        await team.join(Critic, load_profile(PROFILE))
        await team.join(Claimant, Profile(name="claimant", description="Tests."))
        await team.join(Engineer, load_profile(ENGINEER))
        yield team


async def review_of(team: Team, repo: Path, **params: Any) -> tuple[Verdict, TaskResult]:
    """The review of a run of tests that never took place, but is on record."""
    task = Task(
        task_id=generate_task_id(),
        text="x",
        assignee="claimant",
        requester="user",
        context={"action": "run_tests", "params": params},
    )
    await team.user.commit([submission_entry(task)])
    done = (await team.result("claimant", "user", task.task_id)).to_dict()
    steps = subjects.task("claimant", "user", task.task_id, "*")
    request = {"seq": 1, "next_by_subj": steps, "batch": 100}
    found = [each async for each in team.user.read(subjects.OFFICE, request)]
    written = [each for each in found if each.subject.rpartition(".")[2] in subjects.AT_WORK]
    journal = TaskChanged.from_json(written[-1].data).to_dict()["journal"] if written else []
    results = {"tests": {**done, "repo": str(repo), "journal": journal}}
    reviewed = await team.perform("critic", "review", results=results)
    return Verdict.from_dict(reviewed.metadata["verdict"]), reviewed


async def test_a_run_on_record_is_not_repeated(team: Team, tmp_path: Path) -> None:
    repo = plant(tmp_path / "shop", {"test_it.py": "def test_it():\n    pass\n"})
    verdict, reviewed = await review_of(team, repo, counted_by="JUnit report")
    assert verdict.reasons == (
        "tests: checked against the record of the run: 12 passed, 1 skipped, exit code 0",
    )
    assert (verdict.decision, reviewed.metadata["runs"]) == ("approved", [])


@pytest.mark.parametrize(
    "params",
    [{"counted_by": ""}, {"counted_by": "JUnit report", "noted": False}],
)
async def test_what_is_not_on_record_is_run(team: Team, tmp_path: Path, params: dict[str, Any]) -> None:
    repo = plant(tmp_path / "shop", {"test_it.py": FAILING})
    verdict, reviewed = await review_of(team, repo, **params)
    assert verdict.decision == "sent_back", verdict.reasons
    assert reviewed.metadata["runs"]
