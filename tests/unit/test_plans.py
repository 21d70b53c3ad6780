"""What plans share: the agents in a prompt, references to earlier steps, and the order of steps."""

import pytest

from shared.contracts import Presence, TaskStep
from shared.errors import ActionError
from shared.plans import (
    MAX_SHOWN,
    AgentPage,
    Plan,
    PlanLimits,
    Step,
    StepOutput,
    fill_references,
    find_circle,
    find_fault,
    format_agents,
    group_steps,
    pages_of,
    referenced_steps,
    sort_steps,
    step_key,
)
from shared.tasks.actions import Outcome, collect_actions, register_action, unplanned_of

SCOUT = Presence(
    agent="scout",
    instance="i",
    version="1",
    description="Reads.",
    actions={"read_page": "Read a page"},
    schemas={
        "read_page": {
            "properties": {
                "url": {"type": "string", "description": "Its address"},
                "depth": {"type": "integer"},
            },
            "required": ["url"],
        }
    },
)
PAGES = pages_of({"scout": SCOUT}, ["memory", "writer", "conductor"])


def test_the_pages_say_who_can_do_what_with_which_parameters() -> None:
    text = format_agents(PAGES.values())
    assert "scout: Reads.\n  - read_page(url, depth?: integer): Read a page" in text
    assert "writer: not at work at present" in text


def test_long_pages_are_cut_between_lines_and_say_so() -> None:
    actions = {f"action_{number}": "x " * 100 for number in range(900)}
    text = format_agents([AgentPage(name="scout", actions=actions, at_work=True)])
    assert len(text) < MAX_SHOWN + 100
    assert text.endswith("\n(cut off here)")


def test_memory_is_known_when_at_work_to_take_named_actions_only() -> None:
    memory = Presence(agent="memory", instance="i", version="1", description="Remembers.")
    text = format_agents(pages_of({"memory": memory}).values())
    assert "It takes named actions only" in text


@pytest.mark.parametrize(
    ("name", "made"), [("Read It!", "read-it"), ("***", "task"), ("x" * 99, "x" * 40), ("a_b-c", "a_b-c")]
)
def test_names_stand_in_ids(name: str, made: str) -> None:
    assert step_key(name) == made


def test_params_can_refer_to_earlier_steps() -> None:
    inputs = {1: StepOutput(output="found", output_paths=("/a", "/b")), 2: StepOutput()}
    assert fill_references({"a": ["${1} it", 3], "b": "${1.path}", "c": "${x}"}, inputs) == {
        "a": ["found it", 3],
        "b": "/a",
        "c": "${x}",
    }
    with pytest.raises(ActionError, match="does not depend on"):
        fill_references("${3}", inputs)
    with pytest.raises(ActionError, match="left none"):
        fill_references("${2.path}", inputs)


def test_groups_are_what_can_be_done_at_once() -> None:
    needs = {1: (), 2: (), 3: (1,), 4: (1, 2), 5: (3, 4)}
    steps = [TaskStep(step_number=n, action="x", dependencies=after) for n, after in needs.items()]
    assert group_steps(steps) == ((1, 2), (3, 4), (5,))


def test_agents_without_actions_have_a_line_each() -> None:
    assert format_agents([PAGES["scout"]], actions=False) == "- scout: Reads."


def test_references_are_found_anywhere() -> None:
    assert referenced_steps(["${2}", {"a": ["x ${10.path}"]}]) == {"2", "10"}
    assert referenced_steps("${x}") == set()


def test_a_circle_is_named_in_the_order_of_waiting() -> None:
    assert find_circle({"a": ("b",), "b": (), "c": ("a",)}) == ()
    assert find_circle({"a": ("a",)}) == ("a", "a")
    assert set(find_circle({1: (2,), 2: (3,), 3: (1,), 4: ()})) == {1, 2, 3}
    steps = [
        TaskStep(step_number=1, action="dig", dependencies=(2,)),
        TaskStep(step_number=2, action="fill", dependencies=(1,)),
    ]
    with pytest.raises(ActionError, match=r"'dig'\) waits for .*'fill'\)"):
        sort_steps(steps)


def test_an_action_that_several_agents_have_is_described_once_and_specialists_are_last() -> None:
    recall = {"recall": "Recall what the team remembers"}
    pages = [
        AgentPage(name=name, description="Does it.", actions=recall, at_work=True)
        for name in ("specialist-bees", "critic", "zebra")
    ]
    lines = format_agents(pages).splitlines()
    assert lines[0].startswith("- critic")
    assert lines[4].startswith("- specialist-bees")
    assert lines[1] == "  - as below: recall"
    assert lines[-1] == "- recall(): Recall what the team remembers"
    assert sum("Recall what" in line for line in lines) == 1


def test_with_little_room_descriptions_go_before_names() -> None:
    actions = {f"action_{number}": "does it very well " * 5 for number in range(40)}
    text = format_agents(
        [AgentPage(name="scout", description="Reads. " * 50, actions=actions, at_work=True)], limit=1_200
    )
    assert len(text) <= 1_200
    assert all(f"action_{number}(" in text for number in range(40))
    assert "does it" not in text


class Agent:
    """Actions of several kinds."""

    @register_action("Read a page", {"url": "Its address"})
    async def read_page(self, url: str) -> Outcome: ...

    @register_action("Mark a reminder as done", {"reminder": "Which"}, personal=True)
    async def complete_reminder(self, reminder: str) -> Outcome: ...

    @register_action("Write the briefing now", personal=True)
    async def write_briefing(self) -> Outcome: ...

    @register_action("Find the tool of a message", {"text": "It"}, planned=False)
    async def route(self, text: str) -> Outcome: ...

    @register_action("Apply patches one after the other", {"repo": "Where"}, planned=False)
    async def merge_changes(self, repo: str) -> Outcome: ...


@pytest.mark.parametrize("brief", [True, False])
def test_a_planner_sees_the_actions_that_plans_may_name(brief: bool) -> None:
    actions = collect_actions(Agent())
    page = AgentPage(
        name="nexus",
        actions={name: action.description for name, action in actions.items()},
        schemas={name: action.schema() for name, action in actions.items()},
        unplanned=unplanned_of(actions),
        at_work=True,
    )
    text = format_agents([page], brief=brief)
    assert "read_page(url" in text
    assert not [name for name in page.unplanned if name in text]
    assert sorted(page.unplanned) == ["complete_reminder", "merge_changes", "route", "write_briefing"]
    limits = PlanLimits(agents={"nexus": page}, max_steps=3)
    for name in actions:
        step = Step(name="a", assignee="nexus", text="Do it", action=name, params={"url": "x"})
        fault = find_fault(Plan(steps=(step,)), limits) or ""
        assert (f"nexus has no action {name!r}; it has read_page" in fault) == (name != "read_page")
