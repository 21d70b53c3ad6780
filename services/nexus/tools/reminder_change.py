"""Reminders: snooze, move, rename or finish one."""

import re
from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Call, Effect, Tool, Words

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """
snooze that
snooze the bank reminder for an hour
move the bank reminder to 10am
remind me again in 15 minutes
postpone the reminder about rent to Monday
later, in an hour
push the alarm back by half an hour
change my reminder for the dentist to 9:30
done with the reminder about the plants
mark the invoice reminder as done
I did that, tick off the reminder
the reminder should say call Anna not Ana
move it to tomorrow
not at 9, at 10 please
put the reminder off until Friday
reschedule the reminder for the parcel to the evening
remind me about it an hour earlier
shift my alarm to 7
can you delay the oven timer by 5 minutes
rename the reminder to "order flour and sugar"
make the reminder weekly
change the time of the rent reminder to noon
that reminder is done
push the thing with the inspection back a week
snooze
snooze it till tomorrow
put the vet reminder one day later
remind me a bit later
I've done it, you can tick it off
already called her, mark it done
postpone all of today's reminders to tomorrow
move my alarm to 6:15
switch the reminder from Monday to Tuesday
make the water reminder daily instead of weekly
reword that reminder: call the vet, not the dentist
the oven one is done
shift the cactus reminder to Fridays
move the dentist reminder to 4
push the bin reminder back an hour
the reminder about the rent is done
remind me of the parcel tomorrow instead of tonight
make my alarm 6 instead of 6:30
done with watering the tomatoes, tick it off
Postpone the call to mum until the evening
snooze that for ten minutes
change the reminder for the agar plates to Tuesday
I already called the bank, you can mark that reminder as done
ask me again in half an hour
set the pill reminder to 21:30 rather than 9
bring forward the auction reminder, an hour before is better
the standup reminder should be at 9:10 from now on
not now, remind me later about the laundry
shift all of today's reminders to tomorrow
Please displace my reminder of 14 o'clock to 15 o'clock
flowers for Ines: done ✅
reword the Goran reminder, it should say speaker cables
give me five more minutes on the oven timer
the library one can wait till monday
mark reminder 2 as finished
can the fire extinguisher reminder be on the second Monday rather than the first
push it to next week, the thing with the visa form
i've eaten, check that off
tweak the 2:15 reminder, make it 2:05
Let the strings reminder repeat every month
repeat that reminder in an hour
the one about the boiler is done
the parcel one is finished
that one about the invoices, done
could you delay the kiln room reminder a bit, say to 6:30
"""


async def mind(desk: "Desk", request: Request, _: Words) -> Call:
    """What the reminders' service makes of the message."""
    return Call(
        assignee=desk.context.profile.name,
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
    examples=EXAMPLES,
    says=_SAYS,
    run=mind,
    effect=Effect.WRITES,
)
