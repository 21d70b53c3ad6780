"""What a plan says of itself: the tools it needs, and how long it expects to take."""

from collections.abc import Collection, Mapping

from shared.contracts import TaskPlan
from shared.errors import ActionError
from shared.plans import AgentPage
from shared.text.display import format_list


def find_needed_agents(plan: TaskPlan, own_name: str) -> frozenset[str]:
    """The other agents whose actions the plan needs: they do steps, or its tools name them."""
    assigned = {str(step.context.get("assignee", "")) for step in plan.steps}
    tools = {agent for agent, dot, action in map(_split, plan.required_tools) if dot and agent in assigned}
    return frozenset(tools - {own_name})


def require_tools(
    plan: TaskPlan, own_name: str, own_actions: Collection[str], pages: Mapping[str, AgentPage]
) -> None:
    """Raise ActionError if a tool of the plan is an action that its agent does not have.

    A tool is written ``agent.action``, or as one of cortex's own. Others, such as programs, are not checked:
    those who use them say what is missing. Nor is an agent who is not at work: a step waits in its mailbox.
    """
    needed, missing = find_needed_agents(plan, own_name), []
    for tool in plan.required_tools:
        agent, dot, action = _split(tool)
        if not dot or agent not in {own_name, *needed}:
            continue
        page = pages.get(agent)
        known: Collection[str] = page.actions if page and page.at_work else (action,)
        if action not in (own_actions if agent == own_name else known):
            missing.append(f"an action '{action}' that {agent} does not have")
    if missing:
        raise ActionError(
            f"No step was begun: the plan needs {format_list(list(dict.fromkeys(missing)), 10)}",
            "'mailroom agents NAME' lists what each can do",
        )


def _split(tool: str) -> tuple[str, str, str]:
    return tool.strip().partition(".")
