"""The desk calls a tool of an MCP server for what people write: at once, or after their approval, once."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shared import settings, subjects
from shared.contracts import Question, Response, ResultOutcome
from shared.mcp.config import ServerConfig, add_server
from shared.mcp.pins import write_pin
from shared.mcp.session import Session
from tests.support import home_server
from tests.support.asking import ask_nexus
from tests.support.foe import answer
from tests.support.office import Office
from tests.support.server import environment
from tests.support.waiting import eventually

PATIENCE = 60.0


async def install(folder: Path) -> None:
    """Add the house's server for nexus, with its tools approved."""
    config = settings.load(environment(folder / "state"))
    (folder / "house").mkdir()
    server = ServerConfig(
        command=sys.executable,
        args=("-I", home_server.__file__, str(folder / "house")),
        agents=("nexus",),
        read=(home_server.__file__,),
        write=(str(folder / "house"),),
        allow=("GetLiveContext",),
    )
    add_server(config, "home", server)
    session = Session("home", server)
    await session.start()
    try:
        write_pin(config, await session.list_tools())
    finally:
        await session.close()


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    await install(tmp_path)
    office = Office(tmp_path)
    try:
        await office.open([subjects.MEMORY_DAEMON, "nexus"])
        yield office
    finally:
        await office.close()


async def say(office: Office, text: str) -> Response:
    question = Question(sender=subjects.USER, recipient=subjects.NEXUS, text=text)
    return await ask_nexus(office.user, question, PATIENCE)


def changes(folder: Path) -> list[Any]:
    """The calls that changed the house."""
    path = folder / "house" / "calls"
    calls = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
    return [call for call in calls if call[0] != "GetLiveContext"]


def lights(folder: Path) -> dict[str, str]:
    states: dict[str, str] = json.loads((folder / "house" / "house.json").read_text())
    return {name: state for name, state in states.items() if home_server.HOUSE[name][0] == "light"}


async def test_the_lights_are_turned_off_once_through_a_kill(office: Office, tmp_path: Path) -> None:
    asking = asyncio.create_task(say(office, "turn off the kitchen lights"))

    async def waits() -> bool:
        return bool(await office.stored(subjects.approval_asked("nexus", "*")))

    await eventually(waits, PATIENCE)
    office.kill("nexus")
    office.start("nexus")
    request = await answer(office.user, granted=True)
    assert "call home__HassTurnOff of the MCP server home (home-assistant 1.26.0)" in request.what
    assert '{"area": "Kitchen", "domain": ["light"]}' in request.what
    assert (await asking).outcome is ResultOutcome.DONE
    assert changes(tmp_path) == [["HassTurnOff", {"area": "Kitchen", "domain": ["light"]}]]
    off = {name for name, state in lights(tmp_path).items() if state == "off"}
    assert {"Kitchen Ceiling", "Kitchen Counter"} <= off
    assert "Floor Lamp" not in off
    assert len(await office.stored(subjects.approval_asked("nexus", "*"))) == 1


async def test_the_status_of_the_home_is_told_at_once(office: Office, tmp_path: Path) -> None:
    told = await say(office, "home status")
    assert "- Kitchen Ceiling: light, on, Kitchen" in told.text
    assert told.route_used == "tool:mcp"
    locked = await say(office, "is the front door locked?")
    assert locked.text == "- Front Door: lock, locked, Hallway"
    assert (await say(office, "status")).route_used == "tool:goals"
    assert "does: home (20 tools)" in (await say(office, "what can you do?")).text
    reminder = await say(office, "remind me tomorrow at 9 to turn off the lights")
    assert reminder.route_used == "tool:reminder_set"
    assert not changes(tmp_path)
    assert not await office.stored(subjects.approval_asked("nexus", "*"))


async def test_nothing_is_done_that_is_refused_or_not_named(office: Office, tmp_path: Path) -> None:
    asking = asyncio.create_task(say(office, "unlock the front door"))
    await answer(office.user, granted=False)
    refused = await asking
    assert refused.outcome is ResultOutcome.FAILED
    assert "A person refused it" in refused.text
    asked = await say(office, "turn off the radio in the shed")
    assert asked.text == "home__HassTurnOff would do that, and needs the name. Which?"
    assert not changes(tmp_path)


async def test_without_a_server_it_is_said_what_is_missing(tmp_path: Path) -> None:
    office = Office(tmp_path)
    try:
        await office.open([subjects.MEMORY_DAEMON, "nexus"])
        for text in ("home status", "turn off the lights"):
            told = await say(office, text)
            assert told.outcome is ResultOutcome.FAILED
            assert "mailroom mcp add home --for nexus" in told.text
    finally:
        await office.close()
