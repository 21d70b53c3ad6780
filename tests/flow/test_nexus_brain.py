"""The front desk with a model: answers from memory alone, and nothing claimed that did not happen."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from services.nexus.__main__ import Nexus
from services.nexus.answers.model_answer import question_prompt
from shared import subjects
from shared.bus.records import submission_entry
from shared.contracts import (
    ContextPacket,
    DueKind,
    Email,
    Hit,
    Node,
    Question,
    Response,
    Task,
    TaskStatus,
    generate_task_id,
)
from shared.queries.office import read_conversation
from shared.reasoning.prompts import LANGUAGE
from shared.tasks.profiles import load_profile
from shared.timetable import read_timetable
from tests.support.classifying import open_endpoint
from tests.support.team import Team, open_team
from tests.support.waiting import eventually

NEXUS = load_profile(Path(__file__).parents[2] / "services" / "nexus" / "profile.yaml")
NOTES = (
    Node(id="note1", title="The office key hangs beside the kitchen door"),
    Node(id="note2", title="Goal goal_known123 ended: the check-up of shop was completed on Monday"),
)
CHOOSE = "Choose the tool of the front desk"
Desk = Callable[..., AbstractAsyncContextManager[Team]]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    @asynccontextmanager
    async def open_desk(*script: dict[str, Any], **environment: str) -> AsyncIterator[Team]:
        path = tmp_path / "script.yaml"
        path.write_text(yaml.safe_dump(list(script)))
        brain = {"MAILROOM_BRAIN": f"scripted:{path}", **environment}
        async with open_team(tmp_path, ["nexus", "memory", "conductor"], **brain) as team:
            await remember(team)
            await team.join(Nexus, NEXUS)
            yield team

    return open_desk


async def remember(team: Team) -> None:
    """Answer as the memory daemon does; embeddings say that nothing is like anything."""

    async def search(_: bytes) -> bytes:
        return msgspec.json.encode([Hit(node=note, score=0.6, why={"vector": 0.3}) for note in NOTES])

    async def embed(payload: bytes) -> bytes:
        texts = msgspec.json.decode(payload)["texts"]
        return msgspec.json.encode([[0.0] * 384 for _ in texts])

    daemon = await team.connect("memory")
    endpoints = {"search": search, "embed": embed, "classify": open_endpoint()}
    await daemon.serve("memory", "0.0.0", "remembers", endpoints)


def composed(text: str, *citations: str, match: str = "Answer the question") -> dict[str, Any]:
    return {"match": match, "replies": [{"json": {"text": text, "citations": list(citations)}}]}


def chooses(tool: str, *more: str) -> dict[str, Any]:
    replies = [{"json": {"tool": each, "rationale": "so it seems"}} for each in (tool, *more)]
    return {"match": CHOOSE, "replies": replies}


async def ask(team: Team, text: str) -> Response:
    question = Question(sender="user", recipient="nexus", text=text)
    await team.write(question, "nexus")
    response = Response.from_dict(await team.receive("nexus"))
    assert response.cause == question.id
    return response


async def submissions(team: Team) -> list[Any]:
    request = {"seq": 1, "next_by_subj": subjects.SUBMISSIONS, "batch": 100}
    return [json.loads(stored.data) async for stored in team.user.read(subjects.OFFICE, request)]


async def test_an_answer_is_composed_from_the_packet_with_its_citations(desk: Desk) -> None:
    async with desk(composed("It hangs beside the kitchen door [note1].", "note1")) as team:
        response = await ask(team, "Where is the key?")
    assert response.text == "It hangs beside the kitchen door [note1]."
    assert response.citations == ("note1",)
    assert response.route_used == "nexus"
    assert response.confidence == 0.6
    assert response.context_used is not None
    assert [item.evidence_id for item in response.context_used.bullets] == ["note1", "note2"]


async def test_invented_citations_are_taken_out_and_it_says_so(desk: Desk) -> None:
    async with desk(composed("By the door [note1], or the shelf [note99].", "note1", "made-up-7")) as team:
        response = await ask(team, "Where is the key?")
    assert response.text.startswith("By the door [note1], or the shelf.")
    assert "2 sources the model named are not in memory's answer and were taken out" in response.text
    assert response.citations == ("note1",)
    assert response.confidence == 0.3


@pytest.mark.parametrize(
    "claim",
    [
        "I have set a reminder for tomorrow at nine.",
        "I'll remind you about it.",
        "Your reminder has been created.",
        "I've started goal_20260101_made_up_1 for you.",
        "Done! Reminder set.",
        "You have a reminder at 9 tomorrow.",
        "The task has been submitted to cortex.",
        "I will ask the engineer to look into it.",
    ],
)
async def test_what_did_not_happen_is_not_claimed(desk: Desk, claim: str) -> None:
    async with desk(composed(f"It hangs beside the kitchen door [note1]. {claim}", "note1")) as team:
        response = await ask(team, "Where is the key?")
        assert (await read_timetable(team.user)).of(DueKind.MAIL) == []
        assert await submissions(team) == []
    answer, _, note = response.text.partition("\n\n")
    assert answer == "It hangs beside the kitchen door [note1]."
    assert "claimed something that did not happen" in note


@pytest.mark.parametrize(
    "text",
    [
        "The check-up of shop was completed on Monday [note2], as goal_known123 says.",
        "I cannot set reminders in an answer.",
        "Memory does not say who has the key.",
        "I have not started anything.",
    ],
)
async def test_what_is_so_may_be_said(desk: Desk, text: str) -> None:
    async with desk(composed(text)) as team:
        assert (await ask(team, "Where is the key?")).text == text


async def test_the_model_chooses_the_tool_of_what_is_not_nearly_an_example(desk: Desk) -> None:
    async with desk(chooses("work")) as team:
        response = await ask(team, "Mow the lawn of the data centre")
        (goal,) = await submissions(team)
    assert response.route_used == "conductor"
    assert response.goal_id == goal["goal_id"]
    assert f"so I started goal {response.goal_id}: Mow the lawn of the data centre" in response.text


async def test_a_tool_that_does_not_exist_is_asked_again(desk: Desk) -> None:
    async with desk(chooses("root-shell", "memory"), composed("By the door [note1].")) as team:
        response = await ask(team, "Mow the lawn of the data centre")
        assert await submissions(team) == []
    assert response.text == "By the door [note1]."
    assert response.citations == ("note1",)


async def test_a_model_that_knows_no_tool_at_all_leaves_it_to_likeness(desk: Desk) -> None:
    async with desk(chooses("root-shell"), composed("By the door [note1].")) as team:
        response = await ask(team, "Who planted the lawn of the data centre?")
        assert await submissions(team) == []
    assert response.route_used == "nexus"


@pytest.mark.parametrize(
    "text", ["Who mowed the lawn of the data centre?", "Please don't mow the lawn of the data centre"]
)
async def test_what_is_no_request_starts_nothing_whatever_the_model_says(desk: Desk, text: str) -> None:
    async with desk(chooses("work"), composed("By the door [note1].")) as team:
        await ask(team, text)
        assert await submissions(team) == []


async def test_a_model_that_fails_leaves_the_answer_to_memory(desk: Desk) -> None:
    script = {"match": "Answer the question", "replies": [{"error": "unavailable"}]}
    async with desk(script) as team:
        response = await ask(team, "Where is the key?")
    assert response.text.startswith("The office key hangs beside the kitchen door (")
    assert "for the model could not be asked: " in response.text
    assert response.citations[0] == "note1"


async def test_reminders_are_set_by_rule_and_not_by_the_model(desk: Desk) -> None:
    async with desk(composed("I have set it.")) as team:
        response = await ask(team, "Remind me in 2 hours to call Ana")
        assert len((await read_timetable(team.user)).of(DueKind.MAIL)) == 1
        listed = await team.perform("nexus", "list_reminders")
    assert response.text.startswith("I shall remind you on")
    assert len(listed.metadata["reminders"]) == 1


async def test_the_model_is_asked_by_task_too(desk: Desk) -> None:
    async with desk(composed("By the door [note1].")) as team:
        result = await team.perform("nexus", "ask", text="Where is the key?")
        assert result.status is TaskStatus.COMPLETED
        assert result.evidence_refs == ("note1",)
        assert result.metadata["usage"]["calls"] >= 1
        routed = await team.perform("nexus", "route", text="Run the tests")
        assert routed.metadata["decision"]["route"] == "conductor"
        packet = await team.perform("nexus", "build_context", text="Where is the key?")
        assert packet.metadata["packet"]["bullets"][0]["evidence_id"] == "note1"


async def write(team: Team, body: str, in_reply_to: str = "") -> dict[str, Any]:
    """The answer to a letter."""
    letter = Email(sender="user", recipient="nexus", body=body, in_reply_to=in_reply_to)
    await team.write(letter, "nexus")
    async with asyncio.timeout(20):
        while (answer := await team.receive("nexus")).get("in_reply_to") != letter.id:
            await asyncio.sleep(0.02)
    return answer


async def test_a_letter_is_talked_about_in_its_thread(desk: Desk) -> None:
    thread = {
        "match": "^Where is the key",
        "replies": [{"text": "not reached"}, {"json": {"text": "It is Bob [note1]. I told him."}}],
    }
    choice = {"match": CHOOSE, "replies": [{"json": {"tool": "memory"}}]}
    async with desk(choice, thread, composed("It hangs beside the kitchen door [note1].")) as team:
        first = await write(team, "Where is the key?")
        assert first["body"] == "It hangs beside the kitchen door [note1]."
        second = await write(team, "And who has it now?", first["id"])
    assert second["body"].startswith("It is Bob [note1].\n\n(The model claimed something")


async def test_a_letter_that_wants_something_done_starts_one_goal(desk: Desk) -> None:
    async with desk(chooses("work")) as team:
        answer = await write(team, "Mow the lawn of the data centre")
        (goal,) = await submissions(team)
    assert goal["goal_id"] in answer["body"]
    assert goal["requester"] == "user"


async def test_a_letter_about_reminders_sets_them_without_the_model(desk: Desk) -> None:
    async with desk() as team:
        answer = await write(team, "Remind me in 2 hours to call Ana")
    assert answer["body"].startswith("I shall remind you on")


async def work(team: Team, text: str) -> str:
    """What comes of a task in words."""
    task = Task(task_id=generate_task_id(), text=text, assignee="nexus", requester="user")
    await team.user.commit([submission_entry(task)])
    return (await team.result("nexus", "user", task.task_id)).output


async def test_a_thought_claims_no_reminder_that_is_not_in_the_record(desk: Desk) -> None:
    lie = "Ana is in. I have set a reminder for nine."
    truth = {"name": "set_reminder", "arguments": {"text": "call Ana", "when": "in 2 hours"}}
    script = [
        {"match": "Lie", "replies": [{"call": {"name": "finish_task", "arguments": {"result": lie}}}]},
        {
            "match": "Do it",
            "replies": [{"call": truth}, {"call": {"name": "finish_task", "arguments": {"result": lie}}}],
        },
    ]
    async with desk(*script) as team:
        assert await work(team, "Lie about it") == "Ana is in.\n\n(No reminder was set or changed.)"
        assert await work(team, "Do it") == lie
        listed = await team.perform("nexus", "list_reminders")
    assert [each["text"] for each in listed.metadata["reminders"]] == ["call Ana"]


# --- a model that is late ------------------------------------------------------------------------------


async def test_memory_answers_for_a_model_that_is_late_and_its_answer_follows(desk: Desk) -> None:
    slow = composed("It hangs beside the kitchen door [note1].", "note1")
    slow["replies"][0]["delay"] = 4.0
    begun = time.monotonic()
    async with desk(slow, MAILROOM_ANSWER_WITHIN="2") as team:
        question = Question(
            sender="user", recipient="nexus", text="Where is the office key?", user_session_id="s1"
        )
        await team.write(question, "nexus")
        first = Response.from_dict(await team.receive("nexus"))
        took = time.monotonic() - begun
        assert "the model is late: its answer follows here if it comes" in first.text
        assert took < 4 + 2  # the start of the desk included

        async def later() -> Response | None:
            response = Response.from_dict(await team.receive("nexus"))
            return response if response.id != first.id else None

        second: Response = await eventually(later)
        assert (second.text, second.cause) == ("It hangs beside the kitchen door [note1].", question.id)
        turn = (await read_conversation(team.user, "s1")).value.turns[-1]
        assert turn.answer == second.text


async def test_a_model_that_chooses_too_slowly_leaves_it_to_the_rules(desk: Desk) -> None:
    choice = chooses("memory")
    choice["replies"][0]["delay"] = 5.0
    slow = composed("It hangs beside the kitchen door [note1].", "note1")
    slow["replies"][0]["delay"] = 5.0
    async with desk(choice, slow, MAILROOM_ANSWER_WITHIN="2") as team:
        begun = time.monotonic()
        response = await ask(team, "Key of the office, kitchen door?")
        assert time.monotonic() - begun < 4.5
    assert "kitchen door" in response.text


async def test_a_late_model_that_fails_adds_nothing(desk: Desk) -> None:
    failing = {"match": "Answer the question", "replies": [{"error": "unavailable", "delay": 2.0}]}
    async with desk(failing, MAILROOM_ANSWER_WITHIN="1") as team:
        first = await ask(team, "Where is the office key?")
        assert "the model is late" in first.text
        await asyncio.sleep(4.0)
        assert Response.from_dict(await team.receive("nexus")).id == first.id


def test_the_prompt_asks_for_the_language_of_the_question() -> None:
    packet = ContextPacket(query="Wo ist der Schl\u00fcssel?")
    asked = question_prompt("Wo ist der Schl\u00fcssel?", packet).text
    assert LANGUAGE in asked
    assert asked.index(LANGUAGE) < asked.index("Remembered statements")
