"""What a host that joined may do with its keys, tried on a live server."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from shared import subjects
from shared.bus import Bus
from shared.bus.connecting import ensure_keys
from shared.bus.hosts import Host, Membership, changing_hosts, write_membership
from shared.errors import BusUnavailable
from tests.support.server import Server

pytestmark = pytest.mark.asyncio(loop_scope="module")
AGENTS = ["conductor", "engineer", "critic"]
PAGE = b"{}"


def join(server: Server, folder: Path, name: str, *roles: str) -> Path:
    """Make a host by hand; returns its folder of keys."""
    keys = folder / name
    mine = ensure_keys(keys, ["host", *roles])
    with changing_hosts(server.config.keys) as hosts:
        hosts.joined[name] = Host(
            key=mine["host"], roles={role: mine[role] for role in roles}, joined_at="2026-11-30T00:00:00Z"
        )
    member = Membership(host=name, servers="", roles=roles, ids=dict.fromkeys(roles, "00" * 32))
    write_membership(keys, member)
    return keys


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    folder = tmp_path_factory.mktemp("hosts")
    server = Server(folder, AGENTS)
    try:
        for name in ("lab", "den"):
            join(server, folder, name, "engineer")
        await server.start()
        yield server
    finally:
        await server.close()


@pytest_asyncio.fixture(loop_scope="module")
async def lab(server: Server) -> AsyncIterator[Bus]:
    keys = server.config.state_dir.parent / "lab"
    bus = await Bus.connect("engineer", server.url, keys / "engineer.nk")
    yield bus
    await bus.close()


async def test_a_host_is_named_by_its_processes(lab: Bus) -> None:
    assert lab.host == "lab"
    assert subjects.host_of(lab.instance) == "lab"


async def test_a_host_stands_in_the_directory_as_itself_alone(lab: Bus, server: Server) -> None:
    await lab.store(subjects.presence("engineer", lab.instance), PAGE)
    for other in ("den-x", "x"):
        with pytest.raises(BusUnavailable):
            await lab.store(subjects.presence("engineer", other), PAGE, timeout=0.5)


async def test_a_reply_stores_nothing_in_anothers_place(lab: Bus, server: Server) -> None:
    """The server does not check where a reply goes; within an account it may match an import."""
    admin = await server.connect(subjects.ADMIN)
    await lab.store(subjects.presence("engineer", lab.instance), PAGE)
    forged = subjects.presence("engineer", "den-forged")
    mine = subjects.presence("engineer", lab.instance)
    stream = subjects.bucket_stream(subjects.AGENTS_BUCKET)
    client = lab._client
    await client.publish(f"$JS.API.DIRECT.GET.{stream}.{mine}", b"", reply=forged)
    await client.publish(mine, PAGE, reply=forged)
    await client.publish(subjects.peer("engineer", lab.instance), b"x", reply=forged)
    await client.flush()
    await asyncio.sleep(0.3)
    found = await admin.last(stream, forged)
    assert found is None, json.dumps(found.data.decode())
