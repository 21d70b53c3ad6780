"""What a review sends back is done again in the author's own conversation, by the objections alone."""

import asyncio
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from services.critic.__main__ import Critic
from services.engineer.__main__ import Engineer
from shared import subjects
from shared.bus.records import submission_entry
from shared.contracts import Goal, GoalBudget, ResultOutcome, Task, TaskStatus, generate_task_id
from shared.queries.spending import read_goal_spending, read_left
from shared.tasks.profiles import Profile, load_profile
from tests.flow.test_conductor_brain import Thoughtful
from tests.flow.test_conductor_goals import Stage
from tests.flow.test_critic_agent import PROFILE
from tests.flow.test_critic_judging import WRONG, brain, text_of
from tests.flow.test_critic_judging import reviewer as judge
from tests.flow.test_critic_rerun import TEST
from tests.flow.test_engineer_agent import PROFILE as ENGINEER
from tests.support.forking import start_program
from tests.support.model_formats import Answer, Request
from tests.support.model_server import serve_model
from tests.support.team import Team, open_team
from tests.unit.test_source_tree import plant

pytestmark = pytest.mark.timeout(110)
OBJECTION = "it returns 3 whatever is added [sums.py:2]"
SENT_BACK = "A review sent your work back. Its objections:"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return plant(tmp_path / "shop", {"sums.py": WRONG, "test_sums.py": TEST})


def messages_of(request: Request) -> list[dict[str, Any]]:
    return list(request.body["messages"])


def is_of(request: Request, agent: str) -> bool:
    return messages_of(request)[0]["content"].startswith(f"You are {agent}")


def edit(request: Request, old: str, new: str) -> Answer:
    """A call of the action that edits a file, by whatever names its parameters have."""
    assert "edit_file" in [each["function"]["name"] for each in request.body["tools"]]
    return Answer(calls=[("edit_file", {"path": "shop/sums.py", "edits": [{"old": old, "new": new}]})])


def author(request: Request, repo: Path) -> Answer:
    """An engineer that fakes the sum first, and mends it once somebody objects."""
    text, turns = text_of(request), sum(each["role"] == "assistant" for each in messages_of(request))
    if turns == 0:
        return Answer(calls=[("copy_project", {"repo": str(repo), "folder": "shop"})])
    objected = text.count("it returns 3")
    last = messages_of(request)[-1]
    if objected:
        if last["role"] == "user":
            return edit(request, "return 3", "return a + b")
        return Answer(calls=[("finish_task", {"result": "It adds now."})])
    if turns == 1:
        return edit(request, "return a - b", "return 3")
    return Answer(calls=[("finish_task", {"result": "I changed what add returns."})])


def office(repo: Path, asked: Callable[[Request], None] = lambda _: None) -> Callable[[Request], Answer]:
    """All models of an office, by rules."""
    plan = {"tasks": [{"name": "fix", "assignee": "engineer", "text": f"Mend add in {repo}"}]}

    def by(request: Request) -> Answer:
        asked(request)
        if is_of(request, "Engineer"):
            return author(request, repo)
        if is_of(request, "Critic"):
            return judge(request)
        if "Make a plan" in text_of(request):
            return Answer(text=json.dumps(plan))
        return Answer(text=json.dumps({"answer": "It adds.", "citations": ["fix"]}))

    return by


async def mended(team: Team, repo: Path) -> Goal:
    stage = Stage(team, None, None)  # type: ignore[arg-type]
    await stage.submit("g1", {}, f"Mend add in {repo}")
    return await stage.ended("g1")


def check_redo(requests: list[Request]) -> None:
    """The second time the author is asked as the first time, with the objection at the end, and no more."""
    ours = [each for each in requests if is_of(each, "Engineer")]
    again = [each for each in ours if SENT_BACK in text_of(each)]
    first = [each for each in ours if each not in again]
    assert len(first) == 3
    assert len(again) == 2
    before, after = messages_of(first[-1]), messages_of(again[0])
    assert after[: len(before)] == before, "the cache of a provider holds it"
    assert again[0].body["tools"] == first[-1].body["tools"]
    finished, handed_over, objections = after[len(before) :]
    assert finished["tool_calls"][0]["function"]["name"] == "finish_task"
    assert (handed_over["role"], objections["role"]) == ("tool", "user")
    opening = f'{SENT_BACK}\n<text kinds="files repository task">\n> fix: {OBJECTION}\n</text>\n\n'
    assert objections["content"].startswith(opening), objections
    assert "Mend add" not in objections["content"]
    assert "tried on a copy" not in objections["content"], "what holds is no objection"
    keys = {each.body.get("prompt_cache_key") for each in ours}
    assert len(keys) == 1


async def test_the_author_goes_on_with_the_objections_alone(tmp_path: Path, repo: Path) -> None:
    with serve_model(by=office(repo)) as server:
        names = ["conductor", "critic", "engineer", "memory"]
        async with open_team(tmp_path, names, **brain(server)) as team:
            await team.join(Engineer, load_profile(ENGINEER))
            await team.join(Critic, load_profile(PROFILE))
            await team.join(Thoughtful, Profile(name="conductor", description="Conducts.", concurrency=8))
            goal = await mended(team, repo)
        check_redo(server.requests)
    assert goal.outcome is ResultOutcome.DONE, (goal.verdict, goal.reason)
    assert goal.reviews == 2
    assert goal.tasks[0].continues == "g1-fix-1"
    assert "+    return a + b" in Path(goal.report_path).read_text()


async def test_a_goal_ends_at_its_budget_and_goes_on_with_a_larger_one(tmp_path: Path, repo: Path) -> None:
    """The budget counts what conductor, engineer and critic use together."""
    with serve_model(by=office(repo)) as server:
        names = ["conductor", "critic", "engineer", "memory"]
        async with open_team(tmp_path, names, **brain(server), MAILROOM_GOAL_TOKENS="50") as team:
            await team.join(Engineer, load_profile(ENGINEER))
            await team.join(Critic, load_profile(PROFILE))
            await team.join(Thoughtful, Profile(name="conductor", description="Conducts.", concurrency=8))
            goal = await mended(team, repo)
            assert goal.status is TaskStatus.FAILED
            assert re.fullmatch(
                r"The goal has used [\d,]+ tokens of the 50 it may use\. Go on with more: "
                r"mailroom resume g1 --budget 100; MAILROOM_GOAL_TOKENS .*",
                goal.reason,
            ), goal.reason
            assert goal.answer.startswith("The goal ended: The goal has used")
            asked = len(server.requests)
            spent = await read_goal_spending(team.user, goal)
            assert spent.tokens >= 50
            used = spent.tokens, spent.cost
            assert (await read_left(team.user, team.config, goal.budget, used, ())).startswith(
                "left of the goal's budget: 0 of 50 tokens; left today: all of "
            )
            for more in (None, GoalBudget(tokens=1_000_000)):
                body = {"resume": "g1", "text": "Go on.", "request_id": f"r-{more is None}"}
                await team.user.store(subjects.SUBMIT, msgspec.json.encode({**body, "budget": more}))
                await asyncio.sleep(0.5)
                goal = await Stage(team, None, None).ended("g1")  # type: ignore[arg-type]
                assert (goal.status is TaskStatus.COMPLETED) == bool(more), goal.reason
                assert len(server.requests) == asked or more, "nothing more is asked within the old budget"
    assert goal.outcome is ResultOutcome.DONE
    assert goal.budget == GoalBudget(goal_id="g1", tokens=1_000_000)


def start_engineer(team: Team, **more: str) -> Any:
    environment = {
        "PATH": os.environ["PATH"],
        "NATS_URL": team.server.url,
        "MAILROOM_STATE_DIR": str(team.config.state_dir),
        "MAILROOM_TASK_ACK_WAIT": "2",
        **more,
    }
    return start_program(
        [sys.executable, "-m", "services.engineer"], environment, team.config.logs / "engineer.log"
    )


async def test_it_goes_on_in_the_same_words_after_kill_9(tmp_path: Path, repo: Path) -> None:
    """Killed while the model is asked for the first time with the objections, and then within the redo."""
    reached, loop = asyncio.Event(), asyncio.get_running_loop()
    stuck: list[Request] = []
    rules = office(repo)

    def by(request: Request) -> Answer:
        answer = rules(request)
        if is_of(request, "Engineer") and SENT_BACK in text_of(request) and len(stuck) < 2:
            last = messages_of(request)[-1]["role"]
            if last == ("tool" if stuck else "user"):
                stuck.append(request)
                loop.call_soon_threadsafe(reached.set)
                return Answer(text=answer.text, calls=answer.calls, hang=60.0)
        return answer

    with serve_model(by=by) as server:
        names = ["conductor", "critic", "engineer", "memory"]
        async with open_team(tmp_path, names, **brain(server)) as team:
            await team.join(Critic, load_profile(PROFILE))
            await team.join(Thoughtful, Profile(name="conductor", description="Conducts.", concurrency=8))
            engineer = start_engineer(team, **brain(server))
            ending = asyncio.create_task(mended(team, repo))
            try:
                for _ in range(2):
                    await asyncio.wait_for(reached.wait(), 60)
                    reached.clear()
                    engineer.kill()
                    engineer.wait()
                    engineer = start_engineer(team, **brain(server))
                goal = await ending
            finally:
                ending.cancel()
                engineer.terminate()
                engineer.wait()
        asked = [messages_of(each) for each in server.requests if is_of(each, "Engineer")]
    assert goal.outcome is ResultOutcome.DONE, (goal.verdict, goal.reason)
    for request in stuck:
        assert asked.count(messages_of(request)) == 2, "asked again in the same words"
    assert sum(len(each) == 2 or each[-1]["role"] == "user" for each in asked) == 3, "it began once"


async def test_without_the_conversation_it_begins_anew(tmp_path: Path, repo: Path) -> None:
    def by(request: Request) -> Answer:
        return Answer(calls=[("finish_task", {"result": "I could not."})])

    with serve_model(by=by) as server:
        async with open_team(tmp_path, ["engineer"], **brain(server)) as team:
            await team.join(Engineer, load_profile(ENGINEER))
            task = Task(
                task_id=generate_task_id(),
                text=f"Mend add in {repo}",
                assignee="engineer",
                requester="user",
                context={"feedback": [f"fix: {OBJECTION}"]},
                continues="one-that-was-never-there",
            )
            await team.user.commit([submission_entry(task)])
            await team.result("engineer", "user", task.task_id)
    asked = messages_of(server.requests[0])[-1]["content"]
    assert asked.startswith(f"Mend add in {repo}")
    assert OBJECTION in asked
