"""The state that a node or an edge has after it was written, from the state before."""

from operator import attrgetter

from shared.contracts import Edge, Node
from shared.contracts.base import amended

MAX_TAG = 128
"""The longest tag, in characters."""

MAX_COUNT = 2**63 - 1
"""The largest count that a table holds."""

_content = attrgetter(
    *"kind title body tags metadata source importance valid_from valid_to retired_version".split()
)
"""What tells one state of a node from another; the rest says when it was written and read."""


def check_node(node: Node) -> None:
    """Raise ValueError naming the field where a table could not hold what the contract admits."""
    if node.access_count > MAX_COUNT:
        raise ValueError(f"access_count must be at most {MAX_COUNT}, not {node.access_count}")
    for tag in node.tags:
        if len(tag) > MAX_TAG or not tag.strip():
            raise ValueError(f"tags must be 1 to {MAX_TAG} characters each, not {tag[:40]!r}")


def merge_node(
    node: Node, old: Node | None, version: int, written_at: str, seen: tuple[int, str] = (0, "")
) -> Node:
    """A node as it is stored: without embedding, and with what the ``old`` one keeps.

    ``seen`` is how often that was shown so far, and when last.
    """
    if old is None:
        return amended(node, created_version=version, version=version, retired_version=0, embedding=())
    return amended(
        node,
        created_at=old.created_at,
        updated_at=node.updated_at or written_at,
        created_version=old.created_version,
        version=version,
        retired_version=0,
        embedding=(),
        access_count=max(node.access_count, seen[0]),
        last_accessed_at=max(node.last_accessed_at, seen[1]),
    )


def is_same(node: Node, old: Node) -> bool:
    """Whether they say the same."""
    return bool(_content(node) == _content(old))


def merge_edge(edge: Edge, old: Edge | None, version: int, stamp: str) -> Edge:
    """An edge as it is stored, with what the ``old`` one keeps; ``stamp`` is when it is written."""
    return amended(
        edge,
        created_at=old.created_at if old else edge.created_at or stamp,
        touched_at=edge.touched_at or stamp,
        created_version=old.created_version if old else version,
        version=version,
        retired_version=0,
    )


def is_same_edge(edge: Edge, old: Edge) -> bool:
    """Whether writing ``edge`` over ``old`` changes nothing."""
    if edge.touched_at and edge.touched_at != old.touched_at:
        return False
    return edge.weight == old.weight and edge.provenance == old.provenance
