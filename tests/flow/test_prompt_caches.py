"""How much of what a model reads in a long task its provider has in its cache, over a restart too."""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from shared.bus.records import submission_entry
from shared.contracts import Node, Task, TaskStatus, generate_task_id
from shared.memory import Memory
from shared.reasoning.conversation import SUMMARY, SUMMED
from tests.support.model_formats import Answer
from tests.support.model_server import Request, serve_model
from tests.support.office import Office
from tests.support.prompt_caches import cached_share

pytestmark = pytest.mark.timeout(120)
STEPS = 30


class Answers:
    """A call for each step, each with other arguments, and the end after STEPS."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, request: Request) -> Answer:
        if "finish_task" not in str(request.body.get("tools", "")):
            return Answer(text="{}")
        self.asked += 1
        if self.asked >= STEPS:
            return Answer(calls=[("finish_task", {"result": "Done."})])
        return Answer(
            text=f"Step {self.asked}: I look further. " * 20,
            calls=[("read_history", {"repo": f"/nowhere/{self.asked}"})],
        )


@pytest.mark.parametrize("kind", ["openai", "openai-responses", "anthropic"])
async def test_a_task_of_thirty_steps_reads_nine_tenths_from_the_cache(tmp_path: Path, kind: str) -> None:
    answers = Answers()
    with serve_model(by=answers) as model:
        brain = {
            "MAILROOM_BRAIN": f"{kind}:small",
            "MAILROOM_BRAIN_URL": model.url,
            "MAILROOM_BRAIN_KEY": "key",
        }
        office = Office(tmp_path, **brain)
        try:
            await office.open(["memory", "engineer"])
            memory = Memory(office.user)
            await memory.add(
                *(
                    Node(
                        kind="decision",
                        title=f"Rule {n} of the kiln",
                        body=f"Ada signs off change {n}. " * 12,
                    )
                    for n in range(30)
                ),
                insist=True,
            )
            task = Task(
                task_id=generate_task_id(), text="Look at the roof", assignee="engineer", requester="user"
            )
            await office.user.commit([submission_entry(task)])
            while answers.asked < STEPS // 2:
                await asyncio.sleep(0.05)
            # Memory learns something meanwhile, and the process dies.
            await memory.add(Node(kind="decision", title="The kiln is red"), insist=True)
            office.kill("engineer")
            office.start("engineer")
            result = await office.result("engineer", task.task_id, timeout=60)
        finally:
            await office.close()
    assert result.status is TaskStatus.COMPLETED, result.error_message
    bodies = [
        request.body for request in model.requests if "finish_task" in str(request.body.get("tools", ""))
    ]
    assert len(bodies) >= STEPS
    share = cached_share(bodies)
    print(kind, len(bodies), f"{share:.3f}")
    assert share >= 0.9


class Reader:
    """Reads page after page, by what the conversation holds, and sums up when it is asked to."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(self, request: Request) -> Answer:
        talk = [message for message in request.body["messages"] if message["role"] != "system"]
        if "finish_task" not in str(request.body.get("tools", "")):
            return Answer(text="{}")
        self.seen.append("\n".join(f"{each['content']}{each.get('tool_calls')}" for each in talk))
        read = max([0, *map(int, re.findall(r"/nowhere/(\d+)", str(talk)))])
        if str(talk[-1]["content"]).endswith(SUMMARY):
            return Answer(text=f"Goal: look at the roof. I have read up to {read}.")
        if read >= STEPS:
            return Answer(calls=[("finish_task", {"result": f"Read {read}."})])
        calls = [("read_history", {"repo": f"/nowhere/{read + 1}"})]
        return Answer(text="I look further. " * 120, calls=calls)


async def read_all(folder: Path, *, kill: bool) -> tuple[Reader, Sequence[Any], str]:
    """What the model was asked in a task that is too long for it, with a kill of the agent or without."""
    reader = Reader()
    with serve_model(by=reader) as model:
        brain = {"MAILROOM_BRAIN": "openai:m", "MAILROOM_BRAIN_URL": model.url, "MAILROOM_BRAIN_KEY": "k"}
        office = Office(folder, MAILROOM_BRAIN_CONTEXT="16000", **brain)
        try:
            await office.open(["memory", "engineer"])
            task = Task(
                task_id=generate_task_id(), text="Look at the roof", assignee="engineer", requester="user"
            )
            await office.user.commit([submission_entry(task)])
            while kill and len(reader.seen) < STEPS // 2:
                await asyncio.sleep(0.02)
            if kill:
                office.kill("engineer")
                # Memory holds something else by now, which another attempt is not to begin with.
                await Memory(office.user).add(Node(kind="fact", title="Look at the roof twice"), insist=True)
                office.start("engineer")
            result = await office.result("engineer", task.task_id, timeout=60)
        finally:
            await office.close()
    assert result.status is TaskStatus.COMPLETED, result.error_message
    return reader, [request.body for request in model.requests], result.output


async def test_a_task_that_is_too_long_is_summarised_alike_over_a_kill(tmp_path: Path) -> None:
    whole, bodies, said = await read_all(tmp_path / "whole", kill=False)
    killed, _, again = await read_all(tmp_path / "killed", kill=True)
    assert said == again == f"Read {STEPS}."
    assert sum(SUMMARY in talk for talk in whole.seen) >= 2
    assert SUMMED in whole.seen[-1]
    assert list(dict.fromkeys(killed.seen)) == whole.seen
    share = cached_share([body for body in bodies if "finish_task" in str(body.get("tools", ""))])
    print(f"summarised, {len(whole.seen)} requests: {share:.3f}")
    assert share >= 0.7
