"""Reminders: snooze, move, rename or finish one."""

import re

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Call, Effect, Tool, ToolContext, Words


async def mind(context: ToolContext, request: Request, _: Words) -> Call:
    """What the reminders' service makes of the message."""
    return Call(
        assignee=context.agent.profile.name,
        action="mind_reminders",
        params={"text": request.text, "meaning": "change"},
    )


_SAYS = re.compile(
    r"(?i)\W*(?:(?:please|pls|hey|ok|and|also|nexus|can you|could you|would you|kindly)\b[\s,]*)*"
    r"(?:(?:move|shift|push|postpone|delay|reschedule|change|rename|reword|switch|snooze|put\s+off|set\s+back)\b[^.?!]*"
    r"\b(?:reminders?|alarms?|timers?)\b|remind\s+(?:me|us)\s+(?:a\s+bit\s+|again\s+)?later\b)"
)
"""How a message begins that is certainly for this tool."""
TOOL = Tool(
    name="reminder_change",
    description="moves, snoozes and finishes reminders",
    says=_SAYS,
    run=mind,
    effect=Effect.WRITES,
)
