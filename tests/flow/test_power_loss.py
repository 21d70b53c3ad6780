"""What the server wrote of messages and of their acknowledgements need not be of the same moment."""

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from shared import subjects
from shared.bus import Bus
from shared.contracts import StateChanged
from tests.support.slow import install_slow_agent, slow_goal
from tests.support.up import CRITIC_TOO, UpCommand
from tests.support.waiting import eventually

STREAM = Path("nats/store/jetstream/OFFICE/streams/OFFICE")


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    return {**CRITIC_TOO, **install_slow_agent(tmp_path)}


@pytest.fixture
def office(tmp_path: Path, settings: dict[str, str]) -> Iterator[UpCommand]:
    office = UpCommand(tmp_path / "state", **settings)
    yield office
    office.close()


async def is_ended(bus: Bus, goal_id: str) -> str:
    stored = await bus.last(subjects.OFFICE, subjects.goal(goal_id))
    goal = StateChanged.from_json(stored.data).goal if stored else None
    return str(goal.status) if goal is not None and goal.status.final else ""


async def test_what_was_acknowledged_and_has_no_end_on_disk_is_done_again(
    tmp_path: Path, office: UpCommand, settings: dict[str, str]
) -> None:
    copy = tmp_path / "copy" / "state"
    copy.parent.mkdir()
    bus = await connect(office)
    await bus.store(subjects.SUBMIT, msgspec.json.encode(slow_goal("cut", 4.0)))
    await eventually(lambda: bus.last(subjects.OFFICE, subjects.task("slow", "*", "*", subjects.CLAIMED)))
    copying = ["cp", "-a", str(office.state_dir), str(copy.parent)]
    await asyncio.to_thread(subprocess.run, copying, check=False)  # files vanish meanwhile
    assert await eventually(lambda: is_ended(bus, "cut")) == "completed"
    await eventually(lambda: is_acknowledged(bus))
    await bus.close()
    office.close()  # the server writes the positions down
    shutil.rmtree(copy / STREAM / "obs")
    shutil.copytree(office.state_dir / STREAM / "obs", copy / STREAM / "obs")

    again = UpCommand(copy, **settings)
    try:
        bus = await connect(again)
        assert await eventually(lambda: is_ended(bus, "cut"), 30) == "completed"
        await bus.close()
        told = [event["text"] for event in again.events if "after a power loss" in event.get("text", "")]
        assert any("slow_medium delivers again" in text for text in told), told
    finally:
        again.close()


async def connect(office: UpCommand) -> Bus:
    key = office.state_dir / "keys" / f"{subjects.USER}.nk"
    return await Bus.connect(subjects.USER, office.record()["url"], key)


async def is_acknowledged(bus: Bus) -> bool:
    return not (await bus.call("CONSUMER.INFO.OFFICE.slow_medium", {}))["num_ack_pending"]
