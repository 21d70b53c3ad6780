"""What the linker has made, edge by edge: which, why, and when."""

from typing import TYPE_CHECKING, Any

from shared.contracts import Edge

if TYPE_CHECKING:
    from services.memory.retrieval.view import View


def list_made(view: "View", limit: int) -> dict[str, Any]:
    """The last ``limit`` edges that were made automatically, newest first, as ``made``.

    Each has its ends with their titles, its weight when it was written, ``by`` and ``rule`` (why), ``score``
    (the cosine, if texts were compared), when it was made, and the graph version it was last written at.
    ``edges_by_kind`` counts all of them, by relation and then by rule.
    """
    edges = view.graph.latest_made(limit)
    titles = {node.id: node.title for node in view.nodes(list({e for edge in edges for e in _ends(edge)}))}
    return {"edges_by_kind": view.graph.count_made(), "made": [_describe(edge, titles) for edge in edges]}


def _ends(edge: Edge) -> tuple[str, str]:
    return edge.from_id, edge.to_id


def _describe(edge: Edge, titles: dict[str, str]) -> dict[str, Any]:
    why: dict[str, Any] = {
        name: edge.provenance[name] for name in ("by", "rule", "score") if name in edge.provenance
    }
    return {
        "from": edge.from_id,
        "from_title": titles.get(edge.from_id, ""),
        "relation": edge.relation.value,
        "to": edge.to_id,
        "to_title": titles.get(edge.to_id, ""),
        "weight": edge.weight,
        **why,
        "made_at": edge.created_at,
        "version": edge.version,
    }
