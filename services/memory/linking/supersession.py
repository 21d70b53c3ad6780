"""Supersession: a newer claim about the same thing ends the older one."""

import msgspec

from services.memory.linking.claims import is_open, start_of, text_of
from services.memory.linking.similarity import LINK
from services.memory.linking.values import find_value
from services.memory.linking.wording import read, share
from shared.contracts import Edge, Node, Relation

SUPERSEDE = 0.98
"""The cosine from which a changed value counts whatever the verb (issue 3)."""

TITLES = 0.9
"""The share of words from which two titles name the same subject."""

SAME_TITLE = 0.85
"""The cosine that texts under one title need: "Meeting notes" stands above many things."""

WEIGHT = 0.9

KINDS = frozenset({"fact", "preference", "decision", "goal"})
"""Kinds that hold until something else does."""


def find_supersession(newer: Node, older: Node, cosine: float, moment: float) -> Edge | None:
    """``newer`` supersedes ``older``: of the same kind (fact, preference, decision, goal), both holding at
    ``moment``, the one since later than the other, and about the same subject: either it gives another value
    for it (see ``find_value``; from LINK on), or the titles are the same to .9 and the texts alike from .85.

    Contradictions and duplicates are to be looked for first.
    """
    if cosine < LINK or newer.kind != older.kind or newer.kind not in KINDS:
        return None
    if not (is_open(newer, moment) and is_open(older, moment)) or start_of(newer) <= start_of(older):
        return None
    rule = find_value(text_of(newer), text_of(older), nearly_same=cosine >= SUPERSEDE)
    if not rule and cosine >= SAME_TITLE and have_same_title(newer, older):
        rule = "title"
    if not rule:
        return None
    provenance = {"by": "supersession", "rule": rule, "score": round(min(1.0, cosine), 4)}
    return Edge(
        from_id=newer.id, to_id=older.id, relation=Relation.SUPERSEDES, weight=WEIGHT, provenance=provenance
    )


def end(older: Node, newer: Node) -> Node:
    """``older`` as no longer holding since ``newer`` does."""
    return msgspec.structs.replace(
        older,
        valid_to=newer.valid_from or newer.created_at,
        updated_at=older.updated_at or older.created_at,
    )


def have_same_title(one: Node, other: Node) -> bool:
    """Whether both have a body under a title of at least two words, the titles sharing .9 of these and all
    numbers, and do not come from different files or the same session, where a title is a heading.
    """
    if not (one.body and other.body) or one.metadata.get("path") != other.metadata.get("path"):
        return False
    if one.source.session and one.source.session == other.source.session:
        return False
    first, second = read(one.title), read(other.title)
    words = set(first.content), set(second.content)
    return min(map(len, words)) >= 2 and first.numbers == second.numbers and share(*words) >= TITLES
