"""Export of the log: whole messages as JSON lines, as a file to download."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from starlette.responses import Response, StreamingResponse

from services.gateway.api.messages import API
from services.gateway.call import Call, Gateway
from services.gateway.index.reader import find_messages
from services.gateway.index.rows import MessageRow, Position
from services.gateway.index.store import Filter
from services.gateway.routing import Endpoint
from shared.access.scopes import Scope
from shared.bus import Stored
from shared.trail.archives import read_message

PAGE = 200  # Messages that are read at once
AT_ONCE = 16  # Messages of a page that are asked for at the same time


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
        for found in await _read(gateway, rows):
            yield msgspec.json.encode(found) + b"\n"
        after = Position.parse(rows[-1].position)
        left -= len(rows)


async def _read(gateway: Gateway, rows: Sequence[MessageRow]) -> list[ExportedMessage]:
    gate = asyncio.Semaphore(AT_ONCE)

    async def read_one(row: MessageRow) -> ExportedMessage | None:
        async with gate:
            stored = await read_message(gateway.bus, row.stream, row.seq)
        return _exported(stored) if stored else None

    return [found for found in await asyncio.gather(*map(read_one, rows)) if found]


def _exported(stored: Stored) -> ExportedMessage:
    try:
        body = msgspec.json.decode(stored.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        body = stored.data.decode("utf-8", "replace")
    return ExportedMessage(
        stream=stored.stream,
        seq=stored.seq,
        time=stored.time,
        subject=stored.subject,
        headers=stored.headers,
        body=body,
    )


ENDPOINTS = (Endpoint("GET", f"{API}/export", export_messages, scope=Scope.READ, tag="messages"),)
