"""Keeping facts: the memory that a message becomes, and what memory holds like it."""

import re
from typing import TYPE_CHECKING

from services.nexus.answers.evidence import KEPT_HERE
from services.nexus.answers.memory_answer import node_statement, node_stems
from services.nexus.conversation.ellipsis import find_subject
from services.nexus.routing.request import Request
from services.nexus.tools.tool import Answer, ask_back
from shared import subjects
from shared.contracts import AskedBack, Choice, Edge, Hit, Node, Relation, ResultOutcome, Source
from shared.contracts.conversation import SLOT
from shared.errors import BusError
from shared.memory import WriteRefused
from shared.text.sentences import split_title
from shared.text.shorten import flatten
from shared.text.words import find_stems, find_terms

if TYPE_CHECKING:
    from services.nexus.desk import Desk

ALIKE, SHARED = 0.3, 0.25
"""The least likeness of a memory that counts as about the same: its similarity (memory's ``why["vector"]``),
and SHARED times the share of the words that it has. Memories of something else were seen at .03 to .2."""

_UNNAMED = re.compile(
    r"(?i)(?:(?:his|her|its|their)\s+\w+|it|he|she|they)(?:['’](?:s|re|ve|ll|d)\b|\s+(?:is|are|was|were|has|have|had|will|can|\w+(?:ed|s))\b|\s+left\b)"
    r"(?!\s+(?:always|usually|often)?\s*(?:rain|snow|okay|ok)\w*)"
)
"""How a fact begins that does not say what it is about."""
_TOLD_OF = re.compile(
    r"(?i)(?:(?:ok|so|and|also|btw|fyi|well|oh|hey)\W+)*(?P<whole>(?P<owner>(?:(?:my|our|the|mrs?|ms|dr)\.?\s+)?"
    r"(?!(?:i|we|you|he|she|it|they|there|this|that)\b)[\w-]+(?-i:\s+[A-Z]\w+)*)(?:['’]s(?:\s+[\w-]+){1,3}?)?)"
    r"\s+(?:is|are|was|were|has|have|had|will|can|\w+(?:s|ed))\b"
)
"""What a statement is about, and whose that is: "Marta's address", "Marta"."""


_JOINS = re.compile(r"(?i)^\W*(?:(?:and|also|plus|oh|ah)\b[\s,]*)+(?=(?:it|he|she|they|its|his|her|their)\b)")
_TAIL = re.compile(
    r"(?i)(?<=\w)\s*[,;.–-]\s*(?:(?:so|and)\s+)?(?:please\s+)?(?:(?:update|remember|note|keep|store|save|memorise)\s+(?:that|it|this)"
    r"|(?:it\s+|that\s+)?(?:might|may|could)\s+be\s+(?:useful|good|worth|handy|helpful)(?:\s+(?:to\s+know|knowing|later))?|for\s+(?:later|your\s+information)"
    r"|please|keep\s+(?:that\s+)?in\s+mind)(?:\s+(?:please|for\s+(?:me|us|later)|somewhere))?\W*$"
)
"""What asks to keep a fact after it: "the barn key is with Ed, please note that"."""


def name_subject(fact: str, request: Request) -> str:
    """``fact`` with what was spoken of before it, if it says only "it": "the lease: it ends in May"."""
    fact = _JOINS.sub("", fact) or fact
    if not _UNNAMED.match(fact):
        return fact
    if request.just_told:
        told = _TOLD_OF.match(request.just_told)
        subject = (told["whole"] if fact.lower().startswith("it") else told["owner"]) if told else ""
    else:
        subject = find_subject(request.before)
    return f"{subject}: {fact}" if subject else fact


def says_only_it(fact: str) -> bool:
    """Whether ``fact`` does not say what it is about: "it ends in May"."""
    return bool(_UNNAMED.match(fact))


async def keep(desk: "Desk", request: Request, fact: str, replaces: str = "") -> Answer:
    """Store ``fact`` as the person's own, once for each request; says what was kept, or why it was not.

    What says only "it" is kept with what was spoken of before; if that is not known, it is asked. It takes
    the place of the memory ``replaces``.
    """
    fact = name_subject(_TAIL.sub("", fact) or fact, request)
    if says_only_it(fact):
        asked = f"Who or what is that about: {flatten(fact, 200)}? Say it in a whole sentence."
        return ask_back(asked, f"remember that {SLOT}")
    title, body = split_title(fact[0].upper() + fact[1:])
    node = Node(
        id=desk.context.bus.derive_id("said", request.letter_id),
        kind="fact",
        title=title,
        body=body,
        importance=0.6,
        source=Source(agent=subjects.USER, session=request.session, channel=KEPT_HERE),
        metadata={"person": request.person} if request.person else {},
    )
    try:
        ends = [Edge(from_id=node.id, to_id=replaces, relation=Relation.SUPERSEDES)] if replaces else []
        await desk.context.memory.keep_said(node, edges=ends)
    except WriteRefused as refused:
        known = refused.rejection.existing if refused.rejection else None
        if known and find_stems(node_statement(known)) == find_stems(fact):
            told = flatten(node_statement(known), 200)
            return Answer(text=f"I know that already: {told}", citations=(known.id,))
        held = f" Memory holds: {flatten(node_statement(known), 200)}" if known else ""
        return Answer(text=f"{refused}{held}", outcome=ResultOutcome.FAILED, confidence=0.0)
    except BusError as error:
        return Answer(text=f"It may not be kept: {error}", outcome=ResultOutcome.FAILED, confidence=0.0)
    return Answer(
        text=f"I shall remember: {flatten(fact, 400)}\nTo erase it for good: mailroom memory forget "
        f"{node.id}",
        citations=(node.id,),
    )


def offer_to_keep(before: str, fact: str) -> Answer:
    """That nothing was kept, and the offer to: "yes" keeps it."""
    said = flatten(fact, 400)
    asks = AskedBack(choices=(Choice(label="remember it", text=f"remember that {said}"),))
    return Answer(text=f"{before} Shall I remember it? Answer yes, or say: remember that {said}", asks=asks)


async def find_hits(desk: "Desk", text: str) -> list[Hit]:
    """The memories that are like ``text``, nearest first; none if memory does not answer."""
    try:
        hits = await desk.context.memory.search(text, limit=8)
    except BusError:
        return []
    terms = find_terms(text).keys()

    def is_alike(hit: Hit) -> bool:
        share = len(terms & node_stems(hit.node)) / max(1, len(terms))
        return hit.node.kind != "agent" and hit.why.get("vector", 0.0) + SHARED * share >= ALIKE

    return [hit for hit in hits if is_alike(hit)]


async def find_known(desk: "Desk", fact: str) -> str:
    """What memory holds about the same as ``fact``, in a line; empty if nothing is."""
    hits = await find_hits(desk, fact)
    return flatten(node_statement(hits[0].node), 200) if hits else ""
