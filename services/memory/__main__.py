"""The memory daemon on the bus: writes from its log in batches, queries as a micro service."""

import asyncio
import contextlib
import faulthandler
import os
import shutil
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from services.memory.briefing.service import BriefingService
from services.memory.engine import MemoryEngine
from services.memory.following import Copies, Following
from services.memory.ingest.folder import IngestFolder
from services.memory.ingest.kinds import ModelKinds
from services.memory.linking.questions import ModelJudge
from services.memory.loading import limit_heaps
from services.memory.maintenance import Maintenance, RecallService, Submit
from services.memory.past import PastService
from services.memory.picture import PictureService
from services.memory.writes.gate import parse_add, parse_link
from services.memory.writes.log_follower import LogFollower
from shared import subjects
from shared.agent.base import Agent
from shared.agent.process import RESTART_STATUS, package_version, run
from shared.bus.consumer import ConsumerConfig
from shared.bus.entry import seal
from shared.bus.lease import Lease
from shared.bus.peers import Holder
from shared.bus.service import least_version, named_reader
from shared.contracts import (
    BriefQuery,
    EdgesQuery,
    GetQuery,
    HistoryQuery,
    Hit,
    ListQuery,
    MemoryQuery,
    MemoryWrite,
    MemoryWritten,
    NodePage,
    PathsQuery,
    PictureQuery,
    TraverseQuery,
    VersionsQuery,
)
from shared.contracts.base import decoding
from shared.errors import ActionError, StartError
from shared.log import logger
from shared.memory import ClassifyQuery, EmbedQuery, LinkerQuery, ReadQuery, RebuildQuery, WrittenQuery
from shared.memory.ownership import find_reader, is_person

WRITES_AT_ONCE = 1_000
"""The most writes delivered and not yet answered: what arrives while one batch is stored makes the next."""

BYTES_AT_ONCE = 64 * 1024 * 1024  # The most bytes of such writes: a single one may have 8 MiB

CATCH_UP_WAIT = 30.0
"""Seconds a start waits for the store to catch up with its log; reads are refused until it has."""

SETTLE_WAIT = 10.0
"""Seconds a search that asks for it waits for writes that have arrived: a check-up's are embedded in one."""

PAGE_BYTES = subjects.MAX_PAYLOAD // 2
"""The bytes after which a page is full: the largest node has half of a message."""

SILENT = 3.0
"""Seconds without an answer after which a standby takes the writer's place."""

log = logger(__name__)

Query = TypeVar("Query")


class MemoryService(Agent):
    """The team's memory: stores what agents remember, and answers their queries.

    One process writes: the one that has the lease. Others follow the log in copies of their own, answer what
    only reads, and one of them goes on as the writer if that is gone, frozen or cut off.
    """

    may_write = True
    """Whether this process may become the writer; a reader may not."""

    async def on_start(self) -> None:
        """Become the writer if nobody is, or else follow it."""
        bus = self.context.bus
        self._here = Holder.this(bus.instance)
        self._lease = Lease(bus, self.context.profile.name, self._here, silent=SILENT)
        self._copies: Copies | None = None
        self._before: Holder | None = None
        if self.may_write and await self._lease.acquire_or_find() is None:
            await self._open()
        elif await self._follow():
            return
        elif not self.may_write:
            raise StartError(
                "Memory is older than its log, so that its log makes no copy of it",
                "Run 'mailroom memory export' and 'import' into a new office, or do without readers",
            )
        else:
            await self._lease.acquire(self._stand_by)
            await self._open()
        await self._write()

    async def _open(self, *, copy: bool = False) -> None:
        """Open the store and what reads from it."""
        self._engine = await MemoryEngine.open(self.context.settings, copy=copy)
        self._briefings = BriefingService(self._engine, self.context.settings)
        self._follower = LogFollower(self._engine, self.context.bus, self._confirm)
        self._pictures = PictureService(self._engine)
        self._past = PastService(self._engine, self._follower.read_writes)
        self._recall = RecallService(self._engine)

    async def _write(self) -> None:
        """Catch up with the log, and begin to consume writes."""
        self.context.spawn(self._stop_when_lost())
        self._maintenance = self._maintain(self._follower.submit)
        await self._follower.open()
        self._copies = Copies(self._engine, self._follower, self.context.bus)
        await self._copies.open()
        self.context.spawn(self._follower.run())
        self.context.spawn(self._follower.announce())
        self.context.spawn(self._follower.forget())
        self.context.spawn(self._engine.tidy_when_idle())
        await self._follower.wait_until_caught_up(CATCH_UP_WAIT)
        self._folder = IngestFolder(
            self.context.settings.ingest,
            self._follower.submit,
            self._engine,
            model=ModelKinds(self.context.models) if self.context.settings.ingest_by_model else None,
        )
        self.context.spawn(self._maintenance.run())
        self.context.spawn(self._folder.run())
        await self.context.bus.consume(
            ConsumerConfig(
                stream=subjects.MEMORY,
                durables=(self.context.profile.name,),
                concurrency=WRITES_AT_ONCE,
                ack_wait=self.context.settings.task_ack_wait,
                max_attempts=self.context.settings.max_attempts,
                max_bytes=BYTES_AT_ONCE,
            ),
            self._follower.handle,
            self._follower.dead_letter,
        )

    def _maintain(self, submit: Submit) -> Maintenance:
        settings = self.context.settings
        judge = ModelJudge(self.context.models) if settings.linker_by_model else None
        return Maintenance(self._engine, self._briefings, self._recall, submit, settings, judge)

    async def _follow(self) -> bool:
        """Follow the log in a copy, and answer what only reads; whether the log makes such a copy."""
        bus = self.context.bus
        await self._open(copy=True)
        self._following = Following(
            self._engine, self._follower, bus, self._here.host, reader=not self.may_write
        )
        if not await self._follower.open_copy():
            await self._engine.ask_store(lambda store: store.leave())
            await self._engine.close()
            await asyncio.to_thread(shutil.rmtree, self._engine.path)
            await self._open(copy=True)
        faulthandler.cancel_dump_traceback_later()  # it may take long until there is a writer
        follows = await self._follower.open_copy() and not await self._following.ask_base()
        if not follows:
            await self._engine.close()
            return False
        await self._following.start()
        self.context.spawn(self._maintain(self._append).count_accesses())
        self.context.spawn(self._engine.tidy_when_idle())
        await self._follower.wait_until_caught_up(CATCH_UP_WAIT)
        answers = self._answers_of_all(), self._signed_answers_of_all()
        await bus.serve(bus.name, "", "", *answers, ready=self._follower.is_level)
        if self.may_write:
            self.context.spawn(self._take_over())
        return True

    async def _append(self, write: MemoryWrite) -> MemoryWritten:
        """Have the writer store something, whose answer nobody waits for."""
        bus = self.context.bus
        await bus.append(seal(subjects.memory_write(bus.name), write))
        return MemoryWritten(cause=write.id)

    async def _take_over(self) -> None:
        """Go on as the writer once the lease is free."""
        await self._lease.acquire(self._stand_by, self._follower.is_level)
        begun = time.monotonic()
        if self._before is not None:
            end_frozen(self._before, self._here)
        await self._following.stop()
        await self._write()
        profile, bus = self.context.profile, self.context.bus
        await bus.serve(
            profile.name, package_version(), profile.description, self.endpoints(), self.signed_endpoints()
        )
        self.context.log.warning(
            "took_over", version=self._engine.version, seconds=round(time.monotonic() - begun, 2)
        )

    async def _confirm(self) -> None:
        """Return while this process is the writer; without copies nobody else could be."""
        if self._copies is None or self._copies.list():
            await self._lease.confirm()

    async def on_stop(self) -> None:
        """Close the store and release the lease."""
        if self._copies is None:
            await self._following.stop()
        await self._engine.close()
        await self._lease.release()

    def _answers_of_all(self) -> Mapping[str, Callable[[bytes], Awaitable[bytes]]]:
        """What every process answers to everybody the same: it needs models alone."""
        engine = self._engine
        return {
            "read": _answering(ReadQuery, lambda query: engine.read(query.question, query.passages)),
            "align": _answering(ReadQuery, lambda query: engine.align(query.question, query.passages)),
            "embed": _answering(EmbedQuery, lambda query: engine.embed(query.texts)),
            "classify": _answering(
                ClassifyQuery, lambda query: engine.run_in_reader(engine.classifiers.classify, query)
            ),
        }

    def endpoints(self) -> Mapping[str, Callable[[bytes], Awaitable[bytes]]]:
        """The queries that memory answers to everybody the same, as ``memory.<verb>``."""
        if self._copies is None:
            return {}
        engine, follower = self._engine, self._follower

        async def stats(_: _NoParameters) -> dict[str, object]:
            return {**engine.stats(), "briefings": self._briefings.stats()}

        return {
            **self._answers_of_all(),
            "written": _answering(WrittenQuery, lambda query: follower.answer(query.id, query.seq)),
            "recall": _answering(_NoParameters, lambda _: self._recall.measure()),
            "stats": _answering(_NoParameters, stats),
            "health": _answering(_NoParameters, lambda _: self._health()),
        }

    def signed_endpoints(self) -> Mapping[str, Callable[[bytes, str], Awaitable[bytes]]]:
        """What is answered with as much as the requester may read, the requests by which any NATS client can
        store something without knowing our envelopes, and what is for people alone.
        """
        if self._copies is None:
            return {}

        def storing(parse: Callable[[bytes, str], MemoryWrite]) -> Callable[[bytes, str], Awaitable[bytes]]:
            async def store(data: bytes, asker: str) -> bytes:
                return msgspec.json.encode(await self._follower.submit(parse(data, asker)))

            return store

        maintenance = {
            "linker": _answering(
                LinkerQuery, lambda query: self._maintenance.answer(query.action, query.edges)
            ),
            "reindex": _answering(_NoParameters, lambda _: self._reindex()),
            "rebuild": _answering(RebuildQuery, lambda query: self._follower.rebuild(force=query.force)),
        }
        people = {verb: for_people(verb, answer) for verb, answer in maintenance.items()}
        reads = self._signed_answers_of_all()
        return {"add": storing(parse_add), "link": storing(parse_link), **reads, **people}

    def _signed_answers_of_all(self) -> Mapping[str, Callable[[bytes, str], Awaitable[bytes]]]:
        """What every process answers once it has caught up: with as much as the requester may read."""
        engine = self._engine

        async def list_nodes(query: ListQuery, reader: str) -> NodePage:
            return fit_page(await engine.list_nodes(query, reader))

        reads = {
            "search": _reading(MemoryQuery, self._search),
            "get": _reading(GetQuery, lambda query, reader: engine.get(query.ids, query.at, reader)),
            "list": _reading(ListQuery, list_nodes),
            "edges": _reading(EdgesQuery, engine.list_edges),
            "traverse": _reading(TraverseQuery, engine.traverse),
            "paths": _reading(PathsQuery, engine.paths),
            "brief": self._brief,
        }
        whole = {
            "picture": lambda data: self._pictures.answer(_decode(data, PictureQuery), _person()),
            "versions": _answering(VersionsQuery, lambda query: self._past.versions(query, _person())),
            "history": _answering(HistoryQuery, lambda query: self._past.history(query, _person())),
        }
        reads |= {verb: for_people(verb, answer) for verb, answer in whole.items()}
        return {verb: self._once_caught_up(answer) for verb, answer in reads.items()}

    async def _search(self, query: MemoryQuery, reader: str) -> list[Hit]:
        if query.settled:
            await self._follower.wait_until_stored(SETTLE_WAIT)
        return await self._engine.search(query, reader)

    async def _brief(self, data: bytes, asker: str) -> bytes:
        query, reader = _decode(data, BriefQuery), find_reader(asker, named_reader.get())
        if reader not in (subjects.USER, query.agent) and not is_person(reader):
            raise ActionError(f"{reader} may not read the briefing of {query.agent}", "Ask for your own")
        return await self._briefings.answer(query)

    async def _reindex(self) -> dict[str, object]:
        await self._engine.reindex()
        return self._engine.health()

    async def _health(self) -> dict[str, object]:
        behind = self._follower.behind
        health = {**self._engine.health(), **self._maintenance.health(), "ingest": self._folder.status()}
        health |= self._follower.status()
        if self._copies is not None and (copies := self._copies.list()):
            health["copies"] = copies
        if self._before is not None:
            health["took_over_from"] = str(self._before)
        if behind:
            health |= {"status": "catching up", "done": behind.done, "total": behind.total}
        return health

    def _once_caught_up(
        self, answer: Callable[[bytes, str], Awaitable[bytes]]
    ) -> Callable[[bytes, str], Awaitable[bytes]]:
        async def respond(data: bytes, asker: str) -> bytes:
            if behind := self._follower.behind:
                raise ActionError(
                    f"Memory is being rebuilt from its log ({behind.done:,} of {behind.total:,} writes)",
                    "Ask again later; 'mailroom memory health' shows how far it is",
                )
            if self._copies is None:
                await self._follower.wait_for(least_version.get())
            return await answer(data, asker)

        return respond

    async def _stand_by(self, holder: Holder) -> None:
        faulthandler.cancel_dump_traceback_later()  # who stands by may do so for ever
        self._before = holder
        self.context.log.info("standing_by", writer=str(holder))

    async def _stop_when_lost(self) -> None:
        """End at once if another daemon has taken over: two writers are worse than none.

        Nothing is lost by it: the log has all.
        """
        await self._lease.lost.wait()
        self.context.log.error("lease_lost", reason="another memory daemon has taken over")
        os._exit(RESTART_STATUS)


def end_frozen(holder: Holder, here: Holder) -> None:
    """Kill who had the lease, if it is on this machine and still there: it answers nobody.

    What is asked of memory would go to it as well.
    """
    with contextlib.suppress(OSError):
        if holder.is_running(here) and b"services.memory" in Path(f"/proc/{holder.pid}/cmdline").read_bytes():
            log.warning("frozen_writer_killed", writer=str(holder))
            os.kill(holder.pid, signal.SIGKILL)


def fit_page(page: NodePage, most: int = PAGE_BYTES) -> NodePage:
    """The page, or as much of its beginning as ``most`` bytes of JSON hold, at least one node.

    Its ``next`` leads to the rest.
    """
    size = 0
    for place, node in enumerate(page.nodes):
        size += len(msgspec.json.encode(node))
        if size > most and place:
            return NodePage(nodes=page.nodes[:place], next=page.nodes[place - 1].id, version=page.version)
    return page


def for_people(
    verb: str, answer: Callable[[bytes], Awaitable[bytes]]
) -> Callable[[bytes, str], Awaitable[bytes]]:
    """An endpoint that answers people alone; the broker does not let an agent's request come here either."""

    async def respond(data: bytes, asker: str) -> bytes:
        if asker != subjects.USER:
            raise ActionError(f"{asker} may not ask for memory.{verb}", "Have a person do it")
        return await answer(data)

    return respond


def _person() -> str:
    """As whom a request reads that people alone make."""
    return find_reader(subjects.USER, named_reader.get())


class _NoParameters(msgspec.Struct, frozen=True):
    """A query without parameters."""


def _decode(data: bytes, kind: type[Query]) -> Query:
    decoding.now = True  # msgspec checks the types
    try:
        return msgspec.json.decode(data or b"{}", type=kind)
    finally:
        decoding.now = False


def _answering(
    kind: type[Query], answer: Callable[[Query], Awaitable[object]]
) -> Callable[[bytes], Awaitable[bytes]]:
    async def respond(data: bytes) -> bytes:
        return msgspec.json.encode(await answer(_decode(data, kind)))

    return respond


def _reading(
    kind: type[Query], answer: Callable[[Query, str], Awaitable[object]]
) -> Callable[[bytes, str], Awaitable[bytes]]:
    """An endpoint that answers with what the requester may read, or the one that nexus asks for."""

    async def respond(data: bytes, asker: str) -> bytes:
        reader = find_reader(asker, named_reader.get())
        return msgspec.json.encode(await answer(_decode(data, kind), reader))

    return respond


if __name__ == "__main__":
    limit_heaps()
    MemoryService.may_write = sys.argv[1:] != ["reader"]
    run(MemoryService, __file__)
