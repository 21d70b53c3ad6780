"""Many goals at once while every process in turn is killed and started again."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from shared import subjects
from shared.contracts import StateChanged, TaskStatus
from tests.support.office import Office
from tests.support.slow import install_slow_agent, slow_goal
from tests.support.storm import Storm

GOALS = 200
SECONDS = 2.0
"""How long the task of every second goal takes, so that kills interrupt some."""
SOON = 15.0
"""The longest an interrupted task may wait on a slow machine; by ack_wait it would be 30 seconds or more."""


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    """All agents, and one that takes its time."""
    more = install_slow_agent(tmp_path)
    running = Office(tmp_path, MAILROOM_TASK_ACK_WAIT="30", MAILROOM_MAX_ATTEMPTS="20", **more)
    try:
        await running.open()
        yield running
    finally:
        await running.close()


@pytest.mark.timeout(240)
async def test_every_goal_ends_once_whatever_is_killed(office: Office, tmp_path: Path) -> None:
    document = tmp_path / "note.md"
    document.write_text("# A note\n\nAll is well.\n")
    params = {"path": str(document)}
    reading = {"assignee": "scout", "action": "read_document", "params": params}
    for number in range(0, GOALS, 2):
        await office.submit({"text": "Read the note", "goal_id": f"g{number}", "context": reading})
        await office.submit(slow_goal(f"g{number + 1}", SECONDS))
    storm = Storm(office)
    for name in list(office.processes):
        await storm.strike(name)
        await storm.strike("slow")
    await storm.strike_server()
    await asyncio.gather(*(office.finished(f"g{number}", timeout=120) for number in range(GOALS)))

    takeovers = await storm.takeovers()
    print(msgspec.json.encode(takeovers).decode())
    assert takeovers.takeovers
    assert takeovers.longest < SOON, await storm.explain(SOON)
    goals = [await office.goal(f"g{number}") for number in range(GOALS)]
    assert Counter(goal.status for goal in goals if goal) == {TaskStatus.COMPLETED: GOALS}
    await assert_each_task_ended_once(office)
    assert [data for _, _, data in await office.stored("dead.*")] == []
    await assert_audit_has_no_gap(office)


async def assert_each_task_ended_once(office: Office) -> None:
    steps: dict[str, list[str]] = {}
    for _, subject, _ in await office.stored(subjects.task("*", subjects.CONDUCTOR, "*", "*")):
        task, _, step = subject.rpartition(".")
        steps.setdefault(task, []).append(step)
    assert len(steps) == 2 * GOALS
    for task, taken in steps.items():
        lane = "HIGH" if task.startswith("task.critic.") else "MEDIUM"
        assert (taken[0], taken[-1]) == (subjects.NEW[lane], subjects.ENDED)
        assert set(taken[1:-1]) <= {subjects.CLAIMED, subjects.NOTED}
    ends = Counter(
        subject
        for _, subject, data in await office.stored("state.goal.*")
        if (goal := StateChanged.from_json(data).goal) and goal.status.final
    )
    assert set(ends.values()) == {1}


async def assert_audit_has_no_gap(office: Office) -> None:
    for source, copy in subjects.AUDITED.items():
        original = await office.stored(stream=source)
        for _ in range(100):
            audited = await office.stored(stream=copy)
            if len(audited) >= len(original):
                break
            await asyncio.sleep(0.1)
        assert [(subject, data) for _, subject, data in audited][: len(original)] == [
            (subject, data) for _, subject, data in original
        ]
