"""Which nodes claim something, when they hold, and what of them is compared."""

from services.memory.retrieval.node_table import parse_time
from services.memory.writes.change import embedded_text
from shared.contracts import Node

MOMENTS = frozenset({"agent", "task", "event", "episodic", "turn", "message"})
"""Kinds that stand for somebody or for something that took place: two of them are two, however alike they
are. They neither contradict nor replace one another."""


def claims(node: Node) -> bool:
    """Whether a node says how things are, as facts and decisions do, and the user's own kinds."""
    return node.kind not in MOMENTS


def start_of(node: Node) -> float:
    """Since when it holds, in seconds since the epoch: valid_from, else its creation."""
    return parse_time(node.valid_from or node.created_at)


def is_open(node: Node, moment: float) -> bool:
    """Whether it still holds at ``moment``: it has no valid_to, or a later one."""
    return not node.valid_to or parse_time(node.valid_to) > moment


def text_of(node: Node) -> str:
    """What it says; the text its vector is made of."""
    return embedded_text(node)
