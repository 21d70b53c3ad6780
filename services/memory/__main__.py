"""The memory daemon on the bus: writes from its log in batches, questions as a micro service."""

import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import msgspec

from services.memory.briefs import Briefs
from services.memory.daemon import MemoryDaemon
from services.memory.ingest.folder import Folder
from services.memory.paging import fit_page
from services.memory.upkeep import Upkeep
from services.memory.writes.intake import Intake
from services.memory.writes.submission import parse_add, parse_link
from shared import subjects
from shared.agent.base import Agent
from shared.agent.process import run
from shared.bus.lease import Holder, Lease
from shared.contracts import (
    BriefQuery,
    EdgesQuery,
    GetQuery,
    ListQuery,
    MemoryQuery,
    MemoryWrite,
    NodePage,
    PathsQuery,
    TraverseQuery,
)
from shared.errors import ActionError
from shared.memory import EmbedQuery, LinkerQuery, RebuildQuery, WrittenQuery

WRITES_AT_ONCE = 1_000
"""Writes in hand at most: what arrives while one batch is stored makes the next one."""

BYTES_AT_ONCE = 64 * 1024 * 1024
"""The bytes of writes in hand at most: a single write may have 8 MiB."""

CATCH_UP_WAIT = 30.0
"""Seconds a start waits for the store to catch up with its log; reads are refused until it has."""

Query = TypeVar("Query")


class MemoryService(Agent):
    """Keeps the office's memory: stores what agents remember, finds what they look for."""

    async def on_start(self) -> None:
        """Take the lease, open the store, catch up with the log, and begin to take writes."""
        self._lease = Lease(
            self.context.bus, self.context.profile.name, Holder.this(self.context.bus.instance)
        )
        await self._lease.acquire(self._stand_by)
        self.context.spawn(self._stop_when_lost())
        self._daemon = await MemoryDaemon.open(self.context.settings)
        self._briefs = Briefs(self._daemon, self.context.settings)
        self._intake = Intake(self._daemon, self.context.bus)
        self._upkeep = Upkeep(self._daemon, self._briefs, self._intake.submit, self.context.settings)
        await self._intake.open()
        self.context.spawn(self._intake.run())
        self.context.spawn(self._intake.announce())
        await self._intake.caught_up(CATCH_UP_WAIT)
        self._folder = Folder(
            self.context.settings.ingest, self._intake.submit, self._daemon.get, self._daemon.list_nodes
        )
        self.context.spawn(self._upkeep.run())
        self.context.spawn(self._folder.run())
        await self.context.bus.consume(
            subjects.MEMORY,
            self.context.profile.name,
            self._intake.take,
            self._intake.bury,
            concurrency=WRITES_AT_ONCE,
            ack_wait=self.context.settings.task_ack_wait,
            max_attempts=self.context.settings.max_attempts,
            max_bytes=BYTES_AT_ONCE,
        )

    async def on_stop(self) -> None:
        """Close the store, and let another daemon have the lease."""
        await self._daemon.close()
        await self._lease.release()

    def endpoints(self) -> Mapping[str, Callable[[bytes], Awaitable[bytes]]]:
        """What memory answers, as ``memory.<verb>``."""
        daemon, intake, upkeep = self._daemon, self._intake, self._upkeep
        reads: dict[str, Callable[[bytes], Awaitable[bytes]]] = {
            "search": _answering(MemoryQuery, daemon.search),
            "get": _answering(GetQuery, lambda query: daemon.get(query.ids, query.at)),
            "list": _answering(ListQuery, self._list),
            "edges": _answering(EdgesQuery, daemon.list_edges),
            "traverse": _answering(TraverseQuery, daemon.traverse),
            "paths": _answering(PathsQuery, daemon.paths),
            "brief": self._brief,
        }
        return {
            **{verb: self._once_caught_up(answer) for verb, answer in reads.items()},
            "written": _answering(WrittenQuery, lambda query: intake.answer(query.id, query.seq)),
            "embed": _answering(EmbedQuery, lambda query: daemon.embed(query.texts)),
            "linker": _answering(LinkerQuery, lambda query: upkeep.answer(query.action)),
            "reindex": _answering(_Nothing, lambda _: self._reindex()),
            "rebuild": _answering(RebuildQuery, lambda query: intake.rebuild(force=query.force)),
            "stats": _answering(_Nothing, lambda _: self._stats()),
            "health": _answering(_Nothing, lambda _: self._health()),
        }

    def signed_endpoints(self) -> Mapping[str, Callable[[bytes, str], Awaitable[bytes]]]:
        """What any NATS client can have stored without knowing our envelopes."""

        def storing(parse: Callable[[bytes, str], MemoryWrite]) -> Callable[[bytes, str], Awaitable[bytes]]:
            async def store(data: bytes, asker: str) -> bytes:
                return msgspec.json.encode(await self._intake.submit(parse(data, asker)))

            return store

        return {"add": storing(parse_add), "link": storing(parse_link)}

    async def _brief(self, data: bytes) -> bytes:
        return await self._briefs.answer(_decode(data, BriefQuery))

    async def _list(self, query: ListQuery) -> NodePage:
        return fit_page(await self._daemon.list_nodes(query))

    async def _reindex(self) -> dict[str, object]:
        await self._daemon.reindex()
        return self._daemon.health()

    async def _stats(self) -> dict[str, object]:
        return {**self._daemon.stats(), "briefings": self._briefs.stats()}

    async def _health(self) -> dict[str, object]:
        behind = self._intake.behind
        health = {**self._daemon.health(), **self._upkeep.health(), "ingest": self._folder.status()}
        if behind:
            health |= {"status": "catching up", "done": behind.done, "total": behind.total}
        return health

    def _once_caught_up(
        self, answer: Callable[[bytes], Awaitable[bytes]]
    ) -> Callable[[bytes], Awaitable[bytes]]:
        async def respond(data: bytes) -> bytes:
            if behind := self._intake.behind:
                raise ActionError(
                    f"Memory is being made anew from its log ({behind.done:,} of {behind.total:,} writes)",
                    "Ask again later; 'mailroom memory health' shows how far it is",
                )
            return await answer(data)

        return respond

    async def _stand_by(self, holder: Holder) -> None:
        self.context.log.warning(
            "refused_to_start",
            reason=f"another memory daemon has the lease: {holder}",
            next="standing by, to take over when it ends",
        )

    async def _stop_when_lost(self) -> None:
        """End when another daemon has taken over meanwhile: two writers are worse than none."""
        await self._lease.lost.wait()
        self.context.log.error("lease_lost", reason="another memory daemon has taken over")
        os.kill(os.getpid(), signal.SIGTERM)


class _Nothing(msgspec.Struct, frozen=True):
    """A question without parameters."""


def _decode(data: bytes, kind: type[Query]) -> Query:
    return msgspec.json.decode(data or b"{}", type=kind)


def _answering(
    kind: type[Query], answer: Callable[[Query], Awaitable[object]]
) -> Callable[[bytes], Awaitable[bytes]]:
    async def respond(data: bytes) -> bytes:
        return msgspec.json.encode(await answer(_decode(data, kind)))

    return respond


if __name__ == "__main__":
    run(MemoryService, __file__)
