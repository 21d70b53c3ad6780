"""What an agent is made of: its class, its skills, and what it does with a task."""

import asyncio
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shared import settings
from shared.agent.base import Agent
from shared.agent.composition import compose
from shared.bus import Bus
from shared.contracts import CancelGoal, Email, GoalDue, Question, Task, TaskResult, TaskStatus
from shared.errors import ActionError, ConfigError, Reject
from shared.tasks.actions import Outcome, register_action
from shared.tasks.profile import Profile


class Clerk(Agent):
    """Files."""

    @register_action("File a letter", {"name": "Under which name", "copies": "How many"})
    async def file(self, name: str, copies: int = 1) -> str:
        """What was filed."""
        return f"{name} x {copies}"


class StampSkillMixin:
    """A skill."""

    @register_action("Stamp", {})
    async def stamp(self) -> Outcome:
        """A stamp."""
        return Outcome(output=f"stamped by {self.profile.name}")  # type: ignore[attr-defined]


class FilingSkillMixin:
    """A skill that does better what its agent can do already."""

    @register_action("File in a drawer", {"name": "Under which name"})
    async def file(self, name: str) -> str:
        """What was filed."""
        return f"{name} in a drawer"


@pytest.fixture(autouse=True)
def skills() -> Iterator[None]:
    module = types.ModuleType("skills_of_this_test")
    module.StampSkillMixin = StampSkillMixin  # type: ignore[attr-defined]
    module.FilingSkillMixin = FilingSkillMixin  # type: ignore[attr-defined]
    module.ConfusedSkillMixin = Agent  # type: ignore[attr-defined]
    module.number = 5  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    yield
    del sys.modules[module.__name__]


def profile(*mixins: str) -> Profile:
    return Profile(
        name="clerk", description="Files.", mixins=tuple(f"skills_of_this_test.{mixin}" for mixin in mixins)
    )


def make(tmp_path: Path, *mixins: str, base: type[Agent] = Clerk) -> Agent:
    config = settings.load({"MAILROOM_STATE_DIR": str(tmp_path), "HOME": str(tmp_path)})
    described = profile(*mixins)
    return compose(base, described)(described, config, Bus("clerk"))


def task(**context: Any) -> Task:
    return Task(task_id="t", text="x", assignee="clerk", requester="user", context=context)


# --- skills --------------------------------------------------------------------------------------


def test_without_skills_an_agent_is_its_class() -> None:
    assert compose(Clerk, profile()) is Clerk


async def test_a_skill_s_actions_become_the_agent_s(tmp_path: Path) -> None:
    agent = make(tmp_path, "StampSkillMixin")
    assert list(agent.actions) == ["file", "stamp"]
    assert (await agent.on_task(task(action="stamp"))).output == "stamped by clerk"
    assert type(agent).__name__ == "Clerk"


async def test_a_skill_goes_before_the_class_s_own_action(tmp_path: Path) -> None:
    agent = make(tmp_path, "FilingSkillMixin")
    assert agent.actions["file"].description == "File in a drawer"
    assert (await agent.on_task(task(action="file", params={"name": "a"}))).output == "a in a drawer"


async def test_a_profile_without_a_class_has_its_skills_alone(tmp_path: Path) -> None:
    assert list(make(tmp_path, "StampSkillMixin", base=Agent).actions) == ["stamp"]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("shared.skills.juggling.JugglingSkillMixin", "which does not exist: No module named"),
        (
            "skills_of_this_test.JugglingSkillMixin",
            "which does not exist: module 'skills_of_this_test' has no",
        ),
        ("JugglingSkillMixin", "which does not exist: Empty module name"),
        ("", "which does not exist"),
        ("skills_of_this_test.number", "as a skill, which is not a class"),
    ],
)
def test_a_missing_skill_is_named_with_a_cure(path: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        compose(Clerk, Profile(name="clerk", description="Files.", mixins=(path,)))
    assert str(raised.value).startswith("The profile of 'clerk' names ")
    assert repr(path) in str(raised.value)
    assert said in str(raised.value)


@pytest.mark.parametrize("mixins", [("StampSkillMixin", "StampSkillMixin"), ("ConfusedSkillMixin",)])
def test_skills_that_do_not_go_together_are_said_so(mixins: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match=r"The skills of 'clerk' do not go together: .*\. Correct 'mixins'"):
        compose(Clerk, profile(*mixins))


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
    with pytest.raises(ActionError, match="in the task's context: it has none"):
        await agent.on_task(task())
    with pytest.raises(ActionError, match="Its actions are none"):
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
        await agent.on_submission(b"{}", 1, 1)


async def test_outside_of_a_task_there_is_no_job(tmp_path: Path) -> None:
    agent = make(tmp_path)
    with pytest.raises(RuntimeError, match="No task is being worked on here"):
        _ = agent.job
    await agent.progress("a note for the log")


async def test_only_an_awaited_result_of_the_assignee_is_taken(tmp_path: Path) -> None:
    agent = make(tmp_path)
    assert not agent.take_delegated(
        TaskResult(task_id="t", agent="scout", status=TaskStatus.COMPLETED, output="x")
    )


async def test_what_fails_in_the_background_is_logged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = make(tmp_path)

    async def fail() -> None:
        raise ValueError("odd")

    agent.spawn(fail())
    await asyncio.sleep(0.01)
    await agent.stop_background()
    assert "background_failed" in capsys.readouterr().out
