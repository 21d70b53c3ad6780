"""Memory: nodes, edges, briefings, and what is asked of the daemon."""

from enum import StrEnum
from typing import Any

import msgspec

from shared.contracts.base import (
    Contract,
    Envelope,
    generate_id,
    generate_iso_timestamp,
    require_count,
    require_name,
    require_text,
    require_timestamp,
    require_token,
    require_unit,
)


class Relation(StrEnum):
    """How one node bears on another."""

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

    id: str = msgspec.field(default_factory=generate_id)
    kind: str = "fact"
    title: str
    body: str = ""
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    source: Source = Source()
    importance: float = 0.5
    access_count: int = 0
    last_accessed_at: str = ""
    created_at: str = msgspec.field(default_factory=generate_iso_timestamp)
    updated_at: str = ""
    valid_from: str = ""
    valid_to: str = ""
    created_version: int = 0
    version: int = 0
    retired_version: int = 0
    embedding: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        require_token("id", self.id)
        require_name("kind", self.kind)
        require_text("title", self.title, 256)
        if len(self.tags) > 32:
            raise ValueError(f"tags has {len(self.tags)} entries; the limit is 32")
        if len(self.body) > 1_000_000:
            raise ValueError(f"body has {len(self.body):,} characters; the limit is 1,000,000")
        require_unit("importance", self.importance)
        if min(self.access_count, self.created_version, self.version, self.retired_version) < 0:
            for field in ("access_count", "created_version", "version", "retired_version"):
                require_count(field, getattr(self, field))
        for field in ("created_at", "updated_at", "last_accessed_at", "valid_from", "valid_to"):
            if value := getattr(self, field):
                require_timestamp(field, value)


class Edge(Contract, frozen=True, kw_only=True):
    """A weighted relation between two nodes; (from, to, relation) is unique.

    ``weight`` held at ``touched_at``, when the edge was last written or reinforced; edges that are not
    manual lose weight from then on. ``created_version``, ``version`` (of the last write) and
    ``retired_version`` (0: it is there) are graph versions, which the daemon sets, as it does both times
    where they are empty.
    """

    from_id: str = msgspec.field(name="from")
    to_id: str = msgspec.field(name="to")
    relation: Relation = Relation.RELATED_TO
    weight: float = 1.0
    provenance: dict[str, Any] = msgspec.field(default_factory=lambda: {"by": "manual"})
    created_at: str = ""
    touched_at: str = ""
    created_version: int = 0
    version: int = 0
    retired_version: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_token("from", self.from_id)
        require_token("to", self.to_id)
        require_unit("weight", self.weight)
        if self.from_id == self.to_id:
            raise ValueError("to must be another node than from")
        for field in ("created_version", "version", "retired_version"):
            require_count(field, getattr(self, field))
        for field in ("created_at", "touched_at"):
            if value := getattr(self, field):
                require_timestamp(field, value)


class EdgeKey(Contract, frozen=True, kw_only=True):
    """What tells an edge from all others."""

    from_id: str = msgspec.field(name="from")
    to_id: str = msgspec.field(name="to")
    relation: Relation = Relation.RELATED_TO

    def __post_init__(self) -> None:
        super().__post_init__()
        require_token("from", self.from_id)
        require_token("to", self.to_id)


VECTOR_NUMBER = 4
"""Bytes of one number of a vector, as float32 has them."""


class MemoryWrite(Envelope, frozen=True, kw_only=True, tag="memory_write.v1"):
    """Nodes and edges to store, nodes to retire, edges to remove; applied whole, once, however often sent.

    ``vectors``, if given, holds the nodes' embeddings in their order as little-endian float32, base64 in
    JSON: a quarter of the size of ``Node.embedding``. ``accessed`` counts how often nodes were shown to
    somebody. ``insist`` stores what the write gate would refuse.
    """

    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()
    retire: tuple[str, ...] = ()
    unlink: tuple[EdgeKey, ...] = ()
    accessed: dict[str, int] = {}
    vectors: bytes = b""
    insist: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.nodes or self.edges or self.retire or self.unlink or self.accessed):
            raise ValueError("nodes, edges, retire, unlink or accessed must have at least one entry")
        for node_id in self.retire:
            require_token("retire", node_id)
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
    """Why the write gate keeps something out: the ``check`` that failed, and what to do about it.

    ``existing`` is the node that says it already, where that is the reason.
    """

    check: str
    reason: str
    suggestion: str = ""
    existing: Node | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_name("check", self.check)
        require_text("reason", self.reason)


class MemoryWritten(Envelope, frozen=True, kw_only=True, tag="memory_written.v1"):
    """The answer to a MemoryWrite, given once it is on disk; ``error`` says why nothing was stored.

    ``rejection`` tells more where it was the write gate that refused it.
    """

    ids: tuple[str, ...] = ()
    version: int = 0
    error: str = ""
    rejection: Rejection | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("version", self.version)


class MemoryRefused(Envelope, frozen=True, kw_only=True, tag="memory_refused.v1"):
    """The daemon's record in the log that it refused the write ``cause``, so that a rebuild leaves it out."""

    error: str
    rejection: Rejection | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_token("cause", self.cause)
        require_text("error", self.error)


class GraphVersion(Envelope, frozen=True, kw_only=True, tag="graph_version.v1"):
    """Memory changed: its new version, and the kinds, agents and ids that the change touched.

    Without any of them it is not known what was touched: memory was killed before it could say.
    """

    version: int
    kinds: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("version", self.version)


class BriefingSection(Contract, frozen=True, kw_only=True):
    """One titled part of a briefing, best nodes first."""

    title: str
    nodes: tuple[Node, ...] = ()
    omitted: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_text("title", self.title, 200)
        require_count("omitted", self.omitted)


class Briefing(Envelope, frozen=True, kw_only=True, tag="briefing.v1"):
    """What an agent needs to know, made at graph version ``version`` from ``nodes_consulted`` nodes."""

    agent: str
    version: int
    sections: tuple[BriefingSection, ...] = ()
    nodes_consulted: int = 0
    generated_at: str = msgspec.field(default_factory=generate_iso_timestamp)
    text: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_name("agent", self.agent)
        require_count("version", self.version)
        require_count("nodes_consulted", self.nodes_consulted)
        require_timestamp("generated_at", self.generated_at)
