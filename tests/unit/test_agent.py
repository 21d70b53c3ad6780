"""What an agent is made of: its class, its skills, and what it does with a task."""

import asyncio
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import LogCapture

from shared import settings
from shared.agent.base import Agent
from shared.bus import Bus
from shared.contracts import CancelGoal, Email, GoalDue, Question, Task, TaskResult, TaskStatus
from shared.errors import ActionError, ConfigError, Reject
from shared.skills.skill import Skill
from shared.tasks.actions import Outcome, register_action
from shared.tasks.profiles import Profile


class Clerk(Agent):
    """Files."""

    @register_action("File a letter", {"name": "Under which name", "copies": "How many"})
    async def file(self, name: str, copies: int = 1) -> str:
        """What was filed."""
        return f"{name} x {copies}"


class StampSkill(Skill):
    """A skill."""

    @register_action("Stamp", {})
    async def stamp(self) -> Outcome:
        """A stamp."""
        return Outcome(output=f"stamped by {self.context.profile.name}")


class FilingSkill(Skill):
    """A skill that does better what its agent can do already."""

    @register_action("File in a drawer", {"name": "Under which name"})
    async def file(self, name: str) -> str:
        """What was filed."""
        return f"{name} in a drawer"


@pytest.fixture(autouse=True)
def skills() -> Iterator[None]:
    module = types.ModuleType("skills_of_this_test")
    module.StampSkill = StampSkill  # type: ignore[attr-defined]
    module.FilingSkill = FilingSkill  # type: ignore[attr-defined]
    module.ConfusedSkill = Agent  # type: ignore[attr-defined]
    module.number = 5  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    yield
    del sys.modules[module.__name__]


def profile(*skills: str) -> Profile:
    return Profile(
        name="clerk", description="Files.", skills=tuple(f"skills_of_this_test.{skill}" for skill in skills)
    )


def make(tmp_path: Path, *skills: str, base: type[Agent] = Clerk, described: Profile | None = None) -> Agent:
    config = settings.load({"MAILROOM_STATE_DIR": str(tmp_path), "HOME": str(tmp_path)})
    return base(described or profile(*skills), config, Bus("clerk"))


def task(**context: Any) -> Task:
    return Task(task_id="t", text="x", assignee="clerk", requester="user", context=context)


# --- skills --------------------------------------------------------------------------------------


def test_without_skills_an_agent_has_its_class_s_actions(tmp_path: Path) -> None:
    assert list(make(tmp_path).context.actions) == ["file"]


async def test_a_skill_s_actions_become_the_agent_s(tmp_path: Path) -> None:
    agent = make(tmp_path, "StampSkill")
    assert list(agent.context.actions) == ["file", "stamp"]
    assert (await agent.on_task(task(action="stamp"))).output == "stamped by clerk"
    assert type(agent).__name__ == "Clerk"


async def test_a_skill_goes_before_the_class_s_own_action(tmp_path: Path) -> None:
    agent = make(tmp_path, "FilingSkill")
    assert agent.context.actions.get("file").description == "File in a drawer"
    assert (await agent.on_task(task(action="file", params={"name": "a"}))).output == "a in a drawer"


async def test_a_profile_without_a_class_has_its_skills_alone(tmp_path: Path) -> None:
    assert list(make(tmp_path, "StampSkill", base=Agent).context.actions) == ["stamp"]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("shared.skills.juggling.JugglingSkill", "which does not exist: No module named"),
        (
            "skills_of_this_test.JugglingSkill",
            "which does not exist: module 'skills_of_this_test' has no",
        ),
        ("JugglingSkill", "which does not exist: no installed package has the entry point"),
        ("", "which does not exist"),
        ("skills_of_this_test.number", "as a skill, which is not a class"),
    ],
)
def test_a_missing_skill_is_named_with_a_cure(tmp_path: Path, path: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        make(tmp_path, described=Profile(name="clerk", description="Files.", skills=(path,)))
    assert str(raised.value).startswith("The profile of 'clerk' names ")
    assert repr(path) in str(raised.value)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (("StampSkill", "StampSkill"), "lists the skill 'skills_of_this_test.StampSkill' twice"),
        (("ConfusedSkill",), "names 'skills_of_this_test.ConfusedSkill', which is no skill: "),
    ],
)
def test_skills_that_cannot_be_had_are_said_so(tmp_path: Path, names: tuple[str, ...], reason: str) -> None:
    with pytest.raises(ConfigError, match=rf"The profile of 'clerk' {re.escape(reason)}.*Correct 'skills'"):
        make(tmp_path, *names)


def test_a_tool_that_is_no_action_is_said_with_the_nearest(tmp_path: Path) -> None:
    tools = ("file", "delegate_task")
    make(tmp_path, described=Profile(name="clerk", description="Files.", tools=tools)).context.require_tools()
    wrong = make(tmp_path, described=Profile(name="clerk", description="Files.", tools=("fil", *tools)))
    with pytest.raises(ConfigError, match=r"no action 'fil' among its tools\. Did you mean 'file'"):
        wrong.context.require_tools()


# --- tasks ---------------------------------------------------------------------------------------


async def test_a_task_is_done_as_its_context_says(tmp_path: Path) -> None:
    agent = make(tmp_path)
    done = await agent.on_task(task(action="file", params={"name": "a", "copies": 2}))
    assert done == Outcome(output="a x 2")


@pytest.mark.parametrize(
    ("context", "said"),
    [
        (
            {},
            "clerk cannot work out what to do from words without a model. Name one of its actions in",
        ),
        ({"action": ""}, "clerk cannot work out what to do from words without a model"),
        ({"action": "burn"}, "clerk has no action 'burn'. Its actions are file"),
        ({"action": "on_start"}, "clerk has no action 'on_start'. Its actions are file"),
        ({"action": 5}, "clerk has no action '5'"),
        ({"action": "x" * 500}, f"clerk has no action '{'x' * 60}'. Its"),
        ({"action": "file", "params": ["a"]}, "file: params must be an object, not list"),
        ({"action": "file", "params": None}, "file: params must be an object, not NoneType"),
        ({"action": "file"}, "file: its parameter name is missing. Its parameters are: name, copies"),
        (
            {"action": "file", "params": {"name": 5}},
            "file: its parameter name must be text, not a whole number",
        ),
        ({"action": "file", "params": {"name": "a", "colour": "b"}}, "file: it has no parameter 'colour'"),
    ],
)
async def test_a_task_that_cannot_be_done_says_what_can(
    tmp_path: Path, context: dict[str, Any], said: str
) -> None:
    with pytest.raises(ActionError) as raised:
        await make(tmp_path).on_task(task(**context))
    assert said in str(raised.value)


async def test_an_agent_without_actions_says_so(tmp_path: Path) -> None:
    agent = make(tmp_path, base=Agent)
    with pytest.raises(ActionError, match="It has no actions; set MAILROOM_BRAIN"):
        await agent.on_task(task())
    with pytest.raises(ActionError, match="It has none"):
        await agent.on_task(task(action="file"))


# --- what is not overridden ----------------------------------------------------------------------


async def test_what_an_agent_does_not_handle_is_filed_or_refused(tmp_path: Path) -> None:
    agent = make(tmp_path)
    result = TaskResult(task_id="t", agent="scout", status=TaskStatus.COMPLETED, output="x")
    letter = Email(sender="a", recipient="clerk", body="x")
    (answer,) = await agent.on_email(letter)
    assert answer.in_reply_to == letter.id
    assert "no model is configured" in answer.body
    filed = Email(sender="a", recipient="clerk", body="x", in_reply_to=letter.id)
    assert await agent.on_email(filed) == ()
    assert await agent.on_result(result) == ()
    assert await agent.on_due(GoalDue(goal_id="g")) == ()
    assert agent.endpoints() == {}
    with pytest.raises(Reject, match="clerk does not answer questions; ask nexus"):
        await agent.on_question(Question(text="?"))
    with pytest.raises(Reject, match="clerk runs no goals; write to conductor"):
        await agent.on_cancel(CancelGoal(goal_id="g"))
    with pytest.raises(Reject, match="clerk takes no submissions"):
        await agent.on_submission(b"{}", 1, 1, "user")


async def test_outside_of_a_task_there_is_no_job(tmp_path: Path) -> None:
    agent = make(tmp_path)
    with pytest.raises(RuntimeError, match="No task is being worked on here"):
        _ = agent.context.current_task
    await agent.context.progress("a note for the log")


async def test_only_an_awaited_result_of_the_assignee_is_taken(tmp_path: Path) -> None:
    agent = make(tmp_path)
    result = TaskResult(task_id="t", agent="scout", status=TaskStatus.COMPLETED, output="x")
    assert await agent.context.delegation.accept_result(result) is None


async def test_what_fails_in_the_background_is_logged(tmp_path: Path) -> None:
    agent, logged = make(tmp_path), LogCapture()
    agent.context.log = structlog.wrap_logger(None, processors=[logged])

    async def fail() -> None:
        raise ValueError("odd")

    agent.context.spawn(fail())
    await asyncio.sleep(0.01)
    await agent.context.stop_background()
    assert [entry["event"] for entry in logged.entries] == ["background_failed"]
