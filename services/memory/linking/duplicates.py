"""Near-duplicates: what says the same becomes one node."""

from collections.abc import Sequence
from typing import Any

import msgspec

from services.memory.linking.claims import claims, text_of
from services.memory.linking.news import find_news
from shared.contracts import Edge, Node

DUPLICATE = 0.92
"""The cosine from which two nodes may be one (issue 3)."""

RICHER_EDGES = 2
"""More than that many times the edges make a node the one that stays."""

RICHER_IMPORTANCE = 0.3
"""So does an importance that is higher by more than this."""

MAX_TAGS = 32


def are_duplicates(one: Node, other: Node, cosine: float) -> bool:
    """Whether two nodes are one: of the same kind, alike from DUPLICATE on, and one of them says nothing that
    the other does not say (see ``find_news``). Neither was ever replaced.

    What took place is one only if it is the same text of the same session and time.
    """
    if cosine < DUPLICATE or one.kind != other.kind or one.valid_to or other.valid_to:
        return False
    if not claims(one):
        return bool(one.source.session) and _occasion(one) == _occasion(other)
    first, second = text_of(one), text_of(other)
    return not (find_news(first, second) and find_news(second, first))


def choose(one: Node, other: Node, degrees: tuple[int, int]) -> tuple[Node, Node]:
    """Which stays and which goes: the one with more than twice the edges, else the one that is more important
    by more than .3, else the one that was there first, whose id others know.
    """
    first, second = degrees
    if first > RICHER_EDGES * second or second > RICHER_EDGES * first:
        return (one, other) if first > second else (other, one)
    if round(abs(one.importance - other.importance), 6) > RICHER_IMPORTANCE:
        return (one, other) if one.importance > other.importance else (other, one)
    stays, goes = sorted((one, other), key=lambda node: (node.created_version, node.created_at, node.id))
    return stays, goes


def merge(stays: Node, goes: Node) -> Node:
    """``stays`` with what ``goes`` has beyond it: its text if that says more, its tags (32 in all), metadata
    that is missing, the higher importance, the earlier beginning; ``merged_from`` names the ids it is made
    of.
    """
    fuller = goes if find_news(text_of(goes), text_of(stays)) else stays
    merged_from = [*_merged(stays), goes.id, *_merged(goes)]
    begins = min(filter(None, (stays.valid_from, goes.valid_from)), default="")
    metadata = {key: value for key, value in {**goes.metadata, **stays.metadata}.items() if key != "flag"}
    return msgspec.structs.replace(
        stays,
        title=fuller.title,
        body=fuller.body,
        tags=tuple(dict.fromkeys((*stays.tags, *goes.tags)))[:MAX_TAGS],
        metadata={**metadata, "merged_from": list(dict.fromkeys(merged_from))},
        importance=max(stays.importance, goes.importance),
        valid_from=begins if stays.valid_from and goes.valid_from else stays.valid_from,
        updated_at=stays.updated_at or stays.created_at,
    )


def move_edges(edges: Sequence[Edge], goes: str, stays: str) -> list[Edge]:
    """The edges of the node that goes as edges of the one that stays, as old and as weighty as they were;
    what joined the two is left out.
    """
    moved = []
    for edge in edges:
        ends = [stays if end == goes else end for end in (edge.from_id, edge.to_id)]
        if ends[0] != ends[1]:
            provenance = {**edge.provenance, "moved_from": goes}
            moved.append(msgspec.structs.replace(edge, from_id=ends[0], to_id=ends[1], provenance=provenance))
    return moved


def _merged(node: Node) -> list[Any]:
    merged = node.metadata.get("merged_from", [])
    return merged if isinstance(merged, list) else []


def _occasion(node: Node) -> tuple[str, ...]:
    return (text_of(node), node.source.session, node.source.agent, node.valid_from or node.created_at)
