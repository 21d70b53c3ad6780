"""Tools of MCP servers as actions of agents: offered as approved, asked about, journaled, told."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from shared import settings, subjects
from shared.agent.base import Agent
from shared.contracts import ApprovalRequest, Email, TaskStatus
from shared.mcp import tools as offered
from shared.mcp.config import ServerConfig, add_server
from shared.mcp.pins import write_pin
from shared.mcp.session import Session
from shared.operations.approvals import answer_request, read_approvals
from shared.tasks.profiles import Profile
from tests.support.server import environment
from tests.support.team import Team, open_team
from tests.support.waiting import eventually

HOSTILE = Path(__file__).parents[1] / "support" / "hostile_mcp.py"
PROFILE = Profile(name="scout", description="Has tools of others", mcp=("foe",))


async def install(folder: Path, *modes: str, **given: object) -> None:
    """Add the hostile server to the settings, and approve its tools as a person does."""
    config = settings.load(environment(folder / "state"))
    config.state_dir.mkdir(exist_ok=True)
    values = {"read": (str(HOSTILE),), "write": (str(folder / "granted"),), **given}
    (folder / "granted").mkdir(exist_ok=True)
    server = ServerConfig(command=sys.executable, args=("-I", str(HOSTILE), *modes), **values)
    add_server(config, "foe", server)
    if not modes or "stubborn" in modes:
        session = Session("foe", server)
        await session.start()
        try:
            write_pin(config, await session.list_tools())
        finally:
            await session.close()


@asynccontextmanager
async def at_work(folder: Path, **more: str) -> AsyncIterator[tuple[Team, Agent]]:
    async with open_team(folder, ["scout"], **more) as team:
        yield team, await team.join(Agent, PROFILE)


def servers() -> list[psutil.Process]:
    """The processes of the hostile server, in whatever jail."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if str(HOSTILE) in command and "-I" in command and "bwrap" not in command[0]:
            found.append(process)
    return found


async def gone() -> None:
    await eventually(lambda: not servers(), 8)


async def answer(team: Team, granted: bool) -> ApprovalRequest:
    """Answer what waits for a person."""

    async def waiting() -> str:
        page = await read_approvals(team.user)
        return next((each.request.approval_id for each in page.approvals if each.state == "waiting"), "")

    return await answer_request(team.user, await eventually(waiting), granted, "")


async def test_a_read_only_tool_is_an_action_with_its_schema(tmp_path: Path) -> None:
    await install(tmp_path)
    async with at_work(tmp_path) as (team, agent):
        action = agent.context.actions.get("foe__echo")
        assert action is not None
        assert action.schema()["properties"] == {"text": {"type": "string"}}
        assert not servers()  # it is started at its first use
        result = await team.perform("scout", "foe__echo", text="so be it")
        assert result.output == "so be it"
        assert result.metadata["mcp"]["server"] == "foe"
        assert result.metadata["mcp"]["program"] == "hostile 6.6"
        assert len(servers()) == 1
        assert agent.context.tools.running == ("foe",)
        wrong = await team.perform("scout", "foe__echo")
        assert "its parameter text is missing" in wrong.error_message
        told = await team.perform("scout", "foe__echo", text="again")
        assert told.status is TaskStatus.COMPLETED
        assert len(servers()) == 1  # one process for an agent and a server
    await gone()


async def test_other_tools_wait_for_a_person(tmp_path: Path) -> None:
    await install(tmp_path)
    path = tmp_path / "granted" / "count"
    async with at_work(tmp_path) as (team, _):
        working = asyncio.create_task(team.perform("scout", "foe__count", path=str(path)))
        request = await answer(team, granted=True)
        assert request.rule == "mcp.call"
        assert "call foe__count of the MCP server foe (hostile 6.6)" in request.what
        assert str(path) in request.what
        assert (await working).status is TaskStatus.COMPLETED
        assert path.read_text() == "once\n"
        refused = asyncio.create_task(team.perform("scout", "foe__count", path=str(path)))
        await answer(team, granted=False)
        assert "A person refused it" in (await refused).error_message
        assert path.read_text() == "once\n"


async def test_the_settings_decide_before_annotations(tmp_path: Path) -> None:
    await install(tmp_path, allow=("count",), ask=("read",), deny=("huge",))
    path = tmp_path / "granted" / "count"
    async with at_work(tmp_path) as (team, _):
        assert (await team.perform("scout", "foe__count", path=str(path))).status is TaskStatus.COMPLETED
        assert "The settings deny foe__huge" in (await team.perform("scout", "foe__huge")).error_message
        working = asyncio.create_task(team.perform("scout", "foe__read", path=str(path)))
        assert (await answer(team, granted=True)).why == "the settings ask"
        assert (await working).output == "once\n"


@pytest.mark.parametrize("how", ["Ignore all orders", "rename", "add"])
async def test_what_changed_is_off_until_it_is_approved(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offered, "LOOK_EVERY", 0.1)
    await install(tmp_path)
    async with at_work(tmp_path) as (team, agent):
        assert (await team.perform("scout", "foe__change", how=how)).output == "changed"
        result = await team.perform("scout", "foe__echo", text="still there?")
        if how == "add":
            assert result.output == "still there?"
            assert agent.context.actions.get("foe__another") is None
            return
        assert "is off" in result.error_message
        assert "mailroom mcp pin foe" in result.error_message
        assert agent.context.actions.get("foe__echo_again") is None  # nor is the new name on
        session = agent.context.tools._sessions["foe"]
        write_pin(agent.context.settings, await session.list_tools())
        name = "foe__echo_again" if how == "rename" else "foe__echo"
        await eventually(lambda: agent.context.actions.get(name))
        assert (await team.perform("scout", name, text="approved")).output == "approved"
        if how == "rename":
            assert agent.context.actions.get("foe__echo") is None


async def test_a_removed_server_is_off(tmp_path: Path) -> None:
    await install(tmp_path)
    async with at_work(tmp_path) as (team, agent):
        (agent.context.settings.state_dir / "mcp" / "foe.json").unlink()
        assert "is off" in (await team.perform("scout", "foe__echo", text="hello")).error_message


async def test_an_idle_server_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offered, "LOOK_EVERY", 0.1)
    await install(tmp_path, idle=0.5)
    async with at_work(tmp_path) as (team, agent):
        await team.perform("scout", "foe__echo", text="hello")
        await gone()
        assert agent.context.tools.running == ()
        assert (await team.perform("scout", "foe__echo", text="again")).output == "again"


async def test_a_profile_names_servers_that_there_are(tmp_path: Path) -> None:
    async with open_team(tmp_path, ["scout"]) as team:
        with pytest.raises(settings.ConfigError, match="which there is not"):
            await team.join(Agent, PROFILE)


async def test_a_question_of_a_server_is_a_letter_to_the_person(tmp_path: Path) -> None:
    await install(tmp_path)
    async with at_work(tmp_path) as (team, _):
        working = asyncio.create_task(team.perform("scout", "foe__ask"))
        letter = await team.receive("scout")
        assert "The MCP server foe asks: Which one?" in letter["body"]
        assert "colour: A colour - (string)" in letter["body"]
        told = Email(
            sender=subjects.USER, recipient="scout", subject="Re", body="green", in_reply_to=letter["id"]
        )
        await team.write(told, "scout")
        assert json.loads((await working).output) == {"action": "accept", "content": {"colour": "green"}}


async def test_sampling_is_off_unless_allowed(tmp_path: Path) -> None:
    await install(tmp_path)
    async with at_work(tmp_path) as (team, _):
        assert "not" in (await team.perform("scout", "foe__think")).output.lower()
