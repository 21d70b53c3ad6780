"""A goal's id that is used again: a person always learns whether it is the same goal, or another's."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from shared import subjects
from shared.contracts import AgentReport, DeadLetter, Goal, TaskStatus, decode
from tests.support.office import Office
from tests.support.slow import install_slow_agent, slow_goal
from tests.support.waiting import eventually

COMMAND = ("-c", "assignee=slow", "-c", "action=wait", "-c", 'params={"seconds": 0}')


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def office(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Office]:
    folder: Path = tmp_path_factory.mktemp("office")
    running = Office(folder, **install_slow_agent(folder))
    try:
        await running.open(["conductor", "critic", "slow"])
        running.server.announce()
        yield running
    finally:
        await running.close()


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def mail_about(office: Office, goal_id: str) -> list[AgentReport]:
    """What the conductor wrote to people about a goal id, besides the goal's own report."""
    found = [decode(data) for _, _, data in await office.stored("mail.user.conductor")]
    return [
        mail
        for mail in found
        if isinstance(mail, AgentReport) and mail.goal_id == goal_id
        if mail.report_type in ("repeated", "refused")
    ]


async def letters_about(office: Office, goal_id: str) -> list[DeadLetter]:
    found = [DeadLetter.from_json(data) for _, _, data in await office.stored("dead.conductor")]
    return [letter for letter in found if goal_id in letter.original]


async def told(office: Office, goal_id: str) -> AgentReport:
    (mail,) = await eventually(lambda: mail_about(office, goal_id))
    return mail


async def goals_of(office: Office, goal_id: str) -> list[Goal]:
    return [goal for goal in [await office.goal(goal_id)] if goal]


async def run(office: Office, *arguments: str) -> tuple[int, str, str]:
    done = await asyncio.to_thread(office.server.mailroom, "submit", *arguments, *COMMAND)
    return done.returncode, done.stdout, done.stderr


# --- by the command ------------------------------------------------------------------------------


async def test_the_command_says_that_the_same_goal_was_submitted_before(office: Office) -> None:
    code, said, _ = await run(office, "Wait", "--id", "cli-same", "--wait")
    assert code == 0
    assert "Submitted as cli-same" in said
    code, said, _ = await run(office, "Wait", "--id", "cli-same")
    assert code == 0
    assert "Submitted before; it is completed" in said
    code, said, _ = await run(office, "Wait", "--id", "cli-same", "--json")
    assert json.loads(said) == {"goal_id": "cli-same", "status": "completed"}
    code, said, _ = await run(office, "Wait", "--id", "cli-same", "--wait")
    assert code == 0
    assert "completed" in said
    assert len(await submissions(office, "cli-same")) == 1


async def test_the_command_refuses_an_id_that_another_goal_has(office: Office) -> None:
    assert (await run(office, "Wait", "--id", "cli-other", "--wait"))[0] == 0
    code, _, complaint = await run(office, "Wait for something else", "--id", "cli-other")
    assert code == 1
    assert "The id 'cli-other' is that of another goal, of user: 'Wait'. Choose another" in complaint
    assert (await office.finished("cli-other")).text == "Wait"


async def test_the_command_refuses_an_id_that_an_agent_took_first(office: Office) -> None:
    nexus = await office.connect("nexus")
    taken = {**slow_goal("cli-taken", 0.0), "text": "What nexus wants", "requester": "nexus"}
    await nexus.store(subjects.SUBMIT, msgspec.json.encode(taken))
    await office.finished("cli-taken")
    code, _, complaint = await run(office, "Wait", "--id", "cli-taken", "--wait")
    assert code == 1
    assert "is that of another goal, of nexus: 'What nexus wants'" in complaint


async def test_a_bad_id_is_refused(office: Office) -> None:
    code, _, complaint = await run(office, "Wait", "--id", "a.b")
    assert code == 2
    assert "1 to 80 letters, digits" in complaint


# --- by any client -------------------------------------------------------------------------------


async def submissions(office: Office, goal_id: str) -> list[bytes]:
    return [data for _, _, data in await office.stored(subjects.SUBMIT) if goal_id.encode() in data]


async def test_the_same_goal_twice_is_answered_by_mail_and_done_once(office: Office) -> None:
    for _ in range(2):
        await office.submit(slow_goal("same", 0.0))
    mail = await told(office, "same")
    assert mail.report_type == "repeated"
    assert "Submitted before, at " in mail.summary
    assert (await office.finished("same")).status is TaskStatus.COMPLETED
    assert await letters_about(office, "same") == []


async def test_another_goal_under_the_same_id_is_refused_with_what_to_do(office: Office) -> None:
    await office.submit(slow_goal("other", 0.0))
    await office.submit({**slow_goal("other", 0.0), "text": "Something else"})
    mail = await told(office, "other")
    assert mail.report_type == "refused"
    assert "its id 'other' is that of another goal, of user: 'Wait'" in mail.summary
    assert mail.summary.endswith("Submit it again with another id, or with none")
    (letter,) = await eventually(lambda: letters_about(office, "other"))
    assert "is that of another goal" in letter.reason
    assert (await office.finished("other")).text == "Wait"


async def test_an_id_that_an_agent_took_first_swallows_no_goal(office: Office) -> None:
    cortex = await office.connect("cortex")
    taken = {**slow_goal("foreseen", 0.0), "requester": "cortex"}
    await cortex.store(subjects.SUBMIT, msgspec.json.encode(taken))
    await office.submit(slow_goal("foreseen", 0.0))
    mail = await told(office, "foreseen")
    assert (mail.report_type, mail.recipient) == ("refused", "user")
    assert "of another goal, of cortex" in mail.summary


async def test_an_agent_that_says_the_same_in_a_person_s_name_swallows_no_goal(office: Office) -> None:
    cortex = await office.connect("cortex")
    taken = {**slow_goal("imitated", 0.0), "text": "Wait for /srv/project"}
    await cortex.store(subjects.SUBMIT, msgspec.json.encode(taken))
    await office.submit(taken)
    mail = await told(office, "imitated")
    assert mail.report_type == "refused"
    assert "its id 'imitated' is that of another goal" in mail.summary
    code, _, complaint = await run(office, "Wait for /srv/project", "--id", "imitated")
    assert code == 1
    assert "The id 'imitated' is that of another goal" in complaint


async def test_a_person_s_own_words_twice_are_the_same_goal(office: Office) -> None:
    for _ in range(2):
        await office.submit({**slow_goal("named", 0.0), "text": "Wait for /srv/project"})
    assert (await told(office, "named")).report_type == "repeated"
    assert "Submitted before" in (await run(office, "Wait for /srv/project", "--id", "named"))[1]


async def test_a_message_id_used_before_is_answered_as_a_duplicate(office: Office) -> None:
    headers = {"Nats-Msg-Id": "chosen-by-both"}
    engineer = await office.connect("engineer")
    await engineer.store(subjects.event("engineer", "began"), b"{}", headers=headers)
    body = msgspec.json.encode(slow_goal("unheard", 0.0))
    answer = await office.user.store(subjects.SUBMIT, body, headers=headers)
    assert answer["duplicate"] is True
    await office.user.store(subjects.SUBMIT, body)
    assert (await office.finished("unheard")).status is TaskStatus.COMPLETED


async def test_what_the_conductor_is_delivered_again_is_no_second_submission(office: Office) -> None:
    await office.submit(slow_goal("again", 1.0))
    await eventually(lambda: goals_of(office, "again"))
    office.kill("conductor")
    office.start("conductor")
    assert (await office.finished("again")).status is TaskStatus.COMPLETED
    assert await mail_about(office, "again") == []
