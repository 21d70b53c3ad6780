"""MCP servers end with whatever they run for, however that ends; what they did is not done again."""

import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared import subjects
from shared.bus import Bus
from shared.bus.records import submission_entry
from shared.contracts import Task, TaskResult, TaskStatus, generate_task_id
from tests.support.foe import answer, gone, install, processes
from tests.support.office import Office
from tests.support.up import UpCommand, processes_of
from tests.support.waiting import eventually, wait_for


async def begin(office: Office, action: str, **params: object) -> str:
    """Have scout perform an action; the task's id."""
    task = Task(
        task_id=generate_task_id(),
        text=action,
        assignee="scout",
        requester=subjects.USER,
        context={"action": action, "params": params},
    )
    await office.user.commit([submission_entry(task)])
    return task.task_id


async def perform(office: Office, action: str, **params: object) -> TaskResult:
    return await office.result("scout", await begin(office, action, **params))


def beats(path: Path) -> bool:
    """Whether a process still writes to ``path``."""
    before = path.stat().st_size
    time.sleep(0.5)
    return path.stat().st_size > before


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    """Scout alone, whose server ignores SIGTERM and left a process behind that does so too."""
    await install(tmp_path, "stubborn")
    office = Office(tmp_path)
    try:
        await office.open(["scout"])
        assert (
            await perform(office, "foe__detach", path=str(tmp_path / "granted" / "beat"))
        ).output == "detached"
        assert len(processes(tmp_path)) == 2
        yield office
    finally:
        await office.close()
    await gone(tmp_path)


async def test_nothing_is_left_of_a_killed_agent(office: Office, tmp_path: Path) -> None:
    office.kill("scout")
    await gone(tmp_path)
    assert not beats(tmp_path / "granted" / "beat")


async def test_nothing_is_left_of_a_killed_supervisor_of_the_jail(office: Office, tmp_path: Path) -> None:
    first = min(processes(tmp_path), key=lambda process: process.pid)
    supervisor = next(each for each in first.parents() if "shared.jailer.server" in " ".join(each.cmdline()))
    os.kill(supervisor.pid, signal.SIGKILL)
    await gone(tmp_path)
    assert not beats(tmp_path / "granted" / "beat")
    assert (await perform(office, "foe__echo", text="another one")).output == "another one"


async def test_an_agent_that_stops_takes_its_servers_along(office: Office, tmp_path: Path) -> None:
    office.signal("scout", signal.SIGTERM)
    await gone(tmp_path)


async def test_a_killed_server_is_started_again(office: Office, tmp_path: Path) -> None:
    min(processes(tmp_path), key=lambda process: process.pid).kill()
    await gone(tmp_path)  # its first process takes the others along
    assert (await perform(office, "foe__echo", text="again")).output == "again"


async def test_nothing_is_left_of_a_killed_office(tmp_path: Path) -> None:
    await install(tmp_path, "stubborn")
    idle = "cortex=0,critic=0,engineer=0,frontier=0,nexus=0"
    running = UpCommand(tmp_path / "state", MAILROOM_REPLICAS=idle)
    try:
        url = running.record()["url"]
        bus = await Bus.connect(subjects.USER, url, tmp_path / "state" / "keys" / "user.nk")
        task = Task(
            task_id=generate_task_id(),
            text="Leave something behind",
            assignee="scout",
            requester=subjects.USER,
            context={"action": "foe__detach", "params": {"path": str(tmp_path / "granted" / "beat")}},
        )
        await bus.commit([submission_entry(task)])
        await eventually(lambda: len(processes(tmp_path)) == 2, 30)
        await bus.close()
        running.up.kill()
        await eventually(lambda: not processes(tmp_path), 30)
        assert not beats(tmp_path / "granted" / "beat")
    finally:
        running.close()
        wait_for(lambda: not processes_of(tmp_path / "state"))


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Office]:
    office = Office(tmp_path)
    await install(tmp_path)
    try:
        await office.open(["conductor", "critic", "scout"])
        yield office
    finally:
        await office.close()
    await gone(tmp_path)


async def test_a_goal_that_names_a_tool_is_done_once_through_a_kill(team: Office, tmp_path: Path) -> None:
    path = tmp_path / "granted" / "count"
    context = {"assignee": "scout", "action": "foe__count", "path": str(path)}
    await team.submit({"text": "Count", "goal_id": "g1", "context": context})

    async def waits() -> bool:
        return bool(await team.stored(subjects.approval_asked("scout", "*")))

    await eventually(waits, 30)
    team.kill("scout")
    team.start("scout")
    await answer(team.user, granted=True)
    goal = await team.finished("g1", 60)
    assert goal.status is TaskStatus.COMPLETED, goal.reason
    assert path.read_text() == "once\n"
    assert len(await team.stored(subjects.approval_asked("scout", "*"))) == 1


async def test_a_call_that_may_have_happened_is_not_repeated(team: Office, tmp_path: Path) -> None:
    path = tmp_path / "granted" / "count"
    task_id = await begin(team, "foe__count_slowly", path=str(path))
    await answer(team.user, granted=True)
    await eventually(path.exists, 30)
    team.kill("scout")
    await gone(tmp_path)
    team.start("scout")
    result = await team.result("scout", task_id)
    assert result.status is TaskStatus.FAILED
    assert "It may or may not have taken effect, so it is not repeated" in result.error_message
    assert "foe__count_slowly of the MCP server foe (hostile 6.6, " in result.error_message
    assert path.read_text() == "once\n"
