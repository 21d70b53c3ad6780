"""Who wrote what: what an agent writes carries its name, and what others wrote it can only dispute."""

import hashlib
from typing import Any

import msgspec

from services.memory.graph.decay import is_exempt
from shared import subjects
from shared.contracts import Edge, MemoryWrite, Node, Relation
from shared.contracts.base import amended

TRUSTED = frozenset({subjects.USER, subjects.MEMORY_DAEMON})
"""Who may change everything, and name another author: people (imports), memory itself (files, links)."""

PROPOSAL = "proposal"
"""``provenance["by"]`` of an edge that stands for a change which only another may make."""


def author_of(write: MemoryWrite) -> str:
    """Whose a write is: its sender's, or a person's if the front desk keeps what one told it."""
    kept = write.sender == subjects.NEXUS and write.asker == subjects.USER
    return subjects.USER if kept else write.sender


def sign_node(node: Node, sender: str) -> Node:
    """The node with its author: an agent's own is its own, people and memory may name any author or none.

    How often and when it was shown, and when it was changed, is what memory knows, whatever an agent says.
    """
    if not sender or sender in TRUSTED:
        return node
    source = msgspec.structs.replace(node.source, agent=sender)
    return amended(node, source=source, access_count=0, last_accessed_at="", updated_at="")


def sign_edge(edge: Edge, sender: str) -> Edge:
    """The edge with who made it, in ``provenance["agent"]``; an agent's without times of its own."""
    if not sender or sender in TRUSTED:
        return edge
    return amended(edge, provenance={**edge.provenance, "agent": sender}, created_at="", touched_at="")


def require_counter(write: MemoryWrite) -> None:
    """Raise ValueError if an agent counts how often nodes were shown."""
    if write.accessed and write.sender and write.sender not in TRUSTED:
        raise ValueError("memory counts itself how often a node was shown: leave out 'accessed'")


def may_change(sender: str, node: Node) -> bool:
    """Whether a sender may replace, supersede or retire a node: its author, people and memory may."""
    return sender in TRUSTED or node.source.agent == sender


def may_change_edge(sender: str, edge: Edge, start: Node | None) -> bool:
    """The same for an edge; one of nobody's is people's if it was made on purpose, else its ``start``'s."""
    if sender in TRUSTED:
        return True
    if author := edge.provenance.get("agent"):
        return bool(author == sender)
    return not is_exempt(edge.provenance) and start is not None and start.source.agent == sender


def propose_retiring(node: Node, sender: str, stamp: str) -> Node:
    """What stands for a wish of ``sender``, made at ``stamp``, that another's node be retired."""
    title = f"{sender} proposes to retire: {node.title}"[:256]
    return Node(title=title, kind="observation", importance=node.importance, created_at=stamp)


def proposal_id(sender: str, node_id: str) -> str:
    """The id of a sender's proposal for a node: one each, so that the next one replaces it."""
    return f"proposal-{hashlib.sha256(f'{sender} {node_id}'.encode()).hexdigest()[:32]}"


def dispute(proposal: str, node_id: str, what: str, weight: float = 1.0) -> Edge:
    """The edge that proposes ``what`` (replace, retire, supersede) for a node."""
    provenance: dict[str, Any] = {"by": PROPOSAL, "proposes": what}
    return Edge(
        from_id=proposal, to_id=node_id, relation=Relation.CONTRADICTS, weight=weight, provenance=provenance
    )
