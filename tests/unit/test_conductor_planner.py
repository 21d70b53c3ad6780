"""Planning without a model: named actions, named playbooks, the nearest example, and memory that is away."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from services.conductor import planner as planner_module
from services.conductor.planner import NEAR_ENOUGH, NoPlaybook, Planner, give_whole, name_folder
from services.conductor.playbook import Parameter, Playbook, PlaybookStep
from shared import subjects
from shared.contracts import Goal
from shared.errors import ActionError, BusUnavailable, Refused


class Classifying:
    """Memory's ``classify`` with scores that the test knows: how near a text is to each playbook."""

    def __init__(self, *failures: Exception, **near: Mapping[str, float]) -> None:
        self.failures = list(failures)
        self.near = near
        self.calls: list[tuple[str, ...]] = []

    async def classify(self, classifier: str, texts: Sequence[str]) -> list[dict[str, float]]:
        assert classifier == "playbooks"
        self.calls.append(tuple(texts))
        if self.failures:
            raise self.failures.pop(0)
        return [self._score(text) for text in texts]

    def _score(self, text: str) -> dict[str, float]:
        axes = {"look": "look", "write": "write", "nobody": "Delete", "desk": "Remind me of"}
        near = self.near.get(text)
        return {
            name: near.get(axis, 0.0) if near is not None else float(text.startswith(axis))
            for name, axis in axes.items()
        }


STEP = PlaybookStep(name="a", assignee="scout", action="read", text="Do it")
TOPIC = Parameter(kind="text", description="the topic", pattern=r"about (?P<value>.+)")
BOOKS = {
    "look": Playbook(
        name="look",
        description="Looks.",
        examples=("look at it",),
        words="peek",
        tasks=(STEP,),
    ),
    "write": Playbook(
        name="write",
        description="Writes.",
        examples=("write about TOPIC",),
        words="note",
        parameters={"topic": TOPIC},
        tasks=(STEP,),
    ),
}


def planner(memory: Classifying) -> Planner:
    return Planner(BOOKS, memory)  # type: ignore[arg-type]


def goal(text: str = "x", **context: Any) -> Goal:
    return Goal(
        goal_id="g", text=text, requester="user", submitted_at="2026-01-02T03:04:05+00:00", context=context
    )


async def plan(memory: Classifying, text: str = "x", **context: Any) -> Goal:
    return await planner(memory).plan(goal(text, **context))


# --- what the context names ----------------------------------------------------------------------


async def test_a_named_action_needs_no_memory() -> None:
    memory = Classifying()
    planned = await plan(memory, assignee=" Scout ", action="read", params={"path": "/a"}, depth=2)
    (task,) = planned.tasks
    assert (task.assignee, task.action, task.text, task.task_id) == ("scout", "read", "x", "g-task-1")
    assert task.params == {"path": "/a", "depth": 2}
    assert planned.playbook == "named action"
    assert memory.calls == []


async def test_params_go_before_what_else_the_context_says() -> None:
    planned = await plan(Classifying(), assignee="scout", action="read", path="/b", params={"path": "/a"})
    assert planned.tasks[0].params == {"path": "/a"}


async def test_a_named_playbook_needs_no_memory() -> None:
    memory = Classifying()
    planned = await plan(memory, "a thing", playbook="write", topic="tea")
    assert (planned.playbook, planned.parameters) == ("write", {"topic": "tea"})
    assert memory.calls == []


@pytest.mark.parametrize("name", ["dance", ["look"], {"a": 1}, 5, ""])
async def test_a_playbook_that_does_not_exist_is_answered_with_those_there_are(name: Any) -> None:
    with pytest.raises(ActionError, match=r"There is no playbook .*\. There are look, write"):
        await plan(Classifying(), playbook=name)


# --- the nearest example -------------------------------------------------------------------------


async def test_the_nearest_playbook_is_taken() -> None:
    memory = Classifying(peek={"look": 0.9, "write": 0.8})
    assert (await plan(memory, "peek")).playbook == "look"


async def test_a_text_that_takes_a_topic_is_compared_without_it() -> None:
    memory = Classifying(**{"note about tea": {"look": 0.5}, "note about TOPIC": {"write": 0.9}})
    planned = await plan(memory, "note about tea")
    assert (planned.playbook, planned.parameters) == ("write", {"topic": "tea"})


@pytest.mark.parametrize("near", [{"look": NEAR_ENOUGH - 0.01}, {"look": 0.9, "Delete": 0.95}])
async def test_what_is_not_near_enough_or_nearer_to_a_counterexample_is_not_done(
    near: dict[str, float],
) -> None:
    memory = Classifying(peek=near)
    with pytest.raises(ActionError) as raised:
        await plan(memory, "peek")
    said = str(raised.value)
    assert "ask for:\n- look at it\n- write about TOPIC\n" in said
    assert said.startswith("No model is configured")


async def test_what_is_forbidden_is_not_begun_however_near_it_is() -> None:
    memory = Classifying(**{"do not peek": {"look": 0.99}})
    with pytest.raises(NoPlaybook, match=r"^The request says what is not to be done: nothing was begun"):
        await plan(memory, "do not peek")


async def test_what_names_a_later_time_is_left_to_the_front_desk_unless_the_queue_begins_it() -> None:
    text = "look at /a tonight"
    memory = Classifying(**{"look at PATH tonight": {"look": 0.99}})
    with pytest.raises(
        NoPlaybook, match=r"nothing was begun\. .* queues it: mailroom ask 'look at /a tonight'$"
    ):
        await plan(memory, text)
    queued = msgspec.structs.replace(goal(text), requester=subjects.CORTEX)
    for timed in (queued, goal(text, schedule="s1"), goal(text, route=subjects.CONDUCTOR)):
        assert (await planner(memory).plan(timed)).playbook == "look"


async def test_what_the_front_desk_does_is_shown_there() -> None:
    asked, far = "remind me to peek", "remind me of it"
    near = {
        asked: {"Remind me of": 0.9},
        far: {"Remind me of": NEAR_ENOUGH - 0.01},
        "x": {"Remind me of": 0.9},
    }
    memory = Classifying(**near)
    with pytest.raises(
        NoPlaybook, match=r"are the front desk's\. Ask it with: mailroom ask 'remind me to peek'$"
    ):
        await plan(memory, asked)
    for text in (far, "x"):  # nothing in it is the front desk's
        with pytest.raises(NoPlaybook, match=r"^No model is configured"):
            await plan(memory, text)


# --- memory that is away -------------------------------------------------------------------------

AWAY = BusUnavailable("The memory daemon does not answer", "See whether it runs")


async def test_memory_that_comes_back_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner_module, "MEMORY_RETRY", 0.0)
    assert (await plan(Classifying(AWAY, AWAY, AWAY), "look")).playbook == "look"


async def test_memory_that_stays_away_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner_module, "MEMORY_TIMEOUT", -1.0)
    with pytest.raises(ActionError, match=r"The memory daemon does not answer\. See"):
        await plan(Classifying(AWAY, AWAY), "look")


async def test_what_memory_refuses_is_not_asked_again() -> None:
    memory = Classifying(Refused("there is no model"))
    with pytest.raises(ActionError, match="there is no model"):
        await plan(memory, "look")
    assert len(memory.calls) == 1


def test_an_agent_is_told_the_folder_that_was_given_unless_its_task_names_one(tmp_path: Path) -> None:
    goal = Goal(
        goal_id="g",
        requester="user",
        submitted_at="2026-11-30T06:00:00Z",
        text="Fix add().",
        context={"folder": str(tmp_path)},
    )
    whole = give_whole(goal, "engineer").text
    assert whole == f'Fix add().\n\nIt is about the folder "{tmp_path}".'
    assert name_folder(goal, "Lint it?", "{} in {}") == f'Lint it in "{tmp_path}"'
    assert name_folder(goal, f"Fix add() in {tmp_path}.") == f"Fix add() in {tmp_path}."
    assert name_folder(msgspec.structs.replace(goal, context={}), "Fix add().") == "Fix add()."
