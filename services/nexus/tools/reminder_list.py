"""Reminders: list them."""

from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Call, Effect, Tool, Words

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """
what's left to be reminded of?
which ones are left
list my reminders
show reminders
which reminders are open
my reminders
do I have any reminders for tomorrow?
what did I want to be reminded of
any reminders coming up this week?
when is the reminder about the bank?
how many reminders are set
did I set a reminder for the rent
is there a reminder for the dentist?
what are you going to remind me of today
what reminders did I have yesterday?
all my alarms please
reminders?
have you got a reminder for Ana's birthday
show me what I asked to be reminded about
what's my next reminder
which timers are running
what's coming up this week in reminders
which alarms do I have
when will you remind me about the rent
is a reminder set for Friday
why didn't you remind me?
do I have a timer running
what was I supposed to be reminded of today
show all open reminders
have I already asked you to remind me of the vet
how many alarms are there
what is my reminder for tomorrow at
did you remind me of the call?
list everything you'll remind me of
when does my timer end
which reminders repeat
next alarm?
show my reminders
list everything you're going to remind me of
Any reminders today?
when will you remind me about the dentist
what am I supposed to be reminded of this week
is there a reminder for the bins or not
how many reminders are open
tell me my next reminder
have you got an alarm set for tomorrow
what was that thing you were going to nudge me about
please list the reminders for friday
is my 5 o'clock reminder still on
all alarms pls
what timers are running
Are there still reminders which I did not do
i think I asked you to remind me of something tonight, what was it
overdue reminders
read out my reminders for the weekend
do I have any reminders about Goran
which reminders went off while I was out
let's see the reminder list
how long left on the timer
you're reminding me of the auction on Sunday, right?
what's still on my reminder list for march
could you go over the reminders with me
when does my alarm ring
"""


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
    examples=EXAMPLES,
    run=mind,
    effect=Effect.READS,
)
