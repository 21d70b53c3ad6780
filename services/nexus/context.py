"""What memory knows about a message: statements with their evidence, and what is not covered."""

import re
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta

from services.nexus.wording import find_stems, find_terms, stem
from shared.contracts import ContextItem, ContextPacket, Hit, Node

TOKEN_CHARACTERS = 4
"""Characters of English a token stands for: the usual rule of thumb for language models."""

ITEM_TOKENS = 300
"""The most one remembered thing may take of the budget, so that a long one does not crowd out the rest."""

LEAST_TOKENS = 15
"""A thing that would have to be cut to less than this is left out."""

OLD = timedelta(days=30)
"""From this age on it is an assumption that something still holds."""


def build_context(
    text: str, hits: Sequence[Hit], *, limit: int = 8, budget_tokens: int = 1200
) -> ContextPacket:
    """The best ``limit`` of ``hits`` as bullets with evidence ids, within about ``budget_tokens`` tokens.

    ``unknowns`` are the words of ``text`` that no kept hit holds in any form; ``assumptions`` say what is
    taken for granted: that old or expired things still hold. Retired nodes are left out, and what the agents
    are where none is named.
    """
    bullets: list[ContextItem] = []
    kept: list[Node] = []
    terms = find_terms(text)
    for hit in [hit for hit in rank_hits(hits) if is_asked_for(hit.node, terms)][:limit]:
        statement = cut(state(hit.node), min(budget_tokens, ITEM_TOKENS) * TOKEN_CHARACTERS)
        if len(statement) < len(state(hit.node)) and budget_tokens < LEAST_TOKENS:
            break
        bullets.append(ContextItem(text=statement, evidence_id=hit.node.id, score=hit.score))
        kept.append(hit.node)
        budget_tokens -= -(-len(statement) // TOKEN_CHARACTERS)
    return ContextPacket(
        query=text,
        bullets=tuple(bullets),
        unknowns=find_unknowns(text, kept),
        assumptions=tuple(assumption for node in kept if (assumption := _assume(node))),
    )


def is_asked_for(node: Node, terms: Collection[str]) -> bool:
    """Whether a node may be told to whoever asks about ``terms``: what an agent is only where it is named."""
    return node.kind != "agent" or stem(node.title) in terms


def rank_hits(hits: Iterable[Hit]) -> list[Hit]:
    """The hits on nodes that are not retired, each node once, best first."""
    best: dict[str, Hit] = {}
    for hit in sorted(hits, key=lambda hit: -hit.score):
        if not hit.node.retired_version:
            best.setdefault(hit.node.id, hit)
    return list(best.values())


def find_unknowns(text: str, nodes: Iterable[Node]) -> tuple[str, ...]:
    """The telling words of ``text`` that stand in none of ``nodes``, title, body and tags."""
    covered = frozenset[str]().union(*(stems_of(node) for node in nodes))
    return tuple(word for stem, word in find_terms(text).items() if stem not in covered)


def stems_of(node: Node) -> frozenset[str]:
    """The stems of all words of a node."""
    return find_stems(f"{node.title} {node.body} {' '.join(node.tags)} {node.kind}")


def state(node: Node) -> str:
    """The node in one paragraph: its title, and its body where that says more."""
    title, body = " ".join(node.title.split()), " ".join(node.body.split())
    if not body or body == title:
        return title
    if body.startswith(title.rstrip("….")):
        return body
    return f"{title}{'' if title[-1] in '.!?:' else ':'} {body}"


def cut(text: str, characters: int) -> str:
    """``text``, or as many whole words of it as fit, with a mark that there was more."""
    if len(text) <= characters:
        return text
    return re.sub(r"\s+\S*$", "", text[: max(characters - 1, 1)]) + "…"


def _assume(node: Node) -> str:
    title = cut(" ".join(node.title.split()), 80)
    now = datetime.now(UTC)
    if node.valid_to and _moment(node.valid_to) < now:
        return f"{title!r} was valid until {node.valid_to[:10]}"
    remembered = node.updated_at or node.created_at
    if remembered and now - _moment(remembered) > OLD:
        return f"{title!r}, remembered on {remembered[:10]}, still holds"
    return ""


def _moment(timestamp: str) -> datetime:
    moment = datetime.fromisoformat(timestamp)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
