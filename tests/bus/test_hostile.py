"""What an agent does with its own key to harm others, tried on a live server."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from shared import subjects
from shared.bus import Bus
from shared.bus.records import read_presences
from shared.contracts import Presence
from shared.errors import BusError
from tests.support.server import Server


def schedule(target: str, seconds: float = 0.1) -> dict[str, str]:
    moment = datetime.now(UTC) + timedelta(seconds=seconds)
    return {"Nats-Schedule": f"@at {moment:%Y-%m-%dT%H:%M:%S.%fZ}", "Nats-Schedule-Target": target}


async def last(bus: Bus, stream: str, subject: str) -> bytes | None:
    stored = await bus.last(stream, subject)
    return None if stored is None else stored.data


# --- timers --------------------------------------------------------------------------------------


async def test_a_timer_cannot_go_off_at_another_agent(server: Server) -> None:
    nexus, admin = await server.connect("nexus"), await server.connect(subjects.ADMIN)
    due = subjects.timer_due("conductor")
    with pytest.raises(BusError, match="target is invalid"):
        await nexus.store(subjects.timer("nexus", "x"), b"forged", headers=schedule(due))
    await nexus.store(subjects.timer("nexus", "y"), b"mine", headers=schedule(subjects.timer_due("nexus")))
    mine = subjects.timers_stream("nexus")
    async with asyncio.timeout(5):
        while await last(admin, mine, subjects.timer_due("nexus")) != b"mine":
            await asyncio.sleep(0.05)
    assert await last(admin, subjects.timers_stream("conductor"), due) is None


async def test_no_agent_removes_the_timers_of_another(server: Server) -> None:
    nexus, conductor = await server.connect("nexus"), await server.connect("conductor")
    admin = await server.connect(subjects.ADMIN)
    goal = subjects.timer("conductor", "g1")
    await conductor.store(goal, b"deadline", headers=schedule(subjects.timer_due("conductor"), 60))
    for extent in ("all", "sub"):
        await nexus.store(subjects.timer("nexus", "x"), b"", headers={"Nats-Rollup": extent})
    assert await last(admin, subjects.timers_stream("conductor"), goal) == b"deadline"


async def test_a_timer_that_is_set_again_replaces_the_first(server: Server) -> None:
    """Its subject has one message, as schedules have it without any rollup of ours."""
    nexus, admin = await server.connect("nexus"), await server.connect(subjects.ADMIN)
    due = subjects.timer_due("nexus")
    await nexus.store(subjects.timer("nexus", "x"), b"first", headers=schedule(due, 0.5))
    await nexus.store(subjects.timer("nexus", "x"), b"second", headers=schedule(due, 0.7))
    await asyncio.sleep(1.5)
    stream = subjects.timers_stream("nexus")
    request = {"seq": 1, "next_by_subj": ">", "batch": 10}
    assert [(each.subject, each.data) async for each in admin.read(stream, request)] == [(due, b"second")]


# --- the directory and leases --------------------------------------------------------------------


def presence(agent: str) -> bytes:
    return Presence(
        sender=agent, agent=agent, instance="i", version="1", description="", pid=1, host="h"
    ).to_json()


@pytest.mark.parametrize(
    "headers",
    [
        {"Nats-Rollup": "all"},
        {"Nats-Rollup": "sub"},
        {"KV-Operation": "PURGE", "Nats-Rollup": "all"},
        {"Nats-TTL": "1s"},
        {"Nats-Incr": "+1"},
    ],
)
async def test_no_agent_empties_the_directory(server: Server, headers: dict[str, str]) -> None:
    engineer, critic = await server.connect("engineer"), await server.connect("critic")
    await critic.store(subjects.presence("critic", "i"), presence("critic"))
    with pytest.raises(BusError, match=r"not permitted|disabled"):
        await engineer.store(subjects.presence("engineer", "x"), b"", headers=headers)
    assert [each.agent for each in await read_presences(engineer)] == ["critic"]


async def test_an_agent_marks_no_entry_but_its_own_as_deleted(server: Server) -> None:
    """KV-Operation is a word among clients: the server takes the message for any other."""
    engineer, critic = await server.connect("engineer"), await server.connect("critic")
    await critic.store(subjects.presence("critic", "i"), presence("critic"))
    await engineer.store(subjects.presence("engineer", "x"), b"", headers={"KV-Operation": "PURGE"})
    await engineer.store(subjects.presence("engineer", "*"), b"", headers={"Nats-Marker-Reason": "Purge"})
    assert [each.agent for each in await read_presences(engineer)] == ["critic"]
