"""Forget something: it says what, and a person confirms."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.keeping import find_hits
from services.nexus.tools.tool import Answer, Effect, Tool, Words, ask_back, command
from shared.contracts import AskedBack, Choice, Node
from shared.contracts.conversation import SLOT
from shared.text.shorten import flatten

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """
lose the old number of the vet
I'd rather you didn't keep what I said about my back
drop what you have on the Marlow order
take my remark about the bonus out of your memory
strike the note about the allergy, it was a mix-up
forget that
forget what I said about the contract
please forget my phone number
delete that from your memory
erase everything you know about Ana
remove the note about the wifi code
forget the gate code
wipe the memory of the pricing talk
I want the note about my allergy deleted
delete the memory about the supplier
drop what you know about the old office
you should not keep my address, remove it
can you unlearn that?
forget everything about customer 88, gdpr request
get rid of the entry on salaries
please purge the note that Tom is leaving
strike that from the record
take back what I told you about the budget
scrub my birthday from memory
forget it, I mean the thing about the key
delete all facts about the old server
make sure the password I told you is erased
clear the note with the door code
forget my address please
I don't want you to keep my salary in there, delete it
please remove what you have on the job applicant from May
what I said about Tom's illness should not be stored, erase it
delete the thing about the alarm code, it's confidential
lose the note on the old caterer
forget the last thing I told you
you can forget about the old gym keys now
take Mrs. Olsen's number out of your memory
get the private stuff about Lea out of there
could you erase all notes tagged holidays
wipe what you know of my travel plans
remove me from your memory
that fact about the discount, delete it please
expunge the minutes of the secret meeting
the customer wants her data deleted
drop the memory of the surprise party
delete what I told you about Gil
that was private, please remove it from memory
what you saved about my knee, get rid of it
you can throw away the note on the tent
please erase the entry about Otto's password
don't keep the thing about my salary
forget all about the wedding surprise
the note about the broken pump can be deleted
strike my old address
clear everything you stored today
remove that from memory again
delete that fact
don't store that, forget it please
what I told you a minute ago, erase it
you needn't keep the code any longer
delete what you know of the tenant
forget about Gil
forget the alarm code
please delete what you know about my sister
remove the note on locker 12
wipe everything I said about the divorce
you can forget that thing with the parking
erase Dario's phone number from memory
I don't want you to keep my shoe size
drop the fact about the gate code
unlearn the old password pls
forget what I told you about Ilse's diet, that was private
get rid of the entry on the old supplier
Can you delete my address from your memory?
strike the agreement with the co-op from your notes
clear what's stored on customer 88
forget about everything from last Tuesdays chat
please to erase all data of Mr. Halvorsen, he asked for it under gdpr
that note about the red case, bin it
it would be better if you no longer knew about the salary list
take the licence plate out of your memory
scratch what you remember on the boat name
delete the memory about walrus
forget Farouk ever had the key
i'd like my birthday removed from what you know of me
purge the info on the illustrators rate
no need to remember the tile colour any more, forget it
lose the line about dogs in the office
don't keep the bank details I gave you earlier
forget me
remove all facts concerning the Ely barn
Please make sure that you don't remember what I said about Kofi's health
"""

_LEAD = re.compile(
    r"(?i)^\W*(?:(?:please|pls|hey|ok|okay|nexus|can|could|would|you|i\s+want\s+you\s+to|just)\b[\s,]*)*"
    r"(?:forget|unlearn|erase|wipe|delete|drop|remove|purge|clear|strike|get\s+rid\s+of|lose|scratch)\b\s*"
    r"(?:(?:about|of|all|everything|anything|that|the|this|what|thing|things|note|notes|fact|facts|memory|entry|line|info"
    r"|data|you\s+know|you\s+remember|i\s+(?:told|said)(?:\s+to)?(?:\s+you)?|said|concerning|on|regarding)\b\s*)*"
)
"""What comes before that which is to be forgotten."""

_NAMED = re.compile(r"memory (?P<id>[\w-]+)")
"""A memory by its id."""
ERASED = (
    "Nothing is forgotten yet: a text is erased for good, from the logs too, and only by a person. "
    "The command that erases it after a yes:"
)
MOST = 3
"""The most memories that are offered at once."""


async def forget(desk: "Desk", request: Request, _: Words) -> Answer:
    """What would be forgotten, and how: erasing for good is a person's own act, so nothing is erased here."""
    if (named := _NAMED.fullmatch(request.text)) and (nodes := await desk.context.memory.get(named["id"])):
        return _offer(nodes)
    about = _LEAD.sub("", request.text, count=1).strip(" .!?") or request.text
    hits = (await find_hits(desk, about))[:MOST]
    if not hits:
        return ask_back("Memory holds nothing like that. Which memory do you mean?", f"forget {SLOT}")
    return _offer([hit.node for hit in hits])


def _offer(nodes: Sequence[Node]) -> Answer:
    """What each memory says, and the command that erases it; "yes" after a single one says so again."""
    lines = [f"- {flatten(node.title, 200)}: mailroom memory forget {node.id}" for node in nodes]
    again = Choice(label="Yes", text=command("forget", f"memory {nodes[0].id}"))
    return Answer(
        text="\n".join([ERASED, *lines]),
        citations=tuple(node.id for node in nodes),
        asks=AskedBack(choices=(again, Choice(label="No"))) if len(nodes) == 1 else None,
    )


_SAYS = re.compile(
    r"(?i)\W*(?:(?:please|pls|hey|ok|and|also|nexus|can you|could you|would you|kindly)\b[\s,]*)*"
    r"(?:forget|unlearn|erase|wipe)\s+(?!it\b|to\b|the\s+(?:reminder|alarm|timer|goal|job|check)|about\s+it\b)(?![^.!]*\?\s*$)"
    r"(?![^.!]*\b(?:new|now|cancel|reminder|rules|instructions)\b)"
)
"""How a message begins that is certainly for this tool."""
TOOL = Tool(
    name="forget",
    description="finds what is to be forgotten, and says how",
    examples=EXAMPLES,
    says=_SAYS,
    run=forget,
    effect=Effect.WRITES,
)
