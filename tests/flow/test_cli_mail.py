"""Letters as a person sends and reads them, with agents of a real server."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator

import pytest
import yaml

from shared import settings
from shared.agent.base import Agent
from shared.agent.process import AgentProcess
from shared.bus import Bus
from shared.tasks.profiles import Profile
from tests.support.server import Server


@pytest.fixture
async def scout(office_gateway: Server, tmp_path) -> AsyncIterator[AgentProcess]:
    """Scout at work, with a brain that remembers its thread."""
    script = tmp_path / "script.yaml"
    replies = [
        {"call": {"name": "finish_task", "arguments": {"result": text}}} for text in ("Noted.", "Seven.")
    ]
    script.write_text(yaml.safe_dump([{"agent": "scout", "match": "seven", "replies": replies}]))
    config = settings.load({**office_gateway.environment, "MAILROOM_BRAIN": f"scripted:{script}"})
    bus = await Bus.connect("scout", office_gateway.url, config.keys / "scout.nk")
    office = AgentProcess(Agent(Profile(name="scout", description="Scouts."), config, bus), config)
    await office.open()
    yield office
    await office.close()


async def run(office: Server, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(office.mailroom, *arguments, text=text)


async def test_a_letter_is_written_answered_listed_and_its_thread_goes_on(
    office_server: Server, scout: AgentProcess
) -> None:
    first = await run(office_server, "mail", "write", "scout", "Remember seven", "--wait")
    assert (first.returncode, first.stdout.strip()) == (0, "Noted.")
    found = json.loads((await run(office_server, "mail", "list", "--json")).stdout)
    mine = [letter for letter in found if "scout" in (letter["sender"], letter["recipient"])]
    assert [(letter["sender"], letter["body"]) for letter in mine[-2:]] == [
        ("user", "Remember seven"),
        ("scout", "Noted."),
    ]
    number = str(mine[-1]["number"])
    second = await run(office_server, "mail", "reply", number, "-", "--wait", text="Which was it?")
    assert second.stdout.strip() == "Seven."
    listed = await run(office_server, "mail", "list", "--thread", number, "--json")
    assert [letter["body"] for letter in json.loads(listed.stdout)] == [
        "Remember seven",
        "Noted.",
        "Which was it?",
        "Seven.",
    ]
    shown = (await run(office_server, "mail", "show", number)).stdout
    assert "from: scout" in shown
    assert "Noted." in shown
    only = await run(office_server, "mail", "list", "--from", "scout", "--contains", "SEVEN")
    assert "Seven." in only.stdout
    assert "Remember" not in only.stdout
    about = await run(office_server, "mail", "list", "--about", "the letter to rememeber a seven", "--json")
    assert json.loads(about.stdout)[0]["body"] == "Remember seven"
    none = await run(office_server, "mail", "list", "--about", "purple elephants")
    assert "No matching mail." in none.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("write", "nobody", "Hello"), "No agent named 'nobody' is running"),
        (("write", "No Name", "Hello"), "recipient"),
        (("show", "999999"), "There is no message 999999"),
        (("reply", "999999", "Hello"), "There is no message 999999"),
    ],
)
async def test_what_cannot_be_sent_or_found_is_said(
    office_server: Server, scout: AgentProcess, arguments: tuple[str, ...], said: str
) -> None:
    result = await run(office_server, "mail", *arguments)
    assert result.returncode == 1
    assert said in result.stderr
    assert "Traceback" not in result.stderr
