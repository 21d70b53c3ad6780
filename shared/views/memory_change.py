"""A change of memory as a person sends it, and who says what memory holds."""

from typing import Literal

import msgspec

from shared import subjects
from shared.contracts import Edge, EdgeKey, Node


def author_of(node: Node) -> str:
    """Who says it: a person by name if it is known, else ``user``; an agent; empty for files of nobody."""
    named = node.source.agent == subjects.USER and node.metadata.get("person")
    return str(named or node.source.agent)


class MemoryChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be changed in memory, all of it or nothing: nodes and edges to add or change, nodes to
    retire, edges to remove. ``insist`` skips the write gate; under one ``id`` it is stored once. ``audience``
    is for whom the nodes are: the one who writes or the team; empty: for whom they were, and new ones of one
    of several people for that one.
    """

    id: str = ""
    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()
    retire: tuple[str, ...] = ()
    unlink: tuple[EdgeKey, ...] = ()
    insist: bool = False
    audience: Literal["", "me", "team"] = ""
