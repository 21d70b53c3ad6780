"""Reminders: set one."""

import re

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Call, Effect, Tool, ToolContext, Words


async def mind(context: ToolContext, request: Request, _: Words) -> Call:
    """What the reminders' service makes of the message."""
    return Call(
        assignee=context.agent.profile.name,
        action="mind_reminders",
        params={"text": request.text, "meaning": "set"},
    )


_NEEDED = re.compile(
    r"(?is)^(?!.*\bremind(?:ing)?\s+(?:me|us)[\s,:]+(?:again\s+)?(?:what|who|whom|whose|where|why|how|which|whether)\b"
    r"(?!.*\b(?:at|tomorrow|tonight|every|in\s+\d+)\b))"
)
"""No question for memory: "remind me what the paint was called"."""
TOOL = Tool(
    name="reminder_set",
    description="sets reminders, once or repeated",
    needs=_NEEDED,
    run=mind,
    effect=Effect.WRITES,
)
