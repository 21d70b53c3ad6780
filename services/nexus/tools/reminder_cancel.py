"""Reminders: cancel one."""

import re
from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Call, Effect, Tool, Words

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """
cancel the reminder about the bank
delete my reminder for tomorrow
remove the alarm at 7
cancel all reminders
drop the reminder to call Ana
I don't need the reminder about rent any more
turn off the alarm
stop reminding me about the plants
no more reminders about the backup please
delete all reminders about the bank
cancel that reminder
forget the reminder for the dentist
stop the timer
get rid of the birthday reminder
you needn't remind me of the call any more
clear my reminders
unset the 6:45 alarm
take away the reminder r81c2
cancel that
I don't need the alarm tomorrow
scrap the reminder about the tax
remove all alarms
you can stop reminding me of the seedlings
take the dentist off my reminders
no need to remind me about the call
the kiln reminder can go
kill the timer
cancel my 7 o'clock alarm
get rid of all the old reminders
don't remind me of the party any more
unset the reminder for Friday
drop the water reminder
"""


async def mind(desk: "Desk", request: Request, _: Words) -> Call:
    """What the reminders' service makes of the message."""
    return Call(assignee=desk.context.profile.name, action="mind_reminders", params={"text": request.text})


_SAYS = re.compile(
    r"(?i)\W*(?:(?:please|pls|hey|ok|and|also|nexus|can you|could you|would you|kindly)\b[\s,]*)*"
    r"(?:cancel|delete|remove|drop|stop|kill|unset|clear|turn\s+off|get\s+rid\s+of|scrap)\b[^.?!]*\b(?:reminders?|alarms?|timers?)\b"
)
"""How a message begins that is certainly for this tool."""
TOOL = Tool(
    name="reminder_cancel",
    description="cancels reminders",
    examples=EXAMPLES,
    says=_SAYS,
    run=mind,
    effect=Effect.WRITES,
)
