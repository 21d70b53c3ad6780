"""What memory holds: questions that it answers, and what is to be forgotten."""

import re
from collections.abc import Sequence

import msgspec

from services.nexus.answers.evidence import TOLD_HERE
from services.nexus.answers.memory_answer import node_statement
from services.nexus.conversation.asking import format_question
from services.nexus.routing.features import normalise
from services.nexus.routing.request import Request
from services.nexus.tools.keeping import find_hits, offer_to_keep
from services.nexus.tools.tool import Answer, Effect, Tool, ToolContext, Words, ask_back, command
from shared.contracts import AskedBack, Choice, Node, Response, Source, Told
from shared.contracts.emails import SLOT
from shared.language.sayings import read_sayings
from shared.text.display import flatten
from shared.text.prose import split_title

WAYS = read_sayings(__file__, "recall")


async def answer_from_memory(context: ToolContext, request: Request, _: Words) -> Answer:
    """Quotations from memory and from what was told in the conversation, or that there is nothing.

    If the answer was only told, it offers to keep that.
    """
    told = {node.id: node for node in map(_make_node, range(len(request.told)), request.told)}
    response = await context.answerer.read_by(request.asker).quote(request.text, told=tuple(told.values()))
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


MEMORY = Tool(
    name="memory",
    description="answers questions from what the team has kept, with the sources",
    says=WAYS["memory_says"],
    run=answer_from_memory,
    route="nexus",
)


_NAMED_MEMORY = re.compile(r"memory (?P<id>[\w-]+)")  # A memory by its id
ERASED = (
    "Nothing is forgotten yet: a text is erased for good, from the logs too, and only by a person. "
    "The command that erases it after a yes:"
)
MOST_OFFERED = 3  # The most memories that are offered at once


async def forget(context: ToolContext, request: Request, _: Words) -> Answer:
    """What would be forgotten, and how: erasing for good is a person's own act, so nothing is erased here."""
    if (named := _NAMED_MEMORY.fullmatch(request.text)) and (
        nodes := await context.agent.memory.get(named["id"])
    ):
        return _offer_to_erase(nodes)
    about = WAYS["forget_lead"].sub("", request.text, count=1).strip(" .!?") or request.text
    hits = (await find_hits(context, about))[:MOST_OFFERED]
    if not hits:
        return ask_back("Memory holds nothing like that. Which memory do you mean?", f"forget {SLOT}")
    return _offer_to_erase([hit.node for hit in hits])


def _offer_to_erase(nodes: Sequence[Node]) -> Answer:
    """What each memory says, and the command that erases it; "yes" after a single one says so again."""
    lines = [f"- {flatten(node.title, 200)}: mailroom memory forget {node.id}" for node in nodes]
    again = Choice(label="Yes", text=command("forget", f"memory {nodes[0].id}"))
    return Answer(
        text="\n".join([ERASED, *lines]),
        citations=tuple(node.id for node in nodes),
        asks=AskedBack(choices=(again, Choice(label="No"))) if len(nodes) == 1 else None,
    )


FORGET = Tool(
    name="forget",
    description="finds what is to be forgotten, and says how",
    says=WAYS["forget_says"],
    run=forget,
    effect=Effect.WRITES,
)
