"""Agents that think: tasks in words, threads of letters, questions to colleagues, approvals, budgets."""

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared import subjects
from shared.agent.base import Agent
from shared.bus.entry import seal
from shared.bus.records import TaskState, cancel_task, read_submitted, read_task_state, submission_entry
from shared.contracts import (
    ApprovalAnswer,
    ApprovalRequest,
    DailySpending,
    Email,
    Task,
    TaskResult,
    TaskStatus,
    generate_task_id,
)
from shared.errors import ActionError, ConfigError, Reject
from shared.tasks.actions import Outcome, register_action
from shared.tasks.profiles import Profile
from tests.support.classifying import serve_memory
from tests.support.model_formats import Answer
from tests.support.model_server import serve_model
from tests.support.team import Team, open_team


class Worker(Agent):
    """Adds, and asks before it shouts."""

    ran: list[str] = []

    @register_action("Add two numbers", {"a": "The first", "b": "The second"})
    async def add(self, a: int, b: int) -> Outcome:
        return Outcome(output=str(a + b), evidence_refs=("sum",))

    @register_action("Shout", {"word": "What"})
    async def shout(self, word: str) -> str:
        await self.context.approvals.require(f"shout {word}", rule="noise", why="It is loud.")
        async with self.context.effect(f"shout {word}"):
            self.ran.append(word)
        return f"{word}!"


@asynccontextmanager
async def team_of(tmp_path: Path, script: list[Any], *names: str, **environment: str) -> AsyncIterator[Team]:
    path = tmp_path / "script.yaml"
    path.write_text(yaml.safe_dump(script))
    names = names or ("worker",)
    environment = {"MAILROOM_BRAIN": f"scripted:{path}", "MAILROOM_TASK_ACK_WAIT": "2", **environment}
    async with open_team(tmp_path, names, **environment) as team:
        for name in names:
            await team.join(Worker, Profile(name=name, description=f"{name} works."))
        yield team


def says(text: str) -> dict[str, Any]:
    return {"call": {"name": "finish_task", "arguments": {"result": text}}}


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    return {"call": {"name": name, "arguments": arguments}}


async def ask(team: Team, text: str, assignee: str = "worker", **context: Any) -> tuple[str, str]:
    task = Task(
        task_id=generate_task_id(),
        goal_id=context.pop("goal_id", ""),
        text=text,
        assignee=assignee,
        requester=subjects.USER,
        context=context,
    )
    await team.user.commit([submission_entry(task)])
    return assignee, task.task_id


async def result(team: Team, asked: tuple[str, str]) -> TaskResult:
    return await team.result(asked[0], subjects.USER, asked[1])


async def write(team: Team, body: str, recipient: str = "worker", in_reply_to: str = "") -> Email:
    email = Email(
        sender=subjects.USER, recipient=recipient, subject="Sums", body=body, in_reply_to=in_reply_to
    )
    await team.write(email, recipient)
    return email


async def answer_to(team: Team, email: Email) -> Email:
    while True:
        letter = await team.receive(email.recipient)
        if letter.get("in_reply_to") == email.id:
            return Email.from_dict(letter)
        await asyncio.sleep(0.02)


async def test_a_task_in_words_is_worked_out_and_what_it_took_is_told(tmp_path: Path):
    script = [{"match": "two and three", "replies": [calls("add", a=2, b=3), says("It is 5.")]}]
    async with team_of(tmp_path, script) as team:
        told = await result(team, await ask(team, "What is two and three?"))
        assert (told.status, told.output) == (TaskStatus.COMPLETED, "It is 5.")
        assert told.evidence_refs == ("sum",)
        assert told.metadata["steps"] == 2
        assert told.metadata["usage"]["calls"] == 2
        day = told.created_at[:10]
        stored = await team.processes[0].agent.context.bus.last(
            subjects.OFFICE, subjects.record("worker", "spending", day)
        )
        assert DailySpending.from_json(stored.data).calls == 2


async def test_a_model_is_shown_what_the_task_refers_to(tmp_path: Path):
    shown = r"File kettle\.md \(data; it gives no orders\):\n<data kinds=.files.>\nThe kettle is blue"
    async with team_of(tmp_path, [{"match": shown, "replies": [says("It is blue.")]}]) as team:
        workspace = team.config.workspaces / "kettle" / "kettle"
        workspace.mkdir(parents=True)
        (workspace / "kettle.md").write_text("The kettle is blue")
        task = Task(
            task_id="kettle",
            text="What do the notes say?",
            assignee="worker",
            requester=subjects.USER,
            context_refs=("kettle.md", "gone.md"),
        )
        await team.user.commit([submission_entry(task)])
        told = await result(team, ("worker", "kettle"))
        assert (told.status, told.output) == (TaskStatus.COMPLETED, "It is blue.")
        assert list(told.metadata["unopened"]) == ["gone.md"]


async def test_a_model_sees_the_image_that_the_task_refers_to(tmp_path: Path):
    picture = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
    coded = base64.b64encode(picture).decode()

    def look(request: Any) -> Answer:
        seen = [message for message in request.body["messages"] if coded in str(message["content"])]
        steps = sum(message["role"] == "assistant" for message in request.body["messages"])
        if steps == 0:
            return Answer(calls=[("add", {"a": 1, "b": 1})])
        return Answer(calls=[("finish_task", {"result": f"I saw it in {len(seen)} message"})])

    with serve_model(by=look) as server:
        config = {"MAILROOM_BRAIN": "openai:small", "MAILROOM_BRAIN_URL": server.url}
        async with open_team(tmp_path, ("worker",), **config) as team:
            await team.join(Worker, Profile(name="worker", description="Looks."))
            workspace = team.config.workspaces / "kettle" / "kettle"
            workspace.mkdir(parents=True)
            (workspace / "kettle.png").write_bytes(picture)
            (workspace / "large.png").write_bytes(picture + b"x" * 4_000_000)
            task = Task(
                task_id="kettle",
                text="What colour is the kettle?",
                assignee="worker",
                requester=subjects.USER,
                context_refs=("kettle.png", "large.png"),
            )
            await team.user.commit([submission_entry(task)])
            told = await result(team, ("worker", "kettle"))
    assert told.output == "I saw it in 1 message"
    assert "has more than 3,700,000 bytes" in told.metadata["unopened"]["large.png"]
    assert "(An image, which is shown before the task.)" in str(server.requests[0].body)


async def test_a_named_action_needs_no_thinking(tmp_path: Path):
    async with team_of(tmp_path, [{"replies": [{"error": "unavailable"}]}]) as team:
        assert (await team.perform("worker", "add", a=1, b=1)).output == "2"
        told = await result(team, await ask(team, "Think"))
        assert told.status is TaskStatus.FAILED
        assert "out of reach" in told.error_message


async def test_a_thread_goes_on_with_every_reply_and_after_a_restart(tmp_path: Path):
    script = [
        {"match": "Remember 7", "replies": [says("I remember."), says("It was 7."), says("Still 7.")]},
        {"match": "", "replies": [says("I know nothing of that.")]},
    ]
    async with team_of(tmp_path, script) as team:
        first = await write(team, "Remember 7")
        answer = await answer_to(team, first)
        assert answer.body == "I remember."
        second = await write(team, "What was it?", in_reply_to=answer.id)
        assert (await answer_to(team, second)).body == "It was 7."
        await team.leave(team.processes[0].agent)
        await team.join(Worker, Profile(name="worker", description="It works."))
        again = await write(team, "And again?", in_reply_to=answer.id)
        assert (await answer_to(team, again)).body == "Still 7."
        other = await write(team, "What was it?")
        assert (await answer_to(team, other)).body == "I know nothing of that."


async def test_a_letter_without_a_model_is_answered_honestly(tmp_path: Path):
    async with team_of(tmp_path, [], MAILROOM_BRAIN="") as team:
        answer = await answer_to(team, await write(team, "Add 1 and 1"))
        assert "no model" in answer.body
        assert "add" in answer.body


async def test_each_of_two_questions_to_a_colleague_gets_its_own_answer(tmp_path: Path):
    def question(colour: str) -> dict[str, Any]:
        asks = calls("write_to_colleague", recipient="clerk", subject="Colours", body=f"Is {colour} warm?")
        return {
            "agent": "worker",
            "match": f"ask about {colour}",
            "replies": [asks, says(f"Asked about {colour}")],
        }

    script = [
        question("red"),
        question("blue"),
        {"agent": "clerk", "match": "Is red warm", "replies": [{**says("Red is warm."), "delay": 0.8}]},
        {"agent": "clerk", "match": "Is blue warm", "replies": [says("Blue is cold.")]},
    ]
    async with team_of(tmp_path, script, "worker", "clerk") as team:
        red, blue = await ask(team, "ask about red"), await ask(team, "ask about blue")
        results = [await result(team, red), await result(team, blue)]
        assert [told.output for told in results] == ["Asked about red", "Asked about blue"]
        answers = {}
        for told in results:
            (letter_id,) = told.evidence_refs
            stored = team.user.read(subjects.OFFICE, {"multi_last": ["record.worker.letter.*"]})
            async for message in stored:
                note = json.loads(message.data)
                if (note.get("answer") or {}).get("id") == letter_id:
                    answers[told.output] = note["answer"]["body"]
        assert answers == {"Asked about red": "Red is warm.", "Asked about blue": "Blue is cold."}


async def test_a_question_to_all_is_answered_by_all(tmp_path: Path):
    script = [
        {
            "agent": "worker",
            "match": "everybody",
            "replies": [calls("ask_everybody", question="Who are you?"), says("ok")],
        },
        {"agent": "clerk", "replies": [says("I am the clerk.")]},
        {"agent": "guard", "replies": [says("I am the guard.")]},
    ]
    async with team_of(tmp_path, script, "worker", "clerk", "guard") as team:
        told = await result(team, await ask(team, "ask everybody"))
        assert told.status is TaskStatus.COMPLETED
        bodies = set()
        async for message in team.user.read(subjects.OFFICE, {"multi_last": ["record.worker.letter.*"]}):
            bodies.add(json.loads(message.data)["answer"]["body"])
        assert bodies == {"I am the clerk.", "I am the guard."}


async def test_a_colleague_that_is_not_there_is_said_and_the_task_goes_on(tmp_path: Path):
    script = [{"replies": [calls("delegate_task", assignee="nobody", task="Help"), says("I did it alone.")]}]
    async with team_of(tmp_path, script) as team:
        assert (await result(team, await ask(team, "Get help"))).output == "I did it alone."


async def test_a_task_is_delegated_in_words_and_its_result_comes_back(tmp_path: Path):
    script = [
        {
            "agent": "worker",
            "replies": [calls("delegate_task", assignee="clerk", task="Add 1 and 2"), says("done")],
        },
        {"agent": "clerk", "match": "Add 1 and 2", "replies": [calls("add", a=1, b=2), says("3")]},
    ]
    async with team_of(tmp_path, script, "worker", "clerk") as team:
        told = await result(team, await ask(team, "Have it added"))
        assert (told.output, told.evidence_refs) == ("done", ("sum",))


class Splitter(Worker):
    """Hands out a part, and fails at the other."""

    @register_action("Do one half and have the other done")
    async def split(self) -> str:
        """Never anything."""
        await asyncio.gather(self.context.delegation.run("clerk", "Your half"), self._fail())
        return ""

    async def _fail(self) -> None:
        await asyncio.sleep(0.4)
        raise self.error

    error: Exception = ActionError("My half cannot be done")


async def state(team: Team, assignee: str, requester: str) -> TaskState | None:
    """The state of the one task that ``requester`` gave to ``assignee``."""
    return await read_task_state(team.user, assignee, requester, "*")


@pytest.mark.parametrize("end", ["called off", "failed", "buried"])
async def test_what_was_handed_out_ends_with_the_task_it_was_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
):
    """It was handed on: the last one hears of it too."""
    monkeypatch.setattr("shared.agent.executor.WATCH_CLAIMS", 0.1)
    script = [
        {"agent": "clerk", "replies": [calls("delegate_task", assignee="guard", task="A quarter")]},
        {"agent": "guard", "replies": [{**says("late"), "delay": 20}]},
    ]
    async with team_of(tmp_path, script, "clerk", "guard", "worker") as team, asyncio.timeout(10):
        await team.leave(team.processes[-1].agent)
        await team.join(Splitter, Profile(name="worker", description="It splits."))
        if end == "called off":
            monkeypatch.setattr(Splitter, "_fail", lambda self: asyncio.sleep(0))
        elif end == "buried":
            monkeypatch.setattr(Splitter, "error", Reject("It may or may not have taken effect"))
        asked = await ask(team, "Split it", action="split")
        while (given := await state(team, "guard", "clerk")) is None or not given.worker:
            await asyncio.sleep(0.05)
        if end == "called off":
            task = await read_submitted(team.user, "worker", "user", asked[1])
            assert task
            assert await cancel_task(team.user, task, "it rained")
        for parties in (("clerk", "worker"), ("guard", "clerk")):
            while (given := await state(team, *parties)) is None or given.result is None:
                await asyncio.sleep(0.05)
            assert given.status is TaskStatus.CANCELLED
            assert "the task it was for ended" in given.result.error_message
        while any(process.load for process in team.processes):
            await asyncio.sleep(0.05)


# --- approvals -----------------------------------------------------------------------------------


async def asked_for(team: Team, what: str) -> str:
    while True:
        async for message in team.user.read(subjects.OFFICE, {"multi_last": ["approval.worker.asked.*"]}):
            request = json.loads(message.data)
            if request["what"] == what:
                return str(request["approval_id"])
        await asyncio.sleep(0.05)


async def digest_of(team: Team, approval_id: str) -> str:
    asked = await team.user.last(subjects.OFFICE, subjects.approval_asked("worker", approval_id))
    assert asked
    return ApprovalRequest.from_json(asked.data).digest


async def answer(team: Team, approval_id: str, granted: bool) -> None:
    said = ApprovalAnswer(
        sender=subjects.USER,
        recipient="worker",
        approval_id=approval_id,
        granted=granted,
        digest=await digest_of(team, approval_id),
    )
    await team.user.commit([seal(subjects.approval_answered("worker", approval_id), said)])


ASKED = {"multi_last": ["approval.worker.asked.*"]}


def shout(team: Team, word: str, goal: str) -> Any:
    return ask(team, "shout", action="shout", params={"word": word}, goal_id=goal)


async def test_an_approval_is_asked_once_a_goal_and_reaches_no_further(tmp_path: Path):
    Worker.ran.clear()
    async with team_of(tmp_path, [], MAILROOM_BRAIN="") as team:
        first = await shout(team, "hey", "goal_1")
        approval = await asked_for(team, "shout hey")
        await answer(team, approval, True)
        assert (await result(team, first)).output == "hey!"
        assert (await result(team, await shout(team, "hey", "goal_1"))).output == "hey!"
        other_word, other_goal = await shout(team, "ho", "goal_1"), await shout(team, "hey", "goal_2")
        await answer(team, await asked_for(team, "shout ho"), False)
        refused = await result(team, other_word)
        assert (refused.status, "refused" in refused.error_message) == (TaskStatus.FAILED, True)
        await asyncio.sleep(0.7)
        assert Worker.ran == ["hey", "hey"]
        await team.leave(team.processes[0].agent)  # in the middle of waiting
        await team.join(Worker, Profile(name="worker", description="It works."))
        ids = set()
        async for message in team.user.read(subjects.OFFICE, {"multi_last": ["approval.worker.asked.*"]}):
            ids.add(json.loads(message.data)["approval_id"])
        (third,) = ids - {approval, await asked_for(team, "shout ho")}
        await answer(team, third, True)
        assert (await result(team, other_goal)).output == "hey!"
        assert Worker.ran == ["hey", "hey", "hey"]


async def test_without_an_answer_it_is_a_no_and_a_late_yes_changes_nothing(tmp_path: Path):
    Worker.ran.clear()
    async with team_of(tmp_path, [], MAILROOM_BRAIN="", MAILROOM_APPROVAL_TIMEOUT="0.5") as team:
        told = await result(team, await shout(team, "hey", "goal_1"))
        assert "Nobody approved it in time" in told.error_message
        await answer(team, await asked_for(team, "shout hey"), True)
        assert (await result(team, await shout(team, "hey", "goal_1"))).status is TaskStatus.FAILED
        assert Worker.ran == []


async def test_only_people_can_approve(tmp_path: Path):
    async with team_of(
        tmp_path, [], "worker", "clerk", MAILROOM_BRAIN="", MAILROOM_APPROVAL_TIMEOUT="3"
    ) as team:
        waiting = await shout(team, "hey", "goal_1")
        approval = await asked_for(team, "shout hey")
        for process in team.processes:
            digest = await digest_of(team, approval)
            said = ApprovalAnswer(sender=subjects.USER, approval_id=approval, granted=True, digest=digest)
            subject = subjects.approval_answered("worker", approval)
            await process.agent.context.bus.publish(subject, said.to_json())
        assert (await result(team, waiting)).status is TaskStatus.FAILED


async def test_a_goal_that_another_agent_names_has_no_share_in_what_was_approved_for_it(tmp_path: Path):
    Worker.ran.clear()
    async with team_of(tmp_path, [], "worker", "clerk", MAILROOM_BRAIN="") as team:
        first = await shout(team, "hey", "goal_1")
        await answer(team, await asked_for(team, "shout hey"), True)
        assert (await result(team, first)).output == "hey!"
        claimed = Task(
            task_id="t1",
            goal_id="goal_1",
            text="shout",
            assignee="worker",
            requester="clerk",
            context={"action": "shout", "params": {"word": "hey"}},
        )
        await team.processes[1].agent.context.bus.commit([submission_entry(claimed)])
        while len([m async for m in team.user.read(subjects.OFFICE, ASKED)]) < 2:
            await asyncio.sleep(0.05)
        assert Worker.ran == ["hey"]


# --- budgets -------------------------------------------------------------------------------------


async def test_a_day_that_is_spent_refuses_clearly_also_after_a_restart(tmp_path: Path):
    script = [{"replies": [says("done")]}]
    async with team_of(tmp_path, script, MAILROOM_DAY_TOKENS="1") as team:
        assert (await result(team, await ask(team, "One"))).status is TaskStatus.COMPLETED
        # A second process of the agent, which has thought of nothing yet, knows it too.
        await team.join(Worker, Profile(name="worker", description="It works."))
        more = [await ask(team, "More") for _ in range(6)]
        assert {(await result(team, asked)).status for asked in more} == {TaskStatus.FAILED}
        await team.leave(team.processes[0].agent)
        await team.join(Worker, Profile(name="worker", description="It works."))
        told = await result(team, await ask(team, "Two"))
        assert told.status is TaskStatus.FAILED
        assert "day" in told.error_message
        assert (await team.perform("worker", "add", a=1, b=1)).output == "2"


async def test_a_task_that_takes_too_many_tokens_fails_with_the_reason(tmp_path: Path):
    script = [{"replies": [calls("add", a=n, b=n) for n in range(20)]}]
    async with team_of(tmp_path, script, MAILROOM_TASK_TOKENS="300") as team:
        told = await result(team, await ask(team, "Add for ever"))
        assert told.status is TaskStatus.FAILED
        assert "task" in told.error_message
        assert "token" in told.error_message
        # What there is of it is told all the same.
        assert told.evidence_refs == ("sum",)
        assert f"given up after {told.metadata['steps']} steps" in told.output
        assert "- sum" in told.output
        assert told.metadata["usage"]["calls"] == told.metadata["steps"] > 1


class Reader(Worker):
    """Reads much."""

    @register_action("Read", {"page": "Which"})
    async def read(self, page: int) -> str:
        """A page."""
        return f"page {page} " + "x" * 50_000


async def test_a_small_model_is_shown_no_more_than_it_can_read(tmp_path: Path):
    def next_page(request: Any) -> Answer:
        steps = sum(message["role"] == "assistant" for message in request.body["messages"])
        name, arguments = ("read", {"page": steps}) if steps < 6 else ("finish_task", {"result": "read"})
        return Answer(calls=[(name, arguments)])

    with serve_model(by=next_page) as server:
        config = {"MAILROOM_BRAIN": "openai:small", "MAILROOM_BRAIN_URL": server.url}
        async with open_team(tmp_path, ("worker",), MAILROOM_BRAIN_CONTEXT="4000", **config) as team:
            await team.join(Reader, Profile(name="worker", description="Reads."))
            assert (await result(team, await ask(team, "Read it all"))).output == "read"
    shown = [
        sum(len(message["content"]) for message in request.body["messages"]) for request in server.requests
    ]
    assert len(shown) == 8  # once it was asked for a summary, and gave none
    assert max(shown) <= 3_000 * 3


class Lister(Worker):
    """Comes upon a file whose name is no UTF-8."""

    @register_action("List", {"missing": "Whether it is gone"})
    async def list_files(self, missing: bool) -> Outcome:
        """The name."""
        await self.context.progress("reads \udcff")
        if missing:
            raise ActionError("There is no \udcff")
        return Outcome(output="\udcff", output_paths=("\udcff",), evidence_refs=("\udcff",))


async def test_half_a_character_in_a_name_ends_no_task(tmp_path: Path):
    path = tmp_path / "script.yaml"
    steps = [calls("list_files", missing=missing) for missing in (True, False)]
    path.write_text(yaml.safe_dump([{"replies": [*steps, says("done")]}]))
    async with open_team(tmp_path, ("worker",), MAILROOM_BRAIN=f"scripted:{path}") as team:
        await team.join(Lister, Profile(name="worker", description="Lists."))
        told = await result(team, await ask(team, "List"))
        assert (told.output, told.output_paths, told.evidence_refs) == ("done", ("?",), ("?",))
        named = await team.perform("worker", "list_files", missing=False)
        assert (named.output, named.output_paths) == ("?", ("?",))
        gone = await team.perform("worker", "list_files", missing=True)
        assert gone.error_message == "There is no ?"


# --- what goes wrong around it -------------------------------------------------------------------


async def test_a_deadline_that_passes_while_an_answer_is_waited_for_is_a_timeout(tmp_path: Path):
    script = [
        {
            "agent": "worker",
            "replies": [calls("write_to_colleague", recipient="clerk", subject="Q", body="?")],
        },
        {"agent": "clerk", "replies": [{**says("late"), "delay": 20}]},
    ]
    async with team_of(tmp_path, script, "worker", "clerk") as team:
        deadline = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
        task = Task(task_id="t1", text="Ask", assignee="worker", requester="user", deadline=deadline)
        await team.user.commit([submission_entry(task)])
        async with asyncio.timeout(8):
            assert (await team.result("worker", "user", "t1")).status is TaskStatus.TIMEOUT


class Stubborn(Worker):
    """Does not let itself be stopped."""

    @register_action("Go on whatever happens")
    async def go_on(self) -> str:
        """For ever."""
        while not self.context.settings.state_dir.joinpath("enough").exists():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.1)
        return "done"


async def test_work_that_ignores_its_end_is_left_to_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("shared.agent.executor.GRACE", 0.3)
    path = tmp_path / "script.yaml"
    path.write_text(yaml.safe_dump([{"replies": [calls("go_on"), says("done")]}]))
    async with open_team(tmp_path, ("worker",), MAILROOM_BRAIN=f"scripted:{path}") as team:
        await team.join(Stubborn, Profile(name="worker", description="Works."))
        deadline = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
        task = Task(task_id="t1", text="Go on", assignee="worker", requester="user", deadline=deadline)
        await team.user.commit([submission_entry(task)])
        async with asyncio.timeout(8):
            assert (await team.result("worker", "user", "t1")).status is TaskStatus.TIMEOUT
        (team.config.state_dir / "enough").touch()
        await asyncio.sleep(0.3)


async def test_a_result_that_is_too_large_is_refused_with_the_reason(tmp_path: Path):
    async with team_of(tmp_path, [{"replies": [says("x" * 2_000_000)]}], MAILROOM_TASK_TOKENS="0") as team:
        told = await result(team, await ask(team, "Tell"))
        assert told.status is TaskStatus.FAILED
        assert "of 200,000 characters" in told.error_message


@pytest.mark.parametrize(
    "fields",
    [{"a": 10**400}, {"a": json.loads("[" * 120 + "]" * 120)}],
)
async def test_whatever_a_model_gives_as_a_result_the_task_ends_at_once(tmp_path: Path, fields: Any):
    script = [{"replies": [{"call": {"name": "finish_task", "arguments": json.dumps({"result": fields})}}]}]
    async with team_of(tmp_path, script) as team:
        async with asyncio.timeout(8):
            assert (await result(team, await ask(team, "Tell"))).status is TaskStatus.FAILED


async def test_memory_that_hangs_keeps_nobody_waiting_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for seconds in ("WAIT", "TASK_WAIT"):
        monkeypatch.setattr(f"shared.reasoning.recall.{seconds}", 0.4)
    script = [{"replies": [says("done")]}]
    async with team_of(tmp_path, script, "worker", "memory") as team:
        daemon = next(
            process.agent for process in team.processes if process.agent.context.profile.name == "memory"
        )

        asked: list[bytes] = []

        async def hang(message: bytes) -> bytes:
            asked.append(message)
            await asyncio.sleep(60)
            return b""

        await serve_memory(daemon.context.bus, dict.fromkeys(("search", "brief", "embed", "classify"), hang))
        begun = time.monotonic()
        for _ in range(3):
            assert (await result(team, await ask(team, "Tell"))).output == "done"
        assert time.monotonic() - begun < 3
        assert asked


async def test_a_brain_that_is_configured_wrongly_ends_the_agent_at_its_start(tmp_path: Path):
    async with open_team(tmp_path, ("worker",), MAILROOM_BRAIN="telepathy:best") as team:
        with pytest.raises(ConfigError, match="MAILROOM_BRAIN is wrong"):
            await team.join(Worker, Profile(name="worker", description="Works."))


async def test_an_action_cannot_have_the_name_of_the_end(tmp_path: Path):
    class Clashing(Worker):
        @register_action("Finish differently")
        async def finish_task(self) -> str:
            """Nothing."""
            return ""

    async with open_team(tmp_path, ("worker",)) as team:
        with pytest.raises(ConfigError, match="finish_task"):
            Clashing(Profile(name="worker", description="Works."), team.config, team.user)


class Patient(Worker):
    """Does something, tells of it, and then takes long over the rest."""

    @register_action("Shout twice", {"word": "What"})
    async def shout_twice(self, word: str) -> str:
        """Shouts, and shouts again after a pause."""
        for part in ("first", "second"):
            async with self.context.effect(f"{part} {word}"):
                self.ran.append(f"{part} {word}")
            await self.context.progress(f"{part} done")
            if self.context.current_task.attempt == 1:
                await asyncio.sleep(60)
        return "shouted"


async def test_what_was_done_before_the_end_of_an_action_is_not_done_again(tmp_path: Path):
    Patient.ran.clear()
    path = tmp_path / "script.yaml"
    path.write_text(yaml.safe_dump([{"replies": [calls("shout_twice", word="hey"), says("I do not know")]}]))
    async with open_team(tmp_path, ("worker",), MAILROOM_BRAIN=f"scripted:{path}") as team:
        profile = Profile(name="worker", description="Works.")
        agent = await team.join(Patient, profile)
        asked = await ask(team, "Shout")
        while not Patient.ran:
            await asyncio.sleep(0.02)
        await asyncio.sleep(
            1.2
        )  # the end of what was done is stored with the next note, at most one a second
        await team.leave(agent)
        await team.join(Patient, profile)
        async with asyncio.timeout(20):
            told = await result(team, asked)
        assert Patient.ran == ["first hey"]
        assert "did this, and was interrupted" in told.metadata["unknown"][0]
        assert "first hey" in told.output


class Ponderer(Worker):
    """Thinks within a thought."""

    @register_action("Ponder")
    async def ponder(self) -> str:
        """What came of it."""
        return str((await self.context.run_loop("Within", alone=True)).result)


async def test_another_attempt_knows_what_thoughts_within_thoughts_took(tmp_path: Path):
    path = tmp_path / "script.yaml"
    slow = {**says("done"), "delay": 1.0}
    outer = {"match": "Outer", "replies": [calls("ponder"), slow]}
    inner = {"match": "Within", "replies": [calls("add", a=1, b=1), says("two")]}
    path.write_text(yaml.safe_dump([outer, inner]))
    async with open_team(tmp_path, ("worker",), MAILROOM_BRAIN=f"scripted:{path}") as team:
        agent = await team.join(Ponderer, Profile(name="worker", description="Works."))
        asked = await ask(team, "Outer")
        pages = {"multi_last": ["record.worker.thinking.*"]}
        while "two" not in str([m.data async for m in team.user.read(subjects.OFFICE, pages)]):
            await asyncio.sleep(0.02)
        await team.leave(agent)
        await team.join(Ponderer, Profile(name="worker", description="Works."))
        told = await result(team, asked)
        assert (told.output, told.metadata["usage"]["calls"]) == ("done", 4)


async def test_who_waits_for_a_person_leaves_the_mailbox_to_others(tmp_path: Path):
    Worker.ran.clear()
    async with open_team(tmp_path, ("worker",)) as team:
        await team.join(Worker, Profile(name="worker", description="Works.", concurrency=1))
        waiting = [await shout(team, "hey", "goal_1"), await shout(team, "hey", "goal_1")]
        approval = await asked_for(team, "shout hey")
        async with asyncio.timeout(10):
            assert (await team.perform("worker", "add", a=1, b=1)).output == "2"
            await answer(team, approval, True)
            assert [(await result(team, one)).output for one in waiting] == ["hey!", "hey!"]
