"""A question that memory has to answer, whether it knows or not."""

from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Answer, Tool, Words

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
and who decided that?
why?
what was it before that?
"""


async def answer(desk: "Desk", request: Request, _: Words) -> Answer:
    """Quotations from memory, or that it holds nothing."""
    response = await desk.answerer.quote(request.text)
    return Answer(text=response.text, response=response)


TOOL = Tool(
    name="memory",
    description="answers questions from what the team has kept, with the sources",
    examples=EXAMPLES,
    run=answer,
    route="nexus",
)
