"""Answers from memory alone: the context packet of a message, and quotations with their origin and date."""

import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from services.nexus.answers.choice import Chosen
from services.nexus.answers.evidence import ASKED, Evidence, find_speaker
from shared.clock import parse_timestamp
from shared.contracts import ContextItem, ContextPacket, Hit, Node, Response
from shared.language.utterance import is_question, is_statement
from shared.memory.ownership import CHANNEL
from shared.text.display import flatten, shorten
from shared.text.prose import find_stems, find_terms, split_sentences, stem_term
from shared.views.memory_change import author_of

TOKEN_CHARACTERS = 4  # Characters per token of English text, the usual rule of thumb for language models

ITEM_TOKENS = 300  # The most tokens of one memory, so that a long one leaves some of the budget to the others

MIN_TOKENS = 15  # A memory that would have to be cut to fewer tokens is left out

LIST_MARK = re.compile(r"^(?:[-*+]|\d+[.)])\s+(?:\[[ xX]\]\s+)?(?:\d{4}-\d\d-\d\d:?\s+)?")
"""What stands before an entry of a list in Markdown, also its day, which the node has."""

OLD_AFTER = timedelta(days=30)  # An older memory is only assumed to be still true


def build_packet(
    text: str, hits: Sequence[Hit], *, limit: int = 8, budget_tokens: int = 1200
) -> ContextPacket:
    """The best ``limit`` of ``hits`` as bullets with evidence ids, within about ``budget_tokens`` tokens.

    ``unknowns`` are the words of ``text`` that no kept hit holds in any form; ``assumptions`` say what is
    assumed: that old or expired memories are still true. Retired nodes are left out, and the nodes of agents
    that ``text`` does not name.
    """
    bullets: list[ContextItem] = []
    kept: list[Node] = []
    terms = find_terms(text)
    for hit in [hit for hit in rank_hits(hits) if may_be_shown(hit.node, terms)][:limit]:
        statement = node_statement(hit.node)
        characters = min(budget_tokens, ITEM_TOKENS) * TOKEN_CHARACTERS
        if len(statement) > characters and budget_tokens < MIN_TOKENS:
            break
        statement = shorten(statement, characters)
        bullets.append(ContextItem(text=statement, evidence_id=hit.node.id, score=hit.score))
        kept.append(hit.node)
        budget_tokens -= -(-len(statement) // TOKEN_CHARACTERS)
    return ContextPacket(
        query=text,
        bullets=tuple(bullets),
        unknowns=find_unknowns(text, kept),
        assumptions=tuple(assumption for node in kept if (assumption := _assumption(node))),
    )


def may_be_shown(node: Node, terms: Collection[str]) -> bool:
    """Whether a node may be shown for a question with ``terms``: an agent's node only if it is named, and
    none that stands for a whole file and has its headings alone.
    """
    is_outline = node.kind == "note" and (node.body.startswith("Sections: ") or not node.body)
    if is_outline and node.source.channel == CHANNEL:
        return False
    return node.kind != "agent" or stem_term(node.title) in terms


def rank_hits(hits: Iterable[Hit]) -> list[Hit]:
    """The hits on nodes that are not retired, each node once, best first."""
    best: dict[str, Hit] = {}
    for hit in sorted(hits, key=lambda hit: -hit.score):
        if not hit.node.retired_version:
            best.setdefault(hit.node.id, hit)
    return list(best.values())


def find_unknowns(text: str, nodes: Iterable[Node]) -> tuple[str, ...]:
    """The terms of ``text`` that are in none of ``nodes``: title, body, tags and kind."""
    covered = frozenset[str]().union(*(node_stems(node) for node in nodes))
    return tuple(word for stem, word in find_terms(text).items() if stem not in covered)


def node_stems(node: Node) -> frozenset[str]:
    """The stems of all words of a node."""
    return find_stems(f"{node.title} {node.body} {' '.join(node.tags)} {node.kind}")


def node_statement(node: Node) -> str:
    """The node in one paragraph: its title, and its body if that says more."""
    title, body = " ".join(node.title.split()), " ".join(node.body.split())
    if not body or body == title:
        return title
    if is_opening(node):
        heading = title.rpartition(" › ")[0]
        return f"{heading and f'{heading}: '}{LIST_MARK.sub('', body)}"
    return f"{title}{'' if title[-1] in '.!?:' else ':'} {body}"


def is_opening(node: Node) -> bool:
    """Whether the title of a node, behind headings if there are any, is how its body begins."""
    title, body = " ".join(node.title.split()).rpartition(" › ")[2], " ".join(node.body.split())
    return bool(title) and LIST_MARK.sub("", body).startswith(title.rstrip("…."))


def _assumption(node: Node) -> str:
    title = flatten(node.title, 80)
    now = datetime.now(UTC)
    if node.valid_to and parse_timestamp(node.valid_to) < now:
        return f"{title!r} was valid until {node.valid_to[:10]}"
    remembered = node.updated_at or node.created_at
    if remembered and now - parse_timestamp(remembered) > OLD_AFTER:
        return f"{title!r}, remembered on {remembered[:10]}, still holds"
    return ""


MIN_SIMILARITY = 0.144
"""A hit with at least this similarity (memory's ``why["vector"]``) is quoted whatever its words. Of 426
notes the nearest had up to .14 for questions about something else, and mostly more for those about notes."""

MIN_SHARED = 0.5
"""Below that similarity a hit must have this share of the question's terms and a score of MIN_SCORE. With
these three, 59 of 60 questions about the notes found something to quote, and 1 of 60 other questions did."""

MIN_SCORE = 0.1  # The least score of a hit that is quoted by its words

DATE_SUFFIX = re.compile(r" \(\d{4}-\d\d-\d\d\)$")
MAX_QUOTES = 5
MAX_QUOTE = 500  # The longest quotation, in characters
MAX_WHOLE = 240  # A text this short is quoted as a whole: "Marek is responsible" needs what stands before it
MAX_MORE = 2  # Further sentences, and earlier ones, that an answer has behind the first


REMEMBER_REQUEST = re.compile(r"(?i)\W*(?:please\s+)?(?:remember|note|keep\s+in\s+mind)\s+(?:that\b|:)\s*")
"""The beginning of a request to remember something."""
NAME = re.compile(r"(?<=[a-z0-9,;'’] )[A-Z]\w+")  # A capitalised word within a sentence


class _Finding(msgspec.Struct, frozen=True):
    node: Node
    relevance: float
    near: bool


def answer_by_likeness(question: str, packet: ContextPacket, hits: Sequence[Hit]) -> Response:
    """An answer of quotations by likeness and words alone: for a topic, or if memory cannot read sentences.

    Importance raises or lowers the relevance by at most a quarter. ``confidence`` is the relevance of the
    first one, lowered by up to half by the share of the question's terms that no quotation has. A question
    with names is answered only by nodes that have one of them.
    """
    terms = find_terms(question)
    names = frozenset(stem_term(name) for name in NAME.findall(question))
    findings = [_assess(hit, terms, names) for hit in rank_hits(hits) if may_be_shown(hit.node, terms)]
    findings = _latest_versions(findings)
    findings.sort(key=lambda finding: -finding.relevance * (0.75 + 0.5 * finding.node.importance))
    near = [finding for finding in findings if finding.near][:MAX_QUOTES]
    if not near:
        return decline(question, packet, hits)
    missing = find_unknowns(question, [finding.node for finding in near])
    share = 1 - len(missing) / len(terms) if terms else 1.0
    gap = [f"Memory says nothing about: {', '.join(missing)}."] if missing else []
    quotes = [cite(quote_node(finding.node, terms), finding.node) for finding in near]
    return Response(
        text="\n".join([*quotes, *gap]),
        citations=tuple(finding.node.id for finding in near),
        context_used=msgspec.structs.replace(packet, unknowns=missing),
        confidence=round(min(1.0, near[0].relevance) * (0.5 + 0.5 * share), 3),
    )


def answer_with_list(packet: ContextPacket, hits: Sequence[Hit]) -> Response:
    """An answer that tells all of ``hits``, the first MAX_QUOTES of them with their texts."""
    lines = [cite(shorten(node_statement(hit.node), MAX_QUOTE), hit.node) for hit in hits[:MAX_QUOTES]]
    more = [f"Memory has {len(hits) - MAX_QUOTES} more of this."] if len(hits) > MAX_QUOTES else []
    return Response(
        text="\n".join([*lines, *more]),
        citations=tuple(hit.node.id for hit in hits[:MAX_QUOTES]),
        context_used=_with_cited(packet, [hit.node for hit in hits[:MAX_QUOTES]]),
        confidence=1.0,
    )


def _with_cited(packet: ContextPacket, nodes: Iterable[Node]) -> ContextPacket:
    """The packet of an answer that says all that it was asked, with what each of the cited nodes says."""
    known = {item.evidence_id for item in packet.bullets}
    more = [
        ContextItem(text=shorten(node_statement(node), MAX_QUOTE), evidence_id=node.id, score=0.0)
        for node in nodes
        if node.id not in known
    ]
    return msgspec.structs.replace(packet, unknowns=(), bullets=(*packet.bullets, *more))


def answer_from_sentences(
    question: str, packet: ContextPacket, chosen: Chosen, titles: Mapping[str, str]
) -> Response:
    """The answer of the sentences that were chosen: the first answers, then others, then what held before.

    ``titles`` has the titles of the nodes that superseded one of them, by id.
    """
    # Each text once: two check-ups may have found the same.
    first, *others = list({_quote_sentence(each): each for each in reversed(chosen.answers)}.values())[::-1]
    lines = [_cite_sentence(first, titles)]
    earlier = chosen.earlier[:MAX_MORE]
    for label, more in (
        ("Also:", others[:MAX_MORE]),
        # Nothing says that these have ended: that they read alike does not prove that they were replaced.
        ("Since then:", [each for each in earlier if not each.ended and _is_later(each, first)]),
        ("Older, and alike:", [each for each in earlier if not each.ended and not _is_later(each, first)]),
        ("Before that:", [each for each in earlier if each.ended]),
    ):
        lines += [label, *(f"- {_cite_sentence(each, titles)}" for each in more)] if more else []
    told = [first, *others[:MAX_MORE], *sorted(earlier, key=lambda each: each.ended)]
    return Response(
        text="\n".join(lines),
        citations=tuple(each.hit.node.id for each in told),
        context_used=_with_cited(packet, [each.hit.node for each in told]),
        confidence=round(chosen.chance, 3),
    )


def _is_later(one: Evidence, other: Evidence) -> bool:
    return one.hit.node.created_at > other.hit.node.created_at


def _cite_sentence(evidence: Evidence, titles: Mapping[str, str]) -> str:
    node = evidence.hit.node
    until = f"until {node.valid_to[:10]}" if node.valid_to else ""
    title = titles.get(evidence.hit.superseded_by, "")
    then = f"then: {flatten(title, 200)}" if title else ""
    return cite(shorten(_quote_sentence(evidence), MAX_QUOTE), node, *filter(None, (until, then)))


def _quote_sentence(evidence: Evidence) -> str:
    """A sentence as it is told: behind its heading, or all of a short text whose title is how it begins."""
    body = LIST_MARK.sub("", " ".join(evidence.hit.node.body.split()))
    if not is_opening(evidence.hit.node):
        return evidence.text
    if evidence.sentence.rstrip().endswith("…") or len(body) <= MAX_WHOLE:
        return body
    return evidence.text if find_speaker(evidence.hit.node) else evidence.sentence


def cite(text: str, node: Node, *more: str) -> str:
    """A quotation with its file or author, its own date, and ``more``, in brackets behind it."""
    return f"{text} ({', '.join([*filter(None, [find_origin(node)]), node.created_at[:10], *more])})"


def find_origin(node: Node) -> str:
    """The file that a node was taken from, else who remembered it."""
    file = node.metadata.get("file") or node.metadata.get("path")
    return (
        " › ".join(filter(None, map(str, (file, node.metadata.get("heading") or ""))))
        if file
        else author_of(node)
    )


def _latest_versions(findings: Sequence[_Finding]) -> list[_Finding]:
    """The latest of the findings with the same title, such as the check-ups of one project; best first."""
    latest: dict[tuple[str, str], _Finding] = {}
    for finding in findings:
        key = finding.node.kind, DATE_SUFFIX.sub("", finding.node.title)
        if key not in latest or latest[key].node.created_at < finding.node.created_at:
            latest[key] = finding
    return sorted(latest.values(), key=lambda finding: -finding.relevance)


def _assess(hit: Hit, terms: Mapping[str, str], names: frozenset[str]) -> _Finding:
    stems = node_stems(hit.node)
    shared = len(terms.keys() & stems) / len(terms) if terms else 0.0
    similar = hit.why.get("vector", hit.score) >= MIN_SIMILARITY
    near = similar or (shared >= MIN_SHARED and hit.score >= MIN_SCORE)
    relevance = max(hit.score, 0.0) + shared / 2
    return _Finding(hit.node, relevance, near=near and (not names or bool(names & stems)))


def quote_node(node: Node, terms: Mapping[str, str]) -> str:
    """The sentences of ``node`` that hold most of ``terms``, in MAX_QUOTE characters; all of a short node."""
    whole = node_statement(node)
    if len(whole) <= MAX_QUOTE:
        return whole
    title = " ".join(node.title.split())
    sentences = [each for each in split_sentences(node.body) if not ASKED.search(each)]
    worth = {place: len(terms.keys() & find_stems(sentence)) for place, sentence in enumerate(sentences)}
    chosen: list[int] = []
    left = MAX_QUOTE - len(title) - 2
    for place in sorted(worth, key=lambda place: (-worth[place], place)):
        if len(sentences[place]) + 3 <= left and (worth[place] or not chosen):
            chosen.append(place)
            left -= len(sentences[place]) + 3
    quoted = " … ".join(" ".join(sentences[place].split()) for place in sorted(chosen))
    return f"{title}: {quoted}" if quoted else shorten(whole, MAX_QUOTE)


def decline(question: str, packet: ContextPacket, hits: Sequence[Hit], time: str = "") -> Response:
    """The answer that memory has none, or none of that ``time``, and what can be done: nothing is quoted.

    A statement can be remembered, a question found out; neither is done by itself.
    """
    lines = [f"Memory holds nothing that answers this{f' of that time ({time})' if time else ''}."]
    if REMEMBER_REQUEST.match(question) or (is_statement(question) and not is_question(question)):
        statement = shlex.quote(flatten(REMEMBER_REQUEST.sub("", question), 200))
        lines.append(f"I kept nothing of it. To have it remembered: mailroom memory add {statement}")
    else:
        lines.append(
            "Without a model I answer from memory only. Ask in other words, or have the web searched: say "
            "'search the web for ...'."
        )
    missing = find_unknowns(question, [hit.node for hit in hits])
    packet = msgspec.structs.replace(packet, unknowns=missing)
    return Response(text="\n".join(lines), context_used=packet, confidence=0.0)
