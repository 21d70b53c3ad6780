"""Tokens, cost and budget of the models."""

from collections.abc import Sequence
from datetime import UTC, timedelta
from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Answer, Tool, Words
from shared.contracts import DailySpending

if TYPE_CHECKING:
    from services.nexus.desk import Desk

DAYS = 7
"""How many days are told."""


async def tell(desk: "Desk", request: Request, _: Words) -> Answer:
    """The tokens and dollars of today, by agent, and of the last days; and what a day's budget is."""
    today, settings = desk.now(request).astimezone(UTC).date(), desk.context.settings
    days = [today - timedelta(days=back) for back in range(DAYS)]
    spent = {day: await desk.office.spending(day.isoformat()) for day in days}
    lines = [f"- {each.sender} today: {_sum([each])}" for each in spent[today]]
    every = [each for found in spent.values() for each in found]
    if not every:
        return Answer(text=f"Nothing was spent in the last {DAYS} days: no model was asked.")
    if settings.day_tokens or settings.day_cost:
        lines.append(
            f"An agent may use {settings.day_tokens:,} tokens and ${settings.day_cost:.2f} a day (0: no "
            f"limit)."
        )
    head = f"Today: {_sum(spent[today])}. In the last {DAYS} days: {_sum(every)}."
    return Answer(text="\n".join([head, *lines]))


def _sum(spent: Sequence[DailySpending]) -> str:
    tokens = sum(each.input_tokens + each.output_tokens for each in spent)
    return f"{tokens:,} tokens, ${sum(each.cost for each in spent):.2f}"


TOOL = Tool(
    name="spending",
    description="tells the tokens and the cost of the models, and the budget",
    run=tell,
    personal=True,
)
