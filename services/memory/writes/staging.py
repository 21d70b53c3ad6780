"""A batch of writes folded into one change of the graph, each taken whole or not at all."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from services.memory.writes.change import (
    MAX_COUNT,
    Change,
    EdgeTuple,
    KnownState,
    LoggedWrite,
    NodeText,
    Vectors,
    check_node,
    embedded_text,
    is_same,
    is_same_edge,
    key_of,
    merge_edge,
    merge_node,
    name_edge,
    read_vectors,
)
from services.memory.writes.gate import (
    TRUSTED,
    author_of,
    dispute,
    may_change,
    may_change_edge,
    proposal_id,
    propose_retiring,
    require_counter,
    require_found,
    sign_edge,
    sign_node,
    writer_of,
)
from shared import subjects
from shared.contracts import Direction, Edge, EdgeKey, MemoryWrite, Node, Relation
from shared.contracts.base import amended
from shared.text.display import drop_unseen

_encoder = msgspec.json.Encoder()


def fold(entries: Sequence[LoggedWrite], known: KnownState, dimensions: int) -> tuple[Change, list[str]]:
    """The change that writes make in their order, and for each its error ("" if it is applied).

    Nothing of a write with an error is in the change. What a write says is applied in this order:

    - nodes: one that is there already is replaced, keeping its created_at, its created_version and the
      higher access_count; a retired one comes back; the same content again changes nothing;
    - edges: they join live nodes, of this write or earlier ones; one that is there gets the new weight,
      provenance and touched_at, and the same again changes nothing; supersedes makes no cycle;
    - unlink and retire: tombstones, marked with the version; a node takes its edges along, and doing it twice
      changes nothing;
    - accessed: counted, without a new state; an error in what an agent writes.

    What an agent writes is signed with its name. A node of another's that it replaces or retires stays, and
    so does one that it supersedes: a proposal, one for each agent and node, contradicts it instead. An edge
    of another's that it writes again stays too, and one that it unlinks makes the write an error, as
    does what is another person's alone.

    A vector counts if the text is new; the daemon's own writes (sender "memory") may name what is gone
    meanwhile: that part of them is skipped.
    """
    staging = Staging(known)
    errors = []
    for entry in entries:
        try:
            staging.apply(entry, read_vectors(entry.write, dimensions))
        except ValueError as error:
            staging.undo()
            errors.append(str(error))
        else:
            errors.append("")
    return staging.change(), errors


OVERTAKEN = "after it was read"
"""How the error of a write of the daemon ends if what it read was changed meanwhile: it is to be repeated."""


class Staging:
    """What is known, overlaid with the states that the batch has made so far.

    ``apply`` changes it at once and keeps what it changed, so that ``undo`` can take back a write that turned
    out bad; both read only what they change, so the cost of a batch is proportional to its size.
    """

    def __init__(self, known: KnownState) -> None:
        self._known = known
        self._nodes: dict[str, Node] = {}
        self._edges: dict[EdgeTuple, Edge] = {}
        self._accessed: dict[str, tuple[int, str]] = {}
        self._texts: dict[str, NodeText] = {}
        self._touching: dict[str, list[EdgeTuple]] = defaultdict(list)
        self._replaced_nodes: list[tuple[Node, int]] = []
        self._replaced_edges: list[tuple[Edge, int]] = []
        self._interim: list[NodeText] = []
        self._taken: dict[str, tuple[int, float]] = {}
        self._proposed: dict[str, tuple[EdgeKey, ...]] = {}
        self._disputes: list[EdgeKey] = []
        self._journal: list[tuple[dict[Any, Any], Any, Any]] = []
        self._marks = (0, 0, 0)

    def apply(self, entry: LoggedWrite, vectors: dict[int, Vectors]) -> None:
        """Apply a write; ``vectors`` by the place of their node. Raises ValueError if it is invalid."""
        self._journal.clear()
        self._disputes = []
        self._marks = (len(self._replaced_nodes), len(self._replaced_edges), len(self._interim))
        write, lenient = entry.write, entry.write.sender == subjects.MEMORY_DAEMON
        if write.id in self._taken:
            return
        require_counter(write)
        if lenient:
            self._require_as_read(write)
        for place, node in enumerate(write.nodes):
            self._apply_node(sign_node(node, author_of(write)), entry, vectors.get(place))
        stamp = datetime.fromtimestamp(entry.stored_at, UTC).isoformat(timespec="microseconds")
        for edge in write.edges:
            self._apply_edge(sign_edge(edge, author_of(write)), entry, stamp, lenient=lenient)
        for key in write.unlink:
            self._unlink((key.from_id, key.to_id, key.relation.value), entry, lenient=lenient)
        for node_id in dict.fromkeys((*write.retire, *write.forget)):
            self._retire(node_id, entry, lenient=lenient)
        self._count_accesses(write, stamp, lenient=lenient)
        self._taken[write.id] = (entry.version, entry.stored_at)
        if self._disputes:
            self._proposed[write.id] = tuple(self._disputes)

    def undo(self) -> None:
        """Take back what the last ``apply`` did before it failed."""
        for mapping, key, old in reversed(self._journal):
            if old is None:
                mapping.pop(key, None)
            else:
                mapping[key] = old
        self._journal.clear()
        nodes, edges, interim = self._marks
        del self._replaced_nodes[nodes:], self._replaced_edges[edges:], self._interim[interim:]

    def change(self) -> Change:
        """What all writes that were taken make together."""
        version, _ = next(reversed(self._taken.values()), (0, 0.0))
        return Change(
            version=version,
            nodes=self._nodes,
            edges=self._edges,
            replaced_nodes=self._replaced_nodes,
            replaced_edges=self._replaced_edges,
            accessed=self._accessed,
            texts_changed={node_id: text.version for node_id, text in self._texts.items()},
            given={node_id: text.vector for node_id, text in self._texts.items() if text.vector is not None},
            interim=self._interim,
            writes=tuple((write_id, version) for write_id, (version, _) in self._taken.items()),
            moments=tuple(moment for _, moment in self._taken.values()),
            proposed=self._proposed,
        )

    def _set(self, mapping: dict[Any, Any], key: Any, value: Any) -> None:
        self._journal.append((mapping, key, mapping.get(key)))
        if value is None:
            mapping.pop(key, None)
        else:
            mapping[key] = value

    def _node(self, node_id: str) -> Node | None:
        return self._nodes.get(node_id) or self._known.node(node_id)

    def _edge(self, key: EdgeTuple) -> Edge | None:
        """The live edge of a key."""
        edge = self._edges.get(key) or self._known.edge(*key)
        return None if edge is None or edge.retired_version else edge

    def _edges_of(
        self, node_id: str, direction: Direction = "both", relations: tuple[str, ...] = ()
    ) -> list[Edge]:
        """The live edges at a node; possibly more than those asked for."""
        keys = dict.fromkeys(map(key_of, self._known.edges_of(node_id, direction, relations)))
        keys.update(dict.fromkeys(self._touching.get(node_id, ())))
        return [edge for key in keys if (edge := self._edge(key))]

    def _require_as_read(self, write: MemoryWrite) -> None:
        """A write of the daemon must not undo what was written since it read the nodes."""
        for node in write.nodes:
            current = self._node(node.id) if node.version else None
            if current is not None and current.version != node.version:
                raise ValueError(f"{node.id} was written at version {current.version}, {OVERTAKEN}")

    def _apply_node(self, node: Node, entry: LoggedWrite, vector: Vectors | None) -> None:
        check_node(node)
        require_found(node, writer_of(entry.write))
        if not (node.title.isascii() and node.body.isascii()):
            title, body = drop_unseen(node.title), drop_unseen(node.body)
            node = msgspec.structs.replace(node, title=title or node.title, body=body)
        old, seen = self._node(node.id), (0, "")
        require_found(old, writer_of(entry.write))
        if old is not None and not may_change(author_of(entry.write), old):
            if not is_same(amended(node, source=old.source, retired_version=0), old):
                self._propose(node, old, "replace", entry, vector)
            return
        if old is not None:
            seen = self._accessed.get(node.id) or (old.access_count, old.last_accessed_at)
        new = merge_node(node, old, entry.version, entry.write.created_at, seen)
        if new.access_count > seen[0]:
            self._set(self._accessed, node.id, (new.access_count, new.last_accessed_at))
        if old is not None and is_same(new, old):
            return
        _require_json(new.metadata)
        self._set_node(old, new, vector)

    def _propose(
        self, node: Node, old: Node, what: str, entry: LoggedWrite, vector: Vectors | None = None
    ) -> None:
        """Store ``node`` as a proposal of what ``old``, another's node, should become."""
        sender = author_of(entry.write)
        if old.retired_version:
            raise ValueError(f"{old.id} was retired, and {sender} may not bring it back")
        proposal = sign_node(amended(node, id=proposal_id(sender, old.id)), sender)
        self._apply_node(proposal, entry, vector)
        self._dispute(dispute(proposal.id, old.id, what), entry)

    def _dispute(self, edge: Edge, entry: LoggedWrite) -> None:
        self._disputes.append(name_edge(edge))
        mine = sign_edge(edge, author_of(entry.write))
        self._apply_edge(mine, entry, entry.write.created_at, lenient=False)

    def _set_node(self, old: Node | None, new: Node, vector: Vectors | None = None) -> None:
        if old is not None and old.version != new.version:
            self._replaced_nodes.append((old, new.version))
        self._set(self._nodes, new.id, new)
        text = embedded_text(new)
        if old is not None and embedded_text(old) == text:
            return
        earlier = self._texts.get(new.id)
        if earlier is not None and earlier.version != new.version:
            self._interim.append(earlier)
        self._set(self._texts, new.id, NodeText(id=new.id, version=new.version, text=text, vector=vector))

    def _apply_edge(self, edge: Edge, entry: LoggedWrite, stamp: str, *, lenient: bool) -> None:
        key, sender = key_of(edge), author_of(entry.write)
        self._require_ends(key, entry)
        old = self._edge(key)
        if edge.relation is Relation.SUPERSEDES:
            end = self._node(edge.to_id)
            if end is not None and not may_change(sender, end):
                self._dispute(dispute(edge.from_id, edge.to_id, "supersede", edge.weight), entry)
                return
        if old is None:
            if error := self._refuse_edge(edge):
                if lenient:
                    return
                raise ValueError(error)
        elif is_same_edge(edge, old) or not self._may_change(sender, old):
            return
        new = merge_edge(edge, old, entry.version, stamp)
        _require_json(new.provenance)
        self._set_edge(key, new)

    def _require_ends(self, key: EdgeTuple, entry: LoggedWrite) -> None:
        """An edge tells its writer that both of its ends exist."""
        for end in key[:2]:
            if end in self._nodes or not self._known.is_live(end):
                require_found(self._node(end), writer_of(entry.write))

    def _refuse_edge(self, edge: Edge) -> str:
        """Why an edge cannot be made; empty if it can."""
        for field, end in (("from", edge.from_id), ("to", edge.to_id)):
            if end not in self._nodes and self._known.is_live(end):
                continue
            node = self._node(end)
            if node is None:
                return f"an edge cannot lead {field} {end}, which is not in memory"
            if node.retired_version:
                return (
                    f"an edge cannot lead {field} {end}, which was retired at version {node.retired_version}"
                )
        if edge.relation is Relation.SUPERSEDES and self._supersedes(edge.to_id, edge.from_id):
            return f"edge from {edge.from_id} to {edge.to_id} would close a cycle of supersedes"
        return ""

    def _supersedes(self, later: str, earlier: str) -> bool:
        """Whether ``later`` supersedes ``earlier``, itself or through others."""
        seen, ahead = {later}, [later]
        while ahead:
            here = ahead.pop()
            for edge in self._edges_of(here, "out", (Relation.SUPERSEDES,)):
                if edge.relation is Relation.SUPERSEDES and edge.from_id == here and edge.to_id not in seen:
                    seen.add(edge.to_id)
                    ahead.append(edge.to_id)
        return earlier in seen

    def _set_edge(self, key: EdgeTuple, new: Edge) -> None:
        staged = self._edges.get(key)
        old = staged or self._known.edge(*key)
        if old is not None and old.version != new.version:
            self._replaced_edges.append((old, new.version))
        if staged is None:
            self._touching[key[0]].append(key)
            self._touching[key[1]].append(key)
        self._set(self._edges, key, new)

    def _may_change(self, sender: str, edge: Edge) -> bool:
        return may_change_edge(sender, edge, self._node(edge.from_id) if sender not in TRUSTED else None)

    def _unlink(self, key: EdgeTuple, entry: LoggedWrite, *, lenient: bool) -> None:
        self._require_ends(key, entry)
        edge, sender = self._edge(key), author_of(entry.write)
        if edge is not None:
            if not self._may_change(sender, edge):
                raise ValueError(
                    f"the edge {key[0]} -{key[2]}-> {key[1]} is another's: {sender} may not take it out"
                )
            self._remove_edge(edge, entry.version)
        elif not lenient:
            raise ValueError(
                f"the edge {key[0]} -{key[2]}-> {key[1]} is not in memory, so it cannot be taken out"
            )

    def _remove_edge(self, edge: Edge, version: int) -> None:
        self._set_edge(key_of(edge), amended(edge, retired_version=version, version=version))

    def _retire(self, node_id: str, entry: LoggedWrite, *, lenient: bool) -> None:
        node, version = self._node(node_id), entry.version
        require_found(node, writer_of(entry.write))
        if node is None:
            if not lenient:
                raise ValueError(f"{node_id} is not in memory, so it cannot be retired")
        elif node.retired_version:
            return
        elif not may_change(author_of(entry.write), node):
            wish = propose_retiring(node, author_of(entry.write), entry.write.created_at)
            self._propose(wish, node, "retire", entry)
        else:
            self._set_node(node, amended(node, retired_version=version, version=version))
            for edge in self._edges_of(node_id):
                self._remove_edge(edge, version)

    def _count_accesses(self, write: MemoryWrite, stamp: str, *, lenient: bool) -> None:
        for node_id, count in write.accessed.items():
            node = self._node(node_id)
            if node is None:
                if not lenient:
                    raise ValueError(f"{node_id} is not in memory, so it cannot be counted as read")
            elif count:
                before, _ = self._accessed.get(node_id) or (node.access_count, "")
                self._set(self._accessed, node_id, (min(before + count, MAX_COUNT), stamp))


def _require_json(value: dict[str, Any]) -> None:
    """Raise ValueError for what is nested so deeply that it can be read and not be written."""
    if not value:
        return
    try:
        _encoder.encode([[[[[[[[value]]]]]]]])  # some levels to spare for wherever it is written
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"the write has no JSON form: {error}") from None
