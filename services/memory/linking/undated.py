"""Passages of files that bear no date: which of two is newer is not known from what they say."""

from services.memory.graph.decay import parse_time
from services.memory.linking.chances import ASKED, tells_change
from services.memory.linking.text_comparison import jaccard, parse_text
from services.memory.writes.change import embedded_text
from shared.contracts import Node
from shared.memory.ownership import CHANNEL

SHORT = 20
"""The most words of a passage that states one thing: what manuals explain at length is like much near it."""

SURELY = 0.9
"""The chance from which one of them may take the place of another. Of the 3,580 passages of three projects'
manuals, 8 % ended others, none rightly, without it and what else stands here."""

DENIED = 0.5  # The share of words that a text and what denies it have in common

SAVED_AT_ONCE = 30.0  # Seconds within which files are saved that are copied, unpacked or cloned together


def are_undated(one: Node, other: Node) -> bool:
    """Whether both are passages of files that bear no date: they are as old as their files."""
    return all(node.source.channel == CHANNEL and not node.valid_from for node in (one, other))


def doubt_order(newer: Node, older: Node, chance: float) -> float:
    """The ``chance`` that one takes the place of the other, of two of which the files alone tell the order.

    All of a document was true when it was saved, and all files of a copy were saved at once: there only
    what says that something changed takes a place, and the rest is asked about.
    """
    if chance < SURELY:
        return 0.0
    apart = parse_time(newer.created_at) - parse_time(older.created_at) > SAVED_AT_ONCE
    return chance if apart or tells_change(embedded_text(newer)) else ASKED


def are_short(one: Node, other: Node) -> bool:
    """Whether both state one thing; what explains several is not held against others."""
    return all(len((node.body or node.title).split()) <= SHORT for node in (one, other))


def may_deny(one: Node, other: Node) -> bool:
    """Whether a negation in one of them can deny the other: manuals are full of them."""
    words = [set(parse_text(node.body or node.title).content) for node in (one, other)]
    return are_short(one, other) and jaccard(*words) >= DENIED
