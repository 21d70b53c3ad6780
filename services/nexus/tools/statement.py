"""A mere statement: nothing is started, and it may be kept."""

from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.keeping import name_subject, offer_to_keep
from services.nexus.tools.tool import Answer, Tool, Words

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """
so that's settled then
the import is done, I did it myself
my sister got married
our heating made noises all night
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
yesterday I rewrote the second chapter and it took all day
maybe we will hire another lifeguard, nothing is decided
the backup ran fine last night
I've just pushed the fix
we tested it twice and it works
I'm on the train right now
my colleague takes care of it
the goats got out again this morning
I started the dishwasher before I left
the new oven is amazing
we're thinking about getting a second van
if it rains we move the party inside
I was going to ask for a refund but then they replaced it
the kids drew all over the whiteboard
our server room smells of coffee
the customer called twice about the invoice
I bought more tape
the old script did that automatically
last year we had more visitors
the engineer told me that the job was slow
the printer works again
Ravi passed his exam
I reminded her already
someone left the lights on
it was so cold in the workshop that the glue did not dry
the delivery is late as usual
I can do that myself, thanks
you don't have to run anything, I did it
the tests have been green for a week
we cancelled the contract with the cleaners
I wrote to the council yesterday
I wonder whether we should change the layout
one day we should rewrite the importer
I would like to learn the cello some time
they say the festival will be cancelled
in my last job we deployed every day
the report looks good
I think that's it
the sourdough turned out well
no one has used the kiln since May
I saw that the test suite is slow
there was a mouse in the archive
our neighbour complained about the noise
it works on my machine
that was a long meeting
somebody could paint the fence one of these days
he asked me to run the script, but I have not done it yet
I set an alarm on my phone
my calendar is full this week
the weather was great at the market
I read a good paper on bees yesterday
I cleaned the filter already
the scan is finished as far as I know
we had to throw away 30 loaves
Karim deployed it on Friday
I think the tests are too slow
the choir sounded lovely yesterday
the van needs new tyres soon
I'd have done it another way
they want to change the timetable
he is looking into it himself
she said she would send the floor plan
the script was run by Tom this morning
it's already been taken care of
I might rewrite it at some point
our cat slept on the server
the report was late again
my neighbour runs every evening
Gil left early today
I'm done with the tax return
the tests ran through last night, by the way
they fixed the lift
the goats are fine again
our website was down for an hour yesterday
we had a good meeting
the parcel came
I'm waiting for the plumber
I'll think about it
I don't know yet
we'll see
I'm just thinking aloud
Ravi says the pump is loud
I've asked Tom to do it
he never answers his mail
that reminds me of last year
we had a great rehearsal yesterday
don't run the tests yet
Please do not send anything to the client for now
The kettle is broken
i would have deployed it if the build had been green
no need to start on the poster, Lea is doing it
my neighbour thinks we should repaint the hall
The tests were run last night by Omar
leave the photos alone for now
I might need the report next week, not sure yet
Jonas sent the mail himself
if we had more money I'd rent a bigger van
they are painting the corridor today
I never asked for a weekly report
we're thinking about switching the supplier
In my view the old logo was nicer.
the delivery came, two boxes were damaged
wouldn't translate that one, it's still changing
so I was standing in the shop and the till just froze
Nobody has booked the room as far as I know
hold off on the backup until I say so
I used to remind Theo every week to lock up
Anyone could have deleted that file
the server room smells funny
Maybe one day we'll rewrite the whole thing in Rust
mum says the cake recipe came from her aunt
I don't think it's worth reminding people, they know
it was raining when we did the site visit
Klara told me she'd take over the newsletter in May
"""


async def acknowledge(desk: "Desk", request: Request, _: Words) -> Answer:
    """That nothing was done, and the offer to keep it."""
    return offer_to_keep("Nothing was started.", name_subject(request.text, request))


TOOL = Tool(
    name="statement",
    description="hears what you tell, and offers to remember it",
    examples=EXAMPLES,
    run=acknowledge,
    hidden=True,
)
