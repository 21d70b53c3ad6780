"""A change of memory as a person sends it, and who says what memory holds."""

import msgspec

from shared import subjects
from shared.contracts import Edge, EdgeKey, Node


def author_of(node: Node) -> str:
    """Who says it: a person by name if it is known, else ``user``; an agent; empty for files of nobody."""
    named = node.source.agent == subjects.USER and node.metadata.get("person")
    return str(named or node.source.agent)


class MemoryChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be changed in memory, all of it or nothing: nodes and edges to add or change, nodes to
    retire, edges to remove. ``insist`` skips the write gate; under one ``id`` it is stored once.
    """

    id: str = ""
    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()
    retire: tuple[str, ...] = ()
    unlink: tuple[EdgeKey, ...] = ()
    insist: bool = False
