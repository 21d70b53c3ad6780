"""Streams, durables and buckets: made once, brought up to date, never harmed."""

import json
from pathlib import Path

import msgspec

from services.cli.supervisor.provisioning import PUBLIC_KEYS, deal_keys, provision_streams, read_in_hand
from shared import subjects
from shared.bus.entry import Entry
from shared.queries.checks import check_replicas
from tests.bus.conftest import AGENTS, pull_one
from tests.support.server import Server
from tests.support.waiting import eventually


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


async def test_the_log_is_republished_as_it_is_stored(server: Server) -> None:
    bus, user = await server.connect("engineer"), await server.connect("user")
    heard: list[tuple[str, str, bytes]] = []

    async def hear(subject: str, data: bytes, headers: dict[str, str]) -> None:
        heard.append((subject, headers["Nats-Sequence"], data))

    await user.subscribe(subjects.AUDIT_ALL, hear)
    await bus.commit([Entry("mail.critic.engineer", b"%d" % n, f"n{n}") for n in range(3)])
    await bus.append(Entry("memory.write.engineer", b"note", "note"))
    await eventually(lambda: len(heard) == 4)
    assert sorted(heard) == [
        *[("audit.mail.critic.engineer", str(n + 1), b"%d" % n) for n in range(3)],
        ("audit.memory.write.engineer", "1", b"note"),
    ]


async def test_what_was_in_hand_is_counted_for_each_agent(server: Server) -> None:
    """Agents that were killed at work start first."""
    engineer = await server.connect("engineer")
    await engineer.commit([Entry("mail.critic.engineer", b"%d" % n, f"n{n}") for n in range(3)])
    assert await pull_one(server, "critic") == b"0"
    assert await pull_one(server, "critic") == b"1"
    in_hand = await read_in_hand(server.config, server.url)
    assert {name: number for name, number in in_hand.items() if number} == {"critic": 2}


async def test_one_server_is_as_many_as_the_settings_say(server: Server) -> None:
    check = await check_replicas(await server.connect("user"), server.config)
    assert (check.verdict, check.finding) == ("ok", "the log lies on one server")
