"""Memory: nodes, edges, writes, versions and briefings."""

from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec

from shared.contracts.base import (
    AgentName,
    Contract,
    Count,
    Envelope,
    Hash,
    OptionalName,
    OptionalTimestamp,
    Text,
    Timestamp,
    Token,
    Unit,
    at_most,
    generate_id,
    generate_iso_timestamp,
    require_count,
    require_token,
    text_up_to,
)


class Relation(StrEnum):
    """The relation of one node to another."""

    INFORMED_BY = "informed_by"
    LED_TO = "led_to"
    APPLIES_TO = "applies_to"
    CONTRADICTS = "contradicts"
    SUPERSEDES = "supersedes"
    DEPENDS_ON = "depends_on"
    RELATED_TO = "related_to"
    INSTANCE_OF = "instance_of"


KINDS = (
    "agent",
    "decision",
    "fact",
    "event",
    "goal",
    "preference",
    "pattern",
    "observation",
    "task",
    "episodic",
)
"""The kinds the office itself uses; any other lower-case name is a kind of the user's own."""


class Source(Contract, frozen=True, kw_only=True):
    """Who remembered it, in which session, and through which channel."""

    agent: str = ""
    session: str = ""
    channel: str = ""


class Node(Contract, frozen=True, kw_only=True):
    """One remembered thing.

    ``importance`` lies in 0..1, ``title`` has at most 256 characters, there are at most 32 tags;
    ``created_version``, ``version`` (of the last write) and ``retired_version`` (0: not retired) are graph
    versions, which the daemon sets; ``embedding`` is a unit vector, or empty for the daemon to fill in.
    """

    id: Token = msgspec.field(default_factory=generate_id)
    kind: AgentName = "fact"
    title: Annotated[str, text_up_to(256)]
    body: Annotated[str, at_most(1_000_000)] = ""
    tags: Annotated[tuple[str, ...], at_most(32, "entries")] = ()
    metadata: dict[str, Any] = {}
    source: Source = Source()
    importance: Unit = 0.5
    access_count: Count = 0
    last_accessed_at: OptionalTimestamp = ""
    created_at: OptionalTimestamp = msgspec.field(default_factory=generate_iso_timestamp)
    updated_at: OptionalTimestamp = ""
    valid_from: OptionalTimestamp = ""
    valid_to: OptionalTimestamp = ""
    created_version: Count = 0
    version: Count = 0
    retired_version: Count = 0
    embedding: tuple[float, ...] = ()


class Edge(Contract, frozen=True, kw_only=True):
    """A weighted relation between two nodes; (from, to, relation) is unique.

    ``weight`` held at ``touched_at``, when the edge was last written or reinforced; edges that are not
    manual lose weight from then on. ``created_version``, ``version`` (of the last write) and
    ``retired_version`` (0: it is there) are graph versions, which the daemon sets, as it does both times
    where they are empty.
    """

    from_id: Token = msgspec.field(name="from")
    to_id: Token = msgspec.field(name="to")
    relation: Relation = Relation.RELATED_TO
    weight: Unit = 1.0
    provenance: dict[str, Any] = msgspec.field(default_factory=lambda: {"by": "manual"})
    created_at: OptionalTimestamp = ""
    touched_at: OptionalTimestamp = ""
    created_version: Count = 0
    version: Count = 0
    retired_version: Count = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.from_id == self.to_id:
            raise ValueError("to must be another node than from")


class EdgeKey(Contract, frozen=True, kw_only=True):
    """The key of an edge."""

    from_id: Token = msgspec.field(name="from")
    to_id: Token = msgspec.field(name="to")
    relation: Relation = Relation.RELATED_TO


VECTOR_NUMBER = 4  # Bytes of one number of a vector, as float32 has them


class MemoryWrite(Envelope, frozen=True, kw_only=True, tag="memory_write.v1"):
    """Nodes and edges to store, nodes to retire, edges to remove; applied whole, once, however often sent.

    ``vectors``, if given, holds the nodes' embeddings in their order as little-endian float32, base64 in
    JSON: a quarter of the size of ``Node.embedding``. ``accessed`` counts how often nodes were read.
    ``insist`` skips the write gate. ``forget`` is a person's order alone: these nodes are retired, and their
    texts erased from the store, the log and the audit. ``asker`` is ``user`` if the front desk keeps what a
    person told it, which then is that person's; from others it does not count.
    """

    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()
    retire: tuple[Token, ...] = ()
    forget: tuple[Token, ...] = ()
    unlink: tuple[EdgeKey, ...] = ()
    accessed: dict[str, int] = {}
    vectors: bytes = b""
    insist: bool = False
    asker: OptionalName = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.nodes or self.edges or self.retire or self.forget or self.unlink or self.accessed):
            raise ValueError("nodes, edges, retire, forget, unlink or accessed must have at least one entry")
        for node_id, count in self.accessed.items():
            require_token("accessed", node_id)
            require_count("accessed", count)
        self._check_vectors()

    def _check_vectors(self) -> None:
        if not self.vectors:
            return
        if not self.nodes or len(self.vectors) % (VECTOR_NUMBER * len(self.nodes)):
            raise ValueError(
                f"vectors has {len(self.vectors):,} bytes, which are no whole numbers of 4 bytes for each of "
                f"{len(self.nodes)} nodes"
            )


class Rejection(Contract, frozen=True, kw_only=True):
    """Why the write gate refused a node: the ``check`` that failed, and a suggestion.

    ``existing`` is the node with the same content, if that is the reason.
    """

    check: AgentName
    reason: Text
    suggestion: str = ""
    existing: Node | None = None


class MemoryWritten(Envelope, frozen=True, kw_only=True, tag="memory_written.v1"):
    """The answer to a MemoryWrite once it is on disk; ``error`` is the reason if nothing was stored.

    ``rejection`` has the details if the write gate refused it. ``proposed`` are the edges that were stored
    instead of a change to another's nodes: each leads from the proposal, a node of the sender's, to the node
    that only its author and people may change.
    """

    ids: tuple[str, ...] = ()
    version: Count = 0
    error: str = ""
    rejection: Rejection | None = None
    proposed: tuple[EdgeKey, ...] = ()


class MemoryRefused(Envelope, frozen=True, kw_only=True, tag="memory_refused.v1"):
    """The daemon's record in the log that it refused the write ``cause``, so that a rebuild leaves it out."""

    error: Text
    rejection: Rejection | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_token("cause", self.cause)


class MemoryErased(Envelope, frozen=True, kw_only=True, tag="memory_erased.v1"):
    """The daemon's record in the log of what stood where a message was erased; ``cause`` is a person's order.

    ``seqs`` are the erased messages of MEMORY: the first is the place of the write or refusal, the others
    were earlier records of the same. ``subject`` and ``time`` are those of that message, ``write`` or
    ``refused`` is what is left of it without the texts: neither, if it is not to be applied.
    """

    seqs: tuple[Count, ...]
    subject: Text
    time: Text
    write: MemoryWrite | None = None
    refused: MemoryRefused | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_token("cause", self.cause)
        if not self.seqs:
            raise ValueError("seqs must have at least one entry")


class MemoryForgotten(Envelope, frozen=True, kw_only=True, tag="memory_forgotten.v1"):
    """The daemon's record in the log that a person's orders are done: nothing holds the texts any more.

    ``cause`` is the last of these orders, ``orders`` are all. ``ids`` are the nodes whose texts were erased,
    ``seqs`` the messages of MEMORY.
    """

    orders: tuple[Token, ...]
    ids: tuple[str, ...] = ()
    seqs: tuple[Count, ...] = ()


class MemoryErasable(Envelope, frozen=True, kw_only=True, tag="memory_erasable.v1"):
    """The daemon's word to the eraser that the messages ``seqs`` of MEMORY are to be erased.

    Each has a MemoryErased by then, whose ``cause`` is the order of a person.
    """

    seqs: tuple[Count, ...]


class ErasureOrder(Envelope, frozen=True, kw_only=True, tag="erasure_order.v1"):
    """What is to be erased in OFFICE: the ``texts`` of ``nodes`` that a person ordered to forget.

    ``cause`` is the order to memory, ``common`` are parts of the texts that are left, since many others have
    them. It is kept where only the eraser and the admin read it, and erased when it is done.
    """

    nodes: tuple[Token, ...]
    texts: tuple[str, ...] = ()
    common: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        require_token("cause", self.cause)
        if not self.nodes:
            raise ValueError("nodes must have at least one entry")


class ErasedMessage(Contract, frozen=True, kw_only=True):
    """A message that was erased: its sequence, and what is known of it without its texts.

    ``leaf`` is the commitment to it that seals are made of: a SHA-256 over all of it, in hexadecimal digits.
    A text cannot be guessed from it, because the salt of the message was erased with it. ``replaced`` says
    that it was stored again without the texts, on its subject.
    """

    seq: Count
    subject: Text
    time: Text
    leaf: Hash
    kind: str = ""
    message_id: str = ""
    replaced: bool = False


class MessagesErased(Envelope, frozen=True, kw_only=True, tag="messages_erased.v1"):
    """The eraser's record in OFFICE of messages of a stream that held what was forgotten; ``cause`` is a
    person's order.

    The first records of an order have the ``messages`` that are about to be erased. Once they are, another
    one has their sequences in ``gone``: of OFFICE alone, since memory has a record of that for MEMORY. What
    was erased in an archive names its ``bundle``.
    """

    stream: Literal["OFFICE", "MEMORY"] = "OFFICE"
    messages: tuple[ErasedMessage, ...] = ()
    gone: tuple[Count, ...] = ()
    bundle: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_token("cause", self.cause)


class GraphVersion(Envelope, frozen=True, kw_only=True, tag="graph_version.v1"):
    """Memory changed: its new version, and the kinds, agents and ids that the change touched.

    If all are empty, the changes are unknown: memory was killed before it published them.
    """

    version: Count
    kinds: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()


class BriefingSection(Contract, frozen=True, kw_only=True):
    """One titled part of a briefing, best nodes first."""

    title: Annotated[str, text_up_to(200)]
    nodes: tuple[Node, ...] = ()
    omitted: Count = 0


class Briefing(Envelope, frozen=True, kw_only=True, tag="briefing.v1"):
    """What an agent needs to know, made at graph version ``version`` from ``nodes_consulted`` nodes."""

    agent: AgentName
    version: Count
    sections: tuple[BriefingSection, ...] = ()
    nodes_consulted: Count = 0
    generated_at: Timestamp = msgspec.field(default_factory=generate_iso_timestamp)
    text: str = ""
