"""Reminders: list them."""

from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Call, Effect, Tool, Words

if TYPE_CHECKING:
    from services.nexus.desk import Desk


async def mind(desk: "Desk", request: Request, _: Words) -> Call:
    """What the reminders' service makes of the message."""
    return Call(
        assignee=desk.context.profile.name,
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
