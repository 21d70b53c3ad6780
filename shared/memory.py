"""The small client of the memory daemon."""

from collections.abc import Sequence

import msgspec

from shared import subjects
from shared.bus import Bus
from shared.contracts import Edge, Hit, MemoryQuery, MemoryWrite, MemoryWritten, Node, Source
from shared.errors import BusUnavailable, Refused

ANSWER_TIMEOUT = 30.0
"""Seconds memory may take for an answer: long enough for a daemon that is just starting."""


class WrittenQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Asks for the outcome of the write ``id``, stored in MEMORY at ``seq``."""

    id: str
    seq: int


class NodesQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Asks for nodes by id."""

    ids: tuple[str, ...]


class EmbedQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Asks for the embeddings of texts."""

    texts: tuple[str, ...]


class Memory:
    """Memory as one identity uses it: what it adds is stored under its own name."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def add(self, *nodes: Node, edges: Sequence[Edge] = (), insist: bool = False) -> MemoryWritten:
        """Remember nodes and edges; returns once they are on disk and can be found.

        Adding the same ids again changes nothing. Raises Refused with the daemon's reason where they
        are not stored, BusUnavailable where the daemon does not answer; the write then stays in line.
        """
        mine = tuple(self._signed(node) for node in nodes)
        write = MemoryWrite(sender=self._bus.name, nodes=mine, edges=tuple(edges), insist=insist)
        return await self.write(write)

    async def retire(self, *ids: str) -> MemoryWritten:
        """Forget nodes: they are kept as tombstones and no longer found."""
        return await self.write(MemoryWrite(sender=self._bus.name, retire=ids))

    async def write(self, write: MemoryWrite) -> MemoryWritten:
        """Hand a write to the daemon and wait until it is applied; see ``add``."""
        subject = subjects.memory_write(self._bus.name)
        stored = await self._bus.store(subject, write.to_json(), headers={"Nats-Msg-Id": write.id})
        query = WrittenQuery(id=write.id, seq=stored["seq"])
        written = MemoryWritten.from_json(await self._ask("written", query))
        if written.error:
            raise Refused(written.error)
        return written

    async def search(
        self,
        text: str,
        *,
        limit: int = 10,
        kinds: Sequence[str] = (),
        tags: Sequence[str] = (),
        agent: str = "",
        since: str = "",
    ) -> list[Hit]:
        """The nodes nearest to ``text``, best first."""
        query = MemoryQuery(
            text=text, limit=limit, kinds=tuple(kinds), tags=tuple(tags), agent=agent, since=since
        )
        return msgspec.json.decode(await self._ask("search", query), type=list[Hit])

    async def get(self, *ids: str) -> list[Node]:
        """The nodes of these ids that exist, in the order asked for."""
        return msgspec.json.decode(await self._ask("get", NodesQuery(ids=ids)), type=list[Node])

    async def embed(self, *texts: str) -> list[list[float]]:
        """Unit vectors of the texts, 384 numbers each with the default model."""
        return msgspec.json.decode(await self._ask("embed", EmbedQuery(texts=texts)), type=list[list[float]])

    async def stats(self) -> dict[str, object]:
        """Counts, graph version and model of the store."""
        return msgspec.json.decode(await self._ask("stats"), type=dict[str, object])

    async def health(self) -> dict[str, object]:
        """Whether the daemon can read and write, and what is wrong where it cannot."""
        return msgspec.json.decode(await self._ask("health"), type=dict[str, object])

    def _signed(self, node: Node) -> Node:
        source = msgspec.structs.replace(node.source, agent=node.source.agent or self._bus.name)
        return msgspec.structs.replace(node, source=source) if source != Source() else node

    async def _ask(self, verb: str, query: object = None) -> bytes:
        payload = msgspec.json.encode(query) if query is not None else b""
        try:
            return await self._bus.request(subjects.memory(verb), payload, timeout=ANSWER_TIMEOUT)
        except BusUnavailable as error:
            raise BusUnavailable(
                f"The memory daemon does not answer ({error})", "See whether it runs with 'mailroom status'"
            ) from None
