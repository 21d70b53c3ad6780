"""What goes into a batch, what comes out of it, and what it must know."""

from collections.abc import Callable, Collection, Iterable

import msgspec
import numpy as np
from numpy.typing import NDArray

from shared.contracts import Direction, Edge, MemoryWrite, Node

EdgeTuple = tuple[str, str, str]
"""from, to, relation."""

Vectors = NDArray[np.float32]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A write, the graph version that is its own (its sequence in the log), and when it was stored there."""

    version: int
    stored_at: float
    write: MemoryWrite


class Text(msgspec.Struct, frozen=True, kw_only=True):
    """The text that a node has had since ``version``, and the vector that came with it, if any."""

    id: str
    version: int
    text: str
    vector: Vectors | None = None


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What one commit changes: the states that nodes and edges have after it, each with its ``version``.

    ``version`` and ``moment`` are those of the last write. Nodes hold no embedding. ``replaced_nodes`` and
    ``replaced_edges`` are the states before, each with the version that ended it, also those that began and
    ended within this batch. ``accessed`` has new totals and times. ``texts_changed`` are the nodes that need
    a vector, with the version since which they have their text; ``given`` are vectors of those that came with
    one; ``interim`` are texts that were replaced within the batch (their vectors are for "as of" alone).
    ``writes`` are ids and versions of what was taken, ``moments`` the time of each.
    """

    version: int
    moment: float
    nodes: dict[str, Node]
    edges: dict[EdgeTuple, Edge]
    replaced_nodes: list[tuple[Node, int]]
    replaced_edges: list[tuple[Edge, int]]
    accessed: dict[str, tuple[int, str]]
    texts_changed: dict[str, int]
    given: dict[str, Vectors]
    interim: list[Text]
    writes: tuple[tuple[str, int], ...]
    moments: tuple[float, ...]


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """How to look up what memory holds already.

    ``node`` gives the node of an id (retired ones too, accesses counted), ``edge`` the live edge from, to and
    of a relation, ``edges_of`` the live edges at a node: those "out" of it, "in" to it or "both", of the
    relations given or of all. ``is_live`` may say quickly of a node that it is there and not retired; where
    it does not say so, ``node`` is asked.
    """

    node: Callable[[str], Node | None]
    edge: Callable[[str, str, str], Edge | None]
    edges_of: Callable[[str, Direction, Collection[str]], Iterable[Edge]]
    is_live: Callable[[str], bool] = lambda _: False


def embedded_text(node: Node) -> str:
    """What a node's vector is made of: title, then body; tags and metadata tell little of meaning."""
    return join_text(node.title, node.body)


def join_text(title: str, body: str) -> str:
    """The text of a node with this title and body."""
    return f"{title}\n{body}" if body else title
