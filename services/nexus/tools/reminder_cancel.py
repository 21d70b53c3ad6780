"""Reminders: cancel one."""

import re

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Call, Effect, Tool, ToolContext, Words


async def mind(context: ToolContext, request: Request, _: Words) -> Call:
    """What the reminders' service makes of the message."""
    return Call(
        assignee=context.agent.profile.name,
        action="mind_reminders",
        params={"text": request.text, "meaning": "cancel"},
    )


_SAYS = re.compile(
    r"(?i)\W*(?:(?:please|pls|hey|ok|and|also|nexus|can you|could you|would you|kindly)\b[\s,]*)*"
    r"(?:cancel|delete|remove|drop|stop|kill|unset|clear|turn\s+off|get\s+rid\s+of|scrap)\b[^.?!]*\b(?:reminders?|alarms?|timers?)\b"
)
"""How a message begins that is certainly for this tool."""
TOOL = Tool(
    name="reminder_cancel",
    description="cancels reminders",
    says=_SAYS,
    run=mind,
    effect=Effect.WRITES,
)
