"""What servers of 2026-07-28 ask: they return their questions, and are called again with the answers."""

import asyncio
import sys
from pathlib import Path

import msgspec
import pytest

from shared import settings, subjects
from shared.agent.base import Agent
from shared.contracts import Email, TaskResult, TaskStatus
from shared.mcp.config import ServerConfig, add_server
from shared.mcp.pins import write_pin
from shared.mcp.session import Session
from shared.tasks.profiles import Profile
from tests.support import asking_mcp
from tests.support.server import environment
from tests.support.team import Team, open_team

PROFILE = Profile(name="scout", description="Has tools of others", mcp=("asking",))


async def install(folder: Path, **given: object) -> None:
    """Approve the asking server, as it is in the jail."""
    config = settings.load(environment(folder / "state"))
    program = Path(asking_mcp.__file__)
    read = (str(program), sys.prefix, sys.base_prefix)
    server = ServerConfig(command=sys.executable, args=("-I", str(program)), read=read, timeout=20.0, **given)
    add_server(config, "asking", server)
    session = Session("asking", server)
    await session.start()
    try:
        pin = await session.list_tools()
        assert pin.protocol == "2026-07-28"
        write_pin(config, pin)
    finally:
        await session.close()


async def answer(team: Team, working: asyncio.Task[TaskResult], **answers: str) -> list[str]:
    """Answer each letter by what it asks for, until the task ends; returns what was asked."""
    bodies: dict[str, str] = {}
    all_letters = {"seq": 1, "batch": 100, "next_by_subj": subjects.mail(subjects.USER, "scout")}
    while not working.done():
        async for stored in team.user.read(subjects.OFFICE, all_letters):
            letter = msgspec.json.decode(stored.data)
            if letter["id"] in bodies:
                continue
            bodies[letter["id"]] = letter["body"]
            kind = next(each for each in answers if f"Which {each}?" in letter["body"])
            text, _, answers[kind] = answers[kind].partition("|")
            await reply(team, letter, text)
        await asyncio.sleep(0.02)
    return sorted(bodies.values())


async def reply(team: Team, letter: dict[str, str], body: str) -> None:
    told = Email(sender=subjects.USER, recipient="scout", subject="Re", body=body, in_reply_to=letter["id"])
    await team.write(told, "scout")


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (("colour: red", "size: 4"), ('"colour":"red"', '"size":4')),
        (("red", "yes"), ('"colour":"red"', '"size":3')),
        (("no", "cancel"), ('{"action":"decline"}', '{"action":"cancel"}')),
    ],
)
async def test_questions_of_one_call_are_answered_one_by_one(
    tmp_path: Path, answers: tuple[str, str], expected: tuple[str, str]
) -> None:
    await install(tmp_path)
    async with open_team(tmp_path, ["scout"]) as team:
        await team.join(Agent, PROFILE)
        working = asyncio.create_task(team.perform("scout", "asking__choose"))
        asked = await answer(team, working, colour=answers[0], size=answers[1])
        assert len(asked) == 2
        assert "colour: Colour - A colour - (string)" in asked[0]
        result = await working
        assert result.status is TaskStatus.COMPLETED, result.error_message
        assert all(each in result.output for each in expected), result.output


@pytest.mark.parametrize(
    ("answers", "expected"),
    [("a large one|what?|8", '"size":8'), ("large|larger|largest", '{"action":"cancel"}')],
)
async def test_an_answer_that_cannot_be_read_is_asked_for_again(
    tmp_path: Path, answers: str, expected: str
) -> None:
    await install(tmp_path)
    async with open_team(tmp_path, ["scout"]) as team:
        await team.join(Agent, PROFILE)
        working = asyncio.create_task(team.perform("scout", "asking__choose"))
        asked = await answer(team, working, colour="red", size=answers)
        assert sum("Your answer cannot be passed on: size " in body for body in asked) == 2
        assert expected in (await working).output


async def test_a_model_is_asked_within_the_budget_of_the_task(tmp_path: Path) -> None:
    await install(tmp_path, sampling=True)
    script = tmp_path / "script.yaml"
    script.write_text("- match: Two and two\n  replies:\n    - text: Four\n")
    async with open_team(tmp_path, ["scout"], MAILROOM_BRAIN=f"scripted:{script}") as team:
        await team.join(Agent, PROFILE)
        result = await team.perform("scout", "asking__think")
        assert result.output == "Four"
        assert result.metadata["usage"]["calls"] == 1


async def test_a_model_is_not_asked_unless_allowed(tmp_path: Path) -> None:
    await install(tmp_path)
    async with open_team(tmp_path, ["scout"]) as team:
        await team.join(Agent, PROFILE)
        result = await team.perform("scout", "asking__think")
        assert result.status is TaskStatus.FAILED
        assert "sampling" in result.error_message
