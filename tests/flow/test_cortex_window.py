"""A night of the queue by a clock that is moved forward: the window, the budget and the load hold."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from services.conductor.__main__ import Conductor
from services.cortex.__main__ import Cortex
from services.cortex.job_files import Job, JobFolder, schedule_retry
from services.cortex.night_window import Machine
from shared import subjects
from shared.agent.base import Agent
from shared.bus.entry import seal
from shared.bus.records import read_record
from shared.contracts import DailySpending, NightState, TaskStatus, generate_id
from shared.tasks.actions import Outcome, register_action
from shared.tasks.profiles import Profile
from tests.flow.test_cortex_agent import CONDUCTOR, archived, drop, ended, running
from tests.support.team import Team, open_team

pytestmark = pytest.mark.timeout(60)

ZURICH = ZoneInfo("Europe/Zurich")
CORTEX = Profile(name="cortex", description="Plans.", options={"queue_poll": 0.02})
WRITER = Profile(name="writer", description="Writes.", concurrency=8)
EVENING = datetime(2026, 11, 23, 20, 0, tzinfo=ZURICH)


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now.astimezone(UTC)


class Rested(Machine):
    """A machine whose load the test decides."""

    busy, battery = 0.0, False

    def load(self) -> float:
        return self.busy

    def on_battery(self) -> bool:
        return self.battery


class Writer(Agent):
    """Uses tokens, as an agent with a model does: it records them before it ends."""

    clock = Clock(EVENING)
    at_work = most = 0

    @register_action("Write", {"tokens": "How many it uses"})
    async def write(self, tokens: int) -> Outcome:
        Writer.at_work += 1
        Writer.most = max(Writer.most, Writer.at_work)
        await spend(self, tokens)
        await asyncio.sleep(0.01)
        Writer.at_work -= 1
        return Outcome(output=f"{tokens} tokens")


async def spend(agent: Agent, tokens: int) -> None:
    bus, day = agent.context.bus, f"{Writer.clock():%Y-%m-%d}"
    record = await read_record(bus, subjects.record("writer", "spending", day), DailySpending)
    known, seq = (record.value, record.seq) if record else (DailySpending(day=day), 0)
    spent = DailySpending(
        id=generate_id(),
        sender="writer",
        day=day,
        input_tokens=known.input_tokens + tokens,
        cost=known.cost + 0.01,
    )
    await bus.commit([seal(subjects.record("writer", "spending", day), spent, expect=seq)])


class NightShift:
    """Cortex with a clock and a machine of the test's, and the writer."""

    def __init__(self, team: Team) -> None:
        self.team = team
        self.clock, self.machine, self.looks = Clock(EVENING), Rested(), 0
        Writer.clock, Writer.most, Writer.at_work = self.clock, 0, 0
        self.folder = team.config.state_dir / "job_queue"

    async def join(self) -> None:
        await self.team.join(Conductor, CONDUCTOR)
        self.writer = await self.team.join(Writer, WRITER)
        await self.join_cortex()

    async def join_cortex(self) -> None:
        shift = self

        class Timed(Cortex):
            def __init__(self, *arguments: Any) -> None:
                super().__init__(*arguments)
                self._worker.night.clock = self._worker.keeper.clock = shift.clock
                self._worker.night.machine = shift.machine
                look = self._worker.night.look

                async def counted() -> datetime:
                    shift.looks += 1
                    return await look()

                self._worker.night.look = counted

        self.cortex = await self.team.join(Timed, CORTEX)

    def count(self, folder: str) -> int:
        return len(list((self.folder / folder).glob("*.json")))

    async def done(self, count: int) -> None:
        while self.count("archive") < count or await running(self.team):
            await asyncio.sleep(0.02)

    async def idle(self) -> None:
        """Let cortex look at the queue, from its folder to what it begins, at least twice."""
        seen = self.looks
        while self.looks < seen + 4:
            await asyncio.sleep(0.02)
        while await running(self.team):
            await asyncio.sleep(0.02)

    async def jobs(self) -> dict[str, Any]:
        status = await self.team.perform("cortex", "queue_status")
        return dict(status.metadata)

    async def reason(self) -> str:
        return str((await self.jobs())["jobs"][0]["reason"])


@pytest.fixture
async def shift(tmp_path: Path) -> AsyncIterator[NightShift]:
    environment = {
        "MAILROOM_NIGHT": "22:00-06:00",
        "MAILROOM_NIGHT_LOAD": "1.5",
        "MAILROOM_NIGHT_ON_BATTERY": "false",
        "MAILROOM_NIGHT_TOKENS": "1000",
        "MAILROOM_TIME_ZONE": "Europe/Zurich",
    }
    async with open_team(tmp_path, ["cortex", "writer", "nexus", "conductor"], **environment) as team:
        yield NightShift(team)


def at(text: str, day: int = 23) -> datetime:
    return datetime.fromisoformat(f"2026-11-{day}T{text}:00").replace(tzinfo=ZURICH)


async def test_a_whole_night_holds_its_window_its_budget_and_its_load(shift: NightShift) -> None:
    await shift.join()
    await spend(shift.writer, 5_000)  # by day: it does not count for the night
    for number in range(20):
        drop(shift.team, f"j{number:02}", "writer.write tokens=100")
    await shift.idle()
    assert shift.count("archive") == 0
    assert (await shift.reason()).startswith(
        "for the night, which begins on Monday 23 November 2026 at 22:00"
    )
    shift.machine.busy = 1.6
    shift.clock.now = at("22:00")
    await shift.idle()
    assert shift.count("archive") == 0
    assert await shift.reason() == "the machine is busy: its load is over 1.5 for each core"
    shift.machine.busy, shift.machine.battery = 0.5, True
    await shift.idle()
    assert await shift.reason() == "the machine runs on its battery"
    shift.machine.battery = False
    shift.clock.now = at("23:30")
    await shift.done(10)
    await shift.idle()
    assert shift.count("archive") == 10
    assert Writer.most == 1  # with a budget, what one uses counts before the next begins
    assert await shift.reason() == "the night's budget is spent: 1,000 of 1,000 tokens"
    shift.clock.now = at("03:00", 24)  # another day (UTC), the same night
    await shift.idle()
    assert shift.count("archive") == 10
    shift.clock.now = at("06:00", 24)
    await shift.idle()
    status = await shift.team.perform("cortex", "queue_status")
    assert "10 waiting, 0 running, 10 done" in status.output
    assert "The night begins on Tuesday 24 November 2026 at 22:00" in status.output
    assert "writer.write tokens=100; it waits for the night\n" in status.output
    assert status.metadata["night"]["tokens"] == 1_000
    shift.clock.now = at("22:00", 24)
    await shift.done(20)
    await shift.idle()
    assert shift.count("failed") == shift.count("tonight") == 0
    record = await read_record(shift.team.user, subjects.record("cortex", "night", "now"), NightState)
    assert record is not None
    assert record.value.began_at == at("22:00", 24).astimezone(UTC).isoformat()


async def test_jobs_that_say_otherwise_do_not_wait_for_the_night(shift: NightShift) -> None:
    await shift.join()
    drop(shift.team, "now", "writer.write tokens=1", when="now")
    drop(shift.team, "timed", "writer.write tokens=1", run_at="2026-11-23T20:30:00")
    drop(shift.team, "late", "writer.write tokens=1", run_at="2026-11-23T20:30:00", when="night")
    await archived(shift.team, "now")
    await shift.idle()
    assert shift.count("archive") == 1
    shift.clock.now = at("20:30")
    await archived(shift.team, "timed")
    shift.machine.busy = 9.0
    drop(shift.team, "busy", "writer.write tokens=1", when="now")  # nor for the machine
    await archived(shift.team, "busy")
    assert "late" in (await shift.jobs())["waiting"]
    queued = await shift.team.perform("cortex", "queue_job", task="writer.write tokens=2")
    assert "It waits for the night, which begins on Monday 23 November 2026 at 22:00" in queued.output
    assert f"mailroom queue remove {queued.metadata['id']}" in queued.output
    await shift.team.perform("cortex", "run_job", job_id=queued.metadata["id"])
    assert (await archived(shift.team, queued.metadata["id"])).status is TaskStatus.COMPLETED


async def test_a_job_that_waits_is_moved_in_place(shift: NightShift) -> None:
    await shift.join()
    perform = shift.team.perform
    first = (await perform("cortex", "queue_job", task="writer.write tokens=1")).metadata["id"]
    second = (await perform("cortex", "queue_job", task="Read the song")).metadata["id"]
    moved = await perform("cortex", "move_job", about="writer", run_at="2026-11-23T20:30:00")
    assert moved.output.startswith(f"{first} now begins on Monday 23 November 2026 at 20:30")
    assert set((await shift.jobs())["waiting"]) == {first, second}
    which = await perform("cortex", "move_job", run_at="2026-11-23T20:30:00")
    assert which.error_message.startswith("Several jobs wait: ")
    assert f"{first} (" in which.error_message
    shift.clock.now = at("20:30")
    await archived(shift.team, first)
    assert (await shift.jobs())["waiting"] == [second]
    gone = await perform("cortex", "move_job", job_id=first)
    assert f"No job '{first}' waits" in gone.error_message
    back = await perform("cortex", "move_job", job_id=second)
    assert "now begins on Monday 23 November 2026 at 22:00" in back.output


async def test_a_job_at_work_when_the_night_ends_goes_on_and_survives_a_kill(
    shift: NightShift,
) -> None:
    await shift.join()
    shift.clock.now = at("05:59", 24)
    drop(shift.team, "before", "writer.write tokens=1")  # so that the conductor knows the writer
    await archived(shift.team, "before")
    drop(shift.team, "long", "writer.write tokens=1", retries=1)
    await shift.team.leave(shift.writer)  # nobody does its step yet
    while await running(shift.team) != ["long"]:
        await asyncio.sleep(0.02)
    shift.clock.now = at("07:00", 24)
    process = shift.team.processes.pop()
    await process.agent.context.bus.close()  # as a kill: nothing is handed back, nothing is archived
    await process.close()
    await shift.join()
    result = await archived(shift.team, "long")
    assert result.status is TaskStatus.COMPLETED
    await ended(shift.team)
    assert shift.count("archive") == 2


def test_a_job_that_failed_waits_for_the_night_again() -> None:
    by_night = schedule_retry(Job(id="a", task="x", retries=1), "t1", EVENING)
    assert by_night is not None
    assert by_night.waits_for_night
    timed = schedule_retry(Job(id="a", task="x", retries=1, run_at="2026-11-23T12:00:00"), "t1", EVENING)
    assert timed is not None
    assert not timed.waits_for_night


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    queue = JobFolder(tmp_path / "job_queue")
    queue.make()
    path = queue.tonight / "theirs.json"
    path.write_text(json.dumps({"id": "theirs", "task": "x"}))
    os.chown(path, 12_345, 12_345)
    assert queue.scan(10) == ([], 0)
    assert "it belongs to another user of this machine (uid 12345)" in queue.reasons()[0]


def test_a_wrong_when_is_refused_with_the_reason(tmp_path: Path) -> None:
    queue = JobFolder(tmp_path / "job_queue")
    queue.make()
    (queue.tonight / "j.json").write_text('{"id": "j", "task": "x", "when": "soon"}')
    assert queue.scan(10) == ([], 0)
    assert "Invalid enum value 'soon'" in queue.reasons()[0]
