"""A killed agent's task goes on within seconds in another process; ack_wait is half a minute."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared import subjects
from shared.contracts import TaskChanged, TaskStatus
from tests.support.office import Office
from tests.support.slow import install_slow_agent, slow_goal
from tests.support.waiting import eventually

SOON = 10.0
"""Seconds until the task has ended, on a slow machine too; by ack_wait it would be 30 or more."""
BUSY = 1.5


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    running = Office(tmp_path, MAILROOM_TASK_ACK_WAIT="30", **install_slow_agent(tmp_path))
    try:
        await running.open(["conductor", "critic", "slow"])
        yield running
    finally:
        await running.close()


async def begun(office: Office, goal_id: str) -> None:
    """Wait until the goal's task is being worked on."""

    async def claimed() -> bool:
        return any(goal_id in subject for subject in await office.claimed("slow"))

    await eventually(claimed)


async def test_the_restarted_process_goes_on_with_what_the_killed_one_did(office: Office) -> None:
    await office.submit(slow_goal("g1", BUSY))
    await begun(office, "g1")
    office.kill("slow")
    office.start("slow")
    goal = await office.finished("g1", SOON)
    assert goal.status is TaskStatus.COMPLETED
    assert "attempt 2" in goal.answer


async def begin_in_both(office: Office) -> list[str]:
    """Submit goals until two processes are at work; a new one gets its first message a little later."""
    goals: list[str] = []
    workers: set[str] = set()
    while len(workers) < 2 and len(goals) < 40:
        goals.append(f"g{len(goals)}")
        await office.submit(slow_goal(goals[-1], 2 * BUSY))
        await begun(office, goals[-1])
        claims = await office.stored(subjects.task("slow", "*", "*", subjects.CLAIMED))
        workers = {TaskChanged.from_json(data).worker for _, _, data in claims}
    return goals


async def test_another_process_goes_on_without_waiting_for_a_restart(office: Office) -> None:
    office.start("slow", "-2")
    await office.ready("slow", "-2")
    names = await begin_in_both(office)
    office.kill("slow")
    goals = await asyncio.gather(*(office.finished(name, SOON) for name in names))
    assert {goal.status for goal in goals} == {TaskStatus.COMPLETED}
    answers = [goal.answer for goal in goals]
    # The survivor went on with its own undisturbed.
    assert any("attempt 1" in answer for answer in answers)
    assert any("attempt 2" in answer for answer in answers)
    assert not any("attempt 3" in answer for answer in answers)


async def test_a_conductor_s_unfinished_mail_is_not_waited_for(office: Office) -> None:
    for number in range(20):
        await office.submit(slow_goal(f"g{number}", 0.0))
    office.kill("conductor")
    office.start("conductor")
    goals = await asyncio.gather(*(office.finished(f"g{number}", SOON + 5) for number in range(20)))
    assert {goal.status for goal in goals} == {TaskStatus.COMPLETED}
