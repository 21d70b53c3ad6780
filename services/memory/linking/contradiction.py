"""Contradictions: found and flagged, never resolved."""

from services.memory.linking.claims import claims, is_open, text_of
from services.memory.linking.negation import opposed
from shared.contracts import Edge, Node, Relation

CONTRADICTION = 0.80
"""The cosine from which a negation on one side alone makes two claims contradict each other (issue 3)."""


def find_contradiction(newer: Node, older: Node, cosine: float, moment: float) -> Edge | None:
    """``newer`` contradicts ``older``: both are claims that hold at ``moment``, alike from CONTRADICTION on,
    and exactly one of them is negated (see ``opposed``); None otherwise.
    """
    if cosine < CONTRADICTION or not (claims(newer) and claims(older)):
        return None
    if not (is_open(newer, moment) and is_open(older, moment)):
        return None
    if not opposed(text_of(newer), text_of(older)):
        return None
    weight = round(min(1.0, cosine), 4)
    provenance = {"by": "contradiction", "score": weight}
    return Edge(
        from_id=newer.id, to_id=older.id, relation=Relation.CONTRADICTS, weight=weight, provenance=provenance
    )
