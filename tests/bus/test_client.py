"""What Mailroom's client of NATS does in another way than nats-py."""

import asyncio
import signal
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from shared import subjects
from shared.bus import Bus
from shared.bus.client import BusClient
from tests.support.server import Server


async def test_a_flush_ends_after_the_server_has_read_what_was_written_before(server: Server) -> None:
    """nats-py's own writes its ping ahead of the subscription: its answer tells nothing about that."""
    written = bytearray()
    address = urlsplit(server.url)

    async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter, kept: bytearray) -> None:
        while data := await source.read(65536):
            kept += data
            sink.write(data)
        sink.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(address.hostname, address.port)
        await asyncio.gather(copy(reader, to_server, written), copy(from_server, writer, bytearray()))

    relayed = await asyncio.start_server(relay, "127.0.0.1", 0)
    port = relayed.sockets[0].getsockname()[1]
    seed = (server.config.keys / f"{subjects.USER}.nk").read_text().strip()
    client = BusClient()
    await client.connect(f"nats://127.0.0.1:{port}", nkeys_seed_str=seed)
    try:
        opening = len(written)
        await client.subscribe("_INBOX.one")
        await client.flush()
        assert written[opening:].startswith(b"SUB _INBOX.one")
        assert written.endswith(b"PING\r\n")
    finally:
        await client.close()
        relayed.close()


async def test_a_request_can_be_cancelled_as_its_answer_comes(server: Server) -> None:
    async with server.raw_client(subjects.USER) as client:
        asking = asyncio.create_task(client.request("$JS.API.STREAM.INFO.OFFICE", timeout=10))
        while not client._resp_map:
            await asyncio.sleep(0)
        (waiting,) = client._resp_map.values()
        waiting.add_done_callback(lambda _: asking.cancel())
        await asyncio.wait([asking], timeout=10)
        assert asking.cancelled()


async def test_closing_while_the_server_is_away_raises_nothing(tmp_path: Path) -> None:
    server = Server(tmp_path, ("engineer",))
    try:
        await server.start()
        buses = [await server.connect("engineer") for _ in range(20)]
        server.kill()

        async def close(bus: Bus, pause: float) -> None:
            await asyncio.sleep(pause)
            await bus.close()
            assert bus.closed.is_set()

        await asyncio.gather(*(close(bus, 0.02 * number) for number, bus in enumerate(buses)))
    finally:
        await server.close()


@pytest.mark.parametrize("flushes", [1, 3])
async def test_a_connection_reads_on_after_a_flush_that_was_cancelled(server: Server, flushes: int) -> None:
    """nats-py's own sets the result of the cancelled one, and reads nothing more for 20 s."""
    async with server.raw_client(subjects.USER) as client:
        await server.freeze()
        asking = [asyncio.create_task(client.flush()) for _ in range(flushes)]
        await asyncio.sleep(0.1)
        for each in asking:
            each.cancel()
        await asyncio.wait(asking)
        server.process.send_signal(signal.SIGCONT)
        await client.flush(5)
        assert (await client.request("$JS.API.STREAM.INFO.OFFICE", timeout=5)).data
        assert client.connection == 0
