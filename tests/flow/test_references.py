"""What a task refers to is opened for its agent: memories, files of its workspace, results of other tasks."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from shared import subjects
from shared.agent.references import MAX_REFERENCES, MAX_TEXT
from shared.bus.records import submission_entry
from shared.contracts import Node, Task, TaskStatus
from shared.memory import Memory
from tests.support.office import Office
from tests.support.server import ROOT

pytestmark = pytest.mark.asyncio(loop_scope="module")

READER = '''"""An agent for tests: says what its task refers to."""
import msgspec
from shared.agent.base import Agent
from shared.agent.process import run
from shared.tasks.actions import Outcome, register_action

class Reader(Agent):
    """Reads references."""

    @register_action("Tell what the task refers to")
    async def tell(self) -> Outcome:
        references = self.context.current_task.references
        return Outcome(output="told", data={"told": msgspec.to_builtins(references)})

    @register_action("Say something", {"text": "what"})
    async def say(self, text: str) -> Outcome:
        return Outcome(output=text, output_paths=("said.txt",))

if __name__ == "__main__":
    run(Reader, __file__)
'''


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def office(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Office]:
    folder = tmp_path_factory.mktemp("office")
    home = folder / "agents" / "reader"
    home.mkdir(parents=True)
    (home / "profile.yaml").write_text("name: reader\ndescription: Reads.\n")
    (home / "__main__.py").write_text(READER)
    agents = str(folder / "agents")
    running = Office(folder, MAILROOM_AGENTS_DIR=agents, PYTHONPATH=f"{ROOT}:{agents}")
    try:
        await running.open(["memory", "reader", "conductor", "critic"])
        yield running
    finally:
        await running.close()


async def perform(
    office: Office, task_id: str, action: str, requester: str = subjects.USER, **fields: Any
) -> dict[str, Any]:
    """The metadata of the result of a task for the reader, which has to complete."""
    params = fields.pop("params", {})
    context = {"action": action, "params": params}
    task = Task(
        task_id=task_id, text="tell", assignee="reader", requester=requester, context=context, **fields
    )
    bus = office.user if requester == subjects.USER else await office.connect(requester)
    await bus.commit([submission_entry(task)])
    result = await office.result("reader", task_id, requester)
    assert result.status is TaskStatus.COMPLETED, result.error_message
    return result.metadata


async def test_memories_files_and_results_are_opened(office: Office) -> None:
    node = Node(title="Deploys", body="They happen on Tuesdays", kind="decision")
    await Memory(office.user).add(node)
    workspace = office.config.workspaces / "r-1" / "r-1"
    (workspace / "src").mkdir(parents=True)
    (workspace / "src" / "a.py").write_text("".join(f"line {n}\n" for n in range(1, 101)))
    await perform(office, "r-said", "say", params={"text": "42"})
    metadata = await perform(
        office,
        "r-1",
        "tell",
        context_refs=(node.id, "src/a.py:60", "r-said"),
        evidence_refs=(f"memory:{node.id}", "task:r-said", node.id),
    )
    told = metadata["told"]
    assert list(told) == [node.id, "src/a.py:60", "r-said", f"memory:{node.id}", "task:r-said"]
    assert told[node.id]["output"] == "Deploys\n\nThey happen on Tuesdays"
    assert told["src/a.py:60"]["output"].startswith("line 40\n")
    assert told["src/a.py:60"]["output"].endswith("line 100\n")
    assert told["r-said"] == {
        "kind": "task",
        "output": "42",
        "status": "completed",
        "output_paths": ["said.txt"],
    }
    assert "unopened" not in metadata


async def test_what_cannot_be_opened_is_named_with_the_reason_and_the_task_goes_on(office: Office) -> None:
    workspace = office.config.workspaces / "u-1" / "u-1"
    workspace.mkdir(parents=True)
    (office.config.state_dir / "secret.txt").write_text("secret")
    (workspace / "link.txt").symlink_to(office.config.state_dir / "secret.txt")
    (workspace / ".env").write_text("PASSWORD=secret")
    (workspace / "image.png").write_bytes(b"\x89PNG\0\0")
    (workspace / "long.txt").write_text("x" * (2 * MAX_TEXT))
    outside = str(office.config.state_dir / "secret.txt")
    refs = (
        "nobody-knows-this",
        "../../secret.txt",
        outside,
        f"file:{outside}",
        "file:link.txt",
        ".env",
        "image.png",
        "task:gone",
        "memory:gone",
        "https://example.com/a",
        "nul\0byte.txt",
        "file:nul\0byte.txt",
        "garbled",
        "long.txt",
    )
    await office.user.store(subjects.task("reader", subjects.USER, "garbled", "new"), b"garbled")
    metadata = await perform(office, "u-1", "tell", context_refs=refs)
    assert list(metadata["told"]) == ["long.txt"]
    assert len(metadata["told"]["long.txt"]["output"]) <= MAX_TEXT
    unopened = metadata["unopened"]
    assert list(unopened) == list(refs[:-1])
    assert "no memory node, no file in the workspace" in unopened["nobody-knows-this"]
    assert "the policy does not allow to read it (secret.workspace)" in unopened[".env"]
    assert unopened["image.png"] == "it is no text file"
    assert unopened["task:gone"] == "there is no such task"
    assert "secret" not in str(metadata["told"])


async def test_the_results_that_others_got_stay_theirs(office: Office) -> None:
    await perform(office, "o-said", "say", requester="scout", params={"text": "for scout alone"})
    metadata = await perform(office, "o-1", "tell", context_refs=("o-said",))
    assert metadata["told"] == {}
    assert "no task that user has submitted to reader" in metadata["unopened"]["o-said"]


async def test_so_many_are_opened_and_no_more(office: Office) -> None:
    refs = tuple(f"n{number}" for number in range(MAX_REFERENCES + 1))
    metadata = await perform(office, "many", "tell", context_refs=refs)
    assert metadata["unopened"][refs[-1]] == f"more than {MAX_REFERENCES} are not opened"


async def test_what_a_submission_refers_to_reaches_the_tasks_of_its_goal(office: Office) -> None:
    async with office.server.connection("user") as user:
        await Memory(user).add(Node(id="berth", title="The ferry berths at pier seven"), insist=True)
    context = {"assignee": "reader", "action": "tell"}
    request = {"task_id": "gr-2", "requester": "me", "task_description": "Tell", "priority": "HIGH"}
    refs = {"evidence_refs": ["memory:berth", "nothing-like-it"]}
    await office.submit({"text": "Tell", "goal_id": "gr-1", "context": context, "context_refs": ["berth"]})
    await office.submit({**request, "context": context, **refs})
    for goal_id, name in (("gr-1", "berth"), ("gr-2", "memory:berth")):
        goal = await office.finished(goal_id)
        assert goal.status is TaskStatus.COMPLETED
        result = await office.result("reader", goal.tasks[0].task_id, subjects.CONDUCTOR)
        assert "pier seven" in result.metadata["told"][name]["output"]
        assert ("nothing-like-it" in result.metadata.get("unopened", {})) == (goal_id == "gr-2")


async def test_a_task_without_memory_goes_on(office: Office) -> None:
    """This test stops the memory daemon: it is the last."""
    office.kill("memory")
    metadata = await perform(office, "alone", "tell", context_refs=("some-node",))
    assert "The memory daemon does not answer" in metadata["unopened"]["some-node"]
