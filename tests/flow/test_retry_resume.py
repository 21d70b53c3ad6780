"""Goals that a person begins again, goes on with, or adds words to while agents work on them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared import subjects
from shared.agent.base import Agent
from shared.contracts import AgentReport, Goal, ResultOutcome, TaskStatus
from shared.tasks.actions import register_action
from shared.tasks.profiles import Profile
from shared.tasks.said import is_named
from tests.flow.test_conductor_brain import answer, plan, script, task
from tests.flow.test_conductor_brain import stage as brainy
from tests.flow.test_conductor_goals import Judge, Planned, Stage, fail, refuse, stage
from tests.support.team import open_team

__all__ = ["stage"]
pytestmark = pytest.mark.timeout(30)


async def submit(stage: Stage, **body: Any) -> None:
    await stage.user.store(subjects.SUBMIT, json.dumps(body).encode())


async def refused(stage: Stage, request_id: str) -> AgentReport:
    while True:
        for data in await stage.messages("mail.user.conductor"):
            report = AgentReport.from_json(data)
            if report.report_id == request_id:
                return report
        await asyncio.sleep(0.02)


async def ended_again(stage: Stage, goal_id: str, request_id: str) -> Goal:
    def is_over(goal: Goal) -> bool:
        return goal.status.final and any(each.id == request_id for each in goal.instructions)

    await stage.until(is_over, goal_id)
    return await stage.ended(goal_id)


async def test_a_retried_goal_is_a_new_one_with_the_same_words(stage: Stage) -> None:
    stage.worker.ways["a"] = fail("it rained")
    lost = await stage.play("g1", {"playbook": "one", "place": "/srv/shop"})
    assert (lost.status, lost.outcome) == (TaskStatus.FAILED, ResultOutcome.FAILED)
    stage.worker.ways.clear()
    await submit(stage, retry="g1", goal_id="g2")
    again = await stage.ended("g2")
    assert (again.status, again.outcome, again.retry_of) == (TaskStatus.COMPLETED, "done", "g1")
    assert (again.text, again.context, again.requester) == (lost.text, lost.context, "user")
    assert again.said is not None
    assert lost.said is not None
    assert again.said.text == lost.said.text == "/srv/shop"
    await submit(stage, retry="g1", goal_id="g2")  # once more: it is known
    await submit(stage, retry="none", goal_id="g3")
    assert (await stage.ended("g3")).reason.startswith("There is no goal 'none' to retry")
    assert stage.worker.done == ["a", "a"]


async def test_a_goal_that_runs_is_not_retried(stage: Stage) -> None:
    stage.worker.gate.clear()
    await stage.submit("g1", {"playbook": "one"})
    await stage.until(lambda goal: bool(goal.tasks))
    await submit(stage, retry="g1", goal_id="g2")
    told = await stage.ended("g2")
    assert told.status is TaskStatus.FAILED
    assert told.reason.startswith("The goal g1 still runs. Add to it with: mailroom resume g1 --say")
    stage.worker.gate.set()


async def test_a_failed_goal_goes_on_where_it_failed(stage: Stage) -> None:
    stage.worker.ways["b"] = fail("it rained")
    first = await stage.play("g1", {"playbook": "chain"})
    assert first.outcome is ResultOutcome.FAILED
    stage.worker.ways.clear()
    for _ in range(2):  # the second is the same request, sent again
        await submit(stage, resume="g1", text="Mind /srv/umbrella", request_id="say-1")
    goal = await ended_again(stage, "g1", "say-1")
    assert (goal.status, goal.outcome, goal.reason) == (TaskStatus.COMPLETED, "done", "")
    assert stage.worker.done == ["a", "b", "b", "c"]
    assert stage.worker.contexts["c"]["instructions"] == ["Mind /srv/umbrella"]
    assert [each.text for each in goal.instructions] == ["Mind /srv/umbrella"]
    assert goal.deadline > first.deadline
    assert goal.said is not None
    assert goal.said.text == "Mind /srv/umbrella"


async def test_what_was_sent_back_is_done_again_and_what_holds_is_kept(stage: Stage) -> None:
    stage.judge.verdicts = [refuse("b")] * 3
    first = await stage.play("g1", {"playbook": "two"})
    assert first.outcome is ResultOutcome.FAILED
    done = list(stage.worker.done)
    await submit(stage, resume="g1", text="", request_id="again")
    goal = await ended_again(stage, "g1", "again")
    assert goal.outcome is ResultOutcome.DONE, goal.reason
    assert stage.worker.done == [*done, "b"]


async def test_what_cannot_go_on_is_told_with_the_cure(stage: Stage) -> None:
    await stage.play("g1", {"playbook": "one"})
    await submit(stage, resume="g1", text="More", request_id="r1")
    assert "mailroom retry g1" in (await refused(stage, "r1")).summary
    await submit(stage, resume="none", text="More", request_id="r2")
    assert "There is no goal 'none'" in (await refused(stage, "r2")).summary
    stage.worker.gate.clear()
    await stage.submit("g2", {"playbook": "one"})
    await stage.until(lambda goal: bool(goal.tasks), "g2")
    await submit(stage, resume="g2", request_id="r3")
    assert "--say" in (await refused(stage, "r3")).summary
    stage.worker.gate.set()


async def test_another_plan_takes_up_what_the_person_added(tmp_path: Path) -> None:
    entries = script(
        [plan(task("a"))],
        [plan(task("more"))],
        [answer("Done.", "a")],
    )
    entries[1]["match"] = "(?s)^The plan.*What the person added later:\n- And more"
    async with brainy(tmp_path, entries) as playing:
        await playing.play("g1", {})
        await submit(playing, resume="g1", text="And more", request_id="r1")
        goal = await ended_again(playing, "g1", "r1")
        assert (goal.status, goal.outcome) == (TaskStatus.COMPLETED, "done"), goal.reason
        assert goal.answer.startswith("Done.")
        assert playing.worker.done == ["a", "more"]


class Steered(Agent):
    """Works by a model, and notes whether a person has named the shop."""

    async def on_start(self) -> None:
        self.named: list[bool] = []

    @register_action("Look", {"at": "At what"})
    async def look(self, at: str) -> str:
        """Looks."""
        self.named.append(is_named("/srv/shop/a.py", self.context.task))
        await asyncio.sleep(0.2)
        return "Nothing"


async def test_agents_at_work_hear_what_a_person_adds_at_their_next_step(tmp_path: Path) -> None:
    looks = [{"call": {"name": "look", "arguments": {"at": str(number)}}} for number in range(8)]
    entries = [{"match": "Begin", "replies": [*looks, {"text": "Nothing was found."}]}]
    path = tmp_path / "script.yaml"
    path.write_text(yaml.safe_dump(entries))
    names = ["conductor", "critic", "engineer", "memory", "worker"]
    async with open_team(tmp_path, names, MAILROOM_BRAIN=f"scripted:{path}") as team:
        await team.join(Planned, Profile(name="conductor", description="Conducts."))
        worker = await team.join(Steered, Profile(name="worker", description="Works."))
        judge = await team.join(Judge, Profile(name="critic", description="Judges."))
        stage = Stage(team, worker, judge)  # type: ignore[arg-type]
        await stage.submit("g1", {"assignee": "worker"}, "Begin")
        while not worker.named:
            await asyncio.sleep(0.02)
        await submit(stage, resume="g1", text="Leave the tests in /srv/shop alone", request_id="r1")
        goal = await ended_again(stage, "g1", "r1")
        assert goal.tasks[0].summary == "Nothing was found.", goal.reason
        assert (worker.named[0], worker.named[-1]) == (False, True)
        steps = await stage.messages("record.worker.thinking.*")
        told = [data for data in steps if b"The person who asked for this says now" in data]
        assert len(told) == 1
        assert b"Leave the tests in /srv/shop alone" in told[0]
