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

CORRECTS = re.compile(
    r"(?i)^\W*(?:(?:no|sorry|oops|wrong|actually|correction|update|correct\s+that|that['’]?s\s+(?:wrong|not\s+(?:true|right)(?:\s+any\s*more)?)|"
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
    run=correct,
    effect=Effect.WRITES,
)
