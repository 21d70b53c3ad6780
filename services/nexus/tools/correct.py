"""A fact that is otherwise now."""

import re
from typing import TYPE_CHECKING

from services.nexus.answers.memory_answer import node_statement, node_stems
from services.nexus.routing.request import Request
from services.nexus.routing.speech_acts import Act, find_act
from services.nexus.tools.keeping import find_known, keep, name_subject, offer_to_keep, says_only_it
from services.nexus.tools.tool import Answer, Effect, Tool, Words, ask_back
from shared.contracts import Node
from shared.contracts.conversation import SLOT
from shared.errors import BusError
from shared.text.shorten import flatten
from shared.text.words import find_terms

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """
no longer true that we open on Sundays
it used to be Jan who did the sound, it's Ines now
whoops, it's Ahrens with h
the sheet says 300 grams but it has to be 350, correct that in memory
you've got Oda down as chair but she stepped down
that's wrong, deploys are on Thursdays now
actually the key hangs beside the kitchen door
no, the treasurer is Lea, not Ana
correct that: the lease ends in July
that is out of date, we moved to Bern
the wifi code has changed, it is 8812 now
we no longer use jenkins, it's github actions now
Bob isn't on call any more, it's Mia
update: the rehearsal is on Wednesdays from now on
you got that wrong. the price is 45
this is not true any more, the supplier is now Metro
please correct your memory, we have 14 students
change the opening hours in memory to 9 to 5
actually it's port 4223, not 4222
the fact about the logo is wrong: it's green
we switched from mysql to postgres
that changed last week: standup is at 10 now
forget the old number, the new one is 0171 555
fix that note, the pH was 7.1 and not 6.8
the contact at the printer is not Jan anymore but Petra
amend that: fiscal year starts in January
the deploy day was moved to Thursday, please update what you know
no it's the third floor
what you said about the projector is outdated, it has been repaired
wrong, we have two microscopes
your info on the refund policy is stale, it's 30 days now
replace what you know about the gate code with 1234
the printer isn't on the second floor anymore, it's in the basement now
we don't close at six any more, we close at seven
no no, it's spelled with two t
actually it's spelt Meyer with y
my new number is 0160 778899, forget the old one
well, vegan really, not vegetarian
it's not 12 percent, it's 15
the meeting room has a new name, it's called Aquarium now
Karin has left, Joel does the accounts now
the price list changed: a loaf is 4.20 now
since January the library opens at 9, not at 10
that's no longer right, the pump was replaced
I told you wrong, the code is 4481
sorry I meant room 12, not room 21
change what you have on Huber: they deliver on Fridays now
what you have about the lease is old, it was extended to 2030
the phone number you have for the vet is wrong, it's 0711 5566
it used to be Ana, now it's Ben who signs
our address has changed to Hafenstrasse 12
correction: the concert is on the 19th
I was wrong about the dose, it's 5 mg
please update: Mia took over from Bob
we've moved from Slack to Matrix
the supplier for flour changed from Huber to Kern
that info about parking is outdated
there are 24 seats now, not 20
no, the other way round: first B then A
the deadline was extended, it's the 30th now
make that "Dr. Ito" instead of "Mr. Ito" in your notes
wrong: the rehearsal starts at seven, not at half past
it's Kern with K
not anymore, they moved to Bern
that has changed, Lena is in charge now
the van's number plate is new: M-KX 221
you have the wrong email for Joel, it's joel@example.org
the shop closes at 8 on Fridays from now on
we don't use the blue bins any longer
we're 14 people now, not 12
my address is different since March: Elm Road 3
scratch that, the code is 5512
the exam isn't on Monday, it's Tuesday
the allergy is to nuts, not to milk
make a correction: Amir has locker 15
the old supplier is out, Huber is in
that's old, we changed to 14 days
it's Mrs Lund, not Mr Lund
the room changed to 204
wait, I said it wrong, it's the 12th
the hall costs 300 now
our bank is no longer Kern, it's Volta
the band has a new drummer, Ines, since last week
the previous number is wrong, use 0711 99
she spells it with a c
we're no longer at Hafenstrasse, we moved to Elm Road
Tom doesn't do that any more, ask Karin
replace Ana by Ben in your notes about the keys
it moved: the fair is in June this year
you still have the old price, it is 12 now
the opening hours you know are old, we open at 8 now
we don't have a fax any more
our treasurer isn't Amir any longer, it's Petra
the boiler isn't broken any more, it was repaired on Friday
the concert was moved from the 12th to the 19th
the delivery day is Wednesday now instead of Monday
Sofia got married, her name is Lund now
actually the meeting room code is 5512 now not 4471
Dario no longer works at the mill, it's Celia now
correction, the rent is 960
You have the wrong birthday for Anton, it's the 14th
it isn't Tuesday, the caterer needs it by Monday
we moved, the office is in Harbour Street 9 now
my number has changed, use 0171 555 0199 from today
that's out of date, we ship on Mondays again
the bus holds 52 not 48
Please update what you know: the supplier for oak is Brennan & Sons since February
no Petra isn't the allergic one, Paula is
Change the wifi password in your notes to tangerine77
I told you buffer C was 7.4 but it's 7.8, fix that
Sorry I made a mistake before, the car is parked at level 2
the projector isn't in 203 any more, they took it to the library
what you've got about Noor's start date is wrong, she joined in 2021
The team is not anymore six persons, we are now eight
jonas stepped down, string section lead is Mirela as of today
wrong, the capital budget is 30k, not 13
amend the entry on locker 12, it's been repaired
the deadline got pushed, it's April 6 instead of March 30
you still think we use Trello, we switched to a whiteboard ages ago
her surname is spelled Wolski not Wolska
new price for the coop is 2.25 a kilo, replace the old one
that was the old address, ours is 17b now
I don't drink coffee with milk any longer, black from now on
the plumber's name is Hodgkin and not Hodgson, please correct that
Make that: the fiscal year starts in September
what i said about the tiles is no longer true we are taking blue ones
our choir has a new name, Northwind instead of Skylark
"""

CORRECTS = re.compile(
    r"(?i)^\W*(?:(?:no|wrong|actually|correction|update|correct\s+that|that['’]?s\s+(?:wrong|not\s+(?:true|right)(?:\s+any\s*more)?)|"
    r"that\s+is\s+(?:wrong|out\s+of\s+date|not\s+true(?:\s+any\s*more)?)|you\s+got\s+that\s+wrong|well)\b[\s,.:;-]*)+"
)
"""How a message begins that says that something is otherwise."""


SHARED_WORDS = 2
"""Words of meaning that a correction has in common with the memory that it corrects."""


async def correct(desk: "Desk", request: Request, _: Words) -> Answer:
    """The new fact, kept; and what memory held about it before. Of a mere statement it asks first.

    What corrects the last answer takes the place of the memory that this one quoted.
    """
    said = CORRECTS.sub("", request.text, count=1).strip()
    fact = name_subject(said, request)
    if len(fact.split()) < 3:
        return ask_back("What is right? Say the whole fact in a sentence.", f"correct that: {SLOT}")
    quoted = await _find_corrected(desk, request, said)
    known = flatten(node_statement(quoted), 200) if quoted else await find_known(desk, fact)
    if find_act(request.text) is Act.STATEMENT and not known:
        return offer_to_keep("Memory has nothing like that yet.", fact)
    kept = await keep(desk, request, fact, quoted.id if quoted else "")
    if not known:
        return kept
    held = f"{kept.text}\nUntil now memory held: {known}"
    return Answer(text=held, outcome=kept.outcome, citations=kept.citations)


async def _find_corrected(desk: "Desk", request: Request, said: str) -> Node | None:
    """The memory that the last answer quoted, if the message says that it is wrong; ``said`` then names it by
    "it", or by its words.
    """
    if not request.cited or not CORRECTS.match(request.text):
        return None
    try:
        found = await desk.context.memory.get(request.cited)
    except BusError:
        return None
    terms = find_terms(said).keys()
    shared = sum(len(terms & node_stems(node)) for node in found[:1])
    return found[0] if found and (says_only_it(said) or shared >= SHARED_WORDS) else None


TOOL = Tool(
    name="correct",
    description="corrects what memory holds",
    examples=EXAMPLES,
    run=correct,
    effect=Effect.WRITES,
)
