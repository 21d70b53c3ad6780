"""Tokens, cost and budget of the models."""

from collections.abc import Sequence
from datetime import UTC, timedelta
from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Answer, Tool, Words
from shared.contracts import DailySpending

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """
how much did we spend today?
how many tokens have been used?
what did that cost?
what does the model cost us
how much budget is left?
what's left of today's budget
show me the spending
cost of the last goal?
how expensive was the research yesterday?
which agent uses the most tokens?
token usage this week
how many dollars did we burn
are we over budget?
what have the model calls cost so far this month
spending by agent
can we afford another run today
did cortex use up its tokens?
API costs?
how much money did the night cost
what's the daily limit for tokens
price of yesterday's runs
how many calls to the model today
are we close to the limit
give me the bill for the models
usage and cost please
what did last night cost
how many tokens did that take
cost so far?
what's our model bill this month
which goal was the most expensive
how much did the engineer spend
what did scout's research cost us
are we going to exceed the limit
how much money is left for today
how expensive is one question to you
tokens left?
did the night stay within budget
show cost by day
what do we pay per run
money spent on ai
spending report please
is the limit per day or per task
how much have we spent
what did yesterday cost us in tokens
are we still within budget
how many tokens did goal 22 burn
whats left of the budget
Which agent is the most expensive one
I'd like to know the costs for March so far
did the night run cost a lot
show me spending per day
How much money goes to the models every month?
is there a limit on spending and how near are we to it
cost of the last goal pls
what's our burn
how many tokens since midnight
the boss wants to know what the whole thing costs us, have you got a figure?
did we go over the daily cap
Please a list of the consumption by agent
what did the translation set me back
budget status
how much was it last month compared with this one
why was tuesday so expensive
tokens today
are the agents getting pricier
what's the average cost of one goal
has the spending alarm gone off
roughly what would we have left by friday at this rate
give me the bill
how expensive was the transcription of the interviews
used up quota?
"""


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
    examples=EXAMPLES,
    run=tell,
)
