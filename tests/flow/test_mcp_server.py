"""The office as hosts of MCP use it, over HTTP, in both eras of the protocol."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from shared.subjects import CONDUCTOR, CRITIC, GATEWAY, MEMORY_DAEMON, NEXUS
from tests.support.gateway import RunningGateway
from tests.support.mcp_hosts import ERAS, connect, connect_by_pipes, make_token

pytestmark = pytest.mark.asyncio(loop_scope="module")
READS = {
    "goal", "wait_for_goal", "goals", "search_memory", "read_memory", "brief", "agents", "approvals",
    "reminders", "tail",
}  # fmt: skip
SUBMITS = {"submit_goal", "steer_goal", "cancel_goal", "ask", "remember"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningGateway]:
    running = RunningGateway(tmp_path_factory.mktemp("mcp"))
    try:
        await running.open(CONDUCTOR, CRITIC, MEMORY_DAEMON, NEXUS, "engineer", "scout")
        yield running
    finally:
        await running.close()


@pytest.fixture(params=ERAS)
def mode(request: pytest.FixtureRequest) -> Iterator[str]:
    return request.param


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "test_shop.py").write_text("def test_ok():\n    pass\n")
    return folder


async def test_a_host_submits_a_goal_and_waits_for_what_it_found(
    running: RunningGateway, mode: str, shop: Path
) -> None:
    async with connect(running, make_token(running), mode) as client:
        assert client.protocol_version == ERAS[mode]
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools} == READS | SUBMITS
        assert all(tool.output_schema and tool.description for tool in tools)
        begun = await client.call_tool("submit_goal", {"text": f"Run the tests of {shop}"})
        goal_id = begun.structured_content["goal_id"]
        told: list[str] = []

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            told.append(message or "")

        arguments: dict[str, Any] = {"goal_id": goal_id, "seconds": 60}
        waited = await client.call_tool("wait_for_goal", arguments, progress_callback=hear)
        assert not waited.is_error
        found = waited.structured_content
        assert found["ended"]
        assert found["goal"]["outcome"] == "done"
        assert "1 passed" in found["report"]
        assert any("engineer" in each for each in told), told


async def test_a_host_that_talks_by_pipes_does_the_same(running: RunningGateway, mode: str) -> None:
    async with connect_by_pipes(running, mode) as client:
        assert client.protocol_version == ERAS[mode]
        kept = await client.call_tool("remember", {"title": f"The shop of {mode} opens at nine o'clock"})
        assert not kept.is_error, kept
        (node_id,) = kept.structured_content["ids"]
        found = await client.call_tool("search_memory", {"text": f"when does the shop of {mode} open"})
        assert found.structured_content["memories"][0]["id"] == node_id
        uri = f"mailroom://memory/{node_id}"
        assert "nine" in (await client.read_resource(uri)).contents[0].text
        # The token of this machine's commands approves nothing here.
        assert {tool.name for tool in (await client.list_tools()).tools} == READS | SUBMITS


async def test_a_gateway_that_was_killed_is_waited_for(running: RunningGateway, mode: str) -> None:
    async with connect_by_pipes(running, mode) as client:
        begun = await client.call_tool("submit_goal", {"text": "What is new?", "key": f"killed-{mode}"})
        running.office.kill(GATEWAY)
        running.office.start(GATEWAY)
        found = await client.call_tool("goal", {"goal_id": begun.structured_content["goal_id"]})
        assert found.structured_content["goal"]["goal_id"] == f"killed-{mode}"
        await running.office.ready(GATEWAY)
