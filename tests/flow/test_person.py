"""Who of the people did it: the name is on the trail, and agents cannot pretend to have one."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from shared import subjects
from shared.bus.entry import seal
from shared.contracts import AgentReport, DeadLetter, Email, TaskStatus
from shared.errors import TooLate
from shared.operations.approvals import answer_request
from shared.operations.goals import cancel_goal, make_retry, resume_goal
from shared.operations.letters import compose, send
from shared.operations.submission import make_body, publish
from shared.queries.summaries import summarize
from tests.flow.test_approvals import ask
from tests.support.office import Office
from tests.support.slow import install_slow_agent
from tests.support.waiting import eventually

ADA = "Ada Lovelace"
WAIT = {"assignee": "slow", "action": "wait", "params": {"seconds": 0}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def office(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Office]:
    folder: Path = tmp_path_factory.mktemp("office")
    running = Office(folder, **install_slow_agent(folder))
    try:
        await running.open(["conductor", "critic", "slow", subjects.GATEWAY])
        running.server.announce()
        yield running
    finally:
        await running.close()


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def mailroom(office: Office, *arguments: str) -> str:
    done = await asyncio.to_thread(office.server.mailroom, *arguments)
    assert done.returncode == 0, done.stderr
    return " ".join(done.stdout.split())


async def test_a_goal_says_who_submitted_retried_steered_and_cancelled_it(office: Office) -> None:
    body = make_body("Wait", WAIT | {"params": {"seconds": 60}}, "by-ada", person=ADA)
    await publish(office.user, body)
    await eventually(lambda: office.goal("by-ada"))
    goal = await resume_goal(office.user, "by-ada", "mind the time", person="Bob")
    assert (goal.person, goal.instructions[0].person) == (ADA, "Bob")
    ended = await cancel_goal(office.user, "by-ada", "too slow", person="Bob")
    assert ended.status is TaskStatus.CANCELLED
    assert ended.reason == "cancelled by Bob: too slow"
    await publish(office.user, make_retry(ended, "by-bob", person="Bob"))
    again = await eventually(lambda: office.goal("by-bob"))
    assert (again.person, again.retry_of) == ("Bob", "by-ada")
    shown = await mailroom(office, "show", "by-ada")
    assert f"from {ADA} (user)," in shown
    assert f"{ADA} (user) → conductor submission" in shown
    assert "Bob (user) → conductor cancel too slow" in shown
    trail = await mailroom(office, "tail", "--no-follow", "--goal", "by-ada")
    assert f"{ADA} (user) → conductor" in trail
    assert f'"person":"{ADA}"' in await mailroom(office, "audit", "export")
    await cancel_goal(office.user, "by-bob")


async def test_two_people_answer_one_request_and_the_second_learns_who_was_first(office: Office) -> None:
    slow = await office.connect("slow")
    request = await ask(slow, goal_id="of-approvals")
    answers = await asyncio.gather(
        answer_request(office.user, request.approval_id, True, "", person=ADA),
        answer_request(office.user, request.approval_id, False, "", person="Bob"),
        return_exceptions=True,
    )
    (late,) = [each for each in answers if isinstance(each, Exception)]
    assert isinstance(late, TooLate)
    word, who = ("granted", ADA) if isinstance(answers[1], Exception) else ("refused", "Bob")
    assert f"has been {word} already by {who}" in str(late)
    assert f"{word} by {who}" in await mailroom(office, "approvals", "list", "--all")
    (data,) = json.loads(await mailroom(office, "approvals", "list", "--all", "--json"))
    assert data["answered_by"] == who
    assert f"{word} {request.approval_id[:8]} by {who}" in await mailroom(office, "tail", "--no-follow")


async def test_a_letter_names_its_writer(office: Office) -> None:
    number = await send(office.user, compose("slow", "Hello", "How long?", person=ADA))
    assert f"from: {ADA} (user)" in await mailroom(office, "mail", "show", str(number))
    assert f"{ADA} (user) → slow" in await mailroom(office, "mail", "list")


async def test_what_an_agent_says_of_a_person_does_not_count(office: Office) -> None:
    """A submission, a letter and a report of agents that name a person are no person's."""
    nexus = await office.connect("nexus")
    body = {"text": "Wait", "goal_id": "of-nexus", "context": WAIT, "requester": "nexus", "person": ADA}
    await nexus.store(subjects.SUBMIT, msgspec.json.encode(body))
    goal = await office.finished("of-nexus")
    assert (goal.requester, goal.person) == ("nexus", "")
    slow = await office.connect("slow")
    forged = Email(sender="slow", recipient="user", subject="Yes", body="I approve", person=ADA)
    await slow.commit([seal(subjects.mail("user", "slow"), forged)])
    stored = (await office.stored("mail.user.slow"))[-1]
    assert ADA.encode() in stored[2]
    assert summarize(stored[1], stored[2]).person == ""
    assert ADA not in await mailroom(office, "mail", "list", "--from", "slow")
    report = AgentReport(
        sender="user", recipient="user", report_id="r", agent="slow", report_type="x", summary="s", person=ADA
    )
    assert summarize("mail.user.slow", report.to_json()).parties == "slow → user"
    submission = await office.stored("tasks.submit.nexus")
    assert summarize(submission[0][1], submission[0][2]).person == ""


@pytest.mark.parametrize("name", ["x" * 65, " Ada", "A\u202eda", "A\nda"])
async def test_what_is_no_name_is_refused_with_the_reason(office: Office, name: str) -> None:
    seq = await publish(office.user, {"text": "Wait", "person": name})

    async def refused() -> list[str]:
        letters = [DeadLetter.from_json(data) for _, _, data in await office.stored("dead.conductor")]
        return [each.reason for each in letters if each.stream_seq == seq]

    (reason,) = await eventually(refused)
    assert "person must be 1 to 64 printable characters" in reason
