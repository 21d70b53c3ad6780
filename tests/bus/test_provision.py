"""Streams, durables and buckets: made once, brought up to date, never harmed."""

import asyncio
import json
import shutil
from pathlib import Path

import msgspec
import pytest

from services.cli.supervisor.provisioning import PUBLIC_KEYS, deal_keys, provision_streams
from shared import subjects
from shared.bus import Bus
from shared.bus.entry import Entry
from shared.errors import BusUnavailable
from tests.bus.conftest import AGENTS
from tests.support.server import Server


async def test_provisioning_again_changes_nothing(server: Server) -> None:
    assert await provision_streams(server.config, server.url, AGENTS) == []


async def test_a_changed_configuration_is_brought_up_to_date(server: Server) -> None:
    bus = await server.connect("engineer")
    await bus.commit([Entry("mail.critic.engineer", b"kept", "kept")])
    admin = await server.connect(subjects.ADMIN)
    info = json.loads(await admin.request("$JS.API.STREAM.INFO.OFFICE"))
    drifted = {**info["config"], "allow_direct": False, "duplicate_window": 1_000_000_000}
    json.loads(await admin.request("$JS.API.STREAM.UPDATE.OFFICE", json.dumps(drifted).encode()))
    changes = await provision_streams(server.config, server.url, AGENTS)
    assert changes == ["updated stream OFFICE: allow_direct, duplicate_window"]
    stored = await (await server.connect("user")).last(subjects.OFFICE, "mail.critic.engineer")
    assert stored is not None
    assert stored.data == b"kept"


async def test_a_new_agent_gets_a_mailbox(server: Server) -> None:
    changes = await provision_streams(server.config, server.url, [*AGENTS, "gardener"])
    durables = [f"durable {name} of OFFICE: created" for name in subjects.mailboxes("gardener")]
    assert changes == ["key of gardener", *durables]


async def test_the_admins_folder_alone_does(server: Server, tmp_path: Path) -> None:
    """As in a container, which has no seed but the admin's, and cannot write beside it."""
    dealt, names = tmp_path / "dealt", [*AGENTS, subjects.USER, subjects.ADMIN]
    deal_keys(server.config, names, dealt)
    admins = dealt / subjects.ADMIN
    assert {path.name for path in admins.iterdir()} == {"admin.nk", PUBLIC_KEYS}
    alone = msgspec.structs.replace(server.config, key_dir=admins)
    assert await provision_streams(alone, server.url, AGENTS) == []
    assert {path.name for path in admins.iterdir()} == {"admin.nk", PUBLIC_KEYS}


async def test_the_audit_holds_every_message_of_the_office(server: Server) -> None:
    bus, user = await server.connect("engineer"), await server.connect("user")
    await bus.commit([Entry("mail.critic.engineer", b"%d" % n, f"n{n}") for n in range(50)])
    audited: list[bytes] = []
    for _ in range(100):
        audited = [
            m.data async for m in user.read(subjects.AUDIT, {"seq": 1, "batch": 100, "next_by_subj": ">"})
        ]
        if len(audited) == 50:
            break
        await asyncio.sleep(0.05)
    assert audited == [b"%d" % n for n in range(50)]


async def audited(user: Bus) -> list[bytes]:
    request = {"seq": 1, "batch": 100, "next_by_subj": ">"}
    try:
        return [m.data async for m in user.read(subjects.AUDIT, request)]
    except BusUnavailable:
        return []


@pytest.mark.parametrize("lost", ["messages", "stream"])
async def test_an_audit_that_a_power_cut_took_is_copied_again(server: Server, lost: str) -> None:
    """The copies are not synced message by message; what they copy is."""
    bus, user = await server.connect("engineer"), await server.connect("user")
    written = [b"%d" % n for n in range(50)]
    await bus.commit([Entry("mail.critic.engineer", data, f"n{data!r}") for data in written])
    async with asyncio.timeout(10):
        while await audited(user) != written:
            await asyncio.sleep(0.05)
    server.kill()
    (folder,) = (server.config.state_dir / "nats" / "store").rglob("AUDIT")
    shutil.rmtree(folder / "msgs" if lost == "messages" else folder)
    await server.restart()
    await provision_streams(server.config, server.url, AGENTS)
    async with asyncio.timeout(20):
        while await audited(user) != written:
            await asyncio.sleep(0.1)
