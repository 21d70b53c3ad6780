"""What the folder asks of memory, and how it hands things to it."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from shared.contracts import Edge, EdgeKey, ListQuery, MemoryWrite, MemoryWritten, Node, Rejection
from shared.errors import ActionError

if TYPE_CHECKING:
    from services.memory.engine import MemoryEngine

SENDER = "memory"
MAX_NODES = 200  # The most nodes of one write
MAX_CHARACTERS = 60_000
"""About the most text of one write: a few seconds of embedding, and far below the bus's megabyte."""
PACKS_AT_ONCE = 2  # Packs on their way at the same time: one is embedded while the next one comes
WRITES_AT_ONCE = 32
"""Single nodes on their way to the gate at the same time; more would keep other writers waiting."""
PAGE = 500

Write = Callable[[MemoryWrite], Awaitable[MemoryWritten]]


class WriteFailed(ActionError):
    """Memory did not take something, and not because of its gate."""


async def run_all(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Await all concurrently; if one fails, the others are cancelled and its error is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for each in work:
                group.create_task(each)
    except ExceptionGroup as errors:
        raise _first(errors) from None


def _first(errors: ExceptionGroup[Exception]) -> Exception:
    inner = errors.exceptions[0]
    return _first(inner) if isinstance(inner, ExceptionGroup) else inner


class MemoryClient:
    """The memory daemon as the folder uses it: nodes found by id and by file, nodes and edges written.

    Raises WriteFailed if a write is answered with an error, and whatever ``write`` and ``engine`` raise.
    """

    def __init__(self, write: Write, engine: "MemoryEngine") -> None:
        self.engine = engine
        self._write = write
        self._slots = asyncio.Semaphore(WRITES_AT_ONCE)
        self._pack_slots = asyncio.Semaphore(PACKS_AT_ONCE)
        self.sharing = asyncio.Lock()
        """Held while one file says which texts it shares with others."""

    async def find(self, ids: Sequence[str]) -> dict[str, Node]:
        """The nodes of ``ids`` that there are, by id."""
        nodes: dict[str, Node] = {}
        for start in range(0, len(ids), PAGE):
            nodes.update((node.id, node) for node in await self.engine.get(ids[start : start + PAGE]))
        return nodes

    async def list(self, **filters: object) -> list[Node]:
        """All live nodes that pass the filters of a ListQuery."""
        nodes: list[Node] = []
        query = ListQuery(limit=PAGE, **filters)  # type: ignore[arg-type]
        while True:
            page = await self.engine.list_nodes(query)
            nodes += page.nodes
            if not page.next:
                return nodes
            query = msgspec.structs.replace(query, after=page.next)

    async def write_gated(
        self, node: Node, edges: Sequence[Edge] = (), *, unlink: Sequence[EdgeKey] = (), insist: bool = False
    ) -> Rejection | None:
        """Write one node and its edges through the gate; returns the gate's reason if it refuses."""
        write = MemoryWrite(
            sender=SENDER, nodes=(node,), edges=tuple(edges), unlink=tuple(unlink), insist=insist
        )
        async with self._slots:
            written = await self._write(write)
        if written.error and written.rejection is None:
            raise WriteFailed(written.error)
        return written.rejection

    async def write_ungated(
        self, nodes: Sequence[Node], edges: Sequence[Edge] = (), *, retire: bool = False
    ) -> AsyncIterator[int]:
        """Write nodes around the gate, in packs, each with the edges that end there, or else begin there;
        yields their sizes.

        With ``retire``, they are written a last time and retired.
        """
        written_ids = {node.id for node in nodes}
        at: dict[str, list[Edge]] = defaultdict(list)
        for edge in edges:
            at[edge.to_id if edge.to_id in written_ids else edge.from_id].append(edge)
        for pack in _make_packs(nodes):
            ids = tuple(node.id for node in pack)
            write = MemoryWrite(
                sender=SENDER,
                nodes=tuple(pack),
                edges=tuple(edge for node_id in ids for edge in at[node_id]),
                retire=ids if retire else (),
                insist=True,
            )
            async with self._pack_slots:
                written = await self._write(write)
            if written.error:
                raise WriteFailed(written.error)
            yield len(pack)


def _make_packs(nodes: Sequence[Node]) -> Iterator[list[Node]]:
    pack: list[Node] = []
    size = 0
    for node in nodes:
        weight = len(node.title) + len(node.body) + 100
        if pack and (len(pack) == MAX_NODES or size + weight > MAX_CHARACTERS):
            yield pack
            pack, size = [], 0
        pack.append(node)
        size += weight
    if pack:
        yield pack
