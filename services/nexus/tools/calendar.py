"""The calendar's appointments."""

import re
from typing import TYPE_CHECKING

from services.nexus.routing.calendar_range import parse_calendar_range
from services.nexus.routing.request import Request
from services.nexus.tools import memory
from services.nexus.tools.tool import Answer, Call, Tool, Words

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """
what is on my calendar?
do I have a meeting today?
am I free on Friday?
am I busy tomorrow afternoon?
when is my next meeting?
what do I have on today
which appointments do I have this week?
what's on the agenda tomorrow
show my calendar for next week
is there anything on Tuesday evening?
when do I meet the customer?
do I have time for lunch on thursday
what does my week look like
any appointments at the weekend?
what time is my dentist appointment
how many meetings do I have tomorrow
am I double booked on Monday?
whats my schedule for today
when's the first thing tomorrow morning
is my afternoon free
next appointment?
are there events in the calendar for May
do I have anything after 4?
who am I meeting at 3
what's happening on the 24th
where is the meeting at ten
my calendar please
have I got a free slot this week for an hour
which day next week is emptiest
is the rehearsal in my calendar?
anything on tomorrow?
is Friday free?
what's planned for me on Thursday
do I have appointments on the 24th
when am I free for two hours
what's my next thing
who do I see this afternoon
is there anything in the evening
how does Monday look
when's my flight
where do I have to be at 2
what time does the parent evening start
have I something in the diary for Easter Monday
which meetings are with Joel
agenda for today?
what's in the diary
any events this weekend
am I in meetings all morning
do I have to be anywhere tomorrow
is my Tuesday morning still open
what's left on my calendar today
first appointment tomorrow?
who else is in that meeting
is there a gap between 2 and 4
show me next month
what's on my calendar today
am I free on Friday afternoon
when is my next appointment
do I have anything tomorrow morning
whats happening next week
when's the meeting with the architect
Show me my agenda for the 24th
is the parents evening in the calendar
how does my Thursday look
anything on at 3?
Have I something planned at the weekend of 11 April
at what time do I see the dentist
what have I got on this month
when am i meeting Fiona
is there a gap between 10 and 12 tomorrow
Where is the rehearsal on Sunday, the calendar should say
how many meetings do i have today ugh
next gig?
Does the site visit clash with something
which days next week are still empty
who's coming to the two o'clock
read me tomorrow's appointments
what time does the staff meeting finish
do i have to be anywhere tonight
I can't remember whether the vet is on Tuesday or Wednesday, can you look in the diary
what's my first thing on Monday
calendar for april please
is my evening free
when did I last have an appointment with the accountant
are there any events with Lucia coming up
"""


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
    examples=EXAMPLES,
    run=show,
)
