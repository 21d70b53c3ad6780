"""Memory: what it holds is told, facts are kept and corrected, and statements are answered."""

import re
from collections.abc import Sequence

import msgspec

from services.nexus.answers.evidence import KEPT_HERE, TOLD_HERE
from services.nexus.answers.memory_answer import node_statement, node_stems
from services.nexus.conversation.ellipsis import find_subject
from services.nexus.conversation.pending import format_question
from services.nexus.routing.following import normalise
from services.nexus.routing.request import Request
from services.nexus.tools.tool import Answer, Effect, Tool, ToolContext, Words, ask_back, command
from shared import subjects
from shared.contracts import (
    AskedBack,
    Choice,
    Edge,
    Hit,
    Node,
    Relation,
    Response,
    ResultOutcome,
    Source,
    Told,
)
from shared.contracts.emails import SLOT
from shared.errors import BusError
from shared.language.sayings import read_sayings
from shared.language.utterance import Act, read_utterance
from shared.memory import WriteRefused
from shared.text.display import flatten, shorten_id
from shared.text.prose import find_stems, find_terms, split_title

WAYS = read_sayings(__file__, "keeping")
CORRECTS = WAYS["corrects"]

ALIKE, SHARED = 0.3, 0.25
"""The least likeness of a memory that counts as about the same: its similarity (memory's ``why["vector"]``),
and SHARED times the share of the words that it has. Memories of something else were seen at .03 to .2."""


def name_subject(fact: str, request: Request) -> str:
    """``fact`` with what was spoken of before it, if it says only "it": "the lease: it ends in May"."""
    fact = WAYS["joins"].sub("", fact) or fact
    if not WAYS["unnamed"].match(fact):
        return fact
    if request.just_told:
        told = WAYS["told_of"].match(request.just_told)
        subject = (told["whole"] if fact.lower().startswith("it") else told["owner"]) if told else ""
    else:
        subject = find_subject(request.before)
    return f"{subject}: {fact}" if subject else fact


def says_only_it(fact: str) -> bool:
    """Whether ``fact`` does not say what it is about: "it ends in May"."""
    return bool(WAYS["unnamed"].match(fact))


async def keep(context: ToolContext, request: Request, fact: str, replaces: str = "") -> Answer:
    """Store ``fact`` as the person's own, once for each request; says what was kept, or why it was not.

    What says only "it" is kept with what was spoken of before; if that is not known, it is asked. It takes
    the place of the memory ``replaces``.
    """
    fact = name_subject(WAYS["tail"].sub("", fact) or fact, request)
    if says_only_it(fact):
        asked = f"Who or what is that about: {flatten(fact, 200)}? Say it in a whole sentence."
        return ask_back(asked, f"remember that {SLOT}")
    title, body = split_title(fact[0].upper() + fact[1:])
    node = Node(
        id=context.agent.bus.derive_id("said", request.key),
        kind="fact",
        title=title,
        body=body,
        importance=0.6,
        source=Source(agent=subjects.USER, session=request.session, channel=KEPT_HERE),
        metadata={"person": request.person} if request.person else {},
    )
    try:
        ends = [Edge(from_id=node.id, to_id=replaces, relation=Relation.SUPERSEDES)] if replaces else []
        await context.agent.memory.keep_said(node, edges=ends)
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
        f"{shorten_id(node.id)}",
        citations=(node.id,),
    )


def offer_to_keep(before: str, fact: str) -> Answer:
    """That nothing was kept, and the offer to: "yes" keeps it."""
    said = flatten(fact, 400)
    asks = AskedBack(choices=(Choice(label="remember it", text=f"remember that {said}"),))
    return Answer(text=f"{before} Shall I remember it? Answer yes, or say: remember that {said}", asks=asks)


async def find_hits(context: ToolContext, text: str) -> list[Hit]:
    """The memories that are like ``text``, nearest first; none if memory does not answer."""
    try:
        hits = await context.agent.memory.search(text, limit=8)
    except BusError:
        return []
    terms = find_terms(text).keys()

    def is_alike(hit: Hit) -> bool:
        share = len(terms & node_stems(hit.node)) / max(1, len(terms))
        return hit.node.kind != "agent" and hit.why.get("vector", 0.0) + SHARED * share >= ALIKE

    return [hit for hit in hits if is_alike(hit)]


async def find_known(context: ToolContext, fact: str) -> str:
    """What memory holds about the same as ``fact``, in a line; empty if nothing is."""
    hits = await find_hits(context, fact)
    return flatten(node_statement(hits[0].node), 200) if hits else ""


SHARED_WORDS = 2  # Words of meaning that a correction has in common with the memory that it corrects


async def correct(context: ToolContext, request: Request, _: Words) -> Answer:
    """The new fact, kept; and what memory held about it before. Of a mere statement it asks first.

    What corrects the last answer takes the place of the memory that this one quoted.
    """
    said = CORRECTS.sub("", request.text, count=1).strip()
    fact = name_subject(said, request)
    if len(fact.split()) < 3:
        return ask_back("What is right? Say the whole fact in a sentence.", f"correct that: {SLOT}")
    quoted = await _find_corrected(context, request, said)
    known = flatten(node_statement(quoted), 200) if quoted else await find_known(context, fact)
    if request.utterance.act is Act.STATEMENT and not known:
        return offer_to_keep("Memory has nothing like that yet.", fact)
    kept = await keep(context, request, fact, quoted.id if quoted else "")
    if not known:
        return kept
    held = f"{kept.text}\nUntil now memory held: {known}"
    return Answer(text=held, outcome=kept.outcome, citations=kept.citations)


async def _find_corrected(context: ToolContext, request: Request, said: str) -> Node | None:
    """The memory that the last answer quoted, if the message says that it is wrong; ``said`` then names it by
    "it", or by its words.
    """
    if not request.cited or not CORRECTS.match(request.text):
        return None
    try:
        found = await context.agent.memory.get(request.cited)
    except BusError:
        return None
    terms = find_terms(said).keys()
    shared = sum(len(terms & node_stems(node)) for node in found[:1])
    return found[0] if found and (says_only_it(said) or shared >= SHARED_WORDS) else None


CORRECT = Tool(
    name="correct",
    description="corrects what memory holds",
    run=correct,
    effect=Effect.WRITES,
)


async def remember(context: ToolContext, request: Request, words: Words) -> Answer:
    """What was kept, word for word, and how to have it forgotten; what corrects a memory is told as that."""
    corrected = CORRECTS.sub("", request.text, count=1)
    if corrected != request.text and not WAYS["remember_lead"].match(corrected):
        return await correct(context, request, words)
    lead = WAYS["remember_lead"] if WAYS["remember_lead"].match(request.text) else WAYS["clause"]
    fact = lead.sub("", request.text, count=1).strip()
    if fact == request.text.strip() and read_utterance(fact).is_part and request.before_route in _KEPT:
        return ask_back("Is that a correction? Say the whole fact in a sentence.", f"correct that: {SLOT}")
    if len(fact.split()) < 2 or WAYS["nothing"].fullmatch(fact):
        return ask_back("What shall I remember? Say it in a sentence.", f"remember that {SLOT}")
    return await keep(context, request, fact)


_KEPT = ("tool:remember", "tool:correct")
REMEMBER = Tool(
    name="remember",
    description="remembers facts for the team",
    needs=WAYS["remember_needs"],
    says=WAYS["remember_says"],
    run=remember,
    effect=Effect.WRITES,
)


async def acknowledge(context: ToolContext, request: Request, _: Words) -> Answer:
    """That nothing was done, and the offer to keep it."""
    return offer_to_keep("Nothing was started.", name_subject(request.text, request))


STATEMENT = Tool(
    name="statement",
    description="hears what you tell, and offers to remember it",
    run=acknowledge,
    hidden=True,
)


RECALL_WAYS = read_sayings(__file__, "recall")


async def answer_from_memory(context: ToolContext, request: Request, _: Words) -> Answer:
    """Quotations from memory and from what was told in the conversation, or that there is nothing.

    If the answer was only told, it offers to keep that.
    """
    told = {node.id: node for node in map(_make_node, range(len(request.told)), request.told)}
    response = await context.answerer.quote(request.text, told=tuple(told.values()))
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
    says=RECALL_WAYS["memory_says"],
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
    memory, named = context.agent.memory, _NAMED_MEMORY.fullmatch(request.text)
    if named and (nodes := await memory.get(*await memory.find_ids([named["id"]]))):
        return _offer_to_erase(nodes)
    about = RECALL_WAYS["forget_lead"].sub("", request.text, count=1).strip(" .!?") or request.text
    hits = (await find_hits(context, about))[:MOST_OFFERED]
    if not hits:
        return ask_back("Memory holds nothing like that. Which memory do you mean?", f"forget {SLOT}")
    return _offer_to_erase([hit.node for hit in hits])


def _offer_to_erase(nodes: Sequence[Node]) -> Answer:
    """What each memory says, and the command that erases it; "yes" after a single one says so again."""
    lines = [f"- {flatten(node.title, 200)}: mailroom memory forget {shorten_id(node.id)}" for node in nodes]
    again = Choice(label="Yes", text=command("forget", f"memory {nodes[0].id}"))
    return Answer(
        text="\n".join([ERASED, *lines]),
        citations=tuple(node.id for node in nodes),
        asks=AskedBack(choices=(again, Choice(label="No"))) if len(nodes) == 1 else None,
    )


FORGET = Tool(
    name="forget",
    description="finds what is to be forgotten, and says how",
    says=RECALL_WAYS["forget_says"],
    run=forget,
    effect=Effect.WRITES,
)
