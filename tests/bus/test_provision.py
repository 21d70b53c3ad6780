"""Streams, durables and buckets: made once, brought up to date, never harmed."""

import asyncio
import json

from services.cli.server import provision_office
from shared import subjects
from shared.bus.entry import Entry
from tests.bus.conftest import AGENTS, TestOffice


async def test_provisioning_again_changes_nothing(office: TestOffice) -> None:
    assert await provision_office(office.config, office.server.url, AGENTS) == []


async def test_a_changed_configuration_is_brought_up_to_date(office: TestOffice) -> None:
    bus = await office.connect("engineer")
    await bus.commit([Entry("mail.critic.engineer", b"kept", "kept")])
    admin = await office.connect(subjects.ADMIN)
    info = json.loads(await admin.request("$JS.API.STREAM.INFO.OFFICE"))
    drifted = {**info["config"], "allow_direct": False, "duplicate_window": 1_000_000_000}
    json.loads(await admin.request("$JS.API.STREAM.UPDATE.OFFICE", json.dumps(drifted).encode()))
    changes = await provision_office(office.config, office.server.url, AGENTS)
    assert changes == ["updated stream OFFICE: allow_direct, duplicate_window"]
    stored = await (await office.connect("user")).last(subjects.OFFICE, "mail.critic.engineer")
    assert stored is not None
    assert stored.data == b"kept"


async def test_a_new_agent_gets_a_mailbox(office: TestOffice) -> None:
    changes = await provision_office(office.config, office.server.url, [*AGENTS, "gardener"])
    assert changes == ["durable gardener of OFFICE: created"]


async def test_the_audit_holds_every_message_of_the_office(office: TestOffice) -> None:
    bus, user = await office.connect("engineer"), await office.connect("user")
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
