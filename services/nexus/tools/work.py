"""Work for the office: a goal, with what will be done said in one line and how to stop it."""

from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Answer, Effect, Tool, Words, ask_back
from shared.contracts.conversation import SLOT
from shared.text.shorten import flatten

if TYPE_CHECKING:
    from services.nexus.desk import Desk

SHOWN = 8
"""The characters at the end of a goal's id that commands are shown with."""


async def start(desk: "Desk", request: Request, _: Words) -> Answer:
    """The goal that was started; asks what is to be done if the message does not say it."""
    if len(request.text.split()) < 2:
        what = "What is to be done, and where? For example: run the tests of ~/src/shop"
        return ask_back(what, f"{request.text} {SLOT}")
    entry, goal_id = desk.make_goal(request)
    short = goal_id[-SHOWN:]
    return Answer(
        text=f"That is work for the office, so I started goal {goal_id}: {flatten(request.text, 200)}\n"
        f"Its report comes by mail. To follow it: mailroom show {short}. To stop it: mailroom cancel {short}",
        goal_id=goal_id,
        entries=(entry,),
    )


TOOL = Tool(
    name="work",
    description="starts work by the team: tests, fixes, check-ups, research, writing; you get a report",
    run=start,
    effect=Effect.STARTS,
    route="conductor",
)
