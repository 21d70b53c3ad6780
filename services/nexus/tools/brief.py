"""The briefing of the day."""

import re
from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Call, Tool, Words

if TYPE_CHECKING:
    from services.nexus.desk import Desk


async def brief(desk: "Desk", request: Request, _: Words) -> Call:
    """The evening's after 16:00 or if it is named, else the morning's."""
    evening = "evening" in request.text.lower() or desk.now(request).hour >= 16
    kind = "evening" if evening and "morning" not in request.text.lower() else "morning"
    again = re.search(r"(?i)\b(?:again|anew|update|refresh|new since)\b", request.text) is not None
    params = {"kind": kind, "again": again}
    return Call(assignee=desk.context.profile.name, action="tell_briefing", params=params)


TOOL = Tool(
    name="brief",
    description="briefs you: what waits, what failed, what is due, what the night brought",
    run=brief,
    personal=True,
)
