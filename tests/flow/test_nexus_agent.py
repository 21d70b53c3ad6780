"""The front desk at work: questions and letters of a person, answered over the bus."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import pytest

from services.frontier.__main__ import Frontier
from services.nexus.__main__ import Nexus
from shared import subjects
from shared.bus.entry import seal
from shared.contracts import Email, Hit, MemoryQuery, Node, Question, RoutingDecision, TaskStatus
from shared.tasks.profiles import Profile, load_profile
from tests.flow.discovery_pages import PAPERS
from tests.support.classifying import open_endpoint, serve_classifiers, serve_memory
from tests.support.http import Site
from tests.support.team import Team, open_team

NEXUS = load_profile(Path(__file__).parents[2] / "services" / "nexus" / "profile.yaml")
NOTES = (
    Node(id="n1", title="Check-up of shop: 3 of 41 tests fail", body="The cart's tests fail."),
    Node(id="n2", title="The office key hangs beside the kitchen door"),
)


@pytest.fixture
async def team(tmp_path: Path, site: Site) -> AsyncIterator[Team]:
    url = site.page("/api/query", PAPERS)
    async with open_team(
        tmp_path, ["nexus", "memory", "frontier", "conductor"], MAILROOM_ARXIV_URL=url
    ) as team:
        await team.join(Nexus, NEXUS)
        yield team


async def store_discoveries(team: Team, notes: Sequence[Node] = NOTES) -> None:
    """Answer searches as the memory daemon does, with every note that shares a word with the query."""

    async def search(payload: bytes) -> bytes:
        query = msgspec.json.decode(payload, type=MemoryQuery)
        words = set(query.text.lower().strip("?").split())
        hits = [Hit(node=note, score=0.4, why={"vector": 0.2, "keyword": 0.2}) for note in notes]
        return msgspec.json.encode([hit for hit in hits if words & set(hit.node.title.lower().split())])

    daemon = await team.connect("memory")
    await serve_memory(daemon, {"search": search, "classify": open_endpoint()})


def question(text: str) -> Question:
    return Question(sender="user", recipient="nexus", text=text)


def letter(body: str, **more: str) -> Email:
    return Email(sender="user", recipient="nexus", body=body, **more)


async def submissions(team: Team) -> list[dict[str, object]]:
    request = {"seq": 1, "next_by_subj": subjects.SUBMISSIONS, "batch": 100}
    return [json.loads(stored.data) async for stored in team.user.read(subjects.OFFICE, request)]


async def test_a_question_is_answered_from_memory_with_citations(team: Team) -> None:
    await store_discoveries(team)
    asked = question("Where is the key?")
    await team.write(asked, "nexus")
    response = await team.receive("nexus")
    assert response["type"] == "response.v1"
    assert response["cause"] == asked.id
    assert response["citations"] == ["n2"]
    assert response["route_used"] == "nexus"
    assert response["context_used"]["bullets"][0]["evidence_id"] == "n2"
    assert 0 < response["confidence"] <= 1
    assert await submissions(team) == []


async def test_without_a_calendar_memory_tells_of_an_event(team: Team) -> None:
    title = "Dentist appointment with Dr. Weber: Tuesday 2026-03-10 09:00"
    await store_discoveries(
        team, [Node(id="ev", kind="event", title=title, valid_from="2026-03-10T09:00:00+00:00")]
    )
    await team.write(question("When is my dentist appointment?"), "nexus")
    response = await team.receive("nexus")
    assert response["citations"] == ["ev"]
    assert "Tuesday 2026-03-10 09:00" in response["text"]


async def test_without_memory_the_answer_says_so(team: Team) -> None:
    await team.write(question("Where is the key?"), "nexus")
    response = await team.receive("nexus")
    assert response["text"].startswith("Memory does not answer. Until it does, only commands")
    assert response["confidence"] == 0.0


async def test_what_is_to_be_done_becomes_one_goal_however_often_it_arrives(team: Team) -> None:
    asked = question("Fix the flaky test in ~/src/shop")
    await team.write(asked, "nexus")
    response = await team.receive("nexus")
    again = asked.to_json().replace(b'"user_session_id":""', b'"user_session_id":"s2"')
    await team.user.store(subjects.mail("nexus", "user"), again)
    await asyncio.sleep(0.3)
    (goal,) = await submissions(team)
    assert goal["text"] == "Fix the flaky test in ~/src/shop"
    assert goal["requester"] == "user"
    assert goal["context"] == {"route": "conductor", "letter_id": asked.id}
    assert response["goal_id"] == goal["goal_id"]
    assert response["route_used"] == "conductor"
    assert f"mailroom show {goal['goal_id'][-8:]}" in response["text"]


async def test_a_tool_brings_its_result_to_whoever_asked(team: Team) -> None:
    options = {"arxiv_delay": 0.0, "arxiv_retries": 0}
    await team.join(Frontier, Profile(name="frontier", description="Discovers.", options=options))
    await serve_classifiers(team)
    asked = question("Find papers about attention, please")
    await team.write(asked, "nexus")
    response = await team.receive("nexus")
    assert response["cause"] == asked.id
    assert response["route_used"] == "tool:papers"
    assert "Attention Is All You Need" in response["text"]
    assert response["citations"] == ["arxiv:1706.03762v7", "arxiv:cs/0112017v1"]


async def test_a_tool_that_fails_says_why(team: Team, site: Site) -> None:
    site.page("/api/query", "down", 503)
    options = {"arxiv_delay": 0.0, "arxiv_retries": 0}
    await team.join(Frontier, Profile(name="frontier", description="Discovers.", options=options))
    await serve_classifiers(team)
    await team.write(letter("Find papers about attention", subject="Reading"), "nexus")
    reply = await team.receive("nexus")
    assert reply["type"] == "email.v1"
    assert "HTTP status 503" in reply["body"]


async def test_a_tool_without_a_subject_asks_for_it(team: Team) -> None:
    await team.write(question("Search arxiv please"), "nexus")
    response = await team.receive("nexus")
    assert response["text"] == "I can ask frontier for papers, but not about what. Name the topic."


async def test_a_letter_is_answered_by_a_letter_in_its_thread(team: Team) -> None:
    await store_discoveries(team)
    wrote = letter("Where is the key?", subject="A question", user_session_id="s1")
    await team.write(wrote, "nexus")
    reply = await team.receive("nexus")
    assert reply["type"] == "email.v1"
    assert reply["subject"] == "Re: A question"
    assert reply["in_reply_to"] == reply["cause"] == wrote.id
    assert reply["user_session_id"] == "s1"
    assert "The office key hangs beside the kitchen door (2" in reply["body"]


async def test_a_letter_with_only_a_subject_and_an_empty_one(team: Team) -> None:
    await store_discoveries(team)
    await team.write(letter("", subject="Where is the key?"), "nexus")
    assert "The office key hangs beside the kitchen door (2" in (await team.receive("nexus"))["body"]
    await team.write(letter(" \n"), "nexus")
    while not (reply := await team.receive("nexus"))["body"].startswith("The email is empty"):
        await asyncio.sleep(0.02)
    assert reply["subject"] == ""


async def test_an_agents_answer_is_not_answered(team: Team) -> None:
    conductor = await team.connect("conductor")
    for in_reply_to, subject in (("m1", "An answer"), ("", "A question")):
        mail = Email(
            sender="conductor",
            recipient="nexus",
            subject=subject,
            body="Where is it?",
            in_reply_to=in_reply_to,
        )
        await conductor.commit([seal(subjects.mail("nexus", "conductor"), mail)])
    while await team.user.last(subjects.OFFICE, subjects.mail("conductor", "nexus")) is None:
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.2)
    request = {"seq": 1, "next_by_subj": subjects.mail("conductor", "nexus"), "batch": 10}
    letters = [json.loads(stored.data) async for stored in team.user.read(subjects.OFFICE, request)]
    assert [mail["subject"] for mail in letters] == ["Re: A question"]


async def test_the_desk_can_be_asked_by_task_too(team: Team) -> None:
    await store_discoveries(team)
    result = await team.perform("nexus", "ask", text="Which tests fail in shop?")
    assert result.evidence_refs == ("n1",)
    assert result.metadata["response"]["citations"] == ["n1"]
    routed = await team.perform("nexus", "route", text="Run the tests")
    assert RoutingDecision.from_dict(routed.metadata["decision"]).route == "conductor"
    empty = await team.perform("nexus", "ask", text=" ")
    assert empty.status is TaskStatus.FAILED


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Hello!", "Hello. What can I do for you?"),
        ("What can you do?", "- Reminders: 'remind me at 9 to call Ana'"),
        ("Thank you very much", "You are welcome."),
    ],
)
async def test_greetings_and_what_can_be_asked_are_answered(team: Team, text: str, answer: str) -> None:
    await team.write(question(text), "nexus")
    response = await team.receive("nexus")
    assert answer in response["text"]
    assert response["route_used"].startswith("tool:")
