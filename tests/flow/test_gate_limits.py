"""The gate's limits for slow, idle and many clients, tried on its proxy in the test's own process."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from shared.gate import Session, proxy
from shared.gate.proxy import Proxy

Connected = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def serve(handler: Callable[..., Any]) -> AsyncIterator[int]:
    """A server on a free port of the loopback."""
    server = await asyncio.start_server(handler, "127.0.0.1", 0, limit=proxy.HEAD_BYTES)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while more := await reader.read(1000):
        writer.write(more)
    writer.close()


@asynccontextmanager
async def proxied(**limits: float) -> AsyncIterator[tuple[Proxy, int, int]]:
    """A proxy with ``limits``, its port, and that of a server behind it which answers what it is sent."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in limits.items():
            patch.setattr(proxy, name, value)
        async with serve(echo) as target:
            served = Proxy(Session([f"127.0.0.1:{target}"], [f"127.0.0.1:{target}"], 1 << 20))
            watching = asyncio.ensure_future(served.close_idle())
            async with serve(served.handle) as port:
                yield served, port, target
            watching.cancel()
            await served.close()


async def tunnel(port: int, target: int) -> Connected:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"CONNECT 127.0.0.1:{target} HTTP/1.1\r\n\r\n".encode())
    assert b"200" in await reader.readuntil(b"\r\n\r\n")
    return reader, writer


async def test_a_head_that_does_not_end_is_given_up() -> None:
    async with proxied(HEAD_SECONDS=0.3) as (served, port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        started = time.monotonic()
        writer.write(b"GET http://127.0.0.1/ HTTP/1.1\r\nX: ")
        assert await reader.read() == b""
        assert time.monotonic() - started < 5
        assert served.active == {}
        writer.close()


async def test_a_name_that_was_not_granted_is_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[str] = []

    async def resolve(_: Session, host: str, *rest: object, **options: object) -> list[str]:
        looked_up.append(host)
        return []

    monkeypatch.setattr(proxy, "resolve", resolve)
    async with proxied() as (served, port, _):
        for host in ("c2VjcmV0.evil.example", "granted.example"):
            served.session.hosts.append("granted.example")
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"CONNECT {host}:443 HTTP/1.1\r\n\r\n".encode())
            writer.write_eof()
            await reader.read()
            writer.close()
    assert looked_up == ["granted.example"]


async def test_an_idle_tunnel_is_closed_and_a_busy_one_is_not() -> None:
    async with proxied(IDLE_SECONDS=1.0) as (served, port, target):
        idle, busy = await tunnel(port, target), await tunnel(port, target)
        for _ in range(15):
            busy[1].write(b"x")
            assert await busy[0].read(1) == b"x"
            await asyncio.sleep(0.1)
        assert await idle[0].read() == b""
        assert len(served.active) == 1
        for _, writer in (idle, busy):
            writer.close()


async def test_only_so_many_connections_are_open_at_once() -> None:
    async with proxied(AT_ONCE=3) as (served, port, target):
        held = [await tunnel(port, target) for _ in range(3)]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        held[0][1].close()
        while len(served.active) == 3:
            await asyncio.sleep(0.01)
        held.append(await tunnel(port, target))
        for _, each in (*held, (reader, writer)):
            each.close()


async def test_a_client_that_reads_nothing_holds_back_the_other_side() -> None:
    sent = 0

    async def pour(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        try:
            while True:
                writer.write(b"x" * 65_536)
                await writer.drain()
                sent += 65_536
        except OSError:
            pass

    async with serve(pour) as target:
        served = Proxy(Session([f"127.0.0.1:{target}"], [f"127.0.0.1:{target}"], 1 << 40))
        async with serve(served.handle) as port:
            _, writer = await tunnel(port, target)
            await asyncio.sleep(0.5)
            before = sent
            await asyncio.sleep(0.5)
            assert sent == before
            writer.close()
            await served.close()
