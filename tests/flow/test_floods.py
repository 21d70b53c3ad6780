"""One agent floods the office with its own key: people and other agents get on all the same."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from shared import subjects
from shared.bus.commit import BURST, RATE
from shared.bus.records import submission_entry
from shared.contracts import Task, TaskChanged, TaskPriority, TaskResult, TaskStatus
from shared.operations.goals import control_agent
from shared.operations.submission import make_body, publish
from tests.support.office import Office
from tests.support.slow import install_slow_agent, slow_goal
from tests.support.waiting import eventually

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

FLOOD = 1_000
SLOWER = 5
"""How many times slower this may be on a machine that has other work."""


LOOPING = '''"""An agent for tests: publishes in loops."""
import time
from shared.agent.base import Agent
from shared.agent.process import run
from shared.bus import Entry
from shared.contracts import Node, generate_id
from shared.tasks.actions import Outcome, register_action


class Looping(Agent):
    """Publishes in loops."""

    @register_action("Publish for some seconds", {"what": "what", "seconds": "how long"})
    async def publish(self, what: str, seconds: float) -> Outcome:
        """How often it was done."""
        context, number, until = self.context, 0, time.monotonic() + seconds
        while time.monotonic() < until:
            number += 1
            if what == "progress":
                await context.progress(f"note {number}")
            elif what == "event":
                await context.bus.commit([Entry("event.looping.looped", b"{}", generate_id())])
            else:
                await context.bus.store("memory.write.looping", b"{}")
        return Outcome(output=f"{number} times")


if __name__ == "__main__":
    run(Looping, __file__)
'''


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def office(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Office]:
    folder: Path = tmp_path_factory.mktemp("office")
    settings = install_slow_agent(folder)
    home = folder / "agents" / "looping"
    home.mkdir()
    (home / "profile.yaml").write_text("name: looping\ndescription: Publishes in loops.\n")
    (home / "__main__.py").write_text(LOOPING)
    running = Office(folder, **settings)
    try:
        await running.open(["conductor", "critic", "slow", "looping"])
        yield running
    finally:
        await running.close()


async def flood(office: Office, agent: str, seconds: float = 0.0) -> None:
    """Have ``agent`` submit FLOOD urgent goals at once; the task of each takes ``seconds``."""
    async with office.server.raw_client(agent) as client:
        for number in range(FLOOD):
            body = slow_goal(f"{agent}-{number}", seconds) | {"priority": "URGENT"}
            await client.publish(subjects.SUBMIT, msgspec.json.encode(body))
        await client.flush()


async def seconds_to_open(office: Office, goal_id: str) -> float:
    """The seconds until a goal is open that was submitted just now."""
    begun = time.monotonic()

    async def is_open() -> bool:
        return await office.goal(goal_id) is not None

    await eventually(is_open, 60)
    return time.monotonic() - begun


async def test_a_persons_goal_is_opened_at_once_behind_an_agents_thousands(office: Office) -> None:
    await flood(office, "cortex", 0.1)
    await seconds_to_open(office, "cortex-100")
    assert await office.goal(f"cortex-{FLOOD - 1}") is None  # the flood goes on
    for number, priority in enumerate(("URGENT", "LOW", "MEDIUM", "HIGH")):
        await office.submit(slow_goal(f"mine-{number}", 0) | {"priority": priority})
        assert await seconds_to_open(office, f"mine-{number}") < 1 * SLOWER
    # Its task does not wait behind the hundreds of that agent's goals either.
    await office.submit(slow_goal("mine-urgent", 0) | {"priority": "URGENT"})
    assert (await office.finished("mine-urgent", 5 * SLOWER)).priority is TaskPriority.URGENT
    # Nor does what another agent submits.
    async with office.server.raw_client("nexus") as nexus:
        await nexus.publish(subjects.SUBMIT, msgspec.json.encode(slow_goal("desk-1", 0)))
    assert await seconds_to_open(office, "desk-1") < 1 * SLOWER
    first = await office.goal("cortex-0")
    assert first is not None
    assert first.priority is TaskPriority.HIGH


async def test_an_urgent_goal_is_opened_at_once_behind_thousands_of_people(office: Office) -> None:
    many = 2 * FLOOD
    async with office.server.raw_client("user") as ana:
        for number in range(many):
            body = slow_goal(f"ana-{number}", 0) | {"person": "ana"}
            await ana.publish(subjects.SUBMIT_AS["LOW"], msgspec.json.encode(body))
        await ana.flush()
    await seconds_to_open(office, "ana-50")
    for person in ("ana", "bob"):
        context = {"assignee": "slow", "action": "wait", "params": {"seconds": 0}}
        body = make_body("Wait", context, f"{person}-urgent", person=person) | {"priority": "URGENT"}
        await publish(office.user, body)
        assert await seconds_to_open(office, f"{person}-urgent") < 1 * SLOWER
        assert (await office.finished(f"{person}-urgent", 5 * SLOWER)).priority is TaskPriority.URGENT
    assert await office.goal(f"ana-{many - 1}") is None  # the flood goes on
    low = await office.goal("ana-50")
    assert low is not None
    assert low.priority is TaskPriority.LOW  # as its subject says
    # What is said of a goal that runs does not wait behind the others either.
    begun = time.monotonic()
    await control_agent(office.user, "critic", "pause")
    await control_agent(office.user, "critic", "resume")
    assert time.monotonic() - begun < 2 * SLOWER
    assert await office.goal(f"ana-{many - 1}") is None


async def test_a_task_counts_by_its_subject_and_is_refused_if_it_names_another_priority(
    office: Office,
) -> None:
    async def publish(task_id: str, step: str, **fields: str) -> TaskResult:
        body = {"type": "task.v1", "task_id": task_id, "assignee": "slow", "requester": "user"}
        body |= {"text": "Wait", "context": {"action": "wait", "params": {"seconds": 0}}, **fields}
        await office.user.store(subjects.task("slow", "user", task_id, step), msgspec.json.encode(body))
        return await office.result("slow", task_id)

    for number, (step, named) in enumerate((("new", "P0"), ("new_urgent", "MEDIUM"), ("new_low", "high"))):
        result = await publish(f"wrong-{number}", step, priority=named)
        assert result.status is TaskStatus.FAILED
        right = subjects.NEW[TaskPriority(named)]
        assert f"'task.slow.user.wrong-{number}.{right}'" in result.error_message
    for number, (step, fields) in enumerate(
        (("new", {}), ("new_urgent", {}), ("new_urgent", {"priority": "P0"}), ("new", {"priority": "P2"}))
    ):
        assert (await publish(f"right-{number}", step, **fields)).status is TaskStatus.COMPLETED


async def test_what_a_task_publishes_in_a_loop_is_coalesced_or_slowed_down(office: Office) -> None:
    async def loop(what: str) -> tuple[int, list[bytes]]:
        context = {"action": "publish", "params": {"what": what, "seconds": 6.0}}
        fields = {"assignee": "looping", "requester": "user", "text": "Loop", "context": context}
        await office.user.commit([submission_entry(Task(task_id=what, **fields))])
        times = int((await office.result("looping", what, timeout=60)).output.split()[0])
        stream, subject = {
            "progress": (subjects.OFFICE, "task.looping.user.progress.noted"),
            "event": (subjects.OFFICE, "event.looping.looped"),
            "memory": (subjects.MEMORY, "memory.write.looping"),
        }[what]
        return times, [data for _, _, data in await office.stored(subject, stream)]

    times, notes = await loop("progress")
    assert times > 500
    assert 3 <= len(notes) <= 9
    assert TaskChanged.from_json(notes[-1]).note == f"note {times}"  # the last one comes before the end
    for what in ("event", "memory"):
        times, stored = await loop(what)
        assert len(stored) >= times
        assert times <= BURST + 7 * RATE
