"""Mail to a person, or a letter to an agent."""

import re
from typing import TYPE_CHECKING

import msgspec

from services.nexus.routing.request import Request
from services.nexus.routing.speech_acts import LETTER
from services.nexus.tools.tool import Answer, Call, Effect, Tool, ask_back
from shared import subjects
from shared.bus.entry import seal
from shared.contracts.conversation import SLOT

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """
send an email to Ana that I'm running late
write a mail to the landlord about the heating
email me the brief
mail the report to bob@example.org
can you write to the supplier and ask for a quote
forward this to Tom
send me that by email
reply to Maria that we accept
drop Jonas a line that the meeting moved
let the team know by mail that the office is closed on Monday
please email the parents about the trip
answer her mail and say thanks
tell scout by mail to look at the licence
write scout a letter asking what changed in SQLite
shoot an email to accounting with the numbers
compose a message to the client saying the delivery is on friday
send the summary to my address
email the minutes to everyone
message Peter that the rehearsal starts at 7
mail the invoice to the customer
post a reply to the last email: sounds good
send a thank you note to the volunteers
email the list of papers to me
could you text Ana that I'll call later
inform the customer by email
let Lea know I got her mail
tell the care home we'll visit on Sunday at 3, info@linden.example
drop a line to the drummer, soundcheck is at 17:30
mail HR that I need my payslip
mail the caterer, we need two more vegan meals
email Jo: can't make it tomorrow
let the parents know the bus leaves at 7
tell the landlord by mail that the heating is broken again
write back that we take the offer
answer the insurance: yes, the damage was on 3 March
send my apologies to the committee
inform the supplier that the delivery was incomplete
could you write a friendly mail to the neighbours about the noise
ask the museum by email if they have a ramp
write an email to billing@host.example and ask for a receipt
send Karin the address of the hall
forward the floor plan to the architect
cc Tom on the answer to the bank
thank the volunteers by mail
please pass on to Ines that rehearsal is cancelled
message the group that training is off today
write engineer a letter: please use the staging database
ask scout by letter what the licence of the library is
send the offer to the client with a short note
let the office know I'm running late
send an invitation for the opening to all members
tell Ana I'm on my way
draft and send a reminder letter to customer 88 about the unpaid bill
put out a mail to everyone: the office is closed on Friday
e-mail the teacher that Mia is ill
mail accounting, I need the receipt from May
mail the gardener: please come on Friday
tell Mrs Novak by email that her shoes are ready
email the whole team the new door code
tell the suppliers we're closed next week
reply to Otto, yes to both
write to the mayor's office about the street party
please notify customer 4411 that the parcel is delayed
let Joel know the samples are in the fridge
send the minutes to everyone who was there
drop an email to the venue and confirm 80 guests
I need you to email the bank about the card
ping accounting by mail about the invoice
send Ana a message: I'll be ten minutes late
can you text the choir that we start at 6
write an answer to the complaint, friendly please
mail Kern that we accept
send it to Joel too
tell accounting the invoice is wrong
email it to the printers with kind regards
say yes to Ines by mail
send a quick mail to the club that training starts at 7
can you let the caterer know, 40 people
reply that Thursday suits us
send my CV to jobs@museum.example
write her that I'm ill
write to the landlord that the tap drips
tell Petra by mail that the meeting is on Tuesday
email the museum that we come with 24 children
email Paul that I'm running late
send a mail to the whole choir that Thursday is off
write to Mrs Lindqvist and tell her the slides are ready
Drop Kenji a line saying the samples arrived
please reply to the venue, we take the Saturday slot
can you mail the invoice to billing@oakfarm.example
send Dana an email asking for the latest figures
answer Gregor's mail with a polite no
forward the message from the council to Ines
tell the printer by email that we need 300 not 200
Could you write a short mail to the parents about the trip being postponed, and say sorry from me
email me the report
shoot a quick note over to accounts that the March receipts are coming tomorrow
write back to him that it's fine
I'd like an e-mail to go to Dr Mbeki with the protocol attached
mail to the team subject lunch text pizza at one
let Sofia know via email the keys are at reception
send this to hr: I will take the 2nd and 3rd off
Respond the client that we accept the conditions
compose an email to our landlord about the broken heating
pls email the setlist to the sound guy
Thank the donors by mail for me, keep it warm
invite the volunteers per email to the cleanup on the 11th
send an apology to the customer who got the wrong size
draft and send something to the museum asking if we can borrow the projector
ping Lars by mail whether he has the spare amp
cc Judith and tell the lab that the freezer is repaired, by mail
get an email out to all suppliers that we are closed over Easter
write an email to ola@nordhus.example that the quote is too high
reply all: I'm in
"""

_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_BODY = re.compile(
    r"(?is)(?:\bthat\b|\bsaying\b|\basking\b|:|\bto\s+ask\b|\bto\s+say\b|\babout\b|\bto\s+look\b)\s*(?P<body>.+)$"
)
_AGENTS = ("scout", "engineer", "critic", "cortex", "frontier", "conductor")


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """A mail address or an agent's name, a subject and the text."""

    recipient: str = ""
    subject: str = ""
    body: str = ""


def read(desk: "Desk", request: Request) -> Letter:
    """The recipient and the text that the message names."""
    address = _ADDRESS.search(request.text)
    agent = next((name for name in _AGENTS if re.search(rf"\b{name}\b", request.text.lower())), "")
    body = _BODY.search(_ADDRESS.sub("", request.text))
    text = body["body"].strip() if body else ""
    return Letter(recipient=address[0] if address else agent, subject=text[:80], body=text)


async def send(desk: "Desk", request: Request, letter: Letter) -> Answer | Call:
    """The letter to an agent, or the mail to a person at an address that the settings allow."""
    if not letter.recipient:
        where = "To which address, or to which agent? For example: ana@example.org"
        return ask_back(where, f"{request.text} {SLOT}")
    if not letter.body.strip():
        return ask_back("What shall I write?", f"{request.text}: {SLOT}")
    if letter.recipient in _AGENTS:
        mail = desk.make_letter(request, letter.recipient, letter.subject, letter.body)
        entry = seal(subjects.mail(letter.recipient, mail.sender), mail)
        return Answer(text=f"I wrote to {letter.recipient}: {letter.body}", entries=(entry,))
    params = {"recipient": letter.recipient, "subject": letter.subject or "A message", "body": letter.body}
    return Call(assignee=desk.context.profile.name, action="send_mail", params=params)


_NEEDED = re.compile(r"(?is)^(?!.*\b(?:do\s+not|don['’]?t|dont|without|before\s+you)\s+send)")
"""No word that it is not to be sent."""
TOOL = Tool(
    name="send_mail",
    description="sends mail to people you allowed, and letters to agents",
    examples=EXAMPLES,
    needs=_NEEDED,
    says=LETTER,
    run=send,
    effect=Effect.WRITES,
    parameters=Letter,
    read=read,
)
