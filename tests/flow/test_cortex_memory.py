"""A cognitive run beside the real memory: it recalls, cites, and leaves an episode behind."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from shared import subjects
from shared.bus.records import read_record, submission_entry
from shared.contracts import CognitiveMessage, Node, Task, TaskResult, generate_task_id
from shared.memory import Memory
from tests.flow.test_cortex_cognition import WELL, finish, says
from tests.support.office import Office
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(90)

FACT = Node(
    id="graph-store",
    title="Graph memory is stored in LanceDB",
    body="The daemon keeps the nodes and edges of graph memory in LanceDB tables.",
)
PATTERN = Node(
    id="look-first",
    kind="pattern",
    title="What is the heron server used for?",
    body="Read the inventory of servers before anything else.",
)
STEP = {"step_number": 1, "description": "Say where graph memory is kept"}
ANSWER = {"answer": "In LanceDB.", "evidence": ["memory:graph-store", "memory:invented"]}


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    script = tmp_path / "script.yaml"
    entries = [
        says(r"(?s)\[memory:graph-store\].*Plan how", {"steps": [STEP]}),
        says("^Say where", finish("In LanceDB.")),
        says(r"(?s)^Where does graph memory live.*\[memory:graph-store\]", finish("In LanceDB.")),
        # As long as it takes to kill the process at work; the next one asks again.
        says(
            r"(?s)^What is the heron server.*What helped: Read the inventory.*What the text mentions",
            {**finish("Staging."), "delay": 3.0},
        ),
        says("Judge", {**WELL, **ANSWER}),
    ]
    script.write_text(yaml.safe_dump(entries))
    office = Office(tmp_path, MAILROOM_BRAIN=f"scripted:{script}")
    try:
        await office.open(["memory", "conductor", "cortex"])
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


async def test_reasoning_is_given_patterns_and_mentions_and_names_patterns_after_a_crash(
    office: Office,
) -> None:
    await Memory(office.user).add(PATTERN, insist=True)
    task = Task(
        task_id=generate_task_id(),
        text="What is the heron server used for? See @memory heron.",
        assignee="cortex",
        requester="user",
        context={"mode": "reasoning"},
    )
    await office.user.commit([submission_entry(task)])

    async def thinks() -> bool:
        record = await read_record(
            office.user, subjects.record("cortex", "cognition", task.task_id), CognitiveMessage
        )
        return record is not None and str(record.value.payload["stage"]).startswith("execution")

    await eventually(thinks, 20.0)
    office.kill("cortex")
    office.start("cortex", "again")
    result = await office.result("cortex", task.task_id, timeout=40)
    assert result.output == "Staging.", result.error_message
    assert result.attempt == 2
    assert result.metadata["patterns"] == ["look-first"]
    assert result.metadata["context"]["best"] > 0.5
