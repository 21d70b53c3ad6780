"""A goal that repeats."""

from services.nexus.conversation.mentions import GONE
from services.nexus.routing.request import Request
from services.nexus.schedules.words import read_order
from services.nexus.tools.tool import Answer, Effect, Tool, ToolContext, Words, ask_back, command
from shared.contracts.conversation import SLOT
from shared.errors import ActionError
from shared.language.sayings import read_sayings

WAYS = read_sayings(__file__, "schedule")


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


TOOL = Tool(
    name="schedule",
    description="repeats a goal on a schedule",
    needs=WAYS["needed"],
    run=plan,
    effect=Effect.STARTS,
    personal=True,
)
