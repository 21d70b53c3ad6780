"""What becomes of a message: handled, refused, done again or buried, whatever an action comes up with."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from shared import subjects
from shared.agent import executor as workbench
from shared.agent.base import Agent, Outbox
from shared.bus import Bus
from shared.bus.entry import seal
from shared.bus.records import cancel_task, read_submitted
from shared.contracts import (
    CancelGoal,
    DeadLetter,
    Email,
    GoalDue,
    Question,
    Response,
    Task,
    TaskChanged,
    TaskResult,
    TaskStatus,
)
from shared.errors import ActionError, Conflict, Refused, Reject, Retry
from shared.llm.protocol import Usage
from shared.tasks.actions import Outcome, register_action
from shared.tasks.profiles import Profile
from tests.support.team import Team, open_team

pytestmark = pytest.mark.timeout(30)


class Clerk(Agent):
    """Does what the test puts into ``way``."""

    async def on_start(self) -> None:
        self.calls = 0
        self.way: Callable[[], Awaitable[Any]] = _nothing
        self.results: list[TaskResult] = []

    @register_action("Do what the test says")
    async def do(self) -> Any:
        """Whatever the way brings."""
        self.calls += 1
        return await self.way()

    async def on_email(self, email: Email) -> Outbox:
        self.calls += 1
        outcome: Outbox = await self.way() or ()
        return outcome

    async def on_result(self, result: TaskResult) -> Outbox:
        self.results.append(result)
        return ()


async def _nothing() -> Outcome:
    return Outcome(output="done")


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    async with open_team(tmp_path, ["clerk", "porter"], MAILROOM_MAX_ATTEMPTS="3") as team:
        yield team


@pytest.fixture
async def clerk(team: Team) -> Clerk:
    joined: Clerk = await team.join(Clerk, Profile(name="clerk", description="Files.", concurrency=2))
    return joined


def once(error: BaseException, then: Any = None) -> Callable[[], Awaitable[Any]]:
    """Raises the first time, and returns after that."""
    errors = [error]

    async def way() -> Any:
        if errors:
            raise errors.pop()
        return Outcome(output="done") if then is None else then

    return way


def always(error: BaseException) -> Callable[[], Awaitable[Any]]:
    async def way() -> Any:
        raise error

    return way


def every(subject: str) -> dict[str, Any]:
    return {"seq": 1, "next_by_subj": subject, "batch": 100}


async def letters(team: Team) -> list[DeadLetter]:
    dead = team.user.read(subjects.OFFICE, every("dead.clerk"))
    return [DeadLetter.from_json(stored.data) async for stored in dead]


async def buried(team: Team, number: int = 1) -> list[DeadLetter]:
    while len(found := await letters(team)) < number:
        await asyncio.sleep(0.02)
    return found


# --- tasks ---------------------------------------------------------------------------------------


async def test_an_action_that_cannot_be_done_fails_the_task_at_once(team: Team, clerk: Clerk) -> None:
    clerk.way = always(ActionError("There is no ink", "Buy some"))
    result = await team.perform("clerk", "do")
    assert (result.status, result.error_message) == (TaskStatus.FAILED, "There is no ink. Buy some")
    assert clerk.calls == 1
    assert await letters(team) == []


@pytest.mark.parametrize("error", [ValueError("odd"), Retry("not now", 0.05), asyncio.CancelledError()])
async def test_what_nobody_foresaw_is_tried_again(team: Team, clerk: Clerk, error: BaseException) -> None:
    clerk.way = once(error)
    assert (await team.perform("clerk", "do")).status is TaskStatus.COMPLETED
    assert clerk.calls == 2


async def test_after_the_last_attempt_the_task_fails_with_the_reason(team: Team, clerk: Clerk) -> None:
    clerk.way = always(ValueError("odd"))
    result = await team.perform("clerk", "do")
    assert result.status is TaskStatus.FAILED
    assert result.error_message == "gave up after 3 attempts: ValueError: odd"
    assert clerk.calls == 3
    (letter,) = await letters(team)
    assert letter.task_id == result.task_id


async def test_an_action_that_cancels_itself_costs_no_worker(team: Team, clerk: Clerk) -> None:
    """A cancelled handler means that the process stops; one inside an action does not."""
    clerk.way = always(asyncio.CancelledError())
    for _ in range(3):
        result = await team.perform("clerk", "do")
        assert result.error_message.endswith("RuntimeError: the action cancelled itself")
    clerk.way = _nothing
    assert (await team.perform("clerk", "do")).status is TaskStatus.COMPLETED


async def test_a_race_that_an_action_lost_is_no_lost_claim(team: Team, clerk: Clerk) -> None:
    """Otherwise the task would be left as it is for ever."""
    clerk.way = once(Conflict("somebody else wrote to the same file"))
    assert (await team.perform("clerk", "do")).status is TaskStatus.COMPLETED
    clerk.way = always(Conflict("somebody else wrote to the same file"))
    assert "wrote to the same file" in (await team.perform("clerk", "do")).error_message


async def test_what_a_service_refused_fails_the_task_and_tells_what_it_took(team: Team, clerk: Clerk) -> None:
    async def think_and_be_refused() -> None:
        clerk.context.current_task.count_usage(Usage(input_tokens=7, calls=1))
        raise Refused("too long a title")

    clerk.way = think_and_be_refused
    result = await team.perform("clerk", "do")
    assert (result.status, result.error_message) == (TaskStatus.FAILED, "too long a title")
    assert result.metadata["usage"]["input_tokens"] == 7


async def test_a_rejected_task_is_buried_and_fails(team: Team, clerk: Clerk) -> None:
    clerk.way = always(Reject("never again"))
    result = await team.perform("clerk", "do")
    assert result.error_message == "never again"
    (letter,) = await letters(team)
    assert letter.reason == "never again"
    assert clerk.calls == 1


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (Outcome(output="x" * 2_000_000), "its result has 2,000,"),
        (Outcome(output="x", data={"when": object()}), "its result cannot be sent: metadata"),
        (Outcome(output=b"x"), "its result cannot be sent: output must be a"),  # type: ignore[arg-type]
    ],
    ids=["large", "no JSON", "no text"],
)
async def test_a_result_that_cannot_be_sent_fails_the_task_and_says_why(
    team: Team, clerk: Clerk, outcome: Outcome, said: str
) -> None:
    async def way() -> Outcome:
        return outcome

    clerk.way = way
    result = await team.perform("clerk", "do")
    assert result.status is TaskStatus.FAILED
    assert result.error_message.startswith(said)
    assert clerk.calls == 1


@pytest.fixture
def claims_watched_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """To be asked for before the team, whose agents read it when they start to watch."""
    monkeypatch.setattr(workbench, "WATCH_CLAIMS", 0.05)


async def test_a_task_taken_back_is_stopped(claims_watched_often: None, team: Team, clerk: Clerk) -> None:
    stopped = asyncio.Event()

    async def way() -> None:
        await take_back(team.user, clerk.context.current_task.task.task_id)
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()

    clerk.way = way
    performing = asyncio.create_task(team.perform("clerk", "do"))
    await stopped.wait()
    assert (await performing).status is TaskStatus.CANCELLED
    ends = team.user.read(subjects.OFFICE, every("task.clerk.user.*.ended"))
    assert [stored async for stored in ends] == []


async def take_back(user: Bus, task_id: str) -> None:
    task = await read_submitted(user, "clerk", "user", task_id)
    assert task is not None
    assert await cancel_task(user, task, "it rained") is not None


# --- letters -------------------------------------------------------------------------------------


async def write(team: Team, envelope: Any) -> None:
    await team.write(envelope, "clerk")


async def test_answers_are_sent_once_though_the_handler_ran_twice(team: Team, clerk: Clerk) -> None:
    reply = Email(sender="clerk", recipient="user", subject="Re", body="yes")
    clerk.way = once(ValueError("odd"), [reply])
    await write(team, Email(sender="user", recipient="clerk", body="Well?"))
    assert (await team.receive("clerk"))["body"] == "yes"
    await asyncio.sleep(0.1)
    found = [
        stored
        async for stored in team.user.read(
            subjects.OFFICE, {"seq": 1, "next_by_subj": "mail.user.clerk", "batch": 9}
        )
    ]
    assert len(found) == 1


@pytest.mark.parametrize(
    ("envelope", "reason"),
    [
        (
            Question(sender="user", recipient="clerk", text="Why?"),
            "clerk does not answer questions; ask nexus",
        ),
        (
            CancelGoal(sender="user", recipient="clerk", goal_id="g"),
            "clerk runs no goals; write to conductor",
        ),
        (
            Email(sender="porter", recipient="clerk", body="x"),
            "it says it is from 'porter', but 'user' sent it",
        ),
        (
            Email(sender="user", recipient="porter", body="x"),
            "it is addressed to 'porter', but was left for 'clerk'",
        ),
        (
            TaskResult(
                sender="user",
                recipient="clerk",
                task_id="t",
                agent="porter",
                status=TaskStatus.COMPLETED,
                output="x",
            ),
            "it is the result of 'porter', but 'user' sent it",
        ),
        (
            TaskChanged(sender="user", recipient="clerk", task_id="t", origin=1, attempt=1, worker="w"),
            "clerk has no use for a task_changed.v2",
        ),
        (
            Task(task_id="t", text="x", assignee="clerk", requester="user"),
            "it is the task 't', but was published on 'mail.clerk.user'",
        ),
    ],
    ids=["question", "cancel", "forged", "misdirected", "forged result", "step", "task by mail"],
)
async def test_what_is_not_for_it_is_buried_with_the_reason(
    team: Team, clerk: Clerk, envelope: Any, reason: str
) -> None:
    await write(team, envelope)
    (letter,) = await buried(team)
    assert letter.reason == reason
    assert clerk.results == []


@pytest.mark.parametrize("subject", [subjects.task("user", "clerk", "other", "ended"), "mail.clerk.user"])
async def test_a_result_is_believed_as_the_end_of_its_task_alone(
    team: Team, clerk: Clerk, subject: str
) -> None:
    result = TaskResult(
        sender="user", recipient="clerk", task_id="t", agent="user", status=TaskStatus.COMPLETED, output="x"
    )
    await team.user.commit([seal(subject, result)])
    (letter,) = await buried(team)
    assert letter.reason == f"it is a result of 't', but was published on '{subject}'"
    assert clerk.results == []


async def test_a_timer_counts_from_the_agent_itself_alone(team: Team, clerk: Clerk) -> None:
    await write(team, GoalDue(sender="user", recipient="clerk", goal_id="g"))
    (letter,) = await buried(team)
    assert letter.reason == "clerk sets its own timers, and 'user' sent it one that is due"


async def test_answers_are_taken_in_silence(team: Team, clerk: Clerk) -> None:
    await write(team, Response(sender="user", recipient="clerk", text="Yes."))
    result = TaskResult(
        sender="user", recipient="clerk", task_id="t", agent="user", status=TaskStatus.COMPLETED, output="x"
    )
    await team.user.commit([seal(subjects.task("user", "clerk", "t", subjects.ENDED), result)])
    while not clerk.results:
        await asyncio.sleep(0.02)
    assert await letters(team) == []


async def test_a_letter_that_keeps_failing_is_buried_with_the_last_reason(team: Team, clerk: Clerk) -> None:
    clerk.way = always(KeyError("ink"))
    await write(team, Email(sender="user", recipient="clerk", body="x"))
    (letter,) = await buried(team)
    assert letter.reason == "gave up after 3 attempts: KeyError: 'ink'"
    assert letter.subject == "mail.clerk.user"
    assert '"body":"x"' in letter.original
    assert letter.task_id == ""
