"""Links between nodes that are alike."""

from shared.contracts import Edge, Node, Relation

LINK = 0.75
"""The cosine from which two nodes are linked (issue 3); with bge-small half of unrelated pairs lie under
.48."""

MAX_NEIGHBOURS = 30
"""A node with more neighbours than that is alike to everything and tells nothing: it is flagged, not linked.
Of a conversation of 419 turns three in four have more. What takes place is therefore not flagged, and still
linked with what came before and after it; only its likeness to everything else is passed over."""

FLAG = "generic"
"""The value of ``metadata["flag"]`` of such a node."""


def link_similar(newer: Node, older: Node, cosine: float) -> Edge | None:
    """``newer`` related_to ``older`` with the cosine as its weight, from LINK on; None below."""
    if cosine < LINK:
        return None
    weight = round(min(1.0, cosine), 4)
    provenance = {"by": "similarity", "score": weight}
    return Edge(
        from_id=newer.id, to_id=older.id, relation=Relation.RELATED_TO, weight=weight, provenance=provenance
    )


def is_generic(neighbours: int) -> bool:
    """Whether so many neighbours from LINK on make a node generic."""
    return neighbours > MAX_NEIGHBOURS


def is_flagged(node: Node) -> bool:
    """Whether a node was found generic."""
    return node.metadata.get("flag") == FLAG
