"""Memory: what it holds is told, facts are kept and corrected, and statements are answered."""

import re
from collections.abc import Sequence

import msgspec

from services.nexus.answers.evidence import KEPT_HERE, TOLD_HERE
from services.nexus.answers.memory_answer import node_statement, node_stems
from services.nexus.conversation.ellipsis import find_subject, swap_alike
from services.nexus.conversation.pending import format_question
from services.nexus.routing import following
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
from shared.contracts.base import amended
from shared.contracts.emails import SLOT
from shared.errors import BusError
from shared.language.sayings import read_sayings
from shared.language.utterance import Act, read_utterance
from shared.memory import Memory, WriteRefused
from shared.memory.ownership import find_owner, is_person
from shared.text.display import flatten, shorten_id
from shared.text.prose import find_stems, find_terms, split_sentences, split_title, stem_term

WAYS = read_sayings(__file__, "keeping")
CORRECTS, CHANGES = WAYS["corrects"], read_sayings(following.__file__, "decider")["changes"]

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


PREFERENCE = "preference"  # The kind of what tells how a person likes things


async def find_kind(memory: Memory, text: str) -> tuple[str, float]:
    """The kind of statement that ``text`` is most like, and its score; raises BusError without memory."""
    scores = (await memory.classify("kinds", [text]))[0]
    return max(scores.items(), key=lambda found: found[1])


async def keep(
    context: ToolContext, request: Request, fact: str, replaces: Node | None = None, *, for_team: bool = False
) -> Answer:
    """Store ``fact`` as the person's own, once for each request; says what was kept, or why it was not.

    What says only "it" is kept with what was spoken of before; if that is not known, it is asked. It takes
    the place of the memory ``replaces``, and is for whom that is; else of several people for this one alone,
    or ``for_team``.
    """
    for_team = for_team or (replaces is not None and not is_person(find_owner(replaces)))
    fact = name_subject(WAYS["tail"].sub("", fact) or fact, request)
    if says_only_it(fact):
        asked = f"Who or what is that about: {flatten(fact, 200)}? Say it in a whole sentence."
        return ask_back(asked, f"remember that {SLOT}")
    title, body = split_title(fact[0].upper() + fact[1:])
    try:
        kind, _ = await find_kind(context.agent.memory, fact)
    except BusError as error:
        return Answer(text=f"It may not be kept: {error}", outcome=ResultOutcome.FAILED, confidence=0.0)
    node = Node(
        id=context.agent.bus.derive_id("said", request.key),
        kind=kind if kind == PREFERENCE else "fact",
        title=title,
        body=body,
        importance=0.6,
        source=Source(agent=subjects.USER, session=request.session, channel=KEPT_HERE),
        metadata={"person": request.person} if request.person else {},
    )
    try:
        ends = [Edge(from_id=node.id, to_id=replaces.id, relation=Relation.SUPERSEDES)] if replaces else []
        await context.agent.memory.keep_said(node, edges=ends, for_team=for_team)
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
        text=f"I shall remember{_for_whom(request, for_team)}: {flatten(fact, 400)}\n"
        f"To erase it for good: mailroom memory forget {shorten_id(node.id)}",
        citations=(node.id,),
    )


def _for_whom(request: Request, for_team: bool) -> str:
    if not request.audience:
        return ""
    return " for the team" if for_team else " for you alone (say 'for the team' for all)"


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


CHANGED = 0.5
"""The least similarity of a memory that a correction ends without naming what it said, or the least share of
the words of the correction, but for the new value, that this memory has."""
SHARED_WORDS = 2  # Words of meaning that a correction has in common with the last answer that it corrects


class Correction(msgspec.Struct, frozen=True, kw_only=True):
    """What is so now, what it is ``about`` if it is a bare value, the value that was wrong ("not Ochs"), and
    whether it only says what is not so.
    """

    fact: str
    about: str = ""
    old: str = ""
    denies: bool = False


_WAYS_TO_CORRECT = "untrue cleft_denied denied_first denied_last swapped instead_of formerly from_to".split()


def read_correction(text: str) -> Correction:
    """What ``text`` says is so, without the words that say that it is a change."""
    said = CORRECTS.sub("", text.strip(), count=1).strip(" .!,;")
    while (cut := WAYS["tail"].sub("", said)) != said:
        said = cut
    if cleft := WAYS["cleft"].fullmatch(said):
        said = f"{cleft['new']} {cleft['rest']}{cleft['more']}"
    found = next(filter(None, (WAYS[way].fullmatch(said) for way in _WAYS_TO_CORRECT)), None)
    parts = found.groupdict("") if found else {"new": said, "old": ""}
    head = f"{parts['head']} {parts['more']}" if parts.get("head") else ""
    new = WAYS["value_tail"].sub("", parts["new"]) if head else _trim(parts["new"])
    ordered = WAYS["ordered"].fullmatch(new)
    fact, about = (ordered["new"], ordered["what"]) if ordered else (f"{head}{new}", "")
    denies = found is None and bool(WAYS["denies"].search(said))
    return Correction(fact=_trim(fact), about=about, old=_trim(parts["old"]), denies=denies)


def _trim(text: str) -> str:
    return WAYS["tail"].sub("", " ".join(text.split())).strip(" .,;")


async def correct(context: ToolContext, request: Request, _: Words) -> Answer:
    """The new fact, kept, and the memory that it ends. Of a mere statement it asks first.

    It ends what the last answer quoted or kept, else the memory that has the value which is named as wrong,
    or is most alike; a denial ends only what says the same of the same thing.
    """
    said = read_correction(request.utterance.spelled)
    ended = await _find_ended(context, request, said)
    fact = _complete(said, node_statement(ended)) if ended else name_subject(said.fact, request)
    if len(fact.split()) < (2 if ended else 3):
        return ask_back("What is right? Say the whole fact in a sentence.", f"correct that: {SLOT}")
    known = flatten(node_statement(ended), 200) if ended else await find_known(context, fact)
    is_sure = ended or CHANGES.search(request.text) or (known and CORRECTS.match(request.text))
    if request.utterance.act is Act.STATEMENT and not is_sure:
        return offer_to_keep(f"Memory holds: {known}" if known else "Memory has nothing like that yet.", fact)
    kept = await keep(context, request, fact, ended)
    if not known:
        return kept
    held = f"{kept.text}\nUntil now memory held: {known}"
    return Answer(text=held, outcome=kept.outcome, citations=kept.citations)


def _complete(said: Correction, held: str) -> str:
    """The whole fact that a correction of ``held`` says; a bare value is put in the place of the old one."""
    subject, is_whole = WAYS["told_of"].match(held), bool(WAYS["told_of"].match(said.fact))
    lead = WAYS["value_lead"].match(said.fact)
    value = WAYS["value_tail"].sub("", said.fact[lead.end() if lead else 0 :]).strip(" ,.;")
    if not is_whole and value:
        if said.old and (span := _find_value(held, said.old)):
            before, after = held[: span[0]].rstrip(), held[span[1] :]
            first, _, rest = value.partition(" ")
            value = rest if first in WAYS.words("prepositions") and before.split()[-1:] == [first] else value
            if before:
                return f"{before} {value}{after}"
        if swapped := swap_alike(held, value):
            return swapped
    if said.about:
        return f"{said.about} is {value}"
    if subject and lead and not is_whole:
        verb = {"s": "is", "re": "are"}.get(re.sub(r".*['’]", "", lead[0].strip()), "")
        return " ".join([subject["whole"], verb or " ".join(lead[0].split()[1:]) or "is", value])
    return said.fact


def _find_value(held: str, old: str) -> tuple[int, int] | None:
    """Where ``held`` says ``old``, with the title before a name."""
    found = re.search(rf"(?i)(?:\b(?:mrs?|ms|dr)\.?\s+)?(?<!\w){re.escape(old)}(?!\w)", held)
    return found.span() if found else None


async def _find_ended(context: ToolContext, request: Request, said: Correction) -> Node | None:
    """The memory that a correction ends."""
    whole = f"{said.about} {said.fact} {said.old}".strip()
    terms, old = find_terms(f"{said.about} {said.fact}").keys(), find_terms(said.old).keys()
    if request.cited and (request.before_route in _KEPT or request.before_route == MEMORY_ROUTE):
        quoted = await _get(context, request.cited)
        has_old = quoted is not None and bool(old) and old <= node_stems(quoted)
        shared = len(terms & node_stems(quoted)) if quoted else 0
        refers = says_only_it(said.fact) or bool(CORRECTS.match(request.text)) or bool(request.understood)
        alike = shared >= SHARED_WORDS or says_only_it(said.fact)
        if quoted and said.denies and not says_only_it(said.fact):
            alike = _affirms(said.fact, node_stems(quoted))  # "not on Fridays" ends no Mondays
        if quoted and (has_old or (refers and alike)):
            return quoted
    for hit in await find_hits(context, whole):
        stems = node_stems(hit.node)
        if said.denies:
            is_ended = WAYS["not_so"].search(node_statement(hit.node)) is None and _affirms(said.fact, stems)
        elif old:
            is_ended = old <= stems and (bool(terms & stems) or not WAYS["told_of"].match(said.fact))
        else:
            named = {term for term in terms if not any(map(str.isdigit, term))}
            share = len(named & stems) / max(1, len(named))
            is_near = share > 0 and max(hit.why.get("vector", 0.0), share) >= CHANGED
            is_ended = is_near and _says_the_same_of_it(said, node_statement(hit.node))
        if is_ended and len(split_sentences(node_statement(hit.node))) == 1:  # never what stands beside it
            return hit.node
    return None


def _says_the_same_of_it(said: Correction, held: str) -> bool:
    """Whether a statement tells the same property as a correction: by the same verb, or both a number."""
    told, new = WAYS["told_of"].match(held), WAYS["told_of"].match(said.fact)
    if said.about or (re.search(r"\d", held) and re.search(r"\d", said.fact)):
        return True
    verbs = {stem_term(WAYS["to_be"].sub("be", each[0].split()[-1])) for each in (told, new) if each}
    return len(verbs) == 1


def _affirms(denial: str, stems: frozenset[str]) -> bool:
    """Whether a memory of these ``stems`` says what ``denial`` denies, and not the like of something else."""
    terms = find_terms(WAYS["not_so"].sub(" ", denial)).keys()
    return bool(terms) and terms <= stems


async def _get(context: ToolContext, node_id: str) -> Node | None:
    try:
        found = await context.agent.memory.get(node_id)
    except BusError:
        return None
    return found[0] if found else None


MEMORY_ROUTE = "nexus"  # The route of answers from memory


CORRECT = Tool(
    name="correct",
    description="corrects what memory holds",
    says=WAYS["correct_says"],
    run=correct,
    effect=Effect.WRITES,
)


async def remember(context: ToolContext, request: Request, words: Words) -> Answer:
    """What was kept, word for word, and how to have it forgotten; what corrects a memory is told as that.

    Of the memory that was kept or quoted last it may be said for whom it is.
    """
    if (gives := WAYS["gives"].match(request.text)) or WAYS["takes_back"].match(request.text):
        return await address(context, request, for_team=bool(gives))
    for_team = bool(request.audience and WAYS["for_team"].search(request.text))
    if request.audience:
        said = WAYS["for_me"].sub("", WAYS["for_team"].sub("", request.text, count=1), count=1)
        request = msgspec.structs.replace(request, text=said)
    corrected = CORRECTS.sub("", request.text, count=1)
    if corrected != request.text and not WAYS["remember_lead"].match(corrected):
        return await correct(context, request, words)
    lead = WAYS["remember_lead"] if WAYS["remember_lead"].match(request.text) else WAYS["clause"]
    fact = WAYS["aside"].sub("", lead.sub("", request.text, count=1)).strip(" ,;")
    if fact == request.text.strip() and read_utterance(fact).is_part and request.before_route in _KEPT:
        return ask_back("Is that a correction? Say the whole fact in a sentence.", f"correct that: {SLOT}")
    if len(fact.split()) < 2 or WAYS["nothing"].fullmatch(fact):
        return ask_back("What shall I remember? Say it in a sentence.", f"remember that {SLOT}")
    return await keep(context, request, fact, for_team=for_team)


async def address(context: ToolContext, request: Request, *, for_team: bool) -> Answer:
    """That the memory that was kept or quoted last is for the team from now on, or for who told it alone."""
    node = await _get(context, request.cited) if request.cited else None
    if node is None:
        return ask_back("Which memory? Say it whole.", f"remember{' for the team' * for_team} that {SLOT}")
    told = flatten(node_statement(node), 200)
    if not request.audience:
        return Answer(text=f"There is nobody else in this office: {told}")
    if for_team and not is_person(find_owner(node)):
        return Answer(text=f"It is the team's already: {told}", citations=(node.id,))
    if not for_team and node.metadata.get("person") != request.person:
        text = f"It is not yours to take from the team: {told}"
        return Answer(text=text, outcome=ResultOutcome.FAILED, confidence=0.0)
    source = msgspec.structs.replace(node.source, channel=KEPT_HERE)
    kept = amended(node, updated_at="", source=source)
    try:
        await context.agent.memory.keep_said(kept, for_team=for_team, insist=True)
    except BusError as error:
        return Answer(text=f"It may not be changed: {error}", outcome=ResultOutcome.FAILED, confidence=0.0)
    whose = "the team's" if for_team else "yours alone; what was read until now stays known"
    return Answer(text=f"It is {whose}: {told}", citations=(node.id,))


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
        if request.before_route not in _KEPT or nodes[0].source.session != request.session:
            return _offer_to_erase(nodes)
        await memory.retire_said(nodes[0].id)
        told = flatten(node_statement(nodes[0]), 200)
        return Answer(
            text=f"Taken back: {told}\nWhat it had ended is so again. To erase its text for good too: "
            f"mailroom memory forget {nodes[0].id}"
        )
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
