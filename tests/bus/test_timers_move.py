"""An office whose agents shared one stream of timers gets one for each agent, and no timer is lost."""

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from services.cli.supervisor.provisioning import provision_streams
from shared import subjects
from shared.bus import Bus
from shared.bus.provision import durables
from tests.bus.conftest import ACK_WAIT, AGENTS
from tests.support.server import Server

OLD = {
    "name": subjects.SHARED_TIMERS,
    "subjects": ["timer.set.*.*", "timer.due.*"],
    "storage": "file",
    "allow_direct": True,
    "allow_msg_schedules": True,
    "allow_msg_ttl": True,
    "allow_rollup_hdrs": True,
}


async def ask(admin: Bus, verb: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    answer = await admin.request(f"$JS.API.{verb}", json.dumps(body).encode() if body else b"")
    result: dict[str, Any] = json.loads(answer)
    assert "error" not in result, result
    return result


async def go_back(admin: Bus) -> None:
    """Bring the store to what it was before: one stream for all timers, with the agents' durables."""
    for agent in subjects.TIMED:
        await ask(admin, f"STREAM.DELETE.{subjects.timers_stream(agent)}")
    await ask(admin, f"STREAM.CREATE.{subjects.SHARED_TIMERS}", OLD)
    for stream, config in durables(AGENTS, ACK_WAIT, 3):
        if stream.startswith("TIMERS_"):
            verb = f"CONSUMER.DURABLE.CREATE.{subjects.SHARED_TIMERS}.{config['name']}"
            await ask(admin, verb, {"stream_name": subjects.SHARED_TIMERS, "config": config})


async def set_timer(admin: Bus, agent: str, name: str, seconds: float) -> None:
    headers = {
        "Nats-Schedule": f"@at {datetime.now(UTC) + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S.%fZ}",
        "Nats-Schedule-Target": subjects.timer_due(agent),
    }
    await admin.store(subjects.timer(agent, name), name.encode(), headers=headers)


async def handle_one(admin: Bus, agent: str) -> None:
    """Take one timer that is due, as its agent does, and acknowledge it."""
    durable = f"{subjects.SHARED_TIMERS}.{subjects.timers_durable(agent)}"
    message = await admin._client.request(
        f"$JS.API.CONSUMER.MSG.NEXT.{durable}", b"", timeout=5, old_style=True
    )
    await admin._client.request(message.reply, b"+ACK", timeout=5)


async def contents(admin: Bus, stream: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    async for each in admin.read(stream, {"seq": 1, "next_by_subj": ">", "batch": 100}):
        found.setdefault(each.subject, []).append(each.data.decode())
    return found


async def test_no_timer_is_lost(server: Server) -> None:
    admin = await server.connect(subjects.ADMIN)
    await go_back(admin)
    await set_timer(admin, "nexus", "handled", 0)
    await asyncio.sleep(1.2)
    await handle_one(admin, "nexus")
    await set_timer(admin, "nexus", "missed", 0)
    await set_timer(admin, "nexus", "tea", 3600)
    await set_timer(admin, "conductor", "g1", 4)
    await asyncio.sleep(1.2)
    changes = await provision_streams(server.config, server.url, AGENTS)
    assert "moved 3 timers to a stream for each agent" in changes
    assert await contents(admin, subjects.timers_stream("nexus")) == {
        subjects.timer_due("nexus"): ["missed"],
        subjects.timer("nexus", "tea"): ["tea"],
    }
    async with asyncio.timeout(15):
        while await contents(admin, "TIMERS_conductor") != {subjects.timer_due("conductor"): ["g1"]}:
            await asyncio.sleep(0.1)
    assert await provision_streams(server.config, server.url, AGENTS) == []


async def test_a_move_that_a_crash_cut_short_is_finished(server: Server) -> None:
    admin = await server.connect(subjects.ADMIN)
    await go_back(admin)
    for name in ("copied", "changed", "left"):
        await set_timer(admin, "nexus", name, 3600)
    await set_timer(admin, "nexus", "soon", 1)
    closed = {**OLD, "subjects": ["timer.retired"]}
    await ask(admin, f"STREAM.UPDATE.{subjects.SHARED_TIMERS}", closed)
    await asyncio.sleep(1.5)
    # Meanwhile nexus set one of them again, and another had been copied.
    stream = subjects.timers_stream("nexus")
    timers = {"name": stream, "subjects": [*subjects.timer_subjects("nexus")], "allow_msg_schedules": True}
    await ask(admin, f"STREAM.CREATE.{stream}", timers)
    await set_timer(admin, "nexus", "copied", 3600)
    await admin.store(subjects.timer("nexus", "changed"), b"newer")
    await provision_streams(server.config, server.url, AGENTS)
    assert await contents(admin, stream) == {
        subjects.timer("nexus", "copied"): ["copied"],
        subjects.timer("nexus", "changed"): ["newer"],
        subjects.timer("nexus", "left"): ["left"],
        subjects.timer_due("nexus"): ["soon"],
    }
