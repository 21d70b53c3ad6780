"""The office as hosts of MCP use it, over HTTP, in both eras of the protocol."""

import asyncio
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import pytest_asyncio
from mcp_types import CLIENT_CAPABILITIES_META_KEY as CAPABILITIES
from mcp_types import ResourceUpdatedNotification

from services.cli.commands.mcp_hosts import HOSTS
from services.gateway.mcp import door
from services.gateway.mcp.tasks import EXTENSION
from services.gateway.security.authentication import Authenticator, Credential
from shared.access.scopes import Scope, read_owner_name
from shared.subjects import CONDUCTOR, CRITIC, GATEWAY, MEMORY_DAEMON, NEXUS
from tests.support.access import Tokens, one_bucket
from tests.support.gateway import RunningGateway
from tests.support.mcp_hosts import ERAS, call, connect, connect_by_pipes, headers_of, make_token
from tests.support.waiting import eventually

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


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def at_work(request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """No test leaves the next ones without a gateway, and one that ended says why."""
    yield
    office = request.getfixturevalue("running").office if "running" in request.fixturenames else None
    if office is None or office.processes[GATEWAY].poll() is None:
        return
    status, log = office.processes[GATEWAY].poll(), (office.config.logs / "gateway.log").read_text()
    office.start(GATEWAY)
    await office.ready(GATEWAY)
    pytest.fail(f"The gateway ended with {status}:\n{log[-3000:]}")


@pytest.fixture(params=ERAS)
def mode(request: pytest.FixtureRequest) -> Iterator[str]:
    return request.param


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "test_shop.py").write_text("def test_ok():\n    pass\n")
    return folder


async def test_waiting_ends_where_a_person_is_waited_for(running: RunningGateway) -> None:
    params = {"command": "curl -s https://example.com/x"}
    wanted = {"text": "Fetch", "context": {"assignee": "engineer", "action": "run_shell", "params": params}}
    async with running.client() as person, connect(running, make_token(running), "auto") as host:
        goal_id = (await person.post("/api/v1/goals", json=wanted)).json()["goal_id"]
        async with asyncio.timeout(30):  # half of what it would wait
            waited = await host.call_tool("wait_for_goal", {"goal_id": goal_id, "seconds": 60})
        found = waited.structured_content
        assert not found["ended"]
        (asked,) = found["waiting"]
        refused = await person.post(f"/api/v1/approvals/{asked['approval_id']}", json={"granted": False})
        assert refused.status_code < 300, refused.text
        ended = (
            await host.call_tool("wait_for_goal", {"goal_id": goal_id, "seconds": 60})
        ).structured_content
        assert ended["ended"]
        assert ended["waiting"] == []


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


async def run_mcp(running: RunningGateway, *arguments: str) -> tuple[int, str]:
    """What ``mailroom mcp`` returns and prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "services.cli",
        "mcp",
        *arguments,
        env=running.office.environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await process.communicate()
    return process.returncode or 0, printed.decode()


@pytest.mark.parametrize("host", HOSTS)
async def test_a_host_is_given_the_office_and_it_is_taken_back_to_the_byte(
    running: RunningGateway, tmp_path: Path, host: str
) -> None:
    place = tmp_path / "settings"
    before = b"# mine\r\n" if host == "codex" else b'// mine\r\n{"theme": "dark", /* last */}'
    if host != "zed":  # which has no file yet
        place.write_bytes(before)
        place.chmod(0o640)

    async def run(*arguments: str) -> tuple[int, str]:
        return await run_mcp(running, *arguments)

    status, printed = await run("install", host, "--file", str(place), "--print")
    assert (status, "+++" in printed) == (0, True), printed
    assert not any(token.name == host for token in Tokens(running.config).list())
    status, printed = await run("install", host, "--person", "nobody", "--file", str(place), "--yes")
    assert (status, "no person 'nobody'" in printed) == (1, True)
    status, printed = await run("install", host, "--person", read_owner_name(), "--file", str(place), "--yes")
    assert status == 0, printed
    assert "conductor: running" in printed
    assert host in {token.name for token in Tokens(running.config).list()}
    written = place.read_text()
    assert "mr_" not in written  # the token stays with the office
    assert (await run("install", host, "--file", str(place), "--yes"))[0] == 1
    async with connect_by_pipes(running, name=host) as client:
        assert not (await client.call_tool("remember", {"title": f"{host} is installed since noon"})).is_error
    status, printed = await run("uninstall", host)
    assert status == 0, printed
    assert place.exists() is (host != "zed")
    if host != "zed":
        assert place.read_bytes() == before
        assert place.stat().st_mode & 0o777 == 0o640
    assert host not in {token.name for token in Tokens(running.config).list()}


async def test_a_host_that_cannot_call_the_office_is_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['mcp'] = None\n")  # no extra
    place = tmp_path / "config.toml"
    place.write_text("# mine\n")
    running = RunningGateway(tmp_path, PYTHONPATH=str(tmp_path))
    try:
        await running.open()
        status, printed = await run_mcp(running, "install", "codex", "--file", str(place), "--yes")
        assert status == 1, printed
        assert "pip install 'mailroom[mcp]'" in printed
        assert f"it is undone: {place} is as it was" in printed
        assert place.read_text() == "# mine\n"
        assert not Tokens(running.config).list()
        assert not list((running.config.state_dir / "hosts").iterdir())
    finally:
        await running.close()


async def test_a_goal_is_a_task_that_outlives_the_gateway(running: RunningGateway, shop: Path) -> None:
    token = make_token(running)

    async def send(method: str, **params: Any) -> dict[str, Any]:
        message = call(method, params)
        message["params"]["_meta"][CAPABILITIES] = {"extensions": {EXTENSION: {}}}
        async with running.stranger() as client:
            answer = await client.post("/mcp", json=message, headers=headers_of(message, token))
            return answer.json()

    given = {"text": f"Run the tests of {shop}"}
    begun = (await send("tools/call", name="submit_goal", arguments=given))["result"]
    assert begun["resultType"] == "task"
    assert begun["status"] == "working"
    running.office.kill(GATEWAY)
    running.office.start(GATEWAY)
    await running.office.ready(GATEWAY)

    async def ended() -> dict[str, Any] | None:
        task = (await send("tasks/get", taskId=begun["taskId"]))["result"]
        return task if task["status"] != "working" else None

    task = await eventually(ended, 60)
    assert task["status"] == "completed"
    assert "1 passed" in task["result"]["content"][0]["text"]
    assert (await send("tasks/cancel", taskId=begun["taskId"]))["result"]["resultType"] == "complete"
    unknown = await send("tasks/get", taskId="none")
    assert unknown["error"]["code"] == -32602
    stopped = (await send("tools/call", name="submit_goal", arguments={**given, "key": "stopped"}))["result"]
    assert stopped["taskId"] == "stopped"
    assert "error" not in await send("tasks/cancel", taskId="stopped")
    assert (await send("tasks/get", taskId="stopped"))["result"]["status"] == "cancelled"


async def test_reports_and_briefings_are_resources_whose_changes_are_told(
    running: RunningGateway, mode: str, shop: Path
) -> None:
    told: asyncio.Queue[str] = asyncio.Queue()

    async def hear(message: Any) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            told.put_nowait(str(message.params.uri))

    name = f"followed-{mode}"
    uri = f"mailroom://goal/{name}"
    async with connect(running, make_token(running), mode, message_handler=hear) as client:
        kept = {"title": f"The kettle boils for {mode}", "body": "It takes four minutes."}
        kept_id = (await client.call_tool("remember", kept)).structured_content["ids"][0]
        memory, briefing = f"mailroom://memory/{kept_id}", "mailroom://brief/engineer"
        following = None
        if mode == "legacy":
            with warnings.catch_warnings(action="ignore"):  # of 2025-11-25 alone
                for each in (uri, memory, briefing):
                    await client.subscribe_resource(each)
        else:

            async def listen() -> None:
                async with client.listen(resource_subscriptions=[uri, memory, briefing]) as events:
                    listening.set()
                    async for event in events:
                        told.put_nowait(event.uri)

            listening = asyncio.Event()
            following = asyncio.create_task(listen())
            await asyncio.wait_for(listening.wait(), 20)
        await client.call_tool("submit_goal", {"text": f"Run the tests of {shop}", "key": name})
        assert await asyncio.wait_for(told.get(), 20) == uri
        async with running.client() as http:
            retired = await http.post("/api/v1/memory/write", json={"retire": [kept_id]})
            retired.raise_for_status()
        missing = {memory, briefing}
        while missing:
            missing.discard(await asyncio.wait_for(told.get(), 20))
        if following is not None:
            following.cancel()
        await client.call_tool("wait_for_goal", {"goal_id": name, "seconds": 60})
        assert "1 passed" in (await client.read_resource(uri)).contents[0].text
        listed = {str(each.uri) for each in (await client.list_resources()).resources}
        assert {uri, "mailroom://brief/engineer"} <= listed
        versions = (await client.call_tool("brief", {"agent": "engineer"})).structured_content
        past = await client.read_resource(f"mailroom://brief/engineer?at={versions['version']}")
        assert past.contents[0].text == versions["text"]


async def test_the_gateway_imports_mcp_when_it_is_first_used(tmp_path: Path) -> None:
    running = RunningGateway(tmp_path)
    office = running.office
    try:
        await running.open(CONDUCTOR)
        running.office.kill(GATEWAY)
        command, log = office.members[GATEWAY].command, tmp_path / "gateway.log"
        with log.open("wb") as file:  # with its own imports alone, as no fork of the tests has them
            process = subprocess.Popen(command, env=office.environment, stdout=file, stderr=file)  # noqa: ASYNC220
        office.processes[GATEWAY] = process
        await office.ready(GATEWAY)
        async with running.client() as client:
            assert (await client.get("/api/v1/agents")).status_code == 200
        before = psutil.Process(process.pid).memory_info().rss / 1e6
        async with connect(running, make_token(running)) as client:
            assert len((await client.list_tools()).tools) == len(READS | SUBMITS)
            await client.call_tool("agents", {})
        after = psutil.Process(process.pid).memory_info().rss / 1e6
        assert before < 65
        assert before + 15 < after < 110
    finally:
        await running.close()


async def test_without_the_extra_one_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "find_spec", lambda _: None)
    running = RunningGateway(tmp_path)
    authenticator = Authenticator(running.config, one_bucket())
    token = await authenticator.tokens.add("host", Scope.SUBMIT)
    person = authenticator.identify_token(token)
    scope: dict[str, Any] = {"type": "http", "method": "POST", "path": "/mcp", "headers": []}
    scope["state"] = {"person": person, "credential": Credential("token", token)}
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await door.Door(SimpleNamespace(settings=running.config))(scope, receive, send)  # type: ignore[arg-type]
    assert sent[0]["status"] == 501
    assert b"pip install 'mailroom[mcp]'" in sent[1]["body"]
