"""What memory tells an agent is in the prompt that its model gets, as a server logs it."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import cast

import pytest
from click.testing import CliRunner

from services.cli.command import cli
from shared.bus.records import submission_entry
from shared.contracts import Node, Source, Task, TaskStatus, generate_task_id
from shared.memory import Memory
from shared.reasoning.recall import MemoryRecall
from tests.support.model_formats import Answer
from tests.support.model_server import ModelServer, serve_model
from tests.support.office import Office

pytestmark = pytest.mark.timeout(120)

RULES = "Every change of the kiln controller needs a dry run on the spare kiln, and Ada signs it off. " * 4
DONE = Answer(calls=[("finish_task", {"result": "Done."})])


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with serve_model(DONE) as server:
        yield server


@pytest.fixture
async def office(tmp_path: Path, model: ModelServer) -> AsyncIterator[Office]:
    brain = {"MAILROOM_BRAIN": "openai:small", "MAILROOM_BRAIN_URL": model.url, "MAILROOM_BRAIN_KEY": "key"}
    office = Office(tmp_path, MAILROOM_BRAIN_CONTEXT="20000", **brain)
    try:
        await office.open(["memory", "engineer", "gateway"])
        yield office
    finally:
        await office.close()


async def prompt_of(office: Office, model: ModelServer, text: str) -> str:
    """The system prompt under which the engineer's model was asked about a task."""
    task = Task(task_id=generate_task_id(), text=text, assignee="engineer", requester="user")
    seen = len(model.requests)
    await office.user.commit([submission_entry(task)])
    result = await office.result("engineer", task.task_id, timeout=40)
    assert result.status is TaskStatus.COMPLETED, result.error_message
    asked = next(request for request in model.requests[seen:] if text in str(request.body))
    return str(asked.body["messages"][0]["content"])


async def test_a_prompt_holds_bodies_and_what_was_decided_just_before(
    office: Office, model: ModelServer
) -> None:
    memory = Memory(office.user)
    owner = Source(agent="critic", session="agents/critic/notes.md", channel="ingest")
    await memory.add(
        Node(id="rules", kind="decision", title="AGENTS › Rules", body=RULES, tags=("engineer",)),
        Node(id="aside", kind="decision", title="The critic keeps a list of odd jokes", source=owner),
        insist=True,
    )
    first = await prompt_of(office, model, "Say whether the kiln is warm")
    assert " ".join(RULES.split()) in first
    assert "odd jokes" not in first

    decided = "We glaze the blue bowls at 1,240 degrees from today on"
    await memory.add(Node(id="glaze", kind="decision", title=decided, body="The samples ran hotter."))
    second = await prompt_of(office, model, "Say what the bowls are glazed at")
    assert f"**{decided}** (decision): The samples ran hotter." in second

    shown = await asyncio.to_thread(
        CliRunner().invoke, cli, ["brief", "engineer", "--prompt"], env=office.environment
    )
    assert shown.exit_code == 0, shown.output
    assert same_words(second) == same_words(shown.stdout)

    await memory.retire("glaze")
    assert decided not in await prompt_of(office, model, "Say what the bowls were glazed at")


async def test_a_change_reaches_a_task_that_is_under_way(office: Office, model: ModelServer) -> None:
    memory = Memory(office.user)
    written = "Nobody fires the kiln while the roof is open"
    slow = Answer(calls=[("git_log", {"repo": "/nowhere"})], hang=3.0)
    model.answers = [slow, DONE]
    model.requests.clear()
    task = Task(task_id=generate_task_id(), text="Look at the roof", assignee="engineer", requester="user")
    await office.user.commit([submission_entry(task)])
    deadline = time.monotonic() + 30
    while not model.requests and time.monotonic() < deadline:
        await office.user.request("memory.health", b"{}", timeout=10)
    await memory.add(Node(kind="decision", title=written), insist=True)
    await office.result("engineer", task.task_id, timeout=40)
    prompts = [str(request.body["messages"][0]["content"]) for request in model.requests]
    assert written not in prompts[0]
    assert written in prompts[-1]


def same_words(text: str) -> set[str]:
    """The words of a briefing's part of a prompt without its head, which names a version and a time."""
    return set(text.partition("<briefing>")[2].partition("\n## ")[2].split())


async def test_only_what_bears_on_a_task_is_recalled_for_it(office: Office) -> None:
    memory = Memory(office.user)
    await memory.add(
        Node(id="day", kind="fact", title="We deploy the storefront on Tuesdays"),
        Node(id="jobs", kind="fact", title="Background jobs of the report worker run on Temporal"),
        Node(
            id="long",
            kind="fact",
            title="Linting of the Go services",
            body="It is done with golangci-lint. " * 20,
        ),
        Node(id="agent-x", kind="agent", title="x", body="Deploys the storefront on a day of the week."),
        insist=True,
    )
    recall = MemoryRecall(memory)
    for text in ("Say hello", "Translate this letter into German", "Compute 17 * 23"):
        assert await recall.recall(text) == ("", {})
    known, relevance = await recall.recall("On which day do we deploy the storefront?")
    assert known.startswith("<private>- [day] We deploy the storefront on Tuesdays")
    assert "agent-x" not in known
    assert cast(float, relevance["best"]) > 0.6
    assert "[long]" in (await recall.recall("What do we lint the Go services with?"))[0]
    shown, _ = await recall.recall("On which day do we deploy the storefront?", known={"day"})
    assert "[day]" not in shown
