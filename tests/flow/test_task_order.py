"""The order in which an agent takes its tasks: by priority, and not before what they depend on."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
import pytest_asyncio

from shared import subjects
from shared.bus.consumer import MAX_YIELDED
from shared.bus.records import cancel_task, submission_entry
from shared.contracts import Task, TaskPriority, TaskResult, TaskStatus
from tests.support.office import Office
from tests.support.server import ROOT
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

CLERK = '''"""An agent for tests: does one thing at a time."""
import asyncio
from shared.agent.base import Agent
from shared.agent.process import run
from shared.errors import ActionError
from shared.tasks.actions import Outcome, register_action

class Clerk(Agent):
    """Does simple things."""

    @register_action("Wait", {"seconds": "how long"})
    async def wait(self, seconds: float = 0.0) -> Outcome:
        await asyncio.sleep(seconds)
        return Outcome(output="done")

    @register_action("Fail")
    async def fail(self) -> Outcome:
        raise ActionError("it broke")

if __name__ == "__main__":
    run(Clerk, __file__)
'''

WAITING = MAX_YIELDED + 20
"""More tasks than may yield their slots once they are begun."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def office(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Office]:
    folder = tmp_path_factory.mktemp("office")
    home = folder / "agents" / "clerk"
    home.mkdir(parents=True)
    (home / "profile.yaml").write_text("name: clerk\ndescription: Does simple things.\nconcurrency: 1\n")
    (home / "__main__.py").write_text(CLERK)
    agents = str(folder / "agents")
    running = Office(folder, MAILROOM_AGENTS_DIR=agents, PYTHONPATH=f"{ROOT}:{agents}")
    try:
        await running.open(["clerk"])
        yield running
    finally:
        await running.close()


def task(task_id: str, action: str = "wait", seconds: float = 0.0, **fields: Any) -> Task:
    params = {"seconds": seconds} if action == "wait" else {}
    context = {"action": action, "params": params}
    return Task(task_id=task_id, text="do it", assignee="clerk", requester="user", context=context, **fields)


async def submit(office: Office, *tasks: Task) -> None:
    await office.user.commit([submission_entry(one) for one in tasks])


async def publish(office: Office, one: Task) -> None:
    """Publish a task as any NATS client does, without headers."""
    subject = subjects.task("clerk", "user", one.task_id, subjects.NEW[one.priority])
    await office.user.store(subject, one.to_json())


async def result(office: Office, task_id: str) -> TaskResult:
    return await office.result("clerk", task_id)


async def begun(office: Office, prefix: str) -> list[str]:
    return [name for name in await office.claimed("clerk") if name.startswith(prefix)]


# --- priority ------------------------------------------------------------------------------------


async def test_an_urgent_task_is_begun_next_though_eight_others_wait(office: Office) -> None:
    low = [task(f"p-low-{n}", seconds=0.3, priority=TaskPriority.LOW) for n in range(8)]
    await submit(office, *low)

    async def two_begun() -> bool:
        return len(await begun(office, "p-")) == 2

    await eventually(two_begun)
    await submit(office, task("p-urgent", priority=TaskPriority.URGENT))
    await result(office, "p-urgent")
    assert await begun(office, "p-") in (
        ["p-low-0", "p-low-1", "p-urgent"],
        ["p-low-0", "p-low-1", "p-urgent", "p-low-2"],
    )
    await result(office, "p-low-7")


async def test_low_tasks_get_one_of_twenty_slots_while_urgent_ones_flood(office: Office) -> None:
    await submit(office, task("hold", seconds=1.0))
    await submit(office, *(task(f"f-low-{n}", priority=TaskPriority.LOW) for n in range(10)))
    await submit(office, *(task(f"f-urgent-{n}", priority=TaskPriority.URGENT) for n in range(100)))
    await result(office, "f-urgent-99")
    order = [name.split("-")[1] for name in await begun(office, "f-")]
    places = [place for place, lane in enumerate(order[:100]) if lane == "low"]
    assert len(places) in (5, 6)
    assert max(after - before for before, after in pairwise([-1, *places])) <= 20


# --- dependencies --------------------------------------------------------------------------------


async def test_a_task_begins_when_what_it_depends_on_has_completed(office: Office) -> None:
    await publish(office, task("d-third", depends_on=("d-first", "d-second")))
    await publish(office, task("d-second", depends_on=("d-first",)))
    await asyncio.sleep(0.5)
    await publish(office, task("d-first", seconds=0.3))
    assert (await result(office, "d-third")).status is TaskStatus.COMPLETED
    assert await begun(office, "d-") == ["d-first", "d-second", "d-third"]
    state = await office.task("clerk", "d-third")
    assert state is not None
    assert state.attempt == 1


async def test_waiting_takes_no_slot_and_is_no_attempt(office: Office) -> None:
    await submit(office, *(task(f"w-{n}", depends_on=("w-late",)) for n in range(WAITING)))
    await submit(office, task("x-other"))
    await result(office, "x-other")  # before what they wait for is there
    await submit(office, task("w-late"))
    for n in range(WAITING):
        assert (await result(office, f"w-{n}")).attempt == 1


async def test_a_task_fails_if_what_it_depends_on_failed(office: Office) -> None:
    await submit(office, task("e-then", depends_on=("e-first",)), task("e-first", action="fail"))
    ended = await result(office, "e-then")
    assert ended.status is TaskStatus.FAILED
    assert ended.error_message == "it depends on e-first, which ended as failed: it broke"
    await submit(office, task("e-self", depends_on=("e-self",)))
    assert (await result(office, "e-self")).error_message == "it depends on itself"
    await office.user.store(subjects.task("clerk", subjects.USER, "e-garbled", "new_low"), b"garbled")
    await submit(office, task("e-on-garbled", depends_on=("e-garbled",)))
    ended = await result(office, "e-on-garbled")
    assert ended.error_message.startswith("it depends on e-garbled, which ")
    assert ended.attempt == 1


async def test_what_is_missing_is_waited_for_until_the_deadline(office: Office) -> None:
    soon = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
    await submit(office, task("m-then", depends_on=("m-missing",), deadline=soon))
    ended = await result(office, "m-then")
    assert ended.status is TaskStatus.TIMEOUT
    assert "m-missing, which user has not submitted to clerk" in ended.error_message
    assert "by a goal on tasks.submit" in ended.error_message


async def test_a_task_that_waits_can_be_cancelled(office: Office) -> None:
    waiting = task("c-then", depends_on=("c-missing",))
    await submit(office, waiting)
    await asyncio.sleep(0.3)
    assert await cancel_task(office.user, waiting, "no longer needed")
    await submit(office, task("c-missing"))
    await result(office, "c-missing")
    await asyncio.sleep(2.5)
    assert await begun(office, "c-") == ["c-missing"]


async def test_the_conductor_has_waited_for_what_its_tasks_depend_on(office: Office) -> None:
    """What these depend on was done by other agents, whose results this one cannot read."""
    conductor = await office.connect(subjects.CONDUCTOR)
    theirs = Task(
        task_id="g-2",
        text="do it",
        assignee="clerk",
        requester=subjects.CONDUCTOR,
        context={"action": "wait"},
        depends_on=("g-1",),
    )
    await conductor.commit([submission_entry(theirs)])
    ended = await office.result("clerk", "g-2", subjects.CONDUCTOR)
    assert ended.status is TaskStatus.COMPLETED
