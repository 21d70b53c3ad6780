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
cancel the reminder about the bins
delete my alarm
you don't need to remind me of the dentist any more
remove all reminders for today
stop reminding me about standup
turn off the 7pm cat thing, neighbour's feeding her
forget the reminder with Goran
no more reminders about pills please
clear the timer
I won't be needing the wake up call tomorrow
scrap that reminder for the visa form
Please delete the reminder number 4
kill the oven timer
drop the monthly fire extinguisher reminder
take the auction reminder off, I'm not going
get rid of every reminder I have
the reminder for friday is superfluous, cancel it
never mind reminding me about the laundry
don't nudge me about the grant any longer
could you remove the rent reminder, it's a standing order now
unset alarm 6:30
that reminder you were gonna give me at 5, leave it
cancel the last reminder i made
I don't want to be reminded to water anything, the tomatoes are dead lol
erase both reminders about the parcel
disable the daily reminder
call off the noon reminder
no alarm tomorrow after all
the library reminder isn't needed, Theo took the books back so bin it
reminder strings cancel
"""


async def mind(desk: "Desk", request: Request, _: Words) -> Call:
    """What the reminders' service makes of the message."""
    return Call(
        assignee=desk.context.profile.name,
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
    examples=EXAMPLES,
    says=_SAYS,
    run=mind,
    effect=Effect.WRITES,
)
