"""Reminders: list them."""

from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Call, Effect, Tool, Words

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """
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
"""


async def mind(desk: "Desk", request: Request, _: Words) -> Call:
    """What the reminders' service makes of the message."""
    return Call(assignee=desk.context.profile.name, action="mind_reminders", params={"text": request.text})


TOOL = Tool(
    name="reminder_list",
    description="lists your reminders",
    examples=EXAMPLES,
    run=mind,
    effect=Effect.READS,
)
