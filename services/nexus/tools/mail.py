"""Mail: search it and read it."""

from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Answer, Tool, Words

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """
any new mail?
do I have mail?
show me my mails
did Ana write to me?
what did scout write me yesterday?
search my mail for the invoice
find the mail about the contract
is there an email from the landlord
read me the last email
read the latest letter from conductor
what does the mail from frontier say?
who wrote to me today
how many unread messages do I have
look through my inbox for anything about the venue
was there a reply to my letter to the engineer?
has the supplier answered my email yet?
find emails from last week that mention the budget
what was in the message I got this morning?
check my email please
show the thread with cortex
which mails came in overnight?
the mail where they sent the price list, can you find it
any letters about the refund
open the newest message
did I get a confirmation mail for the booking?
summarise my unread mail
list mails from critic
search letters for "migration"
find the email where Hassan sent the floor plan
anything from the school today?
has the insurance replied
what's the latest from the printers
who wrote me over the weekend
any post?
what did the bank write
look for the mail with the tracking number
was there something from Ines about the rehearsal
show mails about the roof
how many mails are unanswered
what did I write to the council last month
pull up the conversation with the caterer
the letter from the lawyer, what was the deadline in it
is there a mail with the subject invoice 2231
did the engineer answer my letter?
read out the new messages
what's in my mailbox
which emails mention the harbour fee
when did Ben last write
open the mail from Joel
search inbox: boat insurance
got any messages?
any mail from the council about the parade
did anyone reply to my offer
is there a new letter from the authorities
what was the date in the mail from the bank
did Karin confirm by mail
show me what the school sent
who sent the photos of the stage
the email about the parcel, where is it
when did the vet answer us
find Tom's mail on the tyre prices
which letters did the agents send me
have I got anything from scout
read the mail with the quote for the windows
has my message reached the council?
how did the client answer
did the invoice mail bounce
mails from January please
what does it say
who else got it
when did that arrive
read me the second one
and what did she answer
show only those from last week
any mail about the fire inspection
did Lund confirm
what was in Karin's mail
the attachment please
"""


async def search(desk: "Desk", request: Request, _: Words) -> Answer:
    """How to read the mail."""
    return Answer(text="Your mail is in 'mailroom mail list', and on the page of the inbox.")


TOOL = Tool(
    name="mail",
    description="searches your mail",
    examples=EXAMPLES,
    run=search,
)
