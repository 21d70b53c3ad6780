"""When a task is claimed: before anything but reading and computing, or when it takes long."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared import subjects
from shared.agent.base import Agent
from shared.bus import Stored, claim
from shared.bus.entry import Entry
from shared.bus.records import cancel_task, submission_entry
from shared.contracts import Node, Source, Task, TaskStatus
from shared.errors import ActionError, BusUnavailable
from shared.llm.protocol import Message
from shared.sandbox import run_command
from shared.skills.workspace import open_workspace
from shared.tasks.actions import register_action
from shared.tasks.profiles import Profile
from shared.text.times import seconds_between
from shared.views.timeline import TaskTimeline
from shared.web.fetching import fetch
from tests.support.indexing import read_timeline
from tests.support.team import Team, open_team
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(60)

LONG = 2.0
"""Seconds for which the event loop is blocked."""


class Clerk(Agent):
    """Does what the test puts into ``way``."""

    way: Callable[[], Awaitable[Any]]

    @register_action("Do what the test says")
    async def do(self) -> Any:
        """Whatever the way brings."""
        return await self.way()


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    script = tmp_path / "script.yaml"
    finish = {"call": {"name": "finish_task", "arguments": {"result": "thought"}}}
    more = {"MAILROOM_BRAIN": f"scripted:{script}", "MAILROOM_TASK_ACK_WAIT": "30"}
    script.write_text(yaml.safe_dump([{"replies": [finish] * 3}]))
    async with open_team(tmp_path, ("clerk", "other"), **more) as team:
        yield team


@pytest.fixture
async def clerk(team: Team) -> Clerk:
    found: Clerk = await team.join(Clerk, Profile(name="clerk", description="Does things."))
    return found


@pytest.fixture
def never_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """No task takes so long that it is claimed for that."""
    monkeypatch.setattr(claim, "CLAIM_AFTER", 1e6)


async def steps(team: Team, agent: str = "clerk") -> list[Stored]:
    """The steps of the tasks that ``agent`` was given, in order."""
    request = {"seq": 1, "next_by_subj": subjects.task(agent, "*", "*", "*"), "batch": 100}
    return [stored async for stored in team.user.read(subjects.OFFICE, request)]


async def names(team: Team) -> list[str]:
    return [stored.subject.rpartition(".")[2] for stored in await steps(team)]


async def submit(team: Team) -> Task:
    context = {"action": "do"}
    task = Task(task_id="t1", text="do", assignee="clerk", requester="user", context=context)
    await team.user.commit([submission_entry(task)])
    return task


# --- what claims it --------------------------------------------------------------------------------


async def _reads(clerk: Clerk) -> None:
    """Files, streams, records of others, a memory that is asked: no more than that."""
    await asyncio.to_thread(Path("/etc/hostname").read_bytes)
    await clerk.context.bus.last(subjects.OFFICE, subjects.record("clerk", "thinking", "none"))
    await clerk.context.directory.text("clerk")
    await clerk.context.approvals.granted_reach()
    with contextlib.suppress(BusUnavailable):  # nobody is there to answer
        await clerk.context.memory.search("anything")


async def _runs(clerk: Clerk) -> None:
    await run_command(["true"], cwd=Path("/usr"), timeout=10)


async def _opens(clerk: Clerk) -> None:
    await open_workspace(clerk.context)


async def _remembers(clerk: Clerk) -> None:
    source = Source(channel="test")
    await clerk.context.memory.queue(Node(id="n1", kind="fact", title="x", body="x", source=source))


async def _asks_a_model(clerk: Clerk) -> None:
    await clerk.context.models.ask_model([Message(role="user", text="Hello")])


async def _thinks(clerk: Clerk) -> None:
    await clerk.context.run_loop("Think")


async def _fetches(clerk: Clerk) -> None:
    with pytest.raises(ActionError):
        await fetch("http://127.0.0.1:9/", timeout=2)


async def _notes(clerk: Clerk) -> None:
    await clerk.context.progress("halfway")


async def _has_an_effect(clerk: Clerk) -> None:
    async with clerk.context.effect("push the button"):
        pass


async def _stores(clerk: Clerk) -> None:
    await clerk.context.bus.commit([Entry(subjects.record("clerk", "thinking", "r"), b"{}", "r1")])


async def _is_asked_about(clerk: Clerk) -> None:
    """The request for approval is stored, and nobody answers it."""
    asking = asyncio.create_task(clerk.context.approvals.require("shout"))
    await asyncio.sleep(0.2)
    asking.cancel()


async def _delegates(clerk: Clerk) -> None:
    waiting = asyncio.create_task(clerk.context.delegation.run("other", "Do it"))
    await asyncio.sleep(0.2)
    waiting.cancel()


async def _mails(clerk: Clerk) -> None:
    waiting = asyncio.create_task(clerk.context.requests.send("other", "Hello", "How are you?"))
    await asyncio.sleep(0.2)
    waiting.cancel()


EFFECTS = (
    _runs,
    _opens,
    _remembers,
    _asks_a_model,
    _thinks,
    _fetches,
    _notes,
    _has_an_effect,
    _stores,
    _is_asked_about,
    _delegates,
    _mails,
)


@pytest.mark.usefixtures("never_late")
async def test_what_only_reads_is_two_messages(team: Team, clerk: Clerk) -> None:
    clerk.way = lambda: _reads(clerk)
    await submit(team)
    result = await team.result("clerk", "user", "t1")
    assert (result.status, result.error_message) == (TaskStatus.COMPLETED, "")
    assert await names(team) == ["new", "ended"]


@pytest.mark.usefixtures("never_late")
@pytest.mark.parametrize("way", EFFECTS, ids=lambda way: way.__name__.strip("_"))
async def test_what_does_more_is_claimed_before(
    team: Team, clerk: Clerk, way: Callable[[Clerk], Awaitable[None]]
) -> None:
    clerk.way = lambda: way(clerk)
    await submit(team)
    result = await team.result("clerk", "user", "t1")
    assert (result.status, result.error_message) == (TaskStatus.COMPLETED, "")
    found = await names(team)
    assert found[:2] == ["new", "claimed"]
    assert found.count("claimed") == 1
    (_, claimed, *_) = await steps(team)
    request = {"seq": 1, "next_by_subj": ">", "batch": 100}
    stored = [each async for each in team.user.read(subjects.OFFICE, request)]
    others = [each for each in stored if not each.subject.startswith("task.clerk.")]
    mine = [each.seq for each in others if "clerk" in each.subject.split(".")]
    assert all(seq > claimed.seq for seq in mine)
    if way in (_stores, _is_asked_about, _mails, _thinks):
        assert mine


async def test_what_takes_long_is_claimed_while_it_runs(team: Team, clerk: Clerk) -> None:
    over = asyncio.Event()
    clerk.way = over.wait
    task = await submit(team)
    began = time.monotonic()

    async def claimed() -> bool:
        state = await clerk.context.bus.last(subjects.OFFICE, subjects.task("clerk", "user", "t1", "claimed"))
        return state is not None

    await eventually(claimed)
    assert time.monotonic() - began < 5
    over.set()
    await team.result("clerk", "user", task.task_id)
    assert await names(team) == ["new", "claimed", "ended"]


async def test_a_blocked_event_loop_hides_nothing(team: Team, clerk: Clerk) -> None:
    """Nothing of this process runs meanwhile but the thread, which has to be quick."""

    async def block() -> str:
        time.sleep(LONG)  # noqa: ASYNC251  # it blocks the loop on purpose
        return "over"

    clerk.way = block
    await submit(team)
    await team.result("clerk", "user", "t1")
    new, claimed, ended = await steps(team)
    assert [each.subject.rpartition(".")[2] for each in (new, claimed, ended)] == ["new", "claimed", "ended"]
    assert _seconds(new, ended) >= LONG
    assert _seconds(new, claimed) < LONG


async def test_a_loop_that_is_busy_with_python_hides_nothing(team: Team, clerk: Clerk) -> None:
    async def spin() -> int:
        until, turns = time.monotonic() + LONG, 0
        while time.monotonic() < until:
            turns += 1
        return turns

    clerk.way = spin
    await submit(team)
    await team.result("clerk", "user", "t1")
    _, claimed, ended = await steps(team)
    assert claimed.subject.endswith(".claimed")
    assert _seconds(claimed, ended) > 0.2


async def test_a_blocked_loop_may_have_effects_afterwards(team: Team, clerk: Clerk) -> None:
    """What the thread stored is this process's claim, and its next write follows it."""

    async def block_and_act() -> str:
        time.sleep(LONG)  # noqa: ASYNC251  # it blocks the loop on purpose
        async with clerk.context.effect("push the button"):
            return "pushed"

    clerk.way = block_and_act
    await submit(team)
    assert (await team.result("clerk", "user", "t1")).output == "pushed"
    assert await names(team) == ["new", "claimed", "noted", "ended"]


# --- what else it changes ----------------------------------------------------------------------------


@pytest.mark.usefixtures("never_late")
async def test_a_task_that_was_cancelled_meanwhile_has_no_effect(team: Team, clerk: Clerk) -> None:
    begun, go_on, done = asyncio.Event(), asyncio.Event(), list[str]()

    async def act_late() -> None:
        begun.set()
        while not go_on.is_set():  # deaf to being stopped, as code in a thread is
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                continue
        await run_command(["true"], cwd=Path("/usr"), timeout=10)
        done.append("ran")

    clerk.way = act_late
    task = await submit(team)
    await begun.wait()
    assert await cancel_task(team.user, task, "it rained") is not None
    go_on.set()
    await asyncio.sleep(0.5)
    assert done == []
    assert await names(team) == ["new", "cancelled"]


@pytest.mark.usefixtures("never_late")
async def test_an_attempt_that_fails_is_on_record(team: Team, clerk: Clerk) -> None:
    attempts: list[int] = []

    async def fail_once() -> str:
        attempts.append(clerk.context.current_task.attempt)
        if len(attempts) == 1:
            raise ValueError("odd")
        return "done"

    clerk.way = fail_once
    await submit(team)
    result = await team.result("clerk", "user", "t1")
    assert (attempts, result.attempt) == ([1, 2], 2)
    assert await names(team) == ["new", "claimed", "claimed", "ended"]


@pytest.mark.usefixtures("never_late")
async def test_its_end_says_how_long_it_waited_and_took(team: Team, clerk: Clerk) -> None:
    clerk.way = lambda: asyncio.sleep(0.3, "slept")
    await submit(team)
    await team.result("clerk", "user", "t1")
    assert await names(team) == ["new", "ended"]
    timeline = await read_timeline(team.user, "t1")
    assert isinstance(timeline, TaskTimeline)
    assert timeline.attempts == 1
    assert timeline.worked is not None
    assert 0.25 < timeline.worked < 5
    assert timeline.waited is not None
    assert timeline.waited < 5


def _seconds(first: Stored, last: Stored) -> float:
    return seconds_between(first.time, last.time)
