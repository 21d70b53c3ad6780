"""Processes that are stopped or killed between two writes of a task, while another takes it over."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared import subjects
from shared.bus.records import submission_entry
from shared.contracts import DeadLetter, Task, TaskResult, TaskStatus
from tests.support.office import Office
from tests.support.server import ROOT
from tests.support.waiting import eventually

CLERK = '''"""An agent for tests: stops or kills itself where the task says."""
import asyncio
import os
import signal
from pathlib import Path
from shared.agent.base import Agent
from shared.agent.process import run
from shared.bus import Delivery
from shared.tasks.actions import register_action

FIRST = Path(os.environ["CLERK_FOLDER"], "first")
acknowledge = Delivery.ack


def freeze(point: str, wanted: str) -> None:
    """Stop this process at the point, if it is the first that comes there."""
    if point == wanted:
        try:
            FIRST.touch(exist_ok=False)
        except FileExistsError:
            return
        FIRST.write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)


async def acknowledge_later(delivery: Delivery) -> None:
    freeze("ended", "ended" if b"at-the-end" in delivery.data else "")
    await acknowledge(delivery)


Delivery.ack = acknowledge_later


class Clerk(Agent):
    """Freezes."""

    @register_action("Compute", {"point": "Where to freeze"})
    async def compute(self, point: str) -> str:
        """Nothing but the process."""
        freeze("begun", point)
        return str(os.getpid())

    @register_action("Act", {"point": "Where to freeze", "effects": "A file of what was done"})
    async def act(self, point: str, effects: str) -> str:
        """Adds the process to the file, as an effect."""
        freeze("begun", point)
        await self.context.progress("begins")
        freeze("claimed", point)
        async with self.context.effect("add a line"):
            freeze("noted", point)
            with Path(effects).open("a") as file:
                file.write(f"{os.getpid()}\\n")
        freeze("done", point)
        return str(os.getpid())

    @register_action("Wait", {"point": "Where to freeze", "seconds": "how long"})
    async def wait(self, point: str, seconds: float) -> str:
        """Nothing but the process."""
        freeze("begun", point)
        await asyncio.sleep(seconds)
        return str(os.getpid())

    @register_action("Die", {"deaths": "A file of who died"})
    async def die(self, deaths: str) -> None:
        """Kills its process before it has written anything."""
        with Path(deaths).open("a") as file:
            file.write(f"{os.getpid()}\\n")
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    run(Clerk, __file__)
'''
ATTEMPTS = 3


async def open_office(folder: Path, **more: str) -> Office:
    home = folder / "agents" / "clerk"
    home.mkdir(parents=True)
    (home / "profile.yaml").write_text("name: clerk\ndescription: Freezes.\nconcurrency: 4\n")
    (home / "__main__.py").write_text(CLERK)
    agents = str(folder / "agents")
    environment = {
        "MAILROOM_AGENTS_DIR": agents,
        "MAILROOM_MAX_ATTEMPTS": str(ATTEMPTS),
        "PYTHONPATH": f"{ROOT}:{agents}",
        "CLERK_FOLDER": str(folder),
        **more,
    }
    office = Office(folder, **environment)
    await office.open(["clerk"])
    return office


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    running = await open_office(tmp_path)
    try:
        yield running
    finally:
        await running.close()


async def submit(office: Office, task_id: str, action: str, **params: object) -> None:
    context = {"action": action, "params": params}
    task = Task(task_id=task_id, text=task_id, assignee="clerk", requester="user", context=context)
    await office.user.commit([submission_entry(task)])


async def frozen(tmp_path: Path) -> int:
    """The first process, once it has stopped itself."""

    def stopped() -> int:
        first = tmp_path / "first"
        process = int(first.read_text() or 0) if first.exists() else 0
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] if process else ""
        return process if state == "T" else 0

    return int(await eventually(stopped))


async def steps(office: Office, task_id: str) -> list[str]:
    found = await office.stored(subjects.task("clerk", "user", task_id, "*"))
    return [subject.rpartition(".")[2] for _, subject, _ in found]


async def still_works(office: Office, task_id: str) -> None:
    """Both processes go on with other tasks."""
    await asyncio.gather(*(submit(office, f"{task_id}-{n}", "compute", point="") for n in range(6)))
    results = await asyncio.gather(*(office.result("clerk", f"{task_id}-{n}") for n in range(6)))
    assert {each.status for each in results} == {TaskStatus.COMPLETED}


def lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


async def test_frozen_before_the_end_of_a_quick_task(office: Office, tmp_path: Path) -> None:
    await submit(office, "t", "compute", point="begun")
    first = await frozen(tmp_path)
    office.start("clerk", "-2")
    await office.ready("clerk", "-2")
    result = await office.result("clerk", "t")
    assert result.output == str(office.processes["clerk-2"].pid)
    os.kill(first, signal.SIGCONT)
    await still_works(office, "more")
    assert await steps(office, "t") == ["new", "claimed", "ended"]  # what comes again is claimed at once
    assert (await office.result("clerk", "t")).output == result.output


async def test_frozen_between_the_end_and_its_acknowledgement(office: Office, tmp_path: Path) -> None:
    await submit(office, "at-the-end", "compute", point="")
    first = await frozen(tmp_path)
    office.start("clerk", "-2")
    await office.ready("clerk", "-2")
    assert (await office.result("clerk", "at-the-end")).output == str(first)
    assert await steps(office, "at-the-end") == ["new", "ended"]
    await asyncio.sleep(2.5)  # longer than the message waits for its acknowledgement
    os.kill(first, signal.SIGCONT)
    await still_works(office, "more")
    assert await steps(office, "at-the-end") == ["new", "ended"]


@pytest.mark.parametrize("point", ["begun", "claimed", "noted", "done"])
async def test_frozen_at_each_point_of_a_task_with_an_effect(
    office: Office, tmp_path: Path, point: str
) -> None:
    """The effect happens at most once, and once a process is refused it has none."""
    effects = tmp_path / "effects"
    await submit(office, "t", "act", point=point, effects=str(effects))
    first = await frozen(tmp_path)
    office.start("clerk", "-2")
    await office.ready("clerk", "-2")
    second = str(office.processes["clerk-2"].pid)
    result: TaskResult = await office.result("clerk", "t")
    if point in ("begun", "claimed"):
        assert (result.status, result.output, lines(effects)) == (TaskStatus.COMPLETED, second, [second])
    else:
        # It may have happened, so the second did not do it again, and says so.
        assert result.status is TaskStatus.FAILED
        assert "was interrupted" in result.error_message
    os.kill(first, signal.SIGCONT)
    await still_works(office, "more")
    assert lines(effects) == [second if point in ("begun", "claimed") else str(first)]
    assert (await steps(office, "t")).count("ended") == 1
    assert await office.result("clerk", "t") == result


async def test_who_wakes_up_late_takes_the_task_from_nobody(office: Office, tmp_path: Path) -> None:
    """Its answer would be taken for the other's: were that killed then, nobody would do the task."""
    await submit(office, "t", "wait", point="begun", seconds=4.0)
    first = await frozen(tmp_path)
    office.start("clerk", "-2")
    await office.ready("clerk", "-2")

    async def taken_over() -> bool:
        return "claimed" in await steps(office, "t")

    await eventually(taken_over)
    os.kill(first, signal.SIGCONT)
    await still_works(office, "more")
    await asyncio.sleep(2.2)  # the first has noticed by now
    assert "ended" not in await steps(office, "t")
    office.kill("clerk-2")
    result = await office.result("clerk", "t")
    assert (result.status, result.output) == (TaskStatus.COMPLETED, str(first))


async def test_two_processes_end_each_quick_task_once(office: Office) -> None:
    office.start("clerk", "-2")
    await office.ready("clerk", "-2")
    await asyncio.gather(*(submit(office, f"t{n}", "compute", point="") for n in range(200)))
    results = await asyncio.gather(*(office.result("clerk", f"t{n}") for n in range(200)))
    assert {each.status for each in results} == {TaskStatus.COMPLETED}
    ends = await office.stored(subjects.task("clerk", "user", "*", "ended"))
    assert len(ends) == 200


@pytest.mark.parametrize("most", [1, ATTEMPTS])
async def test_a_task_that_kills_its_process_is_given_up(tmp_path: Path, most: int) -> None:
    """It dies before its first write, so nothing but the deliveries tells of the first death."""
    office = await open_office(tmp_path, MAILROOM_MAX_ATTEMPTS=str(most))
    try:
        deaths = tmp_path / "deaths"
        await submit(office, "t", "die", deaths=str(deaths))
        for number in range(1, most + 1):
            await eventually(lambda number=number: len(lines(deaths)) == number)
            office.processes["clerk"].wait()
            office.start("clerk")
            await office.ready("clerk")
        result = await office.result("clerk", "t")
        assert result.status is TaskStatus.FAILED
        assert result.error_message == f"it was begun {most} times and never finished"
        assert len(lines(deaths)) == most
        (letter,) = await office.stored(subjects.dead("clerk"))
        assert DeadLetter.from_json(letter[2]).task_id == "t"
        await still_works(office, "more")
    finally:
        await office.close()
