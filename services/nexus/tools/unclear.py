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
    run=ask_again,
    hidden=True,
)
