"""Messages of the log: pages, one whole, live events, search, export, and the proof that the log is whole."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from starlette.responses import Response, StreamingResponse

from services.gateway.api.goals import summarize_goals
from services.gateway.call import Call, Gateway, merge
from services.gateway.index.index import LogIndex, Recent
from services.gateway.index.reader import find_messages
from services.gateway.index.rows import STREAMS, Position
from services.gateway.index.store import MAX_PAGE, Filter
from services.gateway.problems import not_found
from services.gateway.routing import API, Endpoint
from shared.access.scopes import Scope
from shared.bus import Stored
from shared.trail.archives import find_archive, read_message, read_messages
from shared.trail.verification import Verification, verify_here
from shared.views.timeline import GoalSummary, MessageRow

KEEP_ALIVE = 15.0
"""Seconds after which a silent stream gets an ``alive`` event: the browser sees that it is not lost."""
MESSAGE = API + "/messages/{stream}/{seq}"
CURE = f"The streams are {', '.join(STREAMS)}"

_verifying = asyncio.Lock()

Limit = Annotated[int, msgspec.Meta(ge=1, le=MAX_PAGE)]


class MessagesQuery(Filter, frozen=True, kw_only=True):
    """Which messages, from after a position on (oldest first) or before one (newest first)."""

    after: str = ""
    before: str = ""
    limit: Limit = 100


class MessagePage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of messages; ``next`` is the cursor of the following one, empty at the end.

    ``position`` is how far the log is indexed, ``behind`` how many messages are not yet.
    """

    messages: list[MessageRow]
    next: str
    position: str
    behind: int
    total: int


class WholeMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message as it is stored: ``body`` is its JSON, ``raw`` its text if it is not JSON."""

    message: MessageRow
    headers: dict[str, str]
    body: Any = None
    raw: str = ""


class EventsQuery(Filter, frozen=True, kw_only=True):
    """Which messages to follow, from after a position on; empty: from now on."""

    after: str = ""


class SearchQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Words to look for in goals and messages."""

    q: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    limit: Annotated[int, msgspec.Meta(ge=1, le=50)] = 20


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, the latest first."""

    goals: list[GoalSummary]
    messages: list[MessageRow]


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """Whether nothing in the log is missing or altered; ``compared`` messages were read."""

    whole: bool
    compared: int
    streams: list[Verification]


async def list_messages(call: Call, query: MessagesQuery) -> MessagePage:
    """A page of the log."""
    index = call.gateway.index
    position = str(index.position)  # before the rows are read: who follows from here on misses none
    after = Position.parse(query.after) if query.after else None
    before = Position.parse(query.before) if query.before else None
    rows = await find_messages(index.store, query, after=after, before=before, limit=query.limit)
    return MessagePage(
        messages=rows,
        next=rows[-1].position if len(rows) == query.limit else "",
        position=position,
        behind=index.behind,
        total=index.store.count,
    )


async def read_whole_message(call: Call) -> WholeMessage:
    """One message as it is stored, with its headers."""
    stream, number = call.path["stream"], call.path["seq"]
    if stream not in STREAMS or not number.isdecimal() or len(number) > 18:
        raise not_found(f"message {number[:20]!r} of {stream[:40]!r}", CURE)
    stored = await read_message(call.gateway.bus, stream, int(number))
    row = call.gateway.index.store.message(stream, int(number))
    if stored is None or row is None:
        archive = await find_archive(call.gateway.bus, stream, int(number))
        raise not_found(f"message {number} of {stream}", f"{archive.absence}" if archive else "")
    body, raw = _decode(stored)
    return WholeMessage(message=row, headers=stored.headers, body=body, raw=raw)


def _decode(stored: Stored) -> tuple[Any, str]:
    """The JSON of a message, or if it is none its text."""
    try:
        return msgspec.json.decode(stored.data), ""
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None, stored.data.decode("utf-8", "replace")


async def search(call: Call, query: SearchQuery) -> SearchResult:
    """Goals and messages with these words."""
    store = call.gateway.index.store
    goals = [goal for _, goal in store.goals(text=query.q, limit=query.limit)]
    return SearchResult(
        goals=await summarize_goals(call.gateway, goals),
        messages=await find_messages(store, Filter(text=query.q), limit=query.limit),
    )


async def verify(call: Call) -> Proof:
    """Read every message and compare it with the seals, which takes a second for some 50,000.

    One verification runs at a time; requests that come meanwhile wait for their turn.
    """
    async with _verifying:
        results = await verify_here(call.gateway.bus, call.gateway.settings)
    return Proof(
        whole=not any(result.problem_count for result in results),
        compared=sum(result.messages for result in results),
        streams=results,
    )


async def follow(call: Call, query: EventsQuery) -> Response:
    """The log as server-sent events: ``message`` events with a position as id, without a gap or a repetition.

    ``thinking`` events, which have no id, say what models write for tasks, as they do. ``open`` and ``alive``
    events say in ``problem`` why nothing new can come, such as a full disk. A client
    that comes back with ``Last-Event-ID`` continues where it was.
    """
    last = call.request.headers.get("last-event-id", "") or query.after
    after = Position.parse(last) if last else call.gateway.index.position
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    frames = _frames(call.gateway, after, query)
    return StreamingResponse(frames, media_type="text/event-stream", headers=headers)


async def _frames(gateway: Gateway, after: Position, wanted: Filter) -> AsyncGenerator[bytes, None]:
    index = gateway.index
    yield b"retry: 1000\nid: %b\nevent: open\ndata: %b\n\n" % (str(after).encode(), _state(index))
    batches = merge(index.events(after, wanted), gateway.thoughts.follow(wanted.goal))
    pending = asyncio.ensure_future(anext(batches))
    try:
        while True:
            done, _ = await asyncio.wait({pending}, timeout=KEEP_ALIVE)
            if not done:
                yield b"event: alive\ndata: %b\n\n" % _state(index)
                continue
            batch = pending.result()
            pending = asyncio.ensure_future(anext(batches))
            frames = []
            for each in batch:
                if isinstance(each, Recent):  # another gateway may have told more of the other stream
                    after = after.joined(each.position)
                    frames.append(b"id: %b\nevent: message\ndata: %b\n\n" % (str(after).encode(), each.data))
                else:
                    frames.append(b"event: thinking\ndata: %b\n\n" % each.to_json())
            yield b"".join(frames)
    finally:
        pending.cancel()
        await asyncio.gather(pending, return_exceptions=True)
        await batches.aclose()


def _state(index: LogIndex) -> bytes:
    """What a stream says of the index: why nothing new comes; empty if all is well."""
    return msgspec.json.encode({"problem": index.problem})


PAGE = 200  # Messages that are read at once


class ExportQuery(Filter, frozen=True, kw_only=True):
    """Which messages, oldest first, from after a position on; at most ``limit``."""

    after: str = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1_000_000


class ExportedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A line: where the message is stored, its headers, and its JSON (as text if it is none)."""

    stream: str
    seq: int
    time: str
    subject: str
    headers: dict[str, str]
    body: Any


async def export_messages(call: Call, query: ExportQuery) -> Response:
    """Whole messages of the log, one JSON object a line, to be kept as a file."""
    after = Position.parse(query.after) if query.after else Position()
    name = f"mailroom-{datetime.now(UTC):%Y%m%d-%H%M%S}.jsonl"
    headers = {"Cache-Control": "no-store", "Content-Disposition": f'attachment; filename="{name}"'}
    lines = _lines(call.gateway, query, after)
    return StreamingResponse(lines, media_type="application/x-ndjson", headers=headers)


async def _lines(gateway: Gateway, query: ExportQuery, after: Position) -> AsyncGenerator[bytes, None]:
    left = query.limit
    while left > 0:
        rows = await find_messages(gateway.index.store, query, after=after, limit=min(PAGE, left))
        if not rows:
            return
        read = {
            stream: await read_messages(
                gateway.bus, stream, [row.seq for row in rows if row.stream == stream]
            )
            for stream in STREAMS
        }
        for row in rows:
            if stored := read[row.stream].get(row.seq):
                body, raw = _decode(stored)
                found = ExportedMessage(
                    stream=stored.stream,
                    seq=stored.seq,
                    time=stored.time,
                    subject=stored.subject,
                    headers=stored.headers,
                    body=raw if body is None else body,
                )
                yield msgspec.json.encode(found) + b"\n"
        after = Position.parse(rows[-1].position)
        left -= len(rows)


ENDPOINTS = (
    Endpoint("GET", f"{API}/messages", list_messages, scope=Scope.READ, tag="messages"),
    Endpoint("GET", MESSAGE, read_whole_message, scope=Scope.READ, tag="messages"),
    Endpoint("GET", f"{API}/search", search, scope=Scope.READ, tag="messages"),
    Endpoint("GET", f"{API}/events", follow, scope=Scope.READ, tag="messages"),
    Endpoint("POST", f"{API}/audit/verify", verify, scope=Scope.READ, tag="messages"),
    Endpoint("GET", f"{API}/export", export_messages, scope=Scope.READ, tag="messages"),
)
