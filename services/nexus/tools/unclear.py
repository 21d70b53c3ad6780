"""Messages that cannot be understood: the desk asks back."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.correct import CORRECTS
from services.nexus.tools.keeping import name_subject, offer_to_keep, says_only_it
from services.nexus.tools.tool import Answer, Tool, Words, ask_back, command
from shared.contracts import Choice
from shared.text.shorten import shorten

if TYPE_CHECKING:
    from services.nexus.desk import Desk

EXAMPLES = """
asdf
???
hmm
do the thing
that one
the other
it
make it better
more
xyz
and?
blah
can you do that
do something
1
the usual
you know what I mean
huh
what about it
go
uh
well
same as last time
or not
what?
erm no idea
foo bar
qwertz
fix it.
do it
like before
that stuff
hmm not sure
eh
can you
please
uhm the... wait
the one with the thing
aaaa
.
no the other thing
something is off
bla bla
yes but no
make it so
it doesn't work
what now
show me
tell me more
the thing
can you make it better
that one over there
asdkjh
same again
and the other
Could you do what we talked about
move it
I need the
next
change that to the right one
not sure
green
for Karin
the usual for both of them
please take care of this
if only we had
and then maybe if it's
send
the second
handle the Kowalski matter
17
"""


async def ask_again(desk: "Desk", request: Request, _: Words) -> Answer:
    """That it was not understood."""
    return ask_back("I did not understand that. Say it in a sentence, or ask 'what can you do?'")


def ask_which(tools: Mapping[str, Tool], likely: Sequence[str], text: str) -> Answer:
    """The likely tools as choices, which a number settles; nothing is done."""
    choices = [
        Choice(label=tools[name].description, text=command(name, text))
        for name in likely
        if not tools[name].hidden
    ]
    head = "I did not understand that. Did you mean one of these? Answer with its number."
    return ask_back(head, choices=choices)


def ask_for_whole(tool: str, request: Request) -> Answer:
    """That a message that says a part is to be said as a whole; "yes" joins it to the one before.

    A fact that names what it is about is offered to be kept, as it is.
    """
    if tool == "correct":
        fact = name_subject(CORRECTS.sub("", request.text, count=1).strip(), request)
        if fact and not says_only_it(fact):
            return offer_to_keep("Nothing was changed yet.", fact)
    about, whole = shorten(request.before, 200), f"{request.before.rstrip(' .!?')}: {request.text.strip()}"
    choices = (Choice(label="Yes", text=command(tool, whole)), Choice(label="No"))
    return ask_back(
        f"Is that about: {about}\nNothing was done yet. Answer yes, or say it in one sentence.",
        choices=choices,
    )


TOOL = Tool(
    name="unclear",
    description="asks what is meant",
    examples=EXAMPLES,
    run=ask_again,
    hidden=True,
)
