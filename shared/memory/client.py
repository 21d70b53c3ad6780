"""The client of the memory daemon, for one identity on the bus."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from shared import subjects
from shared.bus import Bus
from shared.bus.entry import current_audience, seal
from shared.contracts import (
    Briefing,
    BriefQuery,
    Edge,
    EdgeKey,
    EdgePage,
    EdgesQuery,
    GetQuery,
    HistoryQuery,
    Hit,
    ListQuery,
    MemoryQuery,
    MemoryWrite,
    MemoryWritten,
    Node,
    NodeHistory,
    NodePage,
    Picture,
    PictureQuery,
    SpanKind,
    Traversal,
    TraverseQuery,
    VersionPage,
    VersionsQuery,
)
from shared.contracts.base import amended
from shared.contracts.queries import MAX_PAGE
from shared.errors import BusError, BusUnavailable, NoResponders, NotFound, Refused
from shared.memory.ownership import PRIVATE, audience_read_for, reads_for
from shared.spans import span


class WrittenQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Asks for the outcome of the write ``id``, stored in MEMORY at ``seq``."""

    id: str
    seq: int


class EmbedQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Asks for the embeddings of texts."""

    texts: tuple[str, ...]


class ClassifyQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Asks a classifier what each row is: a text, named ``features``, or both, up to 1,000 rows.

    One text with several rows of features belongs to each of them.
    """

    classifier: str
    texts: tuple[str, ...] = ()
    features: tuple[dict[str, float], ...] = ()


class ReadQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Asks how well passages answer a question; at most 100 of them."""

    question: str
    passages: tuple[str, ...]


class RecallMeasured(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the planted facts search found again on a day, among how many nodes; the questions of those
    that it ``missed``.
    """

    day: str
    good: int
    total: int
    nodes: int
    missed: tuple[str, ...] = ()


class LinkerQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Asks for the linker's status, starts a round, or consolidates old events as is done weekly.

    With ``edges`` (up to 1000) the answer has the last so many edges that were made without anybody's asking,
    and how many there are by relation and rule.
    """

    action: Literal["status", "trigger", "consolidate"] = "status"
    edges: Annotated[int, msgspec.Meta(ge=0, le=1_000)] = 0


class RebuildQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Rebuilds the store from its log; ``force`` even if the beginning of the log is lost."""

    force: bool = False


ASK_AGAIN = 3.0
"""Seconds until the outcome of a write is requested again: a daemon that ended answers no more."""
PAUSE = 0.1  # Seconds between two such requests if no daemon is there
BEHIND = "has not got version"  # What a copy says that is behind: another process is asked
_BY_MODELS = ("read", "align", "embed", "classify")
ASKED_AGAIN = ("written", "health", *_BY_MODELS, *subjects.MEMORY_READ_VERBS, *subjects.MEMORY_WHOLE_VERBS)
MOST_ASKED = 5
"""What is asked again while no answer comes, of another process if there are several; how often at most."""
STILL_THERE = 0.5  # Seconds between two looks whether the daemon that was asked is still there
ANSWER_TIMEOUT = 30.0  # Seconds until a request times out: long enough for a daemon that is just starting
SLOW_TIMEOUT = 300.0
"""The same for answers that are read from the tables (an older version) or from the whole store, and for deep
searches, which may compare texts for the first time."""
SLOW_VERBS = ("reindex", "rebuild")
NOBODY = GetQuery(ids=("nobody",))
MIN_NAME = 4  # The fewest characters by which a node can be named in place of its whole id

Answer = TypeVar("Answer")
Query = TypeVar("Query", ListQuery, EdgesQuery)
Page = TypeVar("Page", NodePage, EdgePage)


class WriteRefused(Refused):
    """Memory did not store a write, and answered ``written``; its ``rejection`` has the details if the write
    gate refused it.
    """

    def __init__(self, written: MemoryWritten) -> None:
        rejection = written.rejection
        if rejection is None:
            super().__init__(written.error)
        else:
            super().__init__(f"Not stored: {rejection.reason.rstrip('.')}", rejection.suggestion)
        self.written, self.rejection = written, rejection


class Memory:
    """The memory of the office, used by one identity: everything it adds carries its name.

    Every method raises BusUnavailable if the daemon does not answer in time, and Refused with the daemon's
    sentence if it refuses the request.
    """

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._others = False
        """Whether several processes of memory answered when that was looked at last."""
        self._version = 0
        """The version of the last own write: answers, which any process may give, are of it or later."""

    # --- writing ---------------------------------------------------------------------------------

    async def add(self, *nodes: Node, edges: Sequence[Edge] = (), insist: bool = False) -> MemoryWritten:
        """Add nodes and edges; returns once they are on disk and can be found.

        A node replaces the one with its id; an identical write changes nothing. ``insist`` skips the write
        gate. Raises WriteRefused if nothing is stored; after BusUnavailable the write may still be pending.
        """
        return await self.write(self._write_of(nodes, edges, insist=insist))

    async def keep_said(
        self, node: Node, edges: Sequence[Edge] = (), *, for_team: bool = False, insist: bool = False
    ) -> MemoryWritten:
        """As ``add``, for what a person told the front desk: it is that person's, and not the desk's.

        What one of several people told is for that one alone, unless it is ``for_team``.
        """
        if (audience := audience_read_for()) and not for_team:
            node = amended(node, source=msgspec.structs.replace(node.source, channel=PRIVATE + audience))
        return await self.write(self._said(nodes=(node,), edges=tuple(edges), insist=insist))

    async def queue(self, *nodes: Node, edges: Sequence[Edge] = (), insist: bool = False) -> None:
        """As ``add``, but returns once the write is stored in the log, which the daemon applies in order."""
        await self._append(self._write_of(nodes, edges, insist=insist))

    async def link(self, *edges: Edge) -> MemoryWritten:
        """Add edges; an existing one gets the new weight and provenance."""
        return await self.write(MemoryWrite(sender=self._bus.name, edges=edges))

    async def unlink(self, *edges: EdgeKey) -> MemoryWritten:
        """Remove edges; earlier versions of memory still have them."""
        return await self.write(MemoryWrite(sender=self._bus.name, unlink=edges))

    async def retire(self, *ids: str) -> MemoryWritten:
        """Retire nodes: they are kept as tombstones and no longer found."""
        return await self.write(MemoryWrite(sender=self._bus.name, retire=ids))

    async def retire_said(self, *ids: str) -> MemoryWritten:
        """As ``retire``, of what a person told the front desk; what it superseded holds again."""
        return await self.write(self._said(retire=ids))

    async def forget(self, *ids: str, person: str = "") -> MemoryWritten:
        """Order that nodes be forgotten: retired now, and their texts erased soon; for people alone.

        ``forgetting`` in ``health`` is how far that is. The gateway orders it for the ``person`` it knows.
        """
        return await self.write(MemoryWrite(sender=subjects.USER, person=person, forget=ids))

    async def write(self, write: MemoryWrite) -> MemoryWritten:
        """Send a write to the daemon and wait until it is applied; see ``add``."""
        written = await self._await_written(WrittenQuery(id=write.id, seq=await self._append(write)))
        if written.error or written.rejection:
            raise WriteRefused(written)
        self._version = max(self._version, written.version)
        return written

    def _said(self, **what: Any) -> MemoryWrite:
        """What a person told, by the one that is read for."""
        audience = audience_read_for()
        return MemoryWrite(sender=self._bus.name, asker=subjects.USER, audience=audience, **what)

    def _write_of(self, nodes: Sequence[Node], edges: Sequence[Edge], *, insist: bool) -> MemoryWrite:
        mine = tuple(self._signed(node) for node in nodes)
        return MemoryWrite(sender=self._bus.name, nodes=mine, edges=tuple(edges), insist=insist)

    async def _append(self, write: MemoryWrite) -> int:
        """Store a write in the log; returns its sequence.

        Raises Refused for what an agent writes while it works for one of the people alone.
        """
        if (audience := current_audience.get()) and not (write.asker or write.sender == subjects.USER):
            raise Refused(f"This is for {audience} alone, so it is not kept for the team")
        # The gateway writes as the person who asked it, all others as themselves.
        writer = write.sender if self._bus.name == subjects.GATEWAY else self._bus.name
        return await self._bus.append(seal(subjects.memory_write(writer), write))

    # --- finding ---------------------------------------------------------------------------------

    async def search(self, text: str, *, limit: int = 10, **filters: Any) -> list[Hit]:
        """The nodes nearest to ``text``, best first; ``filters`` are the other fields of MemoryQuery."""
        with span(SpanKind.MEMORY, "search", text) as asked:
            query = MemoryQuery(text=text, limit=limit, **filters)
            hits = await self._ask("search", query, list[Hit])
            asked.output = "\n".join(f"[{hit.node.id}] {hit.node.title}" for hit in hits)
        return hits

    async def get(self, *ids: str, at: int = 0) -> list[Node]:
        """The nodes of these ids that exist, in the order asked for, now or at version ``at``."""
        pages = [ids[start : start + MAX_PAGE] for start in range(0, len(ids), MAX_PAGE)]
        return [
            node for page in pages for node in await self._ask("get", GetQuery(ids=page, at=at), list[Node])
        ]

    async def find_ids(self, names: Sequence[str]) -> list[str]:
        """The ids that ``names`` are, or that alone begin as they do; a name that fits none stays as it is.

        Raises NotFound if several begin so.
        """
        known = {node.id for node in await self.get(*names)}
        found = []
        for name in dict.fromkeys(names):
            near = [name]
            if name not in known and len(name) >= MIN_NAME:
                page = await self.nodes(ListQuery(after=name, limit=2, retired=True))
                near = [node.id for node in page.nodes if node.id.startswith(name)] or near
            if len(near) > 1:
                raise NotFound(f"Several memories begin with {name!r}", "Give more of the id")
            found += near
        return found

    async def nodes(self, query: ListQuery | None = None) -> NodePage:
        """One page of nodes in the order of their ids; by default the first of all live ones."""
        return await self._ask("list", query or ListQuery(), NodePage)

    async def iterate_nodes(self, query: ListQuery | None = None) -> AsyncIterator[Node]:
        """All nodes that a query admits, page by page.

        What is written meanwhile may be among them or not; with ``at`` all are of that version.
        """
        async for page in _pages(self.nodes, query or ListQuery(limit=MAX_PAGE)):
            for node in page.nodes:
                yield node

    async def edges(self, query: EdgesQuery | None = None) -> EdgePage:
        """One page of edges in the order of (from, to, relation); by default the first of all."""
        return await self._ask("edges", query or EdgesQuery(), EdgePage)

    async def iterate_edges(self, query: EdgesQuery | None = None) -> AsyncIterator[Edge]:
        """All edges that a query admits, page by page, as ``iterate_nodes`` does it."""
        async for page in _pages(self.edges, query or EdgesQuery()):
            for edge in page.edges:
                yield edge

    async def traverse(self, query: TraverseQuery) -> Traversal:
        """Walk the graph from the query's start."""
        return await self._ask("traverse", query, Traversal)

    async def brief(self, agent: str, **fields: Any) -> Briefing:
        """The briefing of ``agent``; ``fields`` are the others of BriefQuery."""
        with span(SpanKind.MEMORY, "briefing", agent) as asked:
            query = BriefQuery(agent=agent, **fields)
            briefing: Briefing = await self._ask("brief", query, Briefing)
            asked.output = briefing.text
        return briefing

    async def picture(self, query: PictureQuery | None = None) -> Picture:
        """The nodes and edges of the graph that are to be drawn."""
        return await self._ask("picture", query or PictureQuery(), Picture)

    async def versions(self, query: VersionsQuery | None = None) -> VersionPage:
        """A page of graph versions and what each changed, the latest first."""
        return await self._ask("versions", query or VersionsQuery(), VersionPage)

    async def history(self, query: HistoryQuery) -> NodeHistory:
        """The states that a node had, the latest first; none if it was never there."""
        return await self._ask("history", query, NodeHistory)

    async def embed(self, *texts: str) -> list[list[float]]:
        """Unit vectors of the texts, 384 numbers each with the default model."""
        return await self._ask("embed", EmbedQuery(texts=texts), list[list[float]])

    async def classify(
        self,
        classifier: str,
        texts: Sequence[str] = (),
        features: Sequence[Mapping[str, float]] = (),
        timeout: float = ANSWER_TIMEOUT,
    ) -> list[dict[str, float]]:
        """The scores of each row by label; what they measure is the classifier's affair (docs/classifier.md).

        Raises Refused for rows that it does not take: texts, features or both.
        """
        # a sign that is true or false is 1 or 0 there
        rows = tuple({name: float(value) for name, value in row.items()} for row in features)
        query = ClassifyQuery(classifier=classifier, texts=tuple(texts), features=rows)
        return await self._ask("classify", query, list[dict[str, float]], timeout)

    async def read(self, question: str, *passages: str) -> list[float]:
        """How well each passage answers the question, by a cross-encoder: about -11 (not at all) to 10."""
        return await self._ask("read", ReadQuery(question=question, passages=passages), list[float])

    async def align(self, question: str, *passages: str) -> list[dict[str, float]]:
        """How near each passage comes to each word of the question, in lower case: 0 to 1, 1 if it has it."""
        return await self._ask(
            "align", ReadQuery(question=question, passages=passages), list[dict[str, float]]
        )

    async def recall(self) -> list[RecallMeasured]:
        """How well search finds planted facts among what memory holds, by day, the latest last.

        Measured now, if it was not within the last half an hour; empty if memory holds too little for that.
        """
        return await self._ask("recall", None, list[RecallMeasured])

    # --- maintenance -----------------------------------------------------------------------------

    async def stats(self) -> dict[str, Any]:
        """Counts, graph version and model of the store."""
        return await self._ask("stats", None, dict[str, Any])

    async def health(self) -> dict[str, Any]:
        """Whether the daemon can read and write, and what is wrong if it cannot."""
        return await self._ask("health", None, dict[str, Any])

    async def linker_trigger(self) -> dict[str, Any]:
        """Start a round of the linker; returns its status."""
        return await self._ask("linker", LinkerQuery(action="trigger"), dict[str, Any])

    async def rebuild(self, *, force: bool = False) -> dict[str, Any]:
        """Rebuild the store from the log of writes; ``health`` shows the progress.

        Raises Refused if the beginning of the log is lost, unless ``force``.
        """
        return await self._ask("rebuild", RebuildQuery(force=force), dict[str, Any])

    def _signed(self, node: Node) -> Node:
        source = node.source
        if source.agent:
            return node
        return amended(node, source=msgspec.structs.replace(source, agent=self._bus.name))

    async def _await_written(self, query: WrittenQuery) -> MemoryWritten:
        """Request the outcome until it is known.

        If a daemon took the request and ended, the next one is waited for. One that answers other requests is
        still at work, and is waited for as long as SLOW_TIMEOUT: a large write takes minutes on a busy
        machine. If there is no daemon at all, it raises BusUnavailable: the write is pending.
        """
        begun = time.monotonic()
        until, taken = begun + ANSWER_TIMEOUT, False
        while True:
            try:
                return await self._ask("written", query, MemoryWritten, timeout=ASK_AGAIN)
            except BusUnavailable as error:
                now = time.monotonic()
                # One that reads may be about to go on as the writer.
                taken = taken or not isinstance(error, NoResponders) or await self._answers("get", NOBODY)
                if now + ASK_AGAIN > until and now < begun + SLOW_TIMEOUT and await self._answers("health"):
                    until = now + ANSWER_TIMEOUT
                if not taken or now + ASK_AGAIN > until:
                    raise BusUnavailable(
                        "The memory daemon does not answer, but the write is in its log, and is applied when"
                        " it runs again",
                        "Do not repeat it; 'mailroom status' shows whether memory runs",
                    ) from None
                await asyncio.sleep(PAUSE)

    async def _answers(self, verb: str, query: Any = None) -> bool:
        """Whether a process answers: ``health`` the writer alone."""
        try:
            await self.ask(verb, query)
        except BusUnavailable:
            return False
        except Refused:  # it is being rebuilt
            pass
        return True

    async def _ask(self, verb: str, query: Any, kind: type[Answer], timeout: float | None = None) -> Answer:
        return msgspec.json.decode(await self.ask(verb, query, timeout), type=kind)

    async def ask(self, verb: str, query: Any, timeout: float | None = None) -> bytes:
        """What memory answers to a query (None: one without parameters), as it is on the wire.

        ``timeout`` is ANSWER_TIMEOUT seconds if it is not given, and SLOW_TIMEOUT for what takes long.
        """
        slow = any(getattr(query, name, False) for name in ("at", "deep"))
        if slow or verb in SLOW_VERBS or getattr(query, "action", "status") != "status":
            timeout = SLOW_TIMEOUT
        payload = b"{}" if query is None else msgspec.json.encode(query)
        reader = reads_for.get()
        headers = {subjects.READER_HEADER: reader} if reader else {}
        if self._version:
            headers[subjects.LEAST_HEADER] = str(self._version)

        def request() -> asyncio.Future[bytes]:
            return asyncio.ensure_future(
                self._bus.request(
                    subjects.memory(verb), payload, timeout=timeout or ANSWER_TIMEOUT, headers=headers or None
                )
            )

        asking, until = [request()], time.monotonic() + ANSWER_TIMEOUT
        try:
            while True:
                done, _ = await asyncio.wait(asking, timeout=STILL_THERE, return_when=asyncio.FIRST_COMPLETED)
                if done:
                    answered = done.pop()
                    try:
                        return answered.result()
                    except Refused as error:
                        if BEHIND not in str(error) or time.monotonic() > until:
                            raise
                    asking.remove(answered)
                    asking.append(request())
                    continue
                others = await self._find_others()
                others = others or (others is None and verb == "written")  # for that it only waits
                if others and verb in ASKED_AGAIN and len(asking) < MOST_ASKED:
                    asking.append(request())  # the process that was asked may stand still
        except BusUnavailable as error:
            raise type(error)(
                f"The memory daemon does not answer ({error})", "See whether it runs with 'mailroom status'"
            ) from None
        finally:
            for each in asking:
                each.cancel()

    async def _find_others(self) -> bool | None:
        """Whether several processes answer, None if none does; raises NoResponders if there is none.

        One that was killed never answers what it was asked. While the writer is away, others still read.
        """
        try:
            health = await self._bus.request(subjects.memory("health"), b"{}", timeout=STILL_THERE)
        except NoResponders:
            if self._others:
                return True
            raise
        except BusError:  # it is busy, stopped, or starting
            return self._others or None
        found = msgspec.json.decode(health)
        self._others = "copies" in found or "took_over_from" in found
        return self._others


async def _pages(read: Callable[[Query], Awaitable[Page]], query: Query) -> AsyncIterator[Page]:
    """The pages of ``query``, one after another."""
    while True:
        page = await read(query)
        yield page
        if not page.next:
            return
        query = amended(query, after=page.next)
