"""The past of memory: its graph versions, and the states that a node had."""

from typing import Annotated, Literal

from shared.contracts.base import Contract, Count, OptionalTimestamp, Token, between
from shared.contracts.memory import Node

ChangeOfNode = Literal["added", "changed", "forgotten"]


class NodeChange(Contract, frozen=True, kw_only=True):
    """What one write did to a node."""

    id: str
    kind: str
    title: str
    change: ChangeOfNode = "added"


class VersionsQuery(Contract, frozen=True, kw_only=True):
    """A page of graph versions, the latest first: those before ``before``, 0 for the latest of all.

    At most ``limit`` (1 to 200). Writes that only counted accesses are left out.
    """

    before: Count = 0
    limit: Annotated[int, between(1, 200)] = 50


class VersionChange(Contract, frozen=True, kw_only=True):
    """What made a graph version: the write of ``sender`` at ``at``, and what it changed.

    ``person`` is who it was if the sender is ``user`` and gave a name. ``write`` is the id of the write,
    ``cause`` what it answers. ``nodes`` are at most 20 of the ``changed`` ones; ``linked`` and ``unlinked``
    count edges. ``sender`` is empty if the log no longer has the write.
    """

    version: Count
    at: OptionalTimestamp = ""
    sender: str = ""
    person: str = ""
    write: str = ""
    cause: str = ""
    nodes: tuple[NodeChange, ...] = ()
    changed: Count = 0
    linked: Count = 0
    unlinked: Count = 0


class VersionPage(Contract, frozen=True, kw_only=True):
    """A page of versions; ``next`` goes into ``before`` for the following one, and is 0 on the last.

    ``version`` is the present one, ``first`` the oldest that ``at`` can name. A page may be shorter than its
    limit, even empty, although another one follows.
    """

    versions: tuple[VersionChange, ...] = ()
    next: Count = 0
    version: Count = 0
    first: Count = 0


class HistoryQuery(Contract, frozen=True, kw_only=True):
    """The states that a node had, the latest first, at most ``limit`` (1 to 100)."""

    id: Token
    limit: Annotated[int, between(1, 100)] = 50


class NodeState(Contract, frozen=True, kw_only=True):
    """What a node was from graph version ``version`` on, and who wrote that and when.

    ``fields`` are those in which it differs from the state before; ``sender`` and ``person`` as in a
    VersionChange.
    """

    version: Count
    node: Node
    change: ChangeOfNode = "added"
    fields: tuple[str, ...] = ()
    at: OptionalTimestamp = ""
    sender: str = ""
    person: str = ""
    write: str = ""
    cause: str = ""


class NodeHistory(Contract, frozen=True, kw_only=True):
    """The states of a node, the latest first; ``omitted`` counts the older ones that did not fit."""

    id: str
    states: tuple[NodeState, ...] = ()
    omitted: Count = 0
    version: Count = 0
