"""The calendar's appointments."""

import re
from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools import memory
from services.nexus.tools.tool import Answer, Call, Tool, Words
from shared.language.times.calendar_range import parse_calendar_range

if TYPE_CHECKING:
    from services.nexus.desk import Desk


_ASKED = re.compile(r"(?i)\W*(?:when|(?:at )?what time|where|who)\b(?!.*\b(?:calendar|agenda|diary)\b)")
"""A question about one event, which is not about the calendar."""


async def show(desk: "Desk", request: Request, words: Words) -> Answer | Call:
    """The appointments of the days that the message names, or of today.

    If no calendar is set, what memory says of the event that is asked for: it may have taken one in.
    """
    if not desk.context.settings.calendar and _ASKED.match(request.text):
        known = await memory.answer(desk, request, words)
        if known.response is not None and known.response.citations:
            return known
    start, days = parse_calendar_range(request.text, desk.now(request).date())
    return Call(
        assignee=desk.context.profile.name,
        action="show_calendar",
        params={"days": days, "start": start.isoformat()},
    )


TOOL = Tool(
    name="calendar",
    description="lists the appointments of the calendar",
    run=show,
    personal=True,
)
