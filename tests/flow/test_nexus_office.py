"""Nexus and memory as processes: what is remembered is recalled, and what nobody has words for is routed."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from services.nexus.routing.decider import CLASSIFY_TIMEOUT
from shared import subjects
from shared.bus.entry import seal
from shared.bus.records import submission_entry
from shared.contracts import Question, Response, ResultOutcome, Task, TaskResult, TaskStatus, generate_task_id
from shared.memory import Memory
from tests.support.http import Site
from tests.support.office import Office
from tests.support.waiting import eventually


@pytest.fixture
async def pair(tmp_path: Path, site: Site) -> AsyncIterator[Office]:
    """An office of nexus and memory; the weather is away."""
    running = Office(
        tmp_path,
        MAILROOM_HOME_PLACE="Bern",
        MAILROOM_GEOCODING_URL=site.page("/search", "down", 503),
        MAILROOM_LINKER_INTERVAL="1000000",
    )
    try:
        await running.open(["memory", "nexus"])
        yield running
    finally:
        await running.close()


async def perform(office: Office, action: str, task_id: str = "", **params: Any) -> TaskResult:
    task = Task(
        task_id=task_id or generate_task_id(),
        text=action,
        assignee="nexus",
        requester="user",
        context={"action": action, "params": params},
    )
    await office.user.commit([submission_entry(task)])
    return await result_of(office, task.task_id)


async def result_of(office: Office, task_id: str) -> TaskResult:
    return await office.result("nexus", task_id)


async def ask(office: Office, text: str) -> Response:
    question = Question(sender="user", recipient="nexus", text=text)
    await office.user.commit([seal(subjects.mail("nexus", "user"), question)])
    found: list[Response] = []

    async def answered() -> bool:
        for _, _, data in await office.stored(subjects.mail("user", "nexus")):
            if question.id.encode() in data:
                found.append(Response.from_json(data))
        return bool(found)

    await eventually(answered, 30)
    return found[0]


async def test_what_is_remembered_is_recalled_and_answers_questions(pair: Office) -> None:
    text = "The staging server of the shop is called heron and stands in the cellar."
    kept = await perform(pair, "remember", text=text, tags=["staging"], kind="fact")
    node_id = kept.metadata["id"]
    assert kept.output == f"Remembered: {text} (memory node {node_id[:8]})"
    (stored,) = await Memory(pair.user).get(node_id)
    assert stored.source.agent == "user"  # who said it, and not the desk that kept it
    found = await perform(pair, "recall", question="What is the staging server called?")
    assert found.evidence_refs[0] == node_id
    assert "heron" in found.output
    response = await ask(pair, "What is the staging server called?")
    assert response.citations == (node_id,)
    # A question that is like one for the clock is the memory's if memory knows, and else the clock's.
    await perform(pair, "remember", text="The stand-up of the shop is at 9:45.", tags=["shop"], kind="fact")
    assert (await ask(pair, "At what time is the stand-up?")).text.startswith("The stand-up of the shop is")
    assert (await ask(pair, "What time is it?")).route_used == "tool:clock"
    assert "heron" in response.text
    again = await perform(pair, "remember", text=text)
    assert again.status is TaskStatus.FAILED
    assert f"(memory node {node_id})" in again.error_message
    thin = await perform(pair, "remember", text="ok")
    assert thin.status is TaskStatus.FAILED
    assert "Traceback" not in thin.error_message
    nothing = await perform(pair, "recall", question=" ")
    assert nothing.error_message.startswith("The question is empty")

    # Routed by example, and told in a sentence that the weather is away.
    umbrella = await ask(pair, "Do I need an umbrella tomorrow?")
    assert umbrella.route_used == "tool:weather", umbrella
    assert "The geocoding service at 127.0.0.1" in umbrella.text
    assert umbrella.confidence == 0.0
    goal = await ask(pair, "Find out why the nightly job fails")
    assert goal.route_used == "conductor"
    assert goal.goal_id

    # Without memory the rules go on, and everything else says that memory is away.
    pair.kill("memory")
    away = await perform(pair, "recall", question="What is the staging server called?")
    assert away.error_message.startswith("Memory cannot be asked.")
    lost = await perform(pair, "remember", text="The kettle in the kitchen leaks since Monday.")
    assert lost.error_message.startswith("It may not have been remembered.")
    assert (await ask(pair, "Run the tests of ~/src/shop")).route_used == "conductor"


VAGUE = "at what time does the storefront ship these days"


async def test_while_memory_is_away_commands_and_rules_go_on_and_the_rest_says_why(pair: Office) -> None:
    understood = await ask(pair, VAGUE)
    assert understood.route_used != "tool:unclear"
    pair.kill("memory")
    lost = await ask(pair, VAGUE)
    assert (lost.route_used, lost.outcome) == ("tool:unclear", ResultOutcome.FAILED)
    assert lost.text.startswith(
        "Memory does not answer. Until it does, only commands, reminders, questions about the office and set"
    )
    assert "/goals" in lost.text
    assert "nexus: up" in (await ask(pair, "which agents are at work?")).text
    assert (await ask(pair, "/reminders")).route_used == "tool:reminder_list"
    assert (await ask(pair, "remind me to air the hall in 20 minutes")).route_used == "tool:reminder_set"

    pair.start("memory")
    await pair.ready("memory")
    assert (await ask(pair, VAGUE)).route_used == understood.route_used

    pair.signal("memory", signal.SIGSTOP)
    begun = time.monotonic()
    assert (await ask(pair, VAGUE)).text == lost.text
    assert CLASSIFY_TIMEOUT <= time.monotonic() - begun < 2 * CLASSIFY_TIMEOUT
    assert (await ask(pair, "/help")).route_used == "tool:capabilities"
    pair.signal("memory", signal.SIGCONT)
    assert (await ask(pair, VAGUE)).route_used == understood.route_used


async def test_a_briefing_that_was_killed_in_the_middle_is_finished(pair: Office) -> None:
    task = Task(
        task_id="brief1",
        text="brief",
        assignee="nexus",
        requester="user",
        context={"action": "brief_morning", "params": {}},
    )
    await pair.user.commit([submission_entry(task)])
    await asyncio.sleep(0.6)
    pair.kill("nexus")
    pair.start("nexus")
    await pair.ready("nexus")
    result = await result_of(pair, "brief1")
    assert result.status is TaskStatus.COMPLETED
    assert "frontier is not at work" in result.output
    assert len(list((pair.config.inbox / "morning").iterdir())) == 1
