"""Memory: nodes, edges, briefings, and what is asked of the daemon."""

from enum import StrEnum
from typing import Any

import msgspec

from shared.contracts.base import (
    Contract,
    Envelope,
    generate_id,
    generate_iso_timestamp,
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
    ``created_version`` and ``retired_version`` are graph versions (0: not retired); ``embedding`` is
    a unit vector, or empty for the daemon to fill in.
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
        for field in ("created_at", "updated_at", "last_accessed_at", "valid_from", "valid_to"):
            if value := getattr(self, field):
                require_timestamp(field, value)


class Edge(Contract, frozen=True, kw_only=True):
    """A weighted relation between two nodes; (from, to, relation) is unique."""

    from_id: str = msgspec.field(name="from")
    to_id: str = msgspec.field(name="to")
    relation: Relation = Relation.RELATED_TO
    weight: float = 1.0
    provenance: dict[str, Any] = msgspec.field(default_factory=lambda: {"by": "manual"})

    def __post_init__(self) -> None:
        super().__post_init__()
        require_token("from", self.from_id)
        require_token("to", self.to_id)
        require_unit("weight", self.weight)
        if self.from_id == self.to_id:
            raise ValueError("to must be another node than from")


class MemoryWrite(Envelope, frozen=True, kw_only=True, tag="memory_write.v1"):
    """Nodes and edges to store, and ids to retire; applied whole, once, however often it is sent."""

    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()
    retire: tuple[str, ...] = ()
    insist: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.nodes or self.edges or self.retire):
            raise ValueError("nodes, edges or retire must have at least one entry")


class MemoryWritten(Envelope, frozen=True, kw_only=True, tag="memory_written.v1"):
    """The answer to a MemoryWrite, given once it is on disk; ``error`` says why nothing was stored."""

    ids: tuple[str, ...] = ()
    version: int = 0
    error: str = ""


class MemoryQuery(Contract, frozen=True, kw_only=True):
    """A search: ``limit`` is 1 to 100; empty filters admit everything."""

    text: str
    limit: int = 10
    kinds: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    agent: str = ""
    since: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_text("text", self.text)
        if not 1 <= self.limit <= 100:
            raise ValueError(f"limit must be between 1 and 100, not {self.limit}")
        if self.since:
            require_timestamp("since", self.since)


class Hit(Contract, frozen=True, kw_only=True):
    """A found node with its score in 0..1 and the parts that made it."""

    node: Node
    score: float
    why: dict[str, float] = {}


class GraphVersion(Envelope, frozen=True, kw_only=True, tag="graph_version.v1"):
    """Memory changed: its new version, and the kinds, agents and ids that the change touched."""

    version: int
    kinds: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.version < 0:
            raise ValueError(f"version must be at least 0, not {self.version}")


class BriefingSection(Contract, frozen=True, kw_only=True):
    """One titled part of a briefing, best nodes first."""

    title: str
    nodes: tuple[Node, ...] = ()
    omitted: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_text("title", self.title, 200)


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
        require_timestamp("generated_at", self.generated_at)
