"""How the client takes apart what a connection brings."""

import pytest

from shared.bus.client import BusClient

HEADERS = b"NATS/1.0\r\nSalt: abc\r\n\r\n"
STREAM = b"".join(
    [
        b"MSG inbox.1 7 5\r\nhello\r\n",
        b"MSG inbox.2 7 $JS.ACK.a.b 0\r\n\r\n",
        b"+OK\r\n",
        b"HMSG task.\xff.x 7 %d %d\r\n%b\r\n" % (len(HEADERS), len(HEADERS), HEADERS),
        b"HMSG t 7 answer %d %d\r\n%bMSG x 7 3\r\n..\r\n\r\n" % (len(HEADERS), len(HEADERS) + 15, HEADERS),
        b"MSG other 8 4\r\nlost\r\n",
    ]
)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50, len(STREAM)])
async def test_messages_come_whole_however_the_bytes_are_cut(size: int) -> None:
    client, taken = BusClient(), []
    client._receivers[7] = lambda *parts: taken.append(parts)
    for start in range(0, len(STREAM), size):
        await client._ps.parse(STREAM[start : start + size])
    assert taken == [
        ("inbox.1", "", b"", b"hello"),
        ("inbox.2", "$JS.ACK.a.b", b"", b""),
        ("task.\ufffd.x", "", HEADERS, b""),
        ("t", "answer", HEADERS, b"MSG x 7 3\r\n..\r\n"),
    ]


async def test_a_receiver_that_fails_ends_neither_the_message_nor_those_after_it() -> None:
    client, taken, failures = BusClient(), list[bytes](), list[Exception]()

    async def fail(*_: object) -> None:
        raise ValueError("broken")

    async def note(error: Exception) -> None:
        failures.append(error)

    client._error_cb = note
    client._receivers = {1: fail, 2: lambda _, __, ___, data: taken.append(data)}
    await client._ps.parse(b"MSG a 1 1\r\nx\r\nMSG a 2 1\r\ny\r\n")
    assert taken == [b"y"]
    assert [str(error) for error in failures] == ["broken"]
