"""A mere statement: nothing is started, and it may be kept."""

from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.keeping import offer_to_keep
from services.nexus.tools.tool import Answer, Tool, Words

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """
the build is broken
the tests are slow on my machine
I already fixed it
I ran the tests this morning, all green
the client prefers email
Bob is on holiday next week
the meeting went well
our office moves to a new building in May
I think the search is too slow
my favourite colour is green
we had 40 guests yesterday
the printer is out of toner again
I'll do it myself
the login was broken yesterday
I'm going to refactor the parser next week
the concert was sold out
I have sent the invoice
we might need a second microscope
I like the new logo
search is down again
the server room is on the second floor
Ana is ill today
I prefer short answers
the deployment took three hours
if we rewrote the parser, it would be faster
maybe we should test more
I was thinking about moving to postgres
the engineer did a good job
I deleted the branch already
we usually run the tests before lunch
the fridge in the lab makes a noise
I paid the rent
someone should look at the logs at some point
no need to run it, it's done
my train is late
the kids loved the trip
the paper got accepted!
I'm working from home tomorrow
the delivery arrived at noon
we are out of flour
I told Tom to fix the roof
sales are up 12% this month
nobody answered the phone
I'm in a meeting until 3
the tests passed
this week was hard
she moved to Berlin
the heating is off in room 3
I would have fixed it differently
he said "run the tests" and left
I forgot to lock the shed
"""


async def acknowledge(desk: "Desk", request: Request, _: Words) -> Answer:
    """That nothing was done, and the offer to keep it."""
    return offer_to_keep("Nothing was started.", request.text)


TOOL = Tool(
    name="statement",
    description="hears what you tell, and offers to remember it",
    examples=EXAMPLES,
    run=acknowledge,
    hidden=True,
)
