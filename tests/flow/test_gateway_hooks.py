"""Webhooks of a real gateway: goals that come in, and notices that go out and outlive a kill."""

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from shared import subjects
from shared.bus.entry import seal
from shared.contracts import ApprovalRequest, DeadLetter, Goal, StateChanged, TaskStatus
from shared.contracts.records import OfficeState
from shared.delivery.outlets import sign, verify
from tests.support.gateway import RunningGateway
from tests.support.waiting import eventually

SECRET = "0123456789abcdef-secret"


class Receiver:
    """A program that takes notices; while ``status`` is not 200 it refuses them."""

    def __init__(self) -> None:
        self.status = 200
        self.taken: list[dict[str, Any]] = []
        self.refused = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/notices"

    async def take(self, request: Request) -> Response:
        body = await request.body()
        notice = json.loads(body)
        assert verify(SECRET, Headers(raw=request.headers.raw), body) == notice["id"]
        if self.status == 200:
            self.taken.append(notice)
        else:
            self.refused += 1
        return Response(status_code=self.status)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Receiver"]:
        app = Starlette(routes=[Route("/notices", self.take, methods=["POST"])])
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
        server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign]
        serving = asyncio.create_task(server.serve(sockets=[self._listener]))
        try:
            yield self
        finally:
            server.should_exit = True
            await serving


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[RunningGateway]:
    running = RunningGateway(tmp_path)
    try:
        yield running
    finally:
        await running.close()


def write_hooks(gateway: RunningGateway, text: str) -> None:
    gateway.config.gateway.mkdir(parents=True, exist_ok=True)
    path = gateway.config.gateway / "hooks.toml"
    path.write_text(text)
    path.chmod(0o600)


async def ask(gateway: RunningGateway, number: int) -> None:
    """An agent asks for permission."""
    bus = await gateway.office.connect("engineer")
    try:
        request = ApprovalRequest(
            sender="engineer",
            recipient="user",
            goal_id="goal_1",
            task_id=f"task_{number}",
            approval_id=f"approval{number}",
            what=f"git push origin {number}",
            why="it leaves this machine",
            expires_at=(datetime.now(UTC) + timedelta(hours=1)).isoformat(),
        )
        await bus.commit([seal(subjects.approval_asked("engineer", request.approval_id), request)])
    finally:
        await bus.close()


class TestIncoming:
    async def test_a_delivery_submits_a_goal_once(self, gateway: RunningGateway) -> None:
        write_hooks(
            gateway,
            f'[in.ci]\nsecret = "{SECRET}"\npriority = "HIGH"\n'
            'text = "Look at the build of {branch}: {log}"\n',
        )
        await gateway.open("conductor", "memory")  # which compares sentences
        body = json.dumps({"branch": "main", "log": "see /etc/passwd at evil.example"}).encode()
        async with gateway.stranger() as client:
            goal_ids = set()
            for _ in range(3):
                headers = sign(SECRET, body, delivery="build-7", moment=int(time.time()))
                answer = await client.post("/hooks/ci", content=body, headers=headers)
                assert answer.status_code == 202, answer.text
                goal_ids.add(answer.json()["goal_id"])
            assert len(goal_ids) == 1
            goal = await gateway.office.finished(goal_ids.pop(), timeout=80)
            refused = [
                await client.post("/hooks/ci", content=body),
                await client.post("/hooks/none", content=body, headers=headers),
                await client.post("/hooks/ci", content=body + b" ", headers=headers),
                await client.post("/hooks/ci", content=body, headers={**headers, "x-mailroom-delivery": "b"}),
            ]
        assert [answer.status_code for answer in refused] == [401] * 4
        assert len({answer.text for answer in refused}) == 1
        assert goal.text == 'Look at the build of "main": (quoted 1)'
        assert goal.priority == "HIGH"
        assert goal.person == "webhook:ci"
        assert goal.said is None
        assert goal.context["quoted"]["1"]["value"] == "see /etc/passwd at evil.example"
        assert len(await gateway.office.stored(subjects.SUBMIT_AS["HIGH"])) == 1


class TestOutgoing:
    async def test_each_notice_arrives_though_the_receiver_and_the_gateway_were_away(
        self, gateway: RunningGateway
    ) -> None:
        async with Receiver().running() as receiver:
            kinds = '["approval_asked", "goal_failed", "dead_letter"]'
            write_hooks(gateway, f'[out.me]\non = {kinds}\nurl = "{receiver.url}"\nsecret = "{SECRET}"')
            await gateway.open()
            await eventually(lambda: gateway.shared("hook"), 10)
            await ask(gateway, 1)
            await eventually(lambda: len(receiver.taken) == 1, 10)
            receiver.status = 503
            await ask(gateway, 2)
            await eventually(lambda: receiver.refused >= 1, 10)
            gateway.office.kill(subjects.GATEWAY)
            await ask(gateway, 3)
            await fail_a_goal(gateway)
            receiver.status = 200
            gateway.office.start(subjects.GATEWAY)
            await gateway.office.ready(subjects.GATEWAY)
            await eventually(lambda: len({each["id"] for each in receiver.taken}) == 5, 20)
            # A kill before it is noted would have the last one delivered again, under the same id.
            last_id = receiver.taken[-1]["id"].encode()

            async def noted() -> bool:
                return any(last_id in each for each in (await gateway.shared("hook")).values())

            await eventually(noted, 10)
            gateway.office.kill(subjects.GATEWAY)
            gateway.office.start(subjects.GATEWAY)
            await gateway.office.ready(subjects.GATEWAY)
            await ask(gateway, 4)
            await eventually(lambda: len({each["id"] for each in receiver.taken}) == 6, 20)
        assert len(receiver.taken) == 6
        first, *_, last = receiver.taken
        assert (first["kind"], first["task_id"], first["asks"]) == (
            "approval_asked",
            "task_1",
            "git push origin 1",
        )
        assert first["link"].endswith("/goals/goal_1")
        assert last["task_id"] == "task_4"
        assert [each["kind"] for each in receiver.taken[3:5]] == ["goal_ended", "dead_letter"]
        assert SECRET not in (gateway.config.logs / "gateway.log").read_text()


async def fail_a_goal(gateway: RunningGateway) -> None:
    """Two records of one end, one of a goal that succeeds, and a dead letter."""
    moment = datetime.now(UTC).isoformat()
    bus = await gateway.office.connect("conductor")
    try:
        for goal_id, status in (
            ("good", TaskStatus.COMPLETED),
            ("bad", TaskStatus.FAILED),
            ("bad", TaskStatus.FAILED),
        ):
            goal = Goal(
                goal_id=goal_id,
                text="Fly to the moon",
                requester="user",
                status=status,
                submitted_at=moment,
                ended_at=moment,
            )
            record = StateChanged(
                sender="conductor", recipient="user", goal_id=goal_id, state=OfficeState.IDLE, goal=goal
            )
            await bus.commit([seal(subjects.goal(goal_id), record)])
        letter = DeadLetter(
            sender="conductor",
            recipient="user",
            reason="it is no goal",
            subject="tasks.submit",
            stream="OFFICE",
            stream_seq=1,
        )
        await bus.commit([seal(subjects.dead("conductor"), letter)])
    finally:
        await bus.close()
