"""What any NATS client may send to be remembered or linked, and whose name it carries."""

import difflib
import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from services.memory.graph.decay import is_exempt
from shared import subjects
from shared.contracts import Edge, MemoryWrite, Node, Relation, Source
from shared.contracts.base import amended
from shared.text.prose import split_title

MAX_ENTRIES = 1_000  # The most nodes or edges of one submission

SHORTHANDS = ("text", "type", "agent", "session", "channel", "insist")
"""What a submitted node may have beside its own fields: ``text`` instead of title and body, ``type`` for
``kind``, the parts of ``source``, and ``insist``, which stores what the write gate would refuse."""
SET_BY_DAEMON = ("created_version", "version", "retired_version", "access_count", "last_accessed_at")
"""Fields that cannot be submitted: memory sets them."""

Made = TypeVar("Made")


def parse_add(data: bytes, sender: str) -> MemoryWrite:
    """The write that adds the submitted node or list of nodes; each has a title or a text, whatever else a
    Node has. Its agent is ``sender``; people may name another one.

    Raises ValueError that names the entry and the field, with the nearest field there is for an unknown one.
    """
    entries = _read_entries(data)
    nodes = _each(entries, lambda entry: _node(entry, sender))
    insist = any(entry.get("insist") is True for entry in entries)
    return MemoryWrite(sender=sender, nodes=tuple(nodes), insist=insist)


def parse_link(data: bytes, sender: str) -> MemoryWrite:
    """The write that adds the submitted edge or list of edges: from, to, and what else an Edge has.

    Raises ValueError as ``parse_add`` does.
    """
    return MemoryWrite(sender=sender, edges=tuple(_each(_read_entries(data), _edge)))


def _read_entries(data: bytes) -> list[dict[str, Any]]:
    try:
        read = msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not valid JSON: {error}") from None
    entries = read if isinstance(read, list) else [read]
    if not 1 <= len(entries) <= MAX_ENTRIES:
        raise ValueError(f"send 1 to {MAX_ENTRIES:,} entries at once, not {len(entries):,}")
    if not all(isinstance(entry, dict) for entry in entries):
        raise ValueError("each entry must be a JSON object")
    return entries


def _each(entries: list[dict[str, Any]], make: Callable[[dict[str, Any]], Made]) -> list[Made]:
    made = []
    for number, entry in enumerate(entries, 1):
        try:
            made.append(make(entry))
        except ValueError as error:
            reason = str(error).replace("`$.", "`")
            raise ValueError(f"entry {number}: {reason}" if len(entries) > 1 else reason) from None
    return made


def _node(entry: Mapping[str, Any], sender: str) -> Node:
    fields = [name for name in Node.__struct_fields__ if name not in SET_BY_DAEMON]
    _require_known(entry, [*fields, *SHORTHANDS])
    given = {name: value for name, value in entry.items() if name not in SHORTHANDS}
    if "text" in entry:
        given |= _entitled(entry)
    if "title" not in given:
        raise ValueError("title is missing: give a title, or a text")
    if "type" in entry:
        given.setdefault("kind", entry["type"])
    if not isinstance(entry.get("insist", False), bool):
        raise ValueError("insist must be true or false")
    return Node.from_dict(given | {"source": _source(entry, sender)})


def _entitled(entry: Mapping[str, Any]) -> dict[str, str]:
    text = entry["text"]
    if "body" in entry:
        raise ValueError("give text or body, not both")
    if not isinstance(text, str) or not text.strip():
        raise ValueError("text must be a non-empty string")
    if "title" in entry:
        return {"body": text}
    title, body = split_title(text)
    return {"title": title, "body": body}


def _source(entry: Mapping[str, Any], sender: str) -> dict[str, Any]:
    source = entry.get("source", {})
    if not isinstance(source, Mapping):
        raise ValueError("source must be an object of agent, session and channel")
    _require_known(source, Source.__struct_fields__, "source.")
    parts = {name: entry[name] for name in Source.__struct_fields__ if name in entry}
    return {"agent": sender, **source, **parts}


def _edge(entry: Mapping[str, Any]) -> Edge:
    fields = [
        field.encode_name
        for field in msgspec.structs.fields(Edge)
        if field.name not in (*SET_BY_DAEMON, "touched_at")
    ]
    _require_known(entry, fields)
    relation = entry.get("relation", Relation.RELATED_TO)
    if relation not in list(Relation):
        raise ValueError(
            f"relation {str(relation)[:40]!r} does not exist; {_nearest(str(relation), Relation)}"
        )
    return Edge.from_dict(dict(entry))


def _require_known(entry: Iterable[str], known: Iterable[str], prefix: str = "") -> None:
    names = list(known)
    for name in entry:
        if name not in names:
            raise ValueError(f"{prefix}{name[:40]} is not a field; {_nearest(name, names)}")


def _nearest(name: str, known: Iterable[str]) -> str:
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!s}?" if near else f"known are {', '.join(names)}"


TRUSTED = frozenset({subjects.USER, subjects.MEMORY_DAEMON})
"""Who may change everything, and name another author: people (imports), memory itself (files, links)."""

PROPOSAL = "proposal"  # ``provenance["by"]`` of an edge that stands for a change which only another may make


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
