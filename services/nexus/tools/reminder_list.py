"""Reminders: list them."""

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Call, Effect, Tool, ToolContext, Words


async def mind(context: ToolContext, request: Request, _: Words) -> Call:
    """What the reminders' service makes of the message."""
    return Call(
        assignee=context.agent.profile.name,
        action="mind_reminders",
        params={"text": request.text, "meaning": "list"},
    )


TOOL = Tool(
    name="reminder_list",
    description="lists your reminders",
    run=mind,
    effect=Effect.READS,
    personal=True,
)
