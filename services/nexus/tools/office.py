"""Goals in a line, as the tools show them."""

from shared.contracts import Goal
from shared.text.shorten import flatten


def format_goal(goal: Goal) -> str:
    """A goal in a line: its state, what it is, its answer or why it failed, its id."""
    result = flatten(goal.reason or goal.answer, 160)
    because = f" - {result}" if result else ""
    return f"{goal.standing}: {flatten(goal.text, 160)}{because} ({goal.goal_id})"
