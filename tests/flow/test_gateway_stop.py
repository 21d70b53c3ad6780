"""Stopping a goal through the gateway ends the command that an agent runs for it, at once."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from shared import subjects
from shared.agent.process import RESTART_STATUS
from tests.support.gateway import RunningGateway
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")
WITHIN = 2.0
"""Seconds from the request until the command is gone."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningGateway]:
    folder: Path = tmp_path_factory.mktemp("office")
    running = RunningGateway(folder)
    try:
        await running.open("conductor", "critic", "engineer")
        yield running
    finally:
        await running.close()


def sleepers(seconds: int) -> list[int]:
    """The processes that run ``sleep`` for so many seconds, whoever started them."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline", "status"])
        if process.info["cmdline"] == ["sleep", str(seconds)] and process.info["status"] != "zombie"
    ]


async def test_a_key_holds_through_a_kill_of_the_gateway(gateway: RunningGateway) -> None:
    body = {"text": "Once", "context": {"assignee": "engineer", "action": "git_log", "params": {"repo": "/"}}}
    ids = []
    async with gateway.client(name="ada") as client:
        token = client.headers["Authorization"]
    for _ in range(3):
        async with gateway.stranger() as client:
            headers = {"Authorization": token, "Idempotency-Key": "only-once"}
            ids.append((await client.post("/api/v1/goals", json=body, headers=headers)).json()["goal_id"])
        gateway.office.kill("gateway")
        gateway.office.start("gateway")
        await gateway.office.ready("gateway")
    assert len(set(ids)) == 1
    submitted = [data for _, _, data in await gateway.office.stored(subjects.SUBMIT)]
    assert len([data for data in submitted if ids[0].encode() in data]) == 1


async def test_the_gateway_itself_starts_again_when_people_want_that(gateway: RunningGateway) -> None:
    async with gateway.client(name="cy") as client:
        assert (await client.post("/api/v1/agents/gateway/pause", json={})).status_code == 409
        asked = await client.post("/api/v1/agents/gateway/restart", json={})
    assert asked.json()["by"] == "cy", asked.text
    status = await asyncio.to_thread(gateway.office.processes["gateway"].wait, 20)
    assert status == RESTART_STATUS
    gateway.office.start("gateway")
    await gateway.office.ready("gateway")
    await asyncio.sleep(1.5)
    assert gateway.office.processes["gateway"].poll() is None


@pytest.mark.parametrize("killed", [False, True], ids=["at once", "after the gateway was killed"])
async def test_stop_ends_a_running_command(gateway: RunningGateway, killed: bool) -> None:
    seconds = 60_017 + killed
    context = {"assignee": "engineer", "action": "run_shell", "params": {"command": f"sleep {seconds}"}}
    async with gateway.client(name=f"ada-{killed:d}") as client:
        answer = await client.post("/api/v1/goals", json={"text": "Sleep", "context": context})
    goal_id = answer.json()["goal_id"]
    await eventually(lambda: sleepers(seconds), 40)
    if killed:
        gateway.office.kill("gateway")
        gateway.office.start("gateway")
        await gateway.office.ready("gateway")
    async with gateway.client(name=f"bob-{killed:d}") as client:
        begun = time.monotonic()
        stopped = await client.post(f"/api/v1/goals/{goal_id}/cancel", json={"reason": "enough"})
        answered = time.monotonic() - begun
        await eventually(lambda: not sleepers(seconds), 20)
        gone = time.monotonic() - begun
    assert stopped.json()["status"] == "cancelled", stopped.text
    assert gone < WITHIN, f"answered after {answered:.2f} s, gone after {gone:.2f} s"
