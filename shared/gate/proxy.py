"""The proxy of one command: HTTP CONNECT and plain HTTP, each request judged by itself; no TLS is opened."""

import asyncio
import base64
import contextlib
import re
import time
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from shared.gate import Session
from shared.gate.addresses import (
    BAD_GATEWAY,
    FORBIDDEN,
    MALFORMED,
    Refused,
    matches,
    parse_authority,
    parse_ip,
    require_granted,
    resolve,
)

HEAD_BYTES = 64 << 10  # The most bytes of a request's head
HEAD_SECONDS = 30.0  # Seconds a client has to send the head
CONNECT_SECONDS = 20.0  # Seconds to connect to one address
IDLE_SECONDS = 300.0  # Seconds without a byte in either direction after which a connection is closed
AT_ONCE = 128  # The most connections of one command at a time
MOST_RECORDS = 1_000
"""The most connections that are reported; the last of them stands for all that came after the others."""
CHUNK = 128 << 10
LENGTH_REQUIRED = 411
HOP_BY_HOP = re.compile(rb"(?i)(proxy-[^:]*|connection|keep-alive|te|trailer|upgrade|host)[ \t]*:")
"""Header fields that are for the next hop alone (RFC 9110, 7.6.1); Host is written again."""
REASONS = {
    MALFORMED: "Bad Request",
    FORBIDDEN: "Forbidden",
    LENGTH_REQUIRED: "Length Required",
    BAD_GATEWAY: "Bad Gateway",
}


class Record:
    """A connection so far, as it will be reported."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.why = ""
        self.bytes = {"sent": 0, "received": 0}
        self.started = self.last = time.monotonic()

    def add(self, direction: str, count: int) -> None:
        """Count bytes that were ``sent`` or ``received``."""
        self.bytes[direction] += count
        self.last = time.monotonic()

    def report(self) -> dict[str, object]:
        """The fields of a Connection."""
        seconds = round(self.last - self.started, 3)
        judged = {"host": self.host, "port": self.port, "allowed": not self.why, "why": self.why}
        return {**judged, **self.bytes, "seconds": seconds}


class _Request(NamedTuple):
    host: str
    port: int
    head: bytes  # what is sent on, empty for CONNECT
    body: int


class Proxy:
    """The connections of one command."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.records: list[Record] = []
        self.active: dict[asyncio.Task[None], Record | None] = {}
        self.left = session.max_bytes
        self.resolved: dict[tuple[str, int], asyncio.Task[list[str]]] = {}

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of the command."""
        task = asyncio.current_task()
        if task is None or len(self.active) >= AT_ONCE:
            writer.transport.abort()
            return
        self.active[task] = None
        try:
            await self._serve(task, reader, writer)
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the client went away, was too slow, or sent no request
        finally:
            del self.active[task]
            writer.transport.abort() if writer.transport.is_closing() else writer.close()

    async def _serve(
        self, task: "asyncio.Task[None]", reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        record = None
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            request = _parse(head)
            record = self.active[task] = self._record(request.host, request.port)
            require_granted(self.session, request.host, request.port)
            theirs, remote = await self._connect(request.host, request.port)
        except Refused as refused:
            if record is not None:
                record.why = refused.why
            await _answer(reader, writer, refused)
            return
        try:
            if request.head:
                remote.write(request.head)
            else:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            body = request.body if request.head else None
            await self._relay(record, (reader, writer), (theirs, remote), body)
        except Refused as refused:
            record.why = refused.why
        finally:
            remote.transport.abort()

    def _record(self, host: str, port: int) -> Record:
        if len(self.records) >= MOST_RECORDS:
            return self.records[-1]
        is_last = len(self.records) == MOST_RECORDS - 1
        self.records.append(Record("others", 0) if is_last else Record(host, port))
        return self.records[-1]

    async def _connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        problem = "no address"
        through = has_upstream(self.session, host, port)
        for address in await self.resolve(host, port, is_needed=not through):
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    if through:
                        return await connect_upstream(self.session, host, port, CHUNK)
                    return await asyncio.open_connection(address, port, limit=CHUNK)
            except (TimeoutError, OSError) as error:
                problem = getattr(error, "strerror", "") or "no answer in time"
        raise Refused(BAD_GATEWAY, f"{host}:{port} cannot be reached ({problem})")

    async def resolve(self, host: str, port: int, *, is_needed: bool) -> list[str]:
        """The addresses of a host, resolved once for the command unless that fails."""
        key = (host, port)
        if key not in self.resolved:
            self.resolved[key] = asyncio.ensure_future(resolve(self.session, host, port, is_needed=is_needed))
        try:
            return await asyncio.shield(self.resolved[key])  # others may wait for it too
        except Refused:
            self.resolved.pop(key, None)
            raise

    async def _relay(
        self,
        record: Record,
        ours: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        theirs: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        body: int | None,
    ) -> None:
        """Copy in both directions; ``body`` is how much the client may send, None for what it likes."""
        sending = asyncio.ensure_future(self._copy(record, "sent", ours[0], theirs[1], body))
        receiving = asyncio.ensure_future(self._copy(record, "received", theirs[0], ours[1], None))
        both = (sending, receiving)
        try:
            # After the answer to a plain request nothing more is passed on: the next would not be judged.
            done, _ = await asyncio.wait(
                both, return_when=asyncio.FIRST_EXCEPTION if body is None else asyncio.FIRST_COMPLETED
            )
            if body is not None and receiving not in done:
                await asyncio.wait({receiving})
            for each in both:
                if each.done():
                    each.result()
        finally:
            for each in both:
                each.cancel()
            await asyncio.wait(both)

    async def _copy(
        self,
        record: Record,
        field: str,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        most: int | None,
    ) -> None:
        left = most
        while left is None or left > 0:
            chunk = await source.read(CHUNK if left is None else min(CHUNK, left))
            if not chunk:
                break
            self.left -= len(chunk)
            if self.left < 0:
                raise Refused(FORBIDDEN, f"more than {self.session.max_bytes:,} bytes were transferred")
            record.add(field, len(chunk))
            left = None if left is None else left - len(chunk)
            target.write(chunk)
            await target.drain()
        if most is None and target.can_write_eof():
            target.write_eof()

    async def close_idle(self) -> None:
        """Close what no byte passes through, until cancelled."""
        while True:
            await asyncio.sleep(IDLE_SECONDS / 10)
            for task, record in self.active.items():
                if record is not None and time.monotonic() - record.last > IDLE_SECONDS:
                    task.cancel()

    async def close(self) -> list[dict[str, object]]:
        """Close all connections; returns the report on them."""
        tasks = list(self.active)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=1)
        if len(self.records) == MOST_RECORDS:
            self.records[-1].why = f"{MOST_RECORDS:,} or more connections were asked for"
        return [record.report() for record in self.records]


def _parse(head: bytes) -> _Request:
    """The request in ``head``; raises Refused if it is none that a proxy carries out."""
    line, *fields = head[:-4].split(b"\r\n")
    words = line.decode("latin-1").split(" ")
    if (
        len(words) != 3
        or words[2] not in ("HTTP/1.0", "HTTP/1.1")
        or any(b"\n" in each or b"\r" in each for each in fields)
    ):
        raise Refused(MALFORMED, "the request is malformed")
    method, target, version = words
    if method == "CONNECT":
        return _Request(*parse_authority(target), b"", 0)
    with contextlib.suppress(ValueError):
        parts = urlsplit(target)
        if parts.scheme == "http" and re.fullmatch(r"[!-~]+", target) and re.fullmatch(r"[A-Z]+", method):
            host, port = parse_authority(parts.netloc, 80)
            path = parts._replace(scheme="", netloc="", fragment="").geturl() or "/"
            path = path if path.startswith("/") else f"/{path}"
            kept = [each for each in fields if not HOP_BY_HOP.match(each)]
            lines = [f"{method} {path} {version}".encode(), b"Host: " + parts.netloc.encode(), *kept]
            return _Request(host, port, b"\r\n".join([*lines, b"Connection: close", b"", b""]), _length(kept))
    raise Refused(MALFORMED, "this proxy does CONNECT and http:// alone")


def _length(fields: list[bytes]) -> int:
    """The length of the body; raises Refused if it is not stated, or not plainly."""
    values = []
    for field in fields:
        name, separator, value = field.partition(b":")
        if not separator or not re.fullmatch(rb"[!#-'*+.^-z|~0-9A-Z-]+", name):
            raise Refused(MALFORMED, "a header field is malformed")
        if name.lower() == b"transfer-encoding":
            raise Refused(LENGTH_REQUIRED, "a body without Content-Length is not passed on")
        if name.lower() == b"content-length":
            values.append(value.strip())
    if len(values) > 1 or not all(re.fullmatch(rb"[0-9]{1,15}", value) for value in values):
        raise Refused(MALFORMED, "Content-Length is malformed")
    return int(values[0]) if values else 0


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, refused: Refused) -> None:
    """Answer with the reason also in the status line, which many clients show."""
    why = "".join(each if " " <= each <= "~" else "?" for each in refused.why)
    body = f"Mailroom's gate: {why}\n".encode()
    head = (
        f"HTTP/1.1 {refused.status} {REASONS[refused.status]}: {why}\r\nContent-Type: text/plain\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    writer.write(head.encode() + body)
    await writer.drain()
    writer.write_eof()
    with contextlib.suppress(asyncio.TimeoutError):  # a reset would lose the answer
        async with asyncio.timeout(1):
            while await reader.read(CHUNK):
                pass


# --- the machine's own proxy ------------------------------------------------------------------------


def has_upstream(session: Session, host: str, port: int) -> bool:
    """Whether the host is reached through the machine's own proxy."""
    if not session.upstream or any(matches(pattern, host, port) for pattern in session.private):
        return False
    for word in re.split(r"[,\s]+", session.direct.lower()):
        name = word.removeprefix("*").removeprefix(".")
        if word == "*" or (name and (host == name or (host.endswith(f".{name}") and parse_ip(host) is None))):
            return False
    return True


async def connect_upstream(
    session: Session, host: str, port: int, limit: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A tunnel to the host through that proxy; raises Refused if it gives none, OSError."""
    proxy = urlsplit(session.upstream)
    reader, writer = await asyncio.open_connection(proxy.hostname, proxy.port or 80, limit=limit)
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.username:
        login = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        lines.append(f"Proxy-Authorization: Basic {base64.b64encode(login.encode()).decode()}")
    try:
        writer.write("\r\n".join([*lines, "", ""]).encode())
        head = await reader.readuntil(b"\r\n\r\n")
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        writer.transport.abort()
        raise Refused(BAD_GATEWAY, "the machine's own proxy gave no answer") from None
    status = re.match(rb"HTTP/1\.[01] ([0-9]{3})", head)
    if status is None or not status[1].startswith(b"2"):
        writer.transport.abort()
        code = status[1].decode() if status else "no status"
        raise Refused(BAD_GATEWAY, f"the machine's own proxy refused {host}:{port} ({code})")
    return reader, writer
