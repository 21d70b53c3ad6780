"""The past of memory: what each graph version changed, and what a node was before."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from services.memory.engine import MemoryEngine
from shared import subjects
from shared.contracts import (
    ChangeOfNode,
    HistoryQuery,
    MemoryWrite,
    Node,
    NodeChange,
    NodeHistory,
    NodeState,
    VersionChange,
    VersionPage,
    VersionsQuery,
)
from shared.memory.ownership import is_kept_from, is_person, owner_of

if TYPE_CHECKING:
    import pyarrow as pa


SHOWN = 20  # The most nodes that are named of one version

WINDOW = 200  # The most versions that one request looks at: those that only counted accesses are many

MAX_BYTES = subjects.MAX_PAYLOAD // 2
"""The bytes after which the states of a node are enough, but for the latest one."""

SAME = frozenset(
    {"version", "created_version", "updated_at", "access_count", "last_accessed_at", "embedding"}
)
"""Fields that differ in each state and say nothing about what was changed."""

ReadWrites = Callable[[Sequence[int]], Awaitable[dict[int, MemoryWrite]]]


class PastService:
    """What was changed when, and by whom. ``read_writes`` gives the writes of the log by graph version."""

    def __init__(self, engine: MemoryEngine, read_writes: ReadWrites) -> None:
        self._engine = engine
        self._read_writes = read_writes

    async def versions(self, query: VersionsQuery, reader: str) -> VersionPage:
        """A page of graph versions, the latest first; of what another alone reads only how many."""
        commits = self._engine.ask_commits
        moments = await commits(lambda table: table.versions(query.before, WINDOW))
        first = await commits(lambda table: table.first_version())
        if not moments:
            return VersionPage(version=self._engine.version, first=first)
        last, oldest = moments[0][0], moments[-1][0]
        nodes, edges = await self._engine.ask_store(
            lambda store: (
                store.read_changes("nodes", oldest, last),
                store.read_changes("edges", oldest, last),
            )
        )
        found = _describe(dict(moments), _group(nodes), _group(edges), reader)
        shown = found[: query.limit]
        writes = await self._read_writes([change.version for change in shown])
        end = shown[-1].version if len(found) > query.limit else oldest
        return VersionPage(
            versions=tuple(
                msgspec.structs.replace(change, **_signature(writes.get(change.version))) for change in shown
            ),
            next=end if end > first else 0,
            version=self._engine.version,
            first=first,
        )

    async def history(self, query: HistoryQuery, reader: str) -> NodeHistory:
        """The states of a node that ``reader`` may read, none if there is no such node."""
        from services.memory.retrieval.node_table import NodeRows

        table = await self._engine.ask_store(lambda store: store.read_node(query.id))
        states = {node.version: node for node in NodeRows(table).read(range(table.num_rows))}
        ordered = [states[version] for version in sorted(states) if not is_kept_from(states[version], reader)]
        kept = _fit([*zip([None, *ordered], ordered, strict=False)][::-1][: query.limit])
        writes = await self._read_writes([node.version for _, node in kept])
        told = [
            NodeState(
                version=node.version,
                node=node,
                change=_change_of(node.version, node.created_version, node.retired_version),
                fields=() if before is None else _differing(before, node),
                at=_stamp(await self._engine.moment_of(node.version)),
                **_signature(writes.get(node.version)),
            )
            for before, node in kept
        ]
        return NodeHistory(
            id=query.id, states=tuple(told), omitted=len(ordered) - len(kept), version=self._engine.version
        )


def _group(table: "pa.Table") -> dict[int, list[dict[str, Any]]]:
    """The rows by the version that they came with."""
    grouped = defaultdict(list)
    for row in table.to_pylist():
        grouped[row["version"]].append(row)
    return grouped


def _describe(
    moments: dict[int, float],
    nodes: dict[int, list[dict[str, Any]]],
    edges: dict[int, list[dict[str, Any]]],
    reader: str,
) -> list[VersionChange]:
    """What each version changed, the latest first, without those that changed no node and joined nothing."""
    found = []
    for version in sorted(moments, reverse=True):
        changed, joined = nodes.get(version, []), edges.get(version, [])
        shown = [row for row in changed if _is_shown(row, reader)]
        linked = sum(row["created_version"] == version for row in joined)
        unlinked = sum(row["retired_version"] > 0 for row in joined)
        if not (changed or linked or unlinked):
            continue
        found.append(
            VersionChange(
                version=version,
                at=_stamp(moments[version]),
                nodes=tuple(_node_change(row) for row in shown[:SHOWN]),
                changed=len(changed),
                linked=linked,
                unlinked=unlinked,
            )
        )
    return found


def _is_shown(row: dict[str, Any], reader: str) -> bool:
    owner = owner_of(row["source_session"], row["source_channel"])
    return not is_person(owner) or reader in (owner, subjects.USER)


def _node_change(row: dict[str, Any]) -> NodeChange:
    change = _change_of(row["version"], row["created_version"], row["retired_version"])
    return NodeChange(id=row["id"], kind=row["kind"], title=row["title"], change=change)


def _change_of(version: int, created: int, retired: int) -> ChangeOfNode:
    if retired:
        return "forgotten"
    return "added" if version == created else "changed"


def _signature(write: MemoryWrite | None) -> dict[str, str]:
    if write is None:
        return {}
    return {"sender": write.sender, "person": write.person, "write": write.id, "cause": write.cause}


def _fit(pairs: list[tuple[Node | None, Node]]) -> list[tuple[Node | None, Node]]:
    """As many of the latest states as fit into an answer, at least one."""
    size = 0
    for place, (_, node) in enumerate(pairs):
        size += len(msgspec.json.encode(node))
        if size > MAX_BYTES and place:
            return pairs[:place]
    return pairs


def _differing(before: Node, node: Node) -> tuple[str, ...]:
    names = (name for name in Node.__struct_fields__ if name not in SAME)
    return tuple(name for name in names if getattr(before, name) != getattr(node, name))


def _stamp(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="microseconds") if moment else ""
