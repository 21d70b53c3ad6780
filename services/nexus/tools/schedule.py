"""A goal that repeats."""

import re

from services.nexus.conversation.mentions import GONE
from services.nexus.routing.request import Request
from services.nexus.schedules.words import read_order
from services.nexus.tools.tool import Answer, Effect, Tool, ToolContext, Words, ask_back, command
from shared.contracts.conversation import SLOT
from shared.errors import ActionError


async def plan(context: ToolContext, request: Request, _: Words) -> Answer:
    """The goal on its schedule, or what a command does to one; what is not clear is asked back."""
    try:
        outcome = await context.schedules.obey(request)
    except ActionError as error:
        # A command says all at once; what follows it is another message.
        more = "" if read_order(request.text) else command("schedule", f"{request.text} {SLOT}")
        return ask_back(str(error), more)
    if request.replaces and request.replaces not in outcome.output:
        removed = await context.schedules.book.remove(request.replaces)
        return Answer(text=f"{outcome.output}\n{GONE}{removed.output}")
    return Answer(text=outcome.output, goal_id=str(outcome.data.get("goal_id", "")))


_NEEDED = re.compile(
    r"(?i)\b(?:(?:every|evry|each)\s+(?:\w+\s+){0,2}?(?:day|night|morning|evening|afternoon|week\w*|month|year|hour"
    r"|minute|quarter|noon|midnight|(?:mon|tues|wednes|thurs|fri|satur|sun)day|mon|tue|wed|thu|fri|sat|sun|\d+)s?"
    r"|(?<!the\s)(?<!last\s)(?:daily|nightly|(?:bi-?)?weekly|fortnightly|monthly|quarterly|hourly|yearly|annually)"
    r"|cron\w*|regular\w*|repeat\w*|from now on"
    r"|automat\w*|(?:once|twice|\w+ times) (?:an?|per|each|every)|(?:mon|tues|wednes|thurs|fri|satur|sun)days"
    r"|(?:\d+(?:st|nd|rd|th)|first|last)(?:\s+\w+){0,2}\s+of\s+(?:the|each|every)\s+(?:month|quarter|year)"
    r"|(?:mon|tues?|wed|thurs?|fri|sat|sun)\w*\s*(?:\+|&|and)\s*(?:mon|tues?|wed|thurs?|fri|sat|sun)\w*"
    r"|on the \d+\w* and (?:the )?\d+\w*|schedules?d?|weekdays|mornings|evenings|nights)\b"
)
"""Words of repetition."""
TOOL = Tool(
    name="schedule",
    description="repeats a goal on a schedule",
    needs=_NEEDED,
    run=plan,
    effect=Effect.STARTS,
    personal=True,
)
