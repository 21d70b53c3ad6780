"""What a plan needs is there, or no step begins."""

import pytest

from services.cortex.plan_parser import find_needed_agents, require_tools
from shared.contracts import TaskPlan, TaskStep
from shared.errors import ActionError
from shared.plans import AgentPage

OWN = ("find_code",)
PAGES = {
    "scout": AgentPage(name="scout", actions={"read_page": "Read a page"}, at_work=True),
    "critic": AgentPage(name="critic"),
}


def plan(*tools: str, assignees: tuple[str, ...] = ()) -> TaskPlan:
    steps = tuple(
        TaskStep(step_number=number, action="do it", context={"assignee": name})
        for number, name in enumerate(assignees or ("cortex",), start=1)
    )
    return TaskPlan(task_id="t1", agent="cortex", steps=steps, required_tools=tools)


def test_what_is_there_is_enough() -> None:
    require_tools(plan(), "cortex", OWN, {})
    require_tools(plan("cortex.find_code", "scout.read_page", assignees=("scout",)), "cortex", OWN, PAGES)
    assert find_needed_agents(plan("scout.read_page", assignees=("scout",)), "cortex") == {"scout"}


@pytest.mark.parametrize("tool", ["pytest", "python3.11", "flask", "nobody.does_this", "critic.lint"])
def test_programs_and_what_no_step_uses_are_not_checked(tool: str) -> None:
    require_tools(plan(tool, assignees=("scout",)), "cortex", OWN, PAGES)
    assert find_needed_agents(plan(tool, assignees=("scout",)), "cortex") == set()


@pytest.mark.parametrize("agent", ["critic", "editor"])
def test_who_is_not_at_work_is_waited_for(agent: str) -> None:
    require_tools(plan(f"{agent}.lint", assignees=(agent,)), "cortex", OWN, PAGES)


@pytest.mark.parametrize(
    ("tool", "assignee", "reason"),
    [
        ("scout.dance", "scout", "an action 'dance' that scout does not have"),
        ("cortex.sing", "scout", "an action 'sing' that cortex does not have"),
    ],
)
def test_what_is_missing_is_said_before_a_step_begins(tool: str, assignee: str, reason: str) -> None:
    with pytest.raises(ActionError, match=f"No step was begun: the plan needs {reason}. 'mailroom agents"):
        require_tools(plan(tool, assignees=(assignee,)), "cortex", OWN, PAGES)
