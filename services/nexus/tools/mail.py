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
