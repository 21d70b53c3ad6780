"""A cognitive run beside the real memory: it recalls, cites, and leaves an episode behind."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from shared.bus.records import submission_entry
from shared.contracts import Node, Task, TaskResult, generate_task_id
from shared.memory import Memory
from tests.flow.test_cortex_cognition import PERCEIVES, WELL, finish, says
from tests.support.office import Office

pytestmark = pytest.mark.timeout(90)

FACT = Node(
    id="graph-store",
    title="Graph memory is stored in LanceDB",
    body="The daemon keeps the nodes and edges of graph memory in LanceDB tables.",
)
STEP = {"step_number": 1, "description": "Say where graph memory is kept"}
ANSWER = {"answer": "In LanceDB.", "evidence": ["memory:graph-store", "memory:invented"]}


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    script = tmp_path / "script.yaml"
    entries = [
        PERCEIVES,
        says(r"(?s)Plan how.*\[memory:graph-store\]", {"steps": [STEP]}),
        says("^Say where", finish("In LanceDB.")),
        says(r"(?s)^Where does graph memory live.*\[memory:graph-store\]", finish("In LanceDB.")),
        says("Judge", WELL),
        says("Answer what was asked", ANSWER),
    ]
    script.write_text(yaml.safe_dump(entries))
    office = Office(tmp_path, MAILROOM_BRAIN=f"scripted:{script}")
    try:
        await office.open(["memory", "cortex"])
        yield office
    finally:
        await office.close()


async def work_out(office: Office, text: str, mode: str = "cognitive") -> TaskResult:
    task = Task(
        task_id=generate_task_id(),
        text=text,
        assignee="cortex",
        requester="user",
        context={"mode": mode},
    )
    await office.user.commit([submission_entry(task)])
    return await office.result("cortex", task.task_id, timeout=40)


async def test_memory_is_recalled_cited_and_gets_the_episode(office: Office) -> None:
    memory = Memory(office.user)
    await memory.add(FACT)
    result = await work_out(office, "Where is graph memory stored?")
    assert result.output == "In LanceDB.", result.error_message
    assert result.evidence_refs == ("memory:graph-store",)
    assert result.metadata["context"]["best"] > 0.5
    (episode,) = await memory.search("graph memory stored", kinds=["episodic"])
    assert episode.node.title == "Worked out: Where is graph memory stored?"
    assert episode.node.source.agent == "cortex"
    reasoned = await work_out(office, "Where does graph memory live?", "reasoning")
    assert (reasoned.output, reasoned.metadata["mode"]) == ("In LanceDB.", "reasoning/direct")
    episodes = await memory.search("where graph memory lives", kinds=["episodic"])
    assert {hit.node.title for hit in episodes} == {
        "Worked out: Where is graph memory stored?",
        "Worked out: Where does graph memory live?",
    }
