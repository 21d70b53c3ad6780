"""How much may be thought: a task's tokens, and a day's tokens and dollars."""

import msgspec

from shared.contracts import Spending
from shared.errors import BudgetSpent
from shared.llm.protocol import Usage


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of an agent; 0 is no limit. Cost is in US dollars, a day is one of UTC."""

    task_tokens: int = 0
    day_tokens: int = 0
    day_cost: float = 0.0

    def check(self, task: Usage, day: Spending) -> None:
        """Nothing while something is left; raises BudgetSpent that says which budget is spent, and the cure.

        To be asked before each call of a model: the call that crosses a limit is the last one.
        """
        if self.task_tokens and task.tokens >= self.task_tokens:
            raise BudgetSpent(
                f"The task has used {_tokens(task.tokens)} of the {self.task_tokens:,} it may use",
                "Ask for less at once, or raise MAILROOM_TASK_TOKENS",
            )
        today = day.input_tokens + day.output_tokens
        if self.day_tokens and today >= self.day_tokens:
            raise BudgetSpent(
                f"The agent has used {_tokens(today)} on {day.day} of the {self.day_tokens:,} of a day",
                "Try again tomorrow (UTC), or raise MAILROOM_DAY_TOKENS",
            )
        if self.day_cost and day.cost >= self.day_cost:
            raise BudgetSpent(
                f"The agent has spent ${day.cost:.2f} on {day.day} of the ${self.day_cost:.2f} of a day",
                "Try again tomorrow (UTC), or raise MAILROOM_DAY_COST",
            )


def _tokens(count: int) -> str:
    return f"{count:,} tokens"
