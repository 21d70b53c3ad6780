"""Seals on a NATS server that is none of the office's."""

import asyncio
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import nats
import pytest

from services.cli.supervisor.programs import find_server, is_listening
from services.gateway.trail import witness
from shared import settings
from shared.bus.elsewhere import store_elsewhere
from shared.contracts import Seal
from shared.errors import BusError, BusUnavailable, ConfigError
from shared.queries.seals import name_of
from shared.trail.seals import make_seal, read_kept
from tests.support.server import environment

CONFIG = """
port: {port}
jetstream {{ store_dir: "{folder}" }}
authorization {{ users: [
  {{ user: office, password: secret, permissions: {{ publish: ["seals.office", "seals.none"] }} }}
  {{ user: admin, password: admin }}
] }}
"""


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    (tmp_path / "conf").write_text(CONFIG.format(port=port, folder=tmp_path / "store"))
    program = find_server(settings.load(environment(tmp_path)))
    with subprocess.Popen([program, "--config", tmp_path / "conf"], stderr=subprocess.DEVNULL) as process:
        while not is_listening(port):
            os.sched_yield()
        yield port
        process.kill()


async def make_stream(port: int) -> "nats.NATS":
    client = await nats.connect(f"nats://admin:admin@127.0.0.1:{port}")
    await client.jetstream().add_stream(name="SEALS", subjects=["seals.office"])
    return client


async def test_a_seal_is_kept_once_it_was_stored(port: int) -> None:
    client = await make_stream(port)
    address = f"nats://office:secret@127.0.0.1:{port}/seals.office"
    await store_elsewhere(address, b"a seal", "1")
    await store_elsewhere(address, b"a seal", "1")
    stored = await client.jetstream().get_last_msg("SEALS", "seals.office")
    assert (stored.seq, stored.data) == (1, b"a seal")
    await client.close()


async def test_what_is_not_stored_is_told(port: int) -> None:
    client = await make_stream(port)
    with pytest.raises(BusError, match=r"No stream of 127.0.0.1 takes seals.none"):
        await store_elsewhere(f"nats://office:secret@127.0.0.1:{port}/seals.none", b"", "1")
    with pytest.raises(BusUnavailable, match=r"may this user publish there"):
        await store_elsewhere(f"nats://office:secret@127.0.0.1:{port}/other", b"", "1", timeout=0.3)
    with pytest.raises(BusUnavailable, match=r"No connection to 127.0.0.1"):
        await store_elsewhere(f"nats://office:wrong@127.0.0.1:{port}/seals.office", b"", "1")
    with pytest.raises(BusUnavailable, match=r"No connection to 127.0.0.1"):
        await store_elsewhere("nats://127.0.0.1:1/seals.office", b"", "1")
    for address in ("nats://127.0.0.1", "nats:///x", "nats://127.0.0.1/a.*"):
        with pytest.raises(ConfigError, match="no address"):
            await store_elsewhere(address, b"", "1")
    await client.close()


def test_no_secret_of_a_witness_is_shown() -> None:
    assert name_of("nats://office:secret@host:4222/seals?creds=/run/x") == "nats://host:4222/seals"
    assert name_of("https://u:p@host/seals") == "https://host/seals"
    assert name_of("/mnt/seals") == "/mnt/seals"
    assert name_of("mailto:ada@example.org") == "mailto:ada@example.org"


async def test_the_file_of_the_gateway_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witness, "OWN_SIZE", 20_000)
    monkeypatch.setattr(witness, "OWN_KEPT", 5)
    path, last = tmp_path / "seals", list[Seal]()
    first = make_seal("MEMORY", None, [b"x" * 32], "gateway")
    witness._append(path, first.to_json() + b"\n")
    for number in range(100):
        last.append(make_seal("OFFICE", last[-1] if last else None, [b"%032d" % number], "gateway"))
        witness._append(path, last[-1].to_json() + b"\n")
        await asyncio.to_thread(witness._shorten, path)
    assert path.stat().st_size < 25_000
    kept = read_kept(path)
    assert kept[-1] == last[-1]
    assert first in kept
