"""Reminders: set one."""

import re
from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Call, Effect, Tool, Words

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """
remind me to call Ana tomorrow at 9
remind me in 20 minutes to take the bread out
set a reminder for Friday at 3 to pay the rent
remind me every weekday at 8:30 to clock in
please remind me on the 24th to water the plants
can you ping me at 5 about the invoice
set an alarm for 6:45
wake me at 7
don't let me forget to send the form tomorrow morning
I need a reminder to order flour on Monday
remind me every first Monday of the month to do the backup tapes
remind me next friday to pay rent
reminder: dentist tomorrow 8am
remind me every year on 3 May that it's Ana's birthday
in half an hour tell me to check the oven
nudge me this evening about the report
set a timer for 10 minutes
timer 5 min
remind us at noon to join the call
could you remind me later to look at the logs
remind me about the parent meeting on thursday
remember to remind me of the tax return at the end of the month
give me a shout at half past four to leave
remind me to run the tests tomorrow at 10
alert me in 2 hours
I'd like to be reminded to stretch every hour
reminder for tomorrow: bring the contract
tell me at 18:00 to feed the cat
make me a reminder to renew the domain on 1 June
tomorrow morning remind me to pick up the parcel
it would be great if you could remind me about the call with Tom on monday at ten
every evening at 9 remind me to lock the shed
remind me when I'm back on Monday to answer the client
on April 3rd is good Friday so remind me the day before to order more eggs
I need to be told two days before the exam which is on the 30th
ring me at 4
remind me of the oven in 25 minutes
can you remind me when it's time to leave, 17:40
poke me on Friday about the tax form
give me a heads up 10 minutes before the call at 3
I want a reminder the evening before bin day
remind me again tomorrow
remind us all to fill in the time sheets on Friday
on the last Friday of each month remind me to send invoices
tell me on Sunday evening to pack the sports bag
I must not forget to water the seedlings tonight at 8, remind me
reminder for 14 May: renew passport
3pm reminder: feed the axolotl
remind me in two weeks to ask Joel about the van
set an alarm for half six
wake me up in 40 minutes
don't let me miss the webinar at 11
remind me about Ana's birthday a week before
every Tuesday and Thursday at 6 remind me of training
remind me monthly to check the smoke detectors
please let me know at 5 that I should go
ping me after lunch about the contract
set a reminder to descale the machine, every three months
remind me at 5 to call mum
set a reminder for tomorrow 8am take out the bins
in 20 minutes tell me to turn off the oven
Remind me on Friday that the rent is due
don't let me forget the parcel tonight
reminder: water the tomatoes every other day
nudge me at half past three about the visa form
can you ping me in an hour
alert me when its 16:45 so i catch the bus
Please remember me tomorrow at 10 to phone the bank
I have to take my pills at 9 every evening, could you remind me
wake me up at 6.30
remind me next monday to order agar plates
timer 12 minutes
let me know on the 28th that the library books go back
it would be nice if somebody told me at noon to eat something
every first monday of the month remind me to check the fire extinguishers
remind me to ask Goran about the cables
set an alarm for quarter to seven tomorrow
tomorrow afternoon I need a poke about the grant figures
give me a shout at 2:15, parent call
Make me think of the flowers for Ines on her birthday, April 5
before I leave at six remind me to lock the kiln room
reminder for thursday evening, buy strings
could you remind us all on Wednesday of the fire drill
remind me in 3 days to follow up with the printers
pls remind to feed cat 7pm
every weekday at 8.55 remind me of standup
i mustnt miss the auction on sunday at 11 so remind me half an hour before
when it's ten tell me to switch the laundry over
"""


async def mind(desk: "Desk", request: Request, _: Words) -> Call:
    """What the reminders' service makes of the message."""
    return Call(
        assignee=desk.context.profile.name,
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
    examples=EXAMPLES,
    needs=_NEEDED,
    run=mind,
    effect=Effect.WRITES,
)
