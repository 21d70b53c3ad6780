"""The desk calls a tool of an MCP server for what people write: at once, or after their approval, once."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from services.nexus.servers.serving import tell
from shared import settings, subjects
from shared.contracts import Question, Response, ResultOutcome
from shared.mcp.config import ServerConfig, add_server
from shared.mcp.pins import write_pin
from shared.mcp.session import Session
from tests.support import home_server
from tests.support.asking import ask_nexus
from tests.support.foe import answer
from tests.support.gateway import RunningGateway
from tests.support.office import Office
from tests.support.server import environment
from tests.support.waiting import eventually

PATIENCE = 60.0


async def install(folder: Path, allow: tuple[str, ...] = ("GetLiveContext",)) -> None:
    """Add the house's server for nexus, with its tools approved."""
    config = settings.load(environment(folder / "state"))
    (folder / "house").mkdir()
    server = ServerConfig(
        command=sys.executable,
        args=("-I", home_server.__file__, str(folder / "house")),
        agents=("nexus",),
        read=(home_server.__file__,),
        write=(str(folder / "house"),),
        allow=allow,
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


async def test_the_command_tells_what_it_waits_for(tmp_path: Path) -> None:
    await install(tmp_path)
    running = RunningGateway(tmp_path)
    try:
        await running.open(subjects.MEMORY_DAEMON, "nexus")
        command = (sys.executable, "-m", "services.cli", "ask", "turn off the kitchen lights")
        asking = await asyncio.create_subprocess_exec(
            *command,
            env=running.office.environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert asking.stderr is not None
        async with asyncio.timeout(PATIENCE):
            waits = await asking.stderr.readuntil(b"(or refuse)")
        assert b"waits for approval" in waits
        assert b"home__HassTurnOff" in waits
        request = await answer(running.office.user, granted=True)
        assert f"mailroom approvals grant {request.approval_id[:8]}".encode() in waits
        told, _ = await asking.communicate()
        assert asking.returncode == 0
        assert "name: Kitchen Ceiling" in told.decode()
    finally:
        await running.close()


def calling(name: str, /, **arguments: Any) -> dict[str, Any]:
    return {"call": {"name": name, "arguments": arguments}}


async def test_a_model_reads_at_once_and_changes_after_approval(tmp_path: Path) -> None:
    await install(tmp_path, allow=("GetLiveContext", "HassTurnOn"))
    kitchen = {"area": "Kitchen", "domain": ["light"]}
    script = [
        {
            "match": "locked",
            "replies": [calling("home__GetLiveContext", name="Front Door"), {"text": "It is."}],
        },
        {"match": "dark in the kitchen", "replies": [calling("home__HassTurnOff", **kitchen)]},
        # What is called without asking is for an order, and not after what others wrote.
        {"match": "are there lights", "replies": [calling("home__HassTurnOn", **kitchen), {"text": "Some."}]},
        {
            "match": "have the desk lamp on",
            "replies": [
                calling("home__GetLiveContext"),
                calling("home__HassTurnOn", name="Desk Lamp"),
            ],
        },
        {
            "match": "what the kettle wants",
            "replies": [
                calling("recall", text="kettle"),
                calling("home__HassTurnOn", **kitchen),
                {"text": "No."},
            ],
        },
    ]
    path = tmp_path / "script.yaml"
    path.write_text(json.dumps(script))
    office = Office(tmp_path, MAILROOM_BRAIN=f"scripted:{path}")
    try:
        await office.open([subjects.MEMORY_DAEMON, "nexus"])
        assert (await say(office, "is the front door locked?")).text == "It is."
        asking = asyncio.create_task(say(office, "make it dark in the kitchen"))
        request = await answer(office.user, granted=True)
        assert '{"area": "Kitchen", "domain": ["light"]}' in request.what
        done = await asking
        assert done.outcome is ResultOutcome.DONE
        assert "Kitchen Ceiling" in done.text
        assert done.route_used == "tool:mcp"
        assert (await say(office, "are there lights in the kitchen?")).text == "Some."
        assert changes(tmp_path) == [["HassTurnOff", kitchen]]
        assert (await say(office, "please have the desk lamp on")).outcome is ResultOutcome.DONE
        assert changes(tmp_path)[1:] == [["HassTurnOn", {"name": "Desk Lamp"}]]
        assert (await say(office, "please turn on what the kettle wants")).text == "No."
        assert len(changes(tmp_path)) == 2
        assert len(await office.stored(subjects.approval_asked("nexus", "*"))) == 1
    finally:
        await office.close()


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            '{"done": true, "left": [{"name": "Étage", "at": 21.5}]}',
            "done: true\nleft:\n- name: Étage\n  at: 21.5",
        ),
        ("{no JSON", "{no JSON"),
        ("[]", "[]"),
        ("7", "7"),
    ],
)
def test_json_is_told_as_lines(said: str, expected: str) -> None:
    assert tell(said) == expected
