"""The briefing of the day."""

import re
from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Call, Tool, Words

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """
brief me
what happened overnight?
what should I do today?
give me the morning briefing
what's new since yesterday?
what matters today?
catch me up
what did I miss?
good morning, what's up today?
evening brief please
how did the day go?
summarise the day for me
what is important this morning
anything I should know about?
daily briefing
what did the night bring?
what's my day like, anything urgent
give me a rundown
read me the brief
what are today's priorities
where should I start today
sum up what happened while I was away
what's due today?
start my day
short summary of yesterday
wrap up of today please
what do I need to know before the meeting starts
anything happen while I was out?
what should I focus on this afternoon
morning! fill me in
what matters today
catch me up, I was away since Monday
I was on holiday for a week, what happened
what do I have to know this morning
anything urgent?
good morning, what's new
give me the short version of today
what's going on today
anything important overnight?
summary of the night please
update me
bring me up to speed
what's the plan for today
what's most important right now
tell me about my day
how was the night?
quick overview of the day please
evening summary
what happened today
what have I missed since lunch
what awaits me tomorrow
the brief for today, please
do I need to worry about anything
what should I look at first
top things for today
Anything important today?
what do i need to know before I start
evening summary please
How did the night go
sum up the day for me
i just came in, what did I miss
daily brief
Please tell me the most important things for today in brief
what's the situation this morning
wrap up of today pls
ok I'm back from holiday what's been going on
what should I look at first this morning
Did something happen whilst I slept?
run me through today
the usual morning rundown thanks
overview for today, short, I'm on the tram
any surprises from last night
end of day report
what's new since yesterday evening
Give me the short version of what's going on here
what were the main things today, I'm about to close the shop
morning! brief?
what would be worth knowing before the 9 o'clock
"""


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
    examples=EXAMPLES,
    run=brief,
)
