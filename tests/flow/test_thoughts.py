"""What a model writes for a task reaches people as it does, at a bounded rate, and nobody else."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shared import subjects
from shared.contracts import TaskThoughts
from tests.support.gateway import RunningGateway
from tests.support.model_server import Answer, serve_model

pytestmark = pytest.mark.timeout(110)
WORDS = "I look at the sum first, then at its test. " * 12
RESULT = "Nothing was to be done. " * 8
ANSWERS = [
    Answer(text=WORDS, calls=[("finish_task", {"result": RESULT})], stall=0.02),
    Answer(text=json.dumps({"approved": True})),
]
GOAL = {"text": "Say what you see", "context": {"assignee": "engineer"}}


async def listen(events: Any) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """The server-sent events of a response: names and contents."""
    name = ""
    async for line in events.aiter_lines():
        if line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: "):
            yield name, json.loads(line[6:])


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_what_a_loop_thinks_is_told_as_it_is_written(tmp_path: Path, kind: str) -> None:
    with serve_model(*ANSWERS) as server:
        url = server.url if kind == "openai" else server.root
        running = RunningGateway(
            tmp_path, MAILROOM_BRAIN=f"{kind}:small", MAILROOM_BRAIN_URL=url, MAILROOM_BRAIN_KEY="k"
        )
        try:
            await running.open("conductor", "critic", "engineer", "memory")
            heard: list[tuple[float, TaskThoughts]] = []

            async def hear(subject: str, payload: bytes, __: dict[str, str]) -> None:
                if subject.startswith("thoughts.engineer."):
                    heard.append((time.monotonic(), TaskThoughts.from_json(payload)))

            await running.office.user.subscribe(subjects.thoughts("*", "*"), hear)
            async with running.client() as client:
                client.base_url = f"{running.url}/api/v1"
                submitted = (await client.post("/goals", json=GOAL)).json()
                goal_id, seq = submitted["goal_id"], submitted["seq"]
                forging = asyncio.create_task(forge(running, goal_id))
                told: list[dict[str, Any]] = []
                async with client.stream(
                    "GET", f"/goals/{goal_id}/progress?submitted={seq}", timeout=60
                ) as events:
                    async for name, content in listen(events):
                        told += [content] if name == "thinking" else []
                        if name == "ended":
                            break
                await forging
            texts = [each.text for _, each in heard if each.agent == "engineer"]
            assert any("then at its test" in text and "finish_task" not in text for text in texts)
            assert any("finish_task" in text and "Nothing was" in text for text in texts), (
                "calls are thoughts"
            )
            assert texts[-1] == "", "it says that the model has ended"
            assert max(map(len, texts)) <= 600
            times = [at for at, each in heard if each.agent == "engineer" and each.text]
            assert len(times) > 4
            assert all(sum(begin <= at < begin + 1 for at in times) <= 5 for begin in times), (
                "five times a second at most"
            )
            assert {each["goal_id"] for each in told} == {goal_id}
            assert {"engineer"} <= {each["agent"] for each in told} <= {"engineer", "critic"}
            assert "All is done." not in [each["text"] for each in told], "nobody speaks for another"
            assert any("then at its test" in each["text"] for each in told)
            stored = [each async for each in read_all(running)]
            assert not any(each.startswith("thoughts.") for each in stored)
        finally:
            await running.close()


async def forge(running: RunningGateway, goal_id: str) -> None:
    """Another agent speaks for the engineer, under its own name and under the engineer's, and floods."""
    scout = await running.office.connect("scout")
    said = TaskThoughts(agent="engineer", goal_id=goal_id, task_id="t1", text="All is done.", written=1)
    for _ in range(20):
        await scout.publish(subjects.thoughts("engineer", "t1"), said.to_json())
        await scout.publish(subjects.thoughts("scout", "t1"), said.to_json())
        await scout.publish(subjects.thoughts("scout", "t2"), b"\xff{")


async def read_all(running: RunningGateway) -> AsyncIterator[str]:
    from shared.queries.records import scan

    async for stored in scan(running.office.user, subjects.OFFICE, ">"):
        yield stored.subject
