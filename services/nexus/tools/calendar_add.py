"""Add an event to the calendar."""

from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Answer, Effect, Tool, Words, ask_back, command
from shared.contracts import Choice

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """
put lunch with Ana on Friday at 12 in my calendar
add a meeting with the bank tomorrow at 10
schedule a call with Tom on Monday at 3pm
book the dentist for 24 March at 8:30
create an appointment: parent evening, Thursday 19:00
block Friday afternoon for writing
enter the rehearsal on Sunday at 5 into the calendar
calendar: haircut wednesday 11:00
set up a meeting with the supplier next Tuesday at 9
make an entry for the concert on 3 May
add Ana's birthday party to the calendar, saturday at 8
pencil in coffee with Lea on Thursday at 4
I have a doctor's appointment on Monday at 9, please add it
new event: team lunch, 1 April 12:30
put me down for the workshop on the 12th
reserve two hours tomorrow morning in my calendar for the grant
can you add the flight on the 28th at 6:40 to my calendar
save the date: wedding of Tom on 18 July
move the meeting with Bob to 4
reschedule the call with the bank to Friday
delete the lunch on Friday from my calendar
cancel my appointment with the dentist
add "sprint review" every second Wednesday at 14:00 to the calendar
schedule lunch for 12:30 tomorrow with Kim
put the vet in the diary for Thursday 4pm
make an appointment with the accountant next Tuesday at 11
I'm meeting Joel on Friday at 2, put it in
block the whole of next Wednesday
book the hall for the 12th at 19:00 in the calendar
staff meeting every Monday at 9, add it
shift the workshop to the afternoon in my calendar
remove the dentist from Thursday
note in the calendar: school holidays start on 30 March
move lunch with Kim to 1pm
add to my agenda: call with the bank 10:30 tomorrow
put "pick up the keys" into the calendar on Saturday 10
schedule me a haircut on Friday morning
enter my vacation 3 to 14 August
save 20 June for the summer party
set up the interview with Mr. Okafor on Wednesday 3pm
my appointment on Tuesday is cancelled, take it out
extend the meeting with the architect to two hours
can you slot in 30 minutes with Lea tomorrow
appointment: tyre change, 2 April 7:30
"""


async def add(desk: "Desk", request: Request, _: Words) -> Answer:
    """That the calendar is only read."""
    return ask_back(
        "I read the calendar and cannot write into it; nothing was added. Change it where it is kept; "
        "a reminder I can set.",
        choices=(Choice(label="set a reminder", text=command("reminder_set", f"remind me: {request.text}")),),
    )


TOOL = Tool(
    name="calendar_add",
    description="adds events to the calendar",
    examples=EXAMPLES,
    run=add,
    effect=Effect.WRITES,
)
