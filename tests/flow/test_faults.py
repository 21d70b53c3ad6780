"""Single faults, each against real processes: frozen, killed, malformed, cancelled, overdue."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from shared import subjects
from shared.bus.entry import seal
from shared.bus.records import TaskState, submission_entry
from shared.contracts import CancelGoal, DeadLetter, Task, TaskStatus, generate_task_id
from tests.support.office import Office
from tests.support.waiting import eventually

SLOW_AGENT = '''"""An agent for tests: appends a line to a file, slowly."""
import asyncio
from pathlib import Path
from shared.tasks.actions import register_action
from shared.agent.base import Agent
from shared.agent.process import run

class Slow(Agent):
    """Writes slowly."""

    @register_action("Append a line after some seconds", {"path": "the file", "seconds": "how long it takes"})
    async def append(self, path: str, seconds: float = 0.0) -> str:
        await asyncio.sleep(seconds)
        return f"attempt {self.context.current_task.attempt}"

    @register_action("Do something that must not be done twice", {"path": "its file", "seconds": "how long"})
    async def pay(self, path: str, seconds: float = 0.0) -> str:
        async with self.context.effect("pay the bill"):
            with open(path, "a") as file:
                file.write("paid\\n")
            await asyncio.sleep(seconds)
        return "paid"

if __name__ == "__main__":
    run(Slow, __file__)
'''


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Office]:
    """The conductor, the critic, and an agent of our own: one folder with a profile and a few lines."""
    home = folder / "agents" / "slow"
    home.mkdir(parents=True)
    (home / "profile.yaml").write_text("name: slow\ndescription: Writes slowly.\nconcurrency: 2\n")
    (home / "__main__.py").write_text(SLOW_AGENT)
    running = Office(
        folder,
        MAILROOM_AGENTS_DIR=str(folder / "agents"),
        MAILROOM_MAX_ATTEMPTS="3",
        PYTHONPATH=str(Path.cwd()),
    )
    try:
        await running.open(["conductor", "critic", "slow"])
        yield running
    finally:
        await running.close()


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    """An office for one test, which kills its processes."""
    async with opened(tmp_path) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lasting_office(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Office]:
    """An office for all tests that kill nothing: ids are each test's own, and what others left is there."""
    async with opened(tmp_path_factory.mktemp("office")) as running:
        yield running


shared = pytest.mark.asyncio(loop_scope="module")


def task(action: str, path: Path, seconds: float, task_id: str = "t1", **more: str) -> Task:
    params = {"path": str(path), "seconds": seconds}
    return Task(
        task_id=task_id,
        text=action,
        assignee="slow",
        requester="user",
        context={"action": action, "params": params},
        **more,
    )


async def state(office: Office, task_id: str = "t1") -> TaskState:
    found = await office.task("slow", task_id)
    assert found is not None
    return found


async def in_progress(office: Office) -> bool:
    return (await state(office)).status is TaskStatus.IN_PROGRESS


async def ended(office: Office, task_id: str = "t1") -> bool:
    return (await state(office, task_id)).status.final


async def test_a_frozen_agent_that_wakes_up_late_changes_nothing(office: Office, tmp_path: Path) -> None:
    await office.user.commit([submission_entry(task("append", tmp_path / "f", 1.0))])
    await eventually(lambda: in_progress(office))
    office.signal("slow", signal.SIGSTOP)
    office.start("slow", "-2")
    await office.ready("slow", "-2")
    await eventually(lambda: ended(office), 15)
    assert (await state(office)).attempt == 2
    office.signal("slow", signal.SIGCONT)
    await asyncio.sleep(3)
    final = await state(office)
    assert (final.attempt, final.result and final.result.output) == (2, "attempt 2")
    assert len(await office.results("slow")) == 1


async def test_a_killed_agent_s_task_is_done_by_the_next(office: Office, tmp_path: Path) -> None:
    await office.user.commit([submission_entry(task("append", tmp_path / "f", 1.0))])
    await eventually(lambda: in_progress(office))
    office.kill("slow")
    office.start("slow")
    await eventually(lambda: ended(office), 20)
    assert (await state(office)).status is TaskStatus.COMPLETED
    assert len(await office.results("slow")) == 1


async def test_an_interrupted_effect_is_reported_and_not_repeated(office: Office, tmp_path: Path) -> None:
    bill = tmp_path / "bill"
    await office.user.commit([submission_entry(task("pay", bill, 30.0))])
    await eventually(lambda: asyncio.to_thread(bill.exists))
    office.kill("slow")
    office.start("slow")
    await eventually(lambda: ended(office), 20)
    final = await state(office)
    assert final.status is TaskStatus.FAILED
    assert final.result is not None
    assert "interrupted while it did this: pay the bill" in final.result.error_message
    assert bill.read_text() == "paid\n"
    letters = [DeadLetter.from_json(data) for _, _, data in await office.stored("dead.slow")]
    assert [letter.task_id for letter in letters] == ["t1"]


async def test_a_task_that_kills_its_agent_every_time_is_buried_and_fails(
    office: Office, tmp_path: Path
) -> None:
    await office.user.commit([submission_entry(task("append", tmp_path / "f", 60.0))])
    for attempt in range(1, 4):
        await eventually(lambda n=attempt: at_attempt(office, n), 20)
        office.kill("slow")
        office.start("slow")
    await eventually(lambda: ended(office), 20)
    final = await state(office)
    assert final.status is TaskStatus.FAILED
    assert final.result is not None
    assert "begun 3 times and never finished" in final.result.error_message


async def at_attempt(office: Office, number: int) -> bool:
    now = await state(office)
    return now.attempt == number and now.status is TaskStatus.IN_PROGRESS


@shared
async def test_a_deadline_ends_a_task_as_timeout(lasting_office: Office, tmp_path: Path) -> None:
    from datetime import UTC, datetime, timedelta

    office, task_id = lasting_office, generate_task_id()
    soon = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
    late = task("append", tmp_path / "f", 60.0, task_id, deadline=soon)
    await office.user.commit([submission_entry(late)])
    await eventually(lambda: ended(office, task_id), 10)
    assert (await state(office, task_id)).status is TaskStatus.TIMEOUT


async def dead_letters(office: Office, agent: str) -> list[DeadLetter]:
    """Every dead letter of an agent, oldest first."""
    return [DeadLetter.from_json(data) for _, _, data in await office.stored(f"dead.{agent}")]


@shared
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"text": 5}', "Expected `str`, got `int` - at `$.text`"),
        (b'{"text": "', "JSON"),
        (b'{"text": "  "}', "text must be a non-empty string"),
        (b'{"text": "' + b"x" * 2_000_000 + b'"}', "text has 2,000,000 characters; the limit is 100,000"),
        (b"[1, 2]", "no JSON object"),
        (b"", "JSON"),
        (b'{"text": "x", "priority": "soon"}', "priority"),
        (b'{"text": "x", "goal_id": "a.b"}', "goal_id"),
        (b'{"type": "email.v1", "sender": "user", "recipient": "conductor", "body": "x"}', "no submission"),
        (b'{"type": "letter.v9"}', "unknown envelope type 'letter.v9'"),
    ],
    ids=["number", "broken", "blank", "long", "list", "empty", "priority", "id", "email", "unknown"],
)
async def test_bad_submissions_are_buried_with_a_reason_and_the_office_goes_on(
    lasting_office: Office, tmp_path: Path, body: bytes, reason: str
) -> None:
    office, goal_id = lasting_office, generate_task_id("goal")
    before = await dead_letters(office, "conductor")
    await office.submit(body)
    await office.submit({"text": "do it", "goal_id": goal_id, "context": context(tmp_path, 0)})
    assert (await office.finished(goal_id)).status is TaskStatus.COMPLETED
    (letter,) = (await dead_letters(office, "conductor"))[len(before) :]
    assert reason in letter.reason
    assert letter.original_size == len(body)


def context(tmp_path: Path, seconds: float) -> dict[str, object]:
    params = {"path": str(tmp_path / "f"), "seconds": seconds}
    return {"assignee": "slow", "action": "append", "params": params}


@shared
async def test_mail_that_cannot_be_read_is_buried(lasting_office: Office) -> None:
    office = lasting_office
    before = await dead_letters(office, "slow")
    await office.user.store(
        "mail.slow.user", b'{"type":"email.v1","sender":"conductor","recipient":"slow","body":"x"}'
    )
    await office.user.store("mail.slow.user", b"\xff\x00 no json")
    await office.user.store(
        "task.slow.user.t.new",
        b'{"type":"task.v1","task_id":"t","text":"x","assignee":"critic","requester":"user"}',
    )
    await office.user.store(
        "task.slow.user.t.new_high",
        b'{"type":"task.v1","task_id":"other","text":"x","assignee":"slow","requester":"user"}',
    )

    async def buried() -> bool:
        return len(await dead_letters(office, "slow")) == len(before) + 4

    await eventually(buried)
    reasons = [letter.reason for letter in (await dead_letters(office, "slow"))[len(before) :]]
    for expected in (
        "it says it is from 'conductor', but 'user' sent it",
        "not valid JSON",
        "addressed to 'critic'",
        "it is the task 'other', but was published on 'task.slow.user.t.new_high'",
    ):
        assert sum(expected in reason for reason in reasons) == 1


@shared
async def test_a_goal_can_be_cancelled_while_it_runs(lasting_office: Office, tmp_path: Path) -> None:
    office = lasting_office
    first, second = generate_task_id("goal"), generate_task_id("goal")
    await office.submit({"text": "do it", "goal_id": first, "context": context(tmp_path, 60)})

    async def running() -> bool:
        now = await office.task("slow", f"{first}-task-1", "conductor")
        return now is not None and now.status is TaskStatus.IN_PROGRESS

    await eventually(running)
    letter = CancelGoal(sender="user", recipient="conductor", goal_id=first, reason="changed my mind")
    await office.user.commit([seal(subjects.mail("conductor", "user"), letter)])
    goal = await office.finished(first)
    assert goal.status is TaskStatus.CANCELLED
    assert "changed my mind" in goal.reason
    result = await office.result("slow", f"{first}-task-1", "conductor")
    assert result.status is TaskStatus.CANCELLED
    # The worker notices, stops, and is free for the next task.
    await office.submit({"text": "again", "goal_id": second, "context": context(tmp_path, 0)})
    assert (await office.finished(second)).status is TaskStatus.COMPLETED
    stored = [result.task_id for result in await office.results("slow") if result.goal_id in (first, second)]
    assert stored == [f"{second}-task-1"]


async def test_a_goal_s_deadline_survives_the_conductor(office: Office, tmp_path: Path) -> None:
    from datetime import UTC, datetime, timedelta

    deadline = (datetime.now(UTC) + timedelta(seconds=4)).isoformat()
    office.kill("slow")
    await office.submit({"text": "x", "goal_id": "g1", "deadline": deadline, "context": context(tmp_path, 0)})

    async def begun() -> bool:
        return (await office.goal("g1")) is not None

    await eventually(begun)
    office.kill("conductor")
    office.start("conductor")
    goal = await office.finished("g1", 20)
    assert goal.status is TaskStatus.TIMEOUT
    assert "deadline" in goal.reason


async def test_the_server_killed_in_the_middle_loses_no_goal(office: Office, tmp_path: Path) -> None:
    for number in range(30):
        await office.submit({"text": "do it", "goal_id": f"g{number}", "context": context(tmp_path, 0.2)})
    for _ in range(2):
        await asyncio.sleep(0.4)
        await office.server.restart()
    for number in range(30):
        assert (await office.finished(f"g{number}", 60)).status is TaskStatus.COMPLETED
    assert await office.stored("dead.*") == []
    results = [result.task_id for result in await office.results("slow")]
    assert sorted(results) == sorted(f"g{number}-task-1" for number in range(30))


@shared
async def test_the_same_submission_twice_is_one_goal(lasting_office: Office, tmp_path: Path) -> None:
    office, goal_id = lasting_office, generate_task_id("goal")
    for _ in range(3):
        await office.submit({"text": "do it", "goal_id": goal_id, "context": context(tmp_path, 0)})
    await office.finished(goal_id)
    await asyncio.sleep(0.5)
    assert sum(task.goal_id == goal_id for task in await office.submitted("slow", "conductor")) == 1
