"""A question that memory has to answer, whether it knows or not."""

import re
from typing import TYPE_CHECKING

import msgspec

from services.nexus.answers.evidence import TOLD_HERE
from services.nexus.answers.memory_answer import node_statement
from services.nexus.conversation.asking import format_question
from services.nexus.routing.features import normalise
from services.nexus.routing.request import Request
from services.nexus.tools.keeping import offer_to_keep
from services.nexus.tools.tool import Answer, Tool, Words, command
from shared.contracts import AskedBack, Choice, Node, Response, Source, Told
from shared.text.sentences import split_title

if TYPE_CHECKING:
    from services.nexus.desk import Desk


async def answer(desk: "Desk", request: Request, _: Words) -> Answer:
    """Quotations from memory and from what was told in the conversation, or that there is nothing.

    If the answer was only told, it offers to keep that.
    """
    told = {node.id: node for node in map(_make_node, range(len(request.told)), request.told)}
    response = await desk.answerer.read_by(request.asker).quote(request.text, told=tuple(told.values()))
    first = told.get(response.citations[0]) if response.citations else None
    response = msgspec.structs.replace(
        response, citations=tuple(each for each in response.citations if each not in told)
    )
    if first is not None:
        offer = offer_to_keep("That is not kept.", node_statement(first))
        response = msgspec.structs.replace(response, text=f"{response.text}\n{offer.text}", asks=offer.asks)
    elif not response.citations and "PATH" in normalise(request.text):
        response = _offer_to_look(response, request.text)
    return Answer(text=response.text, response=response)


def _offer_to_look(response: Response, question: str) -> Response:
    """That memory has no answer about a folder, and the offer of work that may find one."""
    choices = (Choice(label="Yes", text=command("work", question)), Choice(label="No"))
    asks = AskedBack(choices=choices)
    head = response.text.partition("\n")[0]
    text = format_question(f"{head} Shall the office look there?", asks)
    return msgspec.structs.replace(response, text=text, asks=asks)


def _make_node(number: int, said: Told) -> Node:
    """What was told as if it were kept."""
    title, body = split_title(said.text)
    origin = Source(agent="told here", channel=TOLD_HERE)
    return Node(id=f"told_{number}", title=title, body=body, created_at=said.asked_at, source=origin)


_SAYS = re.compile(
    r"(?i)\W*(?:(?:please|pls|hey|ok|and|also|nexus|can you|could you|would you|kindly)\b[\s,]*)*"
    r"remind\s+(?:me|us)[\s,:]+(?:again\s+)?(?:who|what|when|where|how|why|which|whether)\b(?!\s+(?:it|i)\b)"
)
"""How a message begins that is certainly for this tool."""
TOOL = Tool(
    name="memory",
    description="answers questions from what the team has kept, with the sources",
    says=_SAYS,
    run=answer,
    route="nexus",
)
