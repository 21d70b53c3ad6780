"""Opening a connection with what is wrong, and sending what is too large."""

from pathlib import Path

import pytest

from shared.bus import Bus
from shared.bus.commit import LARGEST
from shared.bus.entry import Entry
from shared.errors import BusError, BusUnavailable, Denied
from tests.support.server import Server


@pytest.mark.parametrize("content", [b"", b"no seed", b"\xff\xfe\x00", b"SUACSSL3"])
async def test_a_damaged_key_is_said_with_its_cure(server: Server, tmp_path: Path, content: bytes) -> None:
    seed = tmp_path / "engineer.nk"
    seed.write_bytes(content)
    with pytest.raises(Denied, match=r"damaged.*Delete the file"):
        await Bus.connect("engineer", server.url, seed, wait=0.1)


async def test_without_a_server_the_error_says_how_to_start_one(server: Server) -> None:
    seed = server.config.keys / "engineer.nk"
    with pytest.raises(BusUnavailable, match="Start the office with 'mailroom up'"):
        await Bus.connect("engineer", "nats://127.0.0.1:1", seed, wait=0.1)


async def test_too_large_a_message_is_refused_and_the_connection_stays(
    server: Server,
) -> None:
    bus = await server.connect("engineer")
    with pytest.raises(BusError, match="bytes"):
        await bus.commit([Entry("mail.critic.engineer", b"x" * (LARGEST + 1), "large")])
    await bus.commit([Entry("mail.critic.engineer", b"x" * LARGEST, "just fits")])
    stored = await (await server.connect("user")).last("OFFICE", "mail.critic.engineer")
    assert stored is not None
    assert len(stored.data) == LARGEST
