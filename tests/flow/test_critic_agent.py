"""The critic at work: its actions as tasks."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.critic.__main__ import Critic
from shared import subjects
from shared.bus.entry import seal
from shared.bus.records import read_task_state, submission_entry
from shared.contracts import (
    ApprovalAnswer,
    ApprovalRequest,
    Inspection,
    ResultOutcome,
    Task,
    TaskStatus,
    Verdict,
    generate_task_id,
)
from shared.tasks.profiles import load_profile
from shared.text.display import count
from tests.flow.test_critic_checks import AWS, BUGGY
from tests.support.team import Team, open_team
from tests.support.waiting import eventually
from tests.unit.test_source_tree import plant

PROFILE = Path(__file__).parents[2] / "services" / "critic" / "profile.yaml"


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    async with open_team(tmp_path, ["critic"]) as team:
        await team.join(Critic, load_profile(PROFILE))
        yield team


async def test_the_critic_inspects_and_reviews_its_own_inspection(team: Team, tmp_path: Path) -> None:
    files = {
        "web.py": BUGGY,
        "db.py": f"import web\nKEY = '{AWS}'\n",
        "ARCHITECTURE.md": "`db` must not import `web`.\n",
    }
    repo = str(plant(tmp_path / "shop", files))
    result = await team.perform("critic", "inspect_repository", repo=repo)
    assert result.status is TaskStatus.COMPLETED
    inspection = Inspection.from_dict(result.metadata["inspection"])
    assert inspection.drift[0].violations[0].source == "db.py:1"
    assert AWS not in result.to_json().decode()

    results = {"inspection": result.to_dict(), "tests": {"status": "failed", "error_message": "no runner"}}
    reviewed = await team.perform("critic", "review", results=results, repo=repo)
    verdict = Verdict.from_dict(reviewed.metadata["verdict"])
    assert verdict.decision == "approved"
    head, *_, again = reviewed.output.splitlines()
    assert head == "Checked: the inspection was repeated; 8 of 8 sources were found."
    ran = ", ".join(f"{tool.name} ({count(tool.findings, 'finding')})" for tool in inspection.tools)
    assert again == (f"- inspection: run again with the same result: {ran}, 1 stated rule (1 broken)")
    (tmp_path / "shop" / "web.py").unlink()
    again = await team.perform("critic", "review", results=results, repo=repo)
    assert Verdict.from_dict(again.metadata["verdict"]).redo == ("inspection",)

    linted = await team.perform("critic", "lint", repo=repo)
    assert {tool["name"] for tool in linted.metadata["inspection"]["tools"]} == {"ruff", "documents"}
    scanned = await team.perform("critic", "scan_security", repo=repo)
    assert [(tool["name"], tool["files"]) for tool in scanned.metadata["inspection"]["tools"]] == [
        ("bandit", 1)
    ]
    leaks = await team.perform("critic", "scan_secrets", repo=repo)
    assert leaks.evidence_refs == ("db.py:2",)
    drift = await team.perform("critic", "check_drift", repo=repo)
    assert drift.evidence_refs == ("ARCHITECTURE.md:1", "db.py:1")
    assert "- `db` must not import `web`. [ARCHITECTURE.md:1]: 1 violation" in drift.output


LOCKED = {
    "requirements.txt": "idna==3.0\n",
    "package-lock.json": '{"lockfileVersion": 3, "packages":'
    ' {"node_modules/lodash": {"version": "4.17.11"}}}',
    "package.json": '{"dependencies": {"lodash": "*"}}',
}


async def submit_in_goal(team: Team, action: str, repo: str) -> str:
    task = Task(
        task_id=generate_task_id(),
        text=action,
        assignee="critic",
        requester=subjects.USER,
        goal_id="goal_1",
        context={"action": action, "params": {"repo": repo}},
    )
    await team.user.commit([submission_entry(task)])
    return task.task_id


async def list_requests(team: Team) -> list[ApprovalRequest]:
    wanted = {"seq": 1, "batch": 10, "next_by_subj": subjects.approval_asked("critic", "*")}
    return [ApprovalRequest.from_json(row.data) async for row in team.user.read(subjects.OFFICE, wanted)]


async def test_all_registries_are_asked_for_at_once_and_once_a_goal(team: Team, tmp_path: Path) -> None:
    repo = str(plant(tmp_path / "shop", LOCKED))
    first = await submit_in_goal(team, "find_outdated", repo)
    await eventually(lambda: list_requests(team))
    (request,) = await list_requests(team)
    assert set(request.reach) == {"python", "javascript"}
    assert "registry.npmjs.org" in request.what
    assert "pypi.org" in request.what
    answer = ApprovalAnswer(
        sender=subjects.USER,
        recipient="critic",
        goal_id=request.goal_id,
        approval_id=request.approval_id,
        granted=False,
        digest=request.digest,
    )
    await team.user.commit(
        [seal(subjects.approval_answered("critic", request.approval_id), answer, expect=0)]
    )
    result = await team.result("critic", subjects.USER, first)
    assert "may not be asked" in result.output
    second = await submit_in_goal(team, "scan_dependencies", repo)
    again = await team.result("critic", subjects.USER, second)
    assert "no host that knows them may be reached" in again.output
    whole = await team.perform("critic", "inspect_repository", repo=repo)
    assert "no host that knows them may be reached" in whole.output
    assert len(await list_requests(team)) == 1


async def test_a_question_does_not_wait_behind_whole_inspections(team: Team, tmp_path: Path) -> None:
    large = str(plant(tmp_path / "large", {f"m{n}.py": "x = [1, 2]\n" * 2_000 for n in range(40)}))
    small = str(plant(tmp_path / "small", {"a.py": "import os\n"}))
    ids = [await submit_in_goal(team, "inspect_repository", large) for _ in range(5)]
    await eventually(lambda: count_claimed(team, ids))
    linted = await team.perform("critic", "lint", repo=small)
    assert linted.status is TaskStatus.COMPLETED
    states = [await read_task_state(team.user, "critic", subjects.USER, each) for each in ids]
    assert not any(state and state.result for state in states)


async def count_claimed(team: Team, ids: list[str]) -> int:
    states = [await read_task_state(team.user, "critic", subjects.USER, each) for each in ids]
    claimed = sum(bool(state and state.worker) for state in states)
    return claimed if claimed >= 2 else 0


async def test_a_folder_that_is_none_fails_with_a_sentence(team: Team) -> None:
    for action in ("inspect_repository", "lint", "scan_security", "scan_secrets", "check_drift"):
        result = await team.perform("critic", action, repo="shop")
        assert result.status is TaskStatus.FAILED
        assert "'shop' is not an absolute path" in result.error_message


READ = {
    "rules": [
        {
            "document": "README.md",
            "quote": "Views stay ignorant of how things are kept.",
            "plain": "`views` must not import `store`.",
        },
        {"document": "README.md", "quote": "It is always pleasant to read.", "plain": ""},
        {"document": "README.md", "quote": "Nobody ever wrote this.", "plain": "Never use `json`."},
        {"document": "nowhere.md", "quote": "Never use json.", "plain": "Never use `json`."},
    ]
}


@pytest.mark.parametrize("reply", [{"json": READ}, {"error": "unavailable"}])
async def test_a_model_reads_rules_that_it_quotes(tmp_path: Path, reply: dict[str, Any]) -> None:
    script = tmp_path / "script.yaml"
    script.write_text(yaml.safe_dump([{"match": "List as JSON the rules", "replies": [reply] * 9}]))
    text = "# Shop\n\nViews stay ignorant\nof how things are kept. It is always pleasant to read.\n"
    files = {"README.md": text, "views.py": "import json\nimport store\n", "store.py": ""}
    repo = str(plant(tmp_path / "shop", files))
    async with open_team(tmp_path, ["critic"], MAILROOM_BRAIN=f"scripted:{script}") as team:
        await team.join(Critic, load_profile(PROFILE))
        result = await team.perform("critic", "check_drift", repo=repo)
    found = Inspection.from_dict(result.metadata["inspection"])
    if "error" in reply:
        assert found.drift == ()
        assert "the model did not read the documents" in found.drift_note
        return
    first, second = found.drift
    assert (first.source, [each.source for each in first.violations]) == ("README.md:3", ["views.py:2"])
    assert (second.source, bool(second.not_checked)) == ("README.md:4", True)
    assert "(read by a model as: `views` must not import `store`.)" in found.drift[0].rule
    assert result.outcome is ResultOutcome.FINDINGS
