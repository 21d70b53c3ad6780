"""What a node is worth in a briefing: importance x weight x recency, and whether it holds at all."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from services.memory.graph.decay import parse_time
from shared.contracts import Node

if TYPE_CHECKING:
    from services.memory.retrieval.node_index import NodeColumns

MIN_IMPORTANCE = 0.3
"""Below this nothing is shown but the agent's own node."""

MIN_WEIGHT = 0.2
"""Edges below this effective weight are not followed."""

OWN_WEIGHT = 0.5
"""The weight of what the agent wrote or is tagged with, if no edge joins the two."""

BASE_WEIGHT = 0.3
"""The weight of what concerns all agents, or is near the agent, if no edge joins the two."""

LOW = 0.4
"""The importance and weight below which, together, a fact is of low confidence."""

OTHERS_WEIGHT = 0.2
"""The weight of what is tagged with other agents' names."""

DAILY_RATES = {
    "event": 0.05,
    "observation": 0.04,
    "fact": 0.01,
    "decision": 0.005,
    "pattern": 0.005,
    "preference": 0.005,
}
"""The recency that a node of a kind loses a day: events age in weeks, decisions in months."""

OTHER_RATE = 0.02
"""The same for all other kinds."""

DAY = 86_400.0
"""Seconds."""

REVIEW_TAGS = ("review", "needs-review")
"""Tags that ask for a review of a node."""


def rank(node: Node, weight: float, moment: float) -> float:
    """importance x weight x recency, in 0..1; recency is e^(-daily rate of its kind x days since its last
    change).

    How often a node was read counts for nothing here, so that serving a briefing does not change the next
    one.
    """
    days = max(0.0, moment - changed_at(node)) / DAY
    return node.importance * weight * math.exp(-daily_rate(node) * days)


def rank_all(nodes: "NodeColumns", weights: NDArray[np.float64], moment: float) -> NDArray[np.float64]:
    """The same of many, each with its weight."""
    rates = np.full(len(weights), OTHER_RATE)
    for kind, rate in DAILY_RATES.items():
        rates[nodes.of_kinds(kind)] = rate
    days = np.maximum(0.0, moment - nodes.column("changed")) / DAY
    ranks: NDArray[np.float64] = nodes.column("importance") * weights * np.exp(-rates * days)
    return ranks


def daily_rate(node: Node) -> float:
    """How much of its recency it loses a day."""
    return DAILY_RATES.get(node.kind, OTHER_RATE)


def changed_at(node: Node) -> float:
    """When it was last written, in seconds since the epoch."""
    return parse_time(node.updated_at or node.created_at)


def is_current(node: Node, moment: float) -> bool:
    """Whether a node is not retired and ``moment`` lies in the time it is valid for."""
    return (
        not node.retired_version
        and not (node.valid_from and parse_time(node.valid_from) > moment)
        and not (node.valid_to and parse_time(node.valid_to) <= moment)
    )


def is_flagged(node: Node, *, but: str = "") -> bool:
    """Whether its metadata asks for a review: ``review``, ``needs_review`` or (by the linker) ``flag``.

    A value ``but`` does not count.
    """
    values = (node.metadata.get(name) for name in ("review", "needs_review", "flag"))
    return any(_is_set(value) for value in values if not but or value != but)


def is_uncertain(node: Node) -> bool:
    """Whether it is a fact whose metadata say that it is of low ``confidence``: under 0.5, or "low"."""
    confidence = node.metadata.get("confidence")
    if isinstance(confidence, int | float) and not isinstance(confidence, bool):
        return node.kind == "fact" and confidence < 0.5
    return node.kind == "fact" and confidence == "low"


def _is_set(flag: Any) -> bool:
    return bool(flag) and str(flag).lower() not in ("false", "no", "0")
