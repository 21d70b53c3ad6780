"""How much of what a model reads in a long task its provider has in its cache, over a restart too."""

import asyncio
from pathlib import Path

import pytest

from shared.bus.records import submission_entry
from shared.contracts import Node, Task, TaskStatus, generate_task_id
from shared.memory import Memory
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
            calls=[("git_log", {"repo": f"/nowhere/{self.asked}"})],
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
