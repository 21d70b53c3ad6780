"""Reminders: cancel one."""

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Call, Effect, Tool, ToolContext, Words
from shared.language.sayings import read_sayings

WAYS = read_sayings(__file__, "reminder_cancel")


async def mind(context: ToolContext, request: Request, _: Words) -> Call:
    """What the reminders' service makes of the message."""
    return Call(
        assignee=context.agent.profile.name,
        action="mind_reminders",
        params={"text": request.text, "meaning": "cancel"},
    )


TOOL = Tool(
    name="reminder_cancel",
    description="cancels reminders",
    says=WAYS["says"],
    run=mind,
    effect=Effect.WRITES,
)
