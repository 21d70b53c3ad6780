"""Tasks go to the host that has what they work with: a folder, a tool chain, a workspace too large."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from shared.bus.records import read_task_state
from shared.contracts import TaskResult, TaskStatus
from shared.subjects import host_of
from tests.support.hosts import AGENT, Hosts, hide
from tests.support.waiting import eventually

in_module = pytest.mark.asyncio(loop_scope="module")
BIG = 3 << 30  # Bytes of a file without content that no workspace may travel with
SOON = 5.0  # Seconds within which a task has to be where it belongs


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hosts(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hosts]:
    """An office, and the host "far": it has none of the office's folder ``only``, but a newer Go."""
    folder = tmp_path_factory.mktemp("placing")
    (folder / "only").mkdir()
    probe = await asyncio.create_subprocess_exec(*hide(folder / "only"), "true")
    if await probe.wait():
        pytest.skip("no mount namespaces here")
    for name, version in (("old", "1.20.5"), ("new", "1.23.1")):
        (folder / name).mkdir()
        (folder / name / "go").write_text(f"#!/bin/sh\necho go version go{version} linux/amd64\n")
        (folder / name / "go").chmod(0o755)
    running = Hosts(folder)
    try:
        await running.open()
        assert isinstance(await running.join("far"), dict)
        await running.start(path=str(folder / "old"))
        await running.start("far", hidden=folder / "only", path=str(folder / "new"))
        yield running
    finally:
        await running.close()


async def result(hosts: Hosts, task_id: str) -> TaskResult:
    """The result of a task, once it is there."""
    found: list[TaskResult] = []

    async def has_ended() -> bool:
        found[:] = [each for each in await hosts.office.results(AGENT) if each.task_id == task_id]
        return bool(found)

    await eventually(has_ended, 60)
    return found[0]


def only(hosts: Hosts) -> Path:
    """The folder that the other host does not have."""
    return next(each / "only" for each in hosts.config.state_dir.parents if (each / "only").is_dir())


@in_module
async def test_a_folder_of_one_host_pins_its_tasks(hosts: Hosts, tmp_path: Path) -> None:
    folder = only(hosts)
    (folder / "log").write_text("")
    begun = time.monotonic()
    for number in range(12):  # more than the office's process does at once
        await hosts.give(f"here-{number}", seconds=1.0, effects=str(folder / "log"))
    ended = await asyncio.gather(*(result(hosts, f"here-{number}") for number in range(12)))
    took = time.monotonic() - begun
    assert {(each.output, each.attempt, each.status) for each in ended} == {
        ("office", 1, TaskStatus.COMPLETED)
    }, ended
    assert took < 4 * SOON
    print(f"12 tasks of 1 s, 8 at once, half of them first given to the wrong host: {took:.1f} s")


@in_module
async def test_a_version_of_a_tool_chain_pins_a_task(hosts: Hosts, tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module example.org/x\n\ngo 1.22\n")
    (tmp_path / "log").write_text("")
    begun = time.monotonic()
    for number in range(4):
        await hosts.give(f"go-{number}", seconds=0, effects=str(tmp_path / "log"), first=str(tmp_path))
    ended = await asyncio.gather(*(result(hosts, f"go-{number}") for number in range(4)))
    assert {(each.output, each.attempt) for each in ended} == {("far", 1)}
    assert time.monotonic() - begun < SOON * 4


@in_module
async def test_what_nobody_has_is_tried_where_it_is(hosts: Hosts, tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module example.org/x\n\ngo 1.99\n")
    await hosts.give("none", seconds=0, effects=str(tmp_path / "log"), first="/api/users")
    await hosts.give("newer", seconds=0, effects=str(tmp_path / "log"), first=str(tmp_path))
    for task_id in ("none", "newer"):
        assert (await result(hosts, task_id)).status is TaskStatus.COMPLETED


@in_module
async def test_a_workspace_that_is_too_large_pins_what_builds_on_it(hosts: Hosts, tmp_path: Path) -> None:
    far = Path(hosts.environment("far")["MAILROOM_STATE_DIR"])
    (tmp_path / "go.mod").write_text("module example.org/x\n\ngo 1.22\n")
    place = far / "workspaces" / "g-large" / "made"
    place.mkdir(parents=True)
    with (place / "data").open("wb") as file:
        file.truncate(BIG)
    log = str(tmp_path / "log")
    await hosts.give("made", goal_id="g-large", seconds=0, effects=log, first=str(tmp_path))
    first = await result(hosts, "made")
    assert first.output == "far"
    assert "far" in str(first.metadata["not_stored"])
    for number in range(4):
        name = f"builds-{number}"
        await hosts.give(name, goal_id="g-large", starts_from=["made"], seconds=0, effects=log)
        assert ((await result(hosts, name)).output, (await result(hosts, name)).attempt) == ("far", 1)
    hosts.office.kill(f"{AGENT}@far")
    begun = time.monotonic()
    await hosts.give("late", goal_id="g-large", starts_from=["made"], seconds=0, effects=log)
    late = await result(hosts, "late")
    assert late.status is TaskStatus.FAILED
    assert "made, which is on the host far alone" in (late.error_message or "")
    print(f"failed with its cause {time.monotonic() - begun:.1f} s after the host was killed")


@in_module
async def test_pinned_tasks_of_a_host_that_vanished_go_elsewhere(hosts: Hosts) -> None:
    folder = only(hosts)
    await hosts.start("far", hidden=folder, path=str(folder.parent / "new"))
    (folder / "log").write_text("")
    for number in range(6):
        await hosts.give(f"moved-{number}", seconds=60, effects=str(folder / "log"), first="office")

    async def are_begun() -> bool:
        states = [await read_task_state(hosts.office.user, AGENT, "user", f"moved-{n}") for n in range(6)]
        return all(state and state.attempt and host_of(state.worker) == "office" for state in states)

    await eventually(are_begun, 30)
    hosts.office.kill(f"{AGENT}@")
    begun = time.monotonic()
    ended = await asyncio.gather(*(result(hosts, f"moved-{number}") for number in range(6)))
    assert {(each.output, each.attempt) for each in ended} == {("far", 2)}
    print(f"6 pinned tasks done elsewhere {time.monotonic() - begun:.1f} s after their host was killed")
