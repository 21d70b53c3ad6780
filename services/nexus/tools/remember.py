"""Remember a fact for the team."""

import re
from typing import TYPE_CHECKING

from services.nexus.routing.following import is_part
from services.nexus.routing.request import Request
from services.nexus.tools.correct import CORRECTS, correct
from services.nexus.tools.keeping import keep
from services.nexus.tools.tool import Answer, Effect, Tool, Words, ask_back
from shared.contracts.conversation import SLOT

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """
the plumber comes on the 2nd of each month, keep that somewhere
don't let me lose this: the chassis number is WX 4410
you should know that the side door sticks
add to what you know: kiln 1 takes eight hours
don't lose this one, the hall code is 8820
remember that the client prefers email
please remember that Bob is allergic to nuts
note that deploys happen on Tuesdays
keep in mind that the lab is closed on Friday
make a note: the key is under the mat
save this: the wifi code is 4711
store that Ana is the new treasurer
don't forget that the lease ends in June
for the record, we chose postgres because of the extensions
write down that the rehearsal room costs 40 euros an hour
take a note that the supplier changed their bank details
add to memory: our fiscal year starts in April
FYI please memorise that Tom prefers to be called Thomas
remember this for later: staging is at 10.0.0.7
can you remember my birthday is on 9 October
put into memory that the projector in room 3 is broken
I want you to remember that we never ship on Fridays
note to self: the spare fuse is in the drawer
jot down that Lea takes over the bakery order
you should know that the concert starts at 8, please keep that
log that we replaced the filter today
decision: we use tabs. please record it
remember we agreed to pay the band 300
keep this: the pH of sample 12 was 6.8
let the team's memory know that the gate code is 9921
could you make a mental note that Peter is on leave until May
pls save: customer 88 wants invoices as PDF
make sure you remember the new phone number is 555 0199
yes, remember it
learn this: the red cable is ground
just so you know, the back door sticks
for your information: we use only oat milk now, remember it
I'm allergic to cats, keep that in mind when you plan visits
I'm vegetarian, bear it in mind please
put this down somewhere: locker 14 belongs to Amir
file this under suppliers: Huber delivers on Wednesdays only
here's something to keep: the alarm code is 4480
store the following: meter reading 48213 on 1 March
please keep on record that we agreed on 12 percent
make a note that the choir sings without the organ this year
and remember that too
did I mention that the west gate is closed on Sundays? note it
new info for your memory: Petra is the new head of the lab
add this to what you know: the tank holds 900 litres
don't forget: the inspector's name is Mr. Okafor
my birthday is 4 June, remember that
remember my size, it's 43
our wifi is called Heron, please save that
record the decision that we go with the green tiles
take down: order number 5521 is for the theatre
bookmark this for later: the good plumber is Kovacs, 0171 2233
I'd like you to remember how we calibrate: first zero, then span
you may want to note that Lena no longer eats fish
kindly note down that room B is reserved for exams until May
hold on to this: the gate opens at 6:30 in summer
save for next year: 40 kilos of potatoes were too few
note: Ibrahim takes the minutes from now on
please memorize the supplier code OF-88
keep a note of this: battery swapped on the tracker of cow 12
learn that "the annex" means the building behind the school
write this into your memory, the spare laptop is in Eva's locker
it's worth remembering that the lift fails when it is very cold
important for later: never order from Brandt again
Amir is left-handed, remember that please
let's keep in mind that the hall is cold in March
the password hint is "first dog", store it
I want it on record that I was against it
please store this: bus 12 stops at the museum
mark down that we owe Kern 40 euros
keep that in the notes: the projector needs 2 minutes to warm up
remember for me where I parked: level 3, bay 14
my shoe size is 42, keep it
so you know it for next time: I drink my coffee black
memorise: sample 7 goes to Basel
the dentist's name is Dr. Lund, remember
we keep the spare filters in locker 9, please remember
Gil drinks only decaf, worth noting
add: the choir has 42 members now
store under contacts: Kern printing, 0711 889
keep this for the next grant: they want two budgets
remember that for me
that's important, don't lose it
from now on call me Jo
my favourite colour is teal, remember
I live at Elm Road 3, save that
Note: the fire inspection is on 9 May
for future reference, the oven needs 40 minutes
let it be known that we no longer take cash, save it
we decided to skip the fair this year, note that
here is the wifi password for your records: tulip77
please save my train number, ICE 775
heads up for your memory: bus 12 is replaced by bus 14 until June
I hereby tell you that Lea takes over the keys, keep it
we've agreed with Kern on 30 days, please keep that
you can note that the projector is back from repair
fyi the gate code changes on Friday to 8812
just for the record: we paid the deposit on 3 March
keep in your memory that Mrs Olsen only takes calls after 5
remember that the alarm code is 4471
note: the caterer needs the headcount by Tuesday
please keep in mind that Ilse doesn't eat pork
save this for later, the plumber is called Hodgson and comes only on Fridays
write down that locker 12 is broken
Bear in mind we pay the band in cash
fyi for your memory the projector lives in room 203 now so store that
make a note that Leo prefers to be called in the afternoon
don't forget: the rent goes up in June to 940
you should know that our fiscal year starts in October, remember it
memorise my shoe size, 43
jot this down pls, buffer C is pH 7.4
add to memory that the server in the cellar is called walrus
Just so that you have it, Agata's new surname is Wolska, please note
put on record that we chose the green tiles
keep this fact: the school bus holds 48
note to self the good tuner is in the red case
i want you to remember my sister's birthday is on the 8th of August
store the following. Gate code C59#
please retain that we never ship on Mondays
take a note, Farouk has the key to the shed
commit to memory the printer only takes A4
Remember I like my summaries short.
learn that "the barn" means our warehouse in Ely
can you hold on to this, licence plate of the van is KX 221
remember for me where i parked, level 3 row D
From now on you know that Jonas leads the string section, remember this please
log that the freezer was defrosted on 12 March
pls note customer 88 wants paper invoices
for the record, we agreed with the co-op on 2.10 per kilo, keep that
"""

_LEAD = re.compile(
    r"(?i)^\W*(?:(?:please|pls|hey|ok|okay|nexus|yes|no|wait|oh|well|actually|can|could|would|you|i\s+want\s+you\s+to|just)\b[\s,]*)*"
    r"(?:remember|memori[sz]e|note(?:\s+(?:down|to\s+self))?|(?:keep|bear)\s+in\s+mind|so\s+(?:that\s+)?you\s+know|make\s+a\s+(?:mental\s+)?note"
    r"|take\s+a\s+note|save|store|write\s+down|"
    r"jot\s+down|log|keep|record|(?:add|put)\s+(?:in)?to\s+(?:(?:my|our|the|your)\s+)?(?:memory|notes?|knowledge)|for\s+the\s+record|fyi"
    r"|learn)\b"
    r"(?:\s+(?:this|it|that|of\s+that|for\s+later|down))*\s*[:,-]?\s*(?:that\b\s*)?"
)
_NOTHING = re.compile(
    r"(?i)(?:you\s+should\s+(?:remember|note)\s+)?(?:something|a\s+thing|a\s+few\s+things)(?:\s+(?:for\s+(?:me|us)|please))?\W*"
)
"""Words that announce a fact without saying it."""


async def remember(desk: "Desk", request: Request, words: Words) -> Answer:
    """What was kept, word for word, and how to have it forgotten; what corrects a memory is told as that."""
    if CORRECTS.match(request.text) and not _LEAD.match(CORRECTS.sub("", request.text, count=1)):
        return await correct(desk, request, words)
    fact = _LEAD.sub("", request.text, count=1).strip()
    if fact == request.text.strip() and is_part(fact) and request.before_route in _KEPT:
        return ask_back("Is that a correction? Say the whole fact in a sentence.", f"correct that: {SLOT}")
    if len(fact.split()) < 2 or _NOTHING.fullmatch(fact):
        return ask_back("What shall I remember? Say it in a sentence.", f"remember that {SLOT}")
    return await keep(desk, request, fact)


_KEPT = ("tool:remember", "tool:correct")
_NEEDED = re.compile(
    r"(?i)^(?!\W*(?:(?:and|but|so|oh|ah|well|yes)\W+)*(?:i|we|he|she|they|do\s+you)\s+(?:\w+\s+)?remember\b)"
)
"""Not that a person remembers: "I remember when this was a cinema"."""
_SAYS = re.compile(
    r"(?i)\W*(?:(?:please|pls|hey|ok|and|also|nexus|can you|could you|would you|kindly)\b[\s,]*)*"
    r"(?:remember|memori[sz]e|keep in mind|note(?: down)?|make a note|take a note|jot down|for the record"
    r"|for future reference"
    r"|fyi|save this|store this|note to self)\b"
    r"(?!\s+(?:when|who|what|where|how|why|which|if|whether|me\b|to\s+remind|our\b|in\s+the\s+calendar)"
    r"|[^.!]*\?\s*$)"
)
"""How a message begins that is certainly for this tool."""
TOOL = Tool(
    name="remember",
    description="remembers facts for the team",
    examples=EXAMPLES,
    needs=_NEEDED,
    says=_SAYS,
    run=remember,
    effect=Effect.WRITES,
)
