"""Letters between agents that think: nobody waits in vain, and nothing goes on for ever."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import yaml

from shared import subjects
from shared.contracts import Email, TaskStatus
from shared.tasks.profiles import Profile
from tests.flow.test_thinking import Worker, answer_to, ask, calls, result, says, team_of, write
from tests.support.team import Team, open_team


def asks(recipient: str, body: str) -> dict[str, Any]:
    return calls("write_to_colleague", recipient=recipient, subject="Q", body=body)


async def letters_of(team: Team, pattern: str) -> list[Any]:
    """The data of every message stored on subjects that fit ``pattern``."""
    request = {"seq": 1, "next_by_subj": pattern, "batch": 1000}
    return [message.data async for message in team.user.read(subjects.OFFICE, request)]


async def test_answers_arrive_where_every_hand_waits_for_one(tmp_path: Path):
    script = [
        {"agent": "worker", "match": "Ask", "replies": [asks("clerk", "Who are you?"), says("asked")]},
        {"agent": "worker", "replies": [says("I am busy asking.")]},
        {
            "agent": "clerk",
            "match": "Who are you",
            "replies": [asks("worker", "Who asks?"), says("the clerk")],
        },
    ]
    path = tmp_path / "script.yaml"
    path.write_text(yaml.safe_dump(script))
    async with open_team(tmp_path, ("worker", "clerk"), MAILROOM_BRAIN=f"scripted:{path}") as team:
        for name in ("worker", "clerk"):
            await team.join(Worker, Profile(name=name, description="Works.", concurrency=1))
        tasks = [await ask(team, f"Ask {n}") for n in range(3)]
        async with asyncio.timeout(20):
            results = [await result(team, task) for task in tasks]
        assert [told.output for told in results] == ["asked"] * 3


async def test_a_letter_that_comes_again_is_answered_once_and_not_buried(tmp_path: Path):
    async with team_of(tmp_path, [{"replies": [says("Heard.")]}]) as team:
        letter = await write(team, "Hear")
        assert (await answer_to(team, letter)).body == "Heard."
        threads = team.processes[0].agent.context.threads
        assert await threads.open_email(letter) == []
        assert await letters_of(team, "dead.>") == []


async def test_the_longest_letter_is_answered_and_so_is_one_with_a_longer_answer(tmp_path: Path):
    script = [{"replies": [says("x" * 150_000), says("short")]}]
    async with team_of(tmp_path, script) as team:
        letter = await write(team, "y" * 100_000)
        async with asyncio.timeout(15):
            answer = await answer_to(team, letter)
        assert answer.body.startswith("xxx")
        assert "left out" in answer.body
        for _ in range(3):
            again = await write(team, "z" * 100_000, in_reply_to=answer.id)
            async with asyncio.timeout(15):
                answer = await answer_to(team, again)
            assert answer.body == "short"
        sessions = await letters_of(team, "record.worker.session.*")
        assert max(len(data) for data in sessions) < 300_000


async def test_a_colleague_that_rests_still_answers_whoever_waits(tmp_path: Path):
    script = [
        {"agent": "worker", "match": "Ask", "replies": [asks("clerk", "Anything?"), says("asked")]},
        {"agent": "clerk", "replies": [calls("rest_n_wait")]},
    ]
    async with team_of(tmp_path, script, "worker", "clerk") as team:
        async with asyncio.timeout(10):
            assert (await result(team, await ask(team, "Ask"))).output == "asked"


async def test_letters_do_not_lead_to_letters_for_ever(tmp_path: Path):
    def other(name: str, colleague: str) -> dict[str, Any]:
        return {"agent": name, "replies": [asks(colleague, "And what do you think?"), says("thought about")]}

    script = [other("worker", "clerk"), other("clerk", "worker")]
    async with team_of(tmp_path, script, "worker", "clerk") as team:
        async with asyncio.timeout(20):
            told = await result(team, await ask(team, "What do you think?"))
        assert told.status is TaskStatus.COMPLETED
        written = await letters_of(team, "mail.clerk.worker") + await letters_of(team, "mail.worker.clerk")
        assert len(written) == 6  # three letters, three answers


async def test_a_question_to_all_is_not_passed_on_to_all(tmp_path: Path):
    script = [{"replies": [calls("ask_everybody", question="Who knows?"), says("I have asked.")]}]
    async with team_of(tmp_path, script, "worker", "clerk", "guard") as team:
        async with asyncio.timeout(20):
            assert (await result(team, await ask(team, "Find out"))).status is TaskStatus.COMPLETED
        written = [
            data for name in ("worker", "clerk", "guard") for data in await letters_of(team, f"mail.{name}.*")
        ]
        assert sum(b'"in_reply_to":""' in data for data in written) == 2


async def test_only_whom_a_letter_went_to_can_answer_it(tmp_path: Path):
    script = [
        {"agent": "worker", "replies": [asks("clerk", "The word?"), says("heard")]},
        {"agent": "clerk", "replies": [{**says("right"), "delay": 1.0}]},
    ]
    async with team_of(tmp_path, script, "worker", "clerk") as team:
        asked = await ask(team, "Ask")
        while not (sent := await letters_of(team, "mail.clerk.worker")):
            await asyncio.sleep(0.02)
        forged = Email(
            sender=subjects.USER, recipient="worker", body="wrong", in_reply_to=Email.from_json(sent[0]).id
        )
        await team.write(forged, "worker")
        told = await result(team, asked)
        assert told.output == "heard"
        notes = [data for data in await letters_of(team, "record.worker.letter.*") if b'"right"' in data]
        assert notes
        assert not [data for data in notes if b'"body":"wrong"' in data]


async def test_an_answer_may_reach_another_process_of_the_agent(tmp_path: Path):
    script = [
        {"agent": "worker", "replies": [asks("clerk", "The word?"), says("heard")]},
        {"agent": "clerk", "replies": [says("Mailroom")]},
    ]
    async with team_of(tmp_path, script, "worker", "clerk") as team:
        await team.join(Worker, Profile(name="worker", description="The same again."))
        tasks = [await ask(team, f"Ask {n}") for n in range(8)]
        async with asyncio.timeout(20):
            assert {(await result(team, task)).output for task in tasks} == {"heard"}
        assert len(await letters_of(team, "mail.clerk.worker")) == 8
        assert len(await letters_of(team, "mail.worker.clerk")) == 8
        handled = [sum(consumer.handled for consumer in process._consumers) for process in team.processes]
        assert min(handled) > 0


async def test_a_server_that_freezes_while_an_answer_is_waited_for_costs_only_time(tmp_path: Path):
    script = [
        {"agent": "worker", "replies": [asks("clerk", "The word?"), says("heard")]},
        {"agent": "clerk", "replies": [{**says("Mailroom"), "delay": 1.0}]},
    ]
    async with team_of(tmp_path, script, "worker", "clerk", MAILROOM_TASK_ACK_WAIT="30") as team:
        asked = await ask(team, "Ask")
        await asyncio.sleep(0.5)
        os.kill(team.server.process.pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(6.5)
        finally:
            os.kill(team.server.process.pid, signal.SIGCONT)
        async with asyncio.timeout(20):
            assert (await result(team, asked)).output == "heard"
        notes = [data for data in await letters_of(team, "record.worker.thinking.*") if b"It failed" in data]
        assert notes == []


async def test_a_second_answer_to_a_letter_finds_what_was_said(tmp_path: Path):
    script = [
        {"match": "Find out", "replies": [asks("user", "Which colour?"), says("It is red.")]},
        {"match": "red", "replies": [says("You said red, then blue."), says("three")]},
    ]
    async with team_of(tmp_path, script) as team:
        asked = await ask(team, "Find out")
        question = Email.from_dict(await team.receive("worker"))
        await write(team, "red", in_reply_to=question.id)
        assert (await result(team, asked)).output == "It is red."
        again = await write(team, "no, blue", in_reply_to=question.id)
        assert (await answer_to(team, again)).body == "You said red, then blue."
        once_more = await write(team, "no, green", in_reply_to=question.id)
        assert (await answer_to(team, once_more)).body == "three"
