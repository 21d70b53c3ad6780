"""A question that memory has to answer, whether it knows or not."""

import re
from typing import TYPE_CHECKING

import msgspec

from services.nexus.answers.evidence import TOLD_HERE
from services.nexus.answers.memory_answer import node_statement
from services.nexus.routing.request import Request
from services.nexus.tools.keeping import offer_to_keep
from services.nexus.tools.tool import Answer, Tool, Words
from shared.contracts import Node, Source, Told
from shared.text.sentences import split_title

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """
when do we deploy?
who is on call this week?
can I merge on Friday?
when is the restore test?
what did we decide about caching?
who is responsible for the billing service?
where do we keep the invoices?
what is the password policy?
which database does the shop use?
why did we choose postgres?
what is the name of the staging server?
how long do we keep the logs?
does Bob work on Fridays?
what do you know about the cold room?
how warm is it in the cold room?
what colour is the logo supposed to be
who wrote the importer?
what was the deploy day before?
where is the key to the practice room?
which supplier delivers the flour
how many students are in the evening class?
can you explain how deploys work?
how do I reset the router
what's the wifi password in the office?
when did we last change the filters?
what do we pay for hosting
is the lab allowed to order solvents directly?
who do I ask about vacation days?
what's our rule for refunds
remind me what we said about the contract with Lidl
do you remember where the spare parts are?
did we agree on a name for the album?
what's Maria's phone number
which microscope is broken?
what did the check-up find?
tell me about the billing service
how does the login work
how many customers do we have?
when does the lease end?
what was said at the retreat about pricing
are we allowed to use GPL libraries?
whats the plan for the summer concert
since when do we have the new till system
what are our opening hours
is there a dress code for the concert
what does Ana prefer, mail or phone?
where's the backup stored
what port does the broker listen on
who's the contact at the printing company?
what happened at the incident in March
what lessons did we learn from the outage?
how should I name a branch?
which version of python do we use
who replaced Tom as treasurer?
what is the procedure if the alarm goes off
have we ever worked with that agency before
does the school have a projector
how big is the greenhouse
what do we know about heat pumps?
which papers did we keep on memory?
should we fix the parser first?
what is the capital of France?
what is a vector database?
how many planets are there
how does caching work
what was it before that?
what was the name of the guy who repaired the oven
the woman from the grant office, how was she called again
which vet did we use for the horse last autumn
I can't remember which hotel we booked for the crew, any idea?
have we ever had a complaint about the rye bread
do you know my birthday?
what did I tell you about the parking permit
did anybody write down how long the dough rests
the story with the broken pump in may, how did that end and who paid
where do I find the risk assessment for the chemistry lesson
do we know why Karin moved the freezer to room 2?
how come we stopped shipping to Norway
which colour did the customer choose for the hallway in the end
who has the spare key of the van
email address of our distributor in Denmark?
phone number of the piano tuner?
what was our conclusion on the pricing experiment
did Sofia prefer calls or emails
in which drawer are the fuses kept
what does the contract say about cancellation
what's the story behind the blue door
is there a rule about dogs in the shop
how many people came to the last open day
what would happen if we upgraded the framework?
would it be a problem if I came in late on Monday
what happens when the freezer alarm goes off at night
how do we usually label the samples
what allergies does the Weber family have
who's the treasurer of the club nowadays
since when is the old gym closed
whose idea was the yellow logo
did we ever decide on a date for the summer party
what did the architect recommend for the roof
any idea what the code of the bike shed is
what do we do with expired chemicals
can I bring my bike into the office?
am I allowed to give discounts?
may volunteers use the van
which printer cartridges do we need
what size are the choir robes
when is bin day
when's the next delivery of coal
when does the museum reopen
when are exams this term
at what time does the market open for sellers
how much do we charge for a lesson
how far is the warehouse from the station
what temperature must the vaccine fridge have
what's the difference between plan A and B that we discussed
who teaches the beginners on Thursdays
is Karim still responsible for the pricing module
does the landlord allow barbecues on the balcony
what are the steps to close the till
how does the booking system know about holidays
explain our release process to me
tell me what we know about the Halvorsen account
give me everything on the leaky roof
remind me who won the tender
what was that restaurant Leo liked so much
I need the serial number of the big scanner
what's the IBAN of the association
summarise what we learned from the last audit
who signed the lease
did we pay the deposit for the hall?
was the boiler replaced or repaired
which of the two suppliers was cheaper last year
why is the side entrance locked on weekends
are the chairs in the hall ours or rented
what did the client say about the second draft
what are we not allowed to store in the cellar
what has changed in the contract since last year
how should invoices be named
what's Tom's role in the project
is it true that we get the grant only once
which songs are on the set list
when was that decided
how sure are we of that
where did you get that from
which port does the scanner service listen on
what did you say the address was
where did we put the spare key for the van
what's Yusuf's phone number
who is responsible for the lighting at the spring show
what did I say about the colour of the banner
do you remember the name of the guy from the paper mill
Which supplier did we agree on for the oak?
what do you know about Marisol
when is Anton's birthday
whats the door code of the studio
why did we drop the old ticket system
how many chairs do we have in the big hall
Is Petra allergic to nuts or was that Paula
I forgot what we decided about the summer camp fee
what was the wifi password in the workshop again
who told you the deadline is the 30th
tell me what we know about the pump in lab 4
what size shirts does the team wear
Where lives our accountant?
can you recall which version of the score we used in Bergen
what's the name of our contact at the city council
did I ever tell you where the fuse box is
which of the bees colonies was the aggressive one
whats our tax number
how does Ren take his coffee
who decided that we publish on thursdays
what was the agreed rate for the freelance illustrator
do we have a policy on dogs in the office
how do deploys work here
since when is Noor with us
What did we name the new boat?
when is it too cold to pour concrete?
at which wind speed do we close the tower
how humid may the archive get
when is it too hot to train the dogs?
how wet may the hay be when we bale it
"""


async def answer(desk: "Desk", request: Request, _: Words) -> Answer:
    """Quotations from memory and from what was told in the conversation, or that there is nothing.

    If the answer was only told, it offers to keep that.
    """
    told = {node.id: node for node in map(_make_node, range(len(request.told)), request.told)}
    response = await desk.answerer.quote(request.text, told=tuple(told.values()))
    first = told.get(response.citations[0]) if response.citations else None
    response = msgspec.structs.replace(
        response, citations=tuple(each for each in response.citations if each not in told)
    )
    if first is not None:
        offer = offer_to_keep("That is not kept.", node_statement(first))
        response = msgspec.structs.replace(response, text=f"{response.text}\n{offer.text}", asks=offer.asks)
    return Answer(text=response.text, response=response)


def _make_node(number: int, said: Told) -> Node:
    """What was told as if it were kept."""
    title, body = split_title(said.text)
    origin = Source(agent="told here", channel=TOLD_HERE)
    return Node(id=f"told_{number}", title=title, body=body, created_at=said.asked_at, source=origin)


_SAYS = re.compile(
    r"(?i)\W*(?:(?:please|pls|hey|ok|and|also|nexus|can you|could you|would you|kindly)\b[\s,]*)*"
    r"remind\s+(?:me|us)[\s,:]+(?:again\s+)?(?:who|what|when|where|how|why|which|whether)\b(?!\s+(?:it|i)\b)"
)
"""How a message begins that is certainly for this tool."""
TOOL = Tool(
    name="memory",
    description="answers questions from what the team has kept, with the sources",
    examples=EXAMPLES,
    says=_SAYS,
    run=answer,
    route="nexus",
)
