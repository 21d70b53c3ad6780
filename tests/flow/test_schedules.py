"""Goals on a schedule: one goal a run, whatever is killed, delivered again or done twice at once."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from services.nexus.__main__ import Nexus
from shared import subjects
from shared.bus.entry import seal
from shared.contracts import (
    Due,
    DueKind,
    DueStatus,
    Goal,
    NightState,
    Question,
    StateChanged,
    Task,
    TaskStatus,
    TimerDue,
    generate_id,
)
from shared.contracts.records import OfficeState
from shared.tasks.profiles import Profile
from shared.timetable import TimetableKeeper, due_record, read_timetable
from tests.support.classifying import serve_classifiers
from tests.support.team import Team, open_team

pytestmark = pytest.mark.timeout(60)

NEXUS = Profile(name="nexus", description="The front desk.", options={"morning": "", "evening": ""})
EVERY_MINUTE = "RRULE:FREQ=MINUTELY"


class Desk:
    """Nexus, and what it has submitted."""

    def __init__(self, team: Team, nexus: Any) -> None:
        self.team, self.nexus = team, nexus
        self.now = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(hours=1)
        self.service = self.another_process()
        nexus.timetable.clock = lambda: self.now

    def another_process(self) -> TimetableKeeper:
        keeper = TimetableKeeper(self.nexus.context.bus, self.team.config, lambda: self.now)
        keeper.kinds = self.nexus.timetable.kinds
        return keeper

    async def add(self, when: str, text: str = "Check up on /srv/shop") -> str:
        added = await self.team.perform("nexus", "schedule_goal", text=text, when=when)
        assert added.status is TaskStatus.COMPLETED, added.error_message
        return str(added.metadata["schedule"]["due_id"])

    async def kept(self) -> list[Due]:
        return (await read_timetable(self.team.user)).of(DueKind.GOAL)

    async def find(self, schedule_id: str) -> Due:
        return next(each for each in await self.kept() if each.due_id == schedule_id)

    async def ask(self, text: str) -> dict[str, Any]:
        question = Question(id=generate_id(), sender="user", recipient="nexus", text=text)
        await self.team.write(question, "nexus")
        while True:
            answer = await self.team.receive("nexus")
            if answer.get("cause") == question.id:
                return answer
            await asyncio.sleep(0.02)

    async def goals(self, schedule_id: str) -> list[dict[str, Any]]:
        request = {"seq": 1, "next_by_subj": subjects.submitted_by("nexus"), "batch": 200}
        found = [json.loads(each.data) async for each in self.team.user.read(subjects.OFFICE, request)]
        return [each for each in found if each["context"].get("schedule") == schedule_id]

    async def end(self, goal_id: str, status: TaskStatus = TaskStatus.COMPLETED) -> None:
        conductor = await self.team.connect(subjects.CONDUCTOR)
        goal = Goal(
            goal_id=goal_id, text="x", requester="user", status=status, submitted_at=self.now.isoformat()
        )
        change = StateChanged(
            id=generate_id(), sender="conductor", goal_id=goal_id, state=OfficeState.IDLE, goal=goal
        )
        await conductor.commit([seal(subjects.goal(goal_id), change)])
        await conductor.close()


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_team(
        tmp_path, ["nexus", "memory", "conductor", "helper"], MAILROOM_TIME_ZONE="UTC"
    ) as team:
        await serve_classifiers(team)
        yield Desk(team, await team.join(Nexus, NEXUS))


def due(schedule_id: str) -> TimerDue:
    return TimerDue(sender="nexus", recipient="nexus", due_id=schedule_id)


async def test_every_minute_for_an_hour_is_sixty_goals_though_each_timer_comes_four_times(desk: Desk) -> None:
    schedule_id = await desk.add(EVERY_MINUTE)
    services = [desk.service, desk.another_process()]
    for _ in range(60):
        desk.now += timedelta(minutes=1)
        await asyncio.gather(*(each.on_due(due(schedule_id)) for each in [*services, *services]))
    goals = await desk.goals(schedule_id)
    assert len(goals) == len({goal["goal_id"] for goal in goals}) == 60
    found = await desk.find(schedule_id)
    assert (found.runs, found.missed, found.last) == (60, 0, goals[-1]["goal_id"])
    assert {(goal["text"], goal["requester"]) for goal in goals} == {("Check up on /srv/shop", "user")}
    assert all(goal["said"]["by"] == "nexus" for goal in goals)


async def test_a_run_waits_for_the_end_of_the_one_before(desk: Desk) -> None:
    schedule_id = await desk.add(EVERY_MINUTE)
    desk.now += timedelta(minutes=1)
    await desk.service.on_due(due(schedule_id))
    first = (await desk.find(schedule_id)).last
    await desk.end(first, TaskStatus.IN_PROGRESS)
    desk.now += timedelta(minutes=1)
    await desk.service.on_due(due(schedule_id))
    found = await desk.find(schedule_id)
    assert (found.runs, found.missed) == (1, 1)
    assert f"the goal of the run before, {first}, still works" in found.note
    refused = await desk.team.perform("nexus", "run_schedule", schedule=schedule_id)
    assert f"The run before, {first}, still works" in refused.error_message
    await desk.end(first)
    desk.now += timedelta(minutes=1)
    await desk.service.on_due(due(schedule_id))
    assert (await desk.find(schedule_id)).runs == 2


async def test_the_budget_of_a_night_holds_runs_until_it_ends_and_single_ones_until_the_next(
    tmp_path: Path,
) -> None:
    settings = {"MAILROOM_TIME_ZONE": "UTC", "MAILROOM_NIGHT": "22:00-06:00", "MAILROOM_NIGHT_TOKENS": "1000"}
    async with open_team(tmp_path, ["nexus", "memory", "conductor", "cortex"], **settings) as team:
        desk = Desk(team, await team.join(Nexus, NEXUS))
        cortex = await team.connect(subjects.CORTEX)
        tonight = desk.now.replace(hour=22, minute=0) + timedelta(days=1)
        next_night = tonight + timedelta(days=1)

        async def spend(began: datetime, tokens: int) -> None:
            night = NightState(
                id=generate_id(), sender="cortex", began_at=began.isoformat(), tokens=tokens, held=""
            )
            await cortex.commit([seal(subjects.record("cortex", "night", "now"), night)])

        async def run_at(schedule_id: str, moment: datetime) -> Due:
            desk.now = moment
            await desk.service.on_due(due(schedule_id))
            return await desk.find(schedule_id)

        hourly = await desk.add("RRULE:FREQ=HOURLY")
        once = await desk.add(f"{next_night - timedelta(hours=22):%Y-%m-%d} at 00:30")
        await spend(tonight - timedelta(days=1), 5_000)  # the night before: of no interest
        assert (await run_at(hourly, tonight + timedelta(hours=1))).runs == 1
        await spend(tonight, 999)
        assert (await run_at(hourly, tonight + timedelta(hours=2))).runs == 2
        await spend(tonight, 1_000)
        held = await run_at(hourly, tonight + timedelta(hours=3))
        assert (held.runs, held.note.count("the night's budget is spent: 1,000 of 1,000 tokens")) == (2, 1)
        waits = await run_at(once, tonight + timedelta(hours=3))
        assert (waits.runs, datetime.fromisoformat(waits.at)) == (0, next_night)
        begun = await desk.team.perform("nexus", "run_schedule", schedule=hourly)
        assert begun.status is TaskStatus.COMPLETED, begun.error_message
        await desk.end((await desk.find(hourly)).last)
        assert (await run_at(hourly, tonight + timedelta(hours=9))).runs == 4  # by day
        assert (await run_at(once, next_night)).runs == 1
        await cortex.close()


async def test_a_run_that_was_missed_begins_at_the_start_and_a_timer_of_the_broker_wakes_nexus(
    desk: Desk,
) -> None:
    schedule_id = await desk.add(EVERY_MINUTE)
    await desk.team.leave(desk.nexus)
    # As after three hours in which no process was there, by the clock of the machine.
    bus = await desk.team.connect("nexus")
    record = (await read_timetable(bus)).records[schedule_id]
    early = (datetime.now(UTC) - timedelta(hours=3)).isoformat()
    missed = msgspec.structs.replace(record.value, id=generate_id(), at=early)
    await bus.commit([seal(due_record(schedule_id), missed, expect=record.seq)])
    await bus.close()
    await desk.team.join(Nexus, NEXUS)
    while not (goals := await desk.goals(schedule_id)):
        await asyncio.sleep(0.05)
    assert len(goals) == 1


async def test_it_is_listed_paused_resumed_begun_and_removed(desk: Desk) -> None:
    schedule_id = await desk.add("every weekday at 07:00")
    listed = await desk.team.perform("nexus", "list_schedules")
    assert f"{schedule_id}  every weekday at 07:00: Check up on /srv/shop" in listed.output
    assert len(listed.metadata["schedules"][0]["next_runs"]) == 3
    paused = await desk.team.perform("nexus", "pause_schedule", schedule="shop")
    assert f"mailroom schedule resume {schedule_id}" in paused.output
    desk.now += timedelta(days=2)
    await desk.service.on_due(due(schedule_id))
    assert await desk.goals(schedule_id) == []
    resumed = await desk.team.perform("nexus", "resume_schedule", schedule=schedule_id)
    assert "goes on. Next: " in resumed.output
    begun = await desk.team.perform("nexus", "run_schedule", schedule=schedule_id)
    assert [goal["goal_id"] for goal in await desk.goals(schedule_id)] == [begun.metadata["goal_id"]]
    removed = await desk.team.perform("nexus", "remove_schedule", schedule=schedule_id)
    assert "is removed" in removed.output
    assert "No goal is on a schedule" in (await desk.team.perform("nexus", "list_schedules")).output
    gone = await desk.team.perform("nexus", "show_schedule", schedule=schedule_id)
    assert "There is no schedule" in gone.error_message


async def test_agents_can_neither_add_nor_change_a_schedule(desk: Desk) -> None:
    schedule_id = await desk.add("every weekday at 07:00")
    helper = await desk.team.connect("helper")
    for action, params in (
        ("schedule_goal", {"text": "Send me the keys", "when": "every day at 07:00"}),
        ("remove_schedule", {"schedule": schedule_id}),
        ("run_schedule", {"schedule": schedule_id}),
    ):
        task = Task(
            task_id=f"t-{action}",
            text="Do it",
            assignee="nexus",
            requester="helper",
            context={"action": action, "params": params},
        )
        await helper.commit([seal(subjects.task("nexus", "helper", task.task_id, "new"), task, expect=0)])
        result = await desk.team.result("nexus", "helper", task.task_id)
        assert "is for people alone, and helper is an agent" in result.error_message
    assert (await desk.find(schedule_id)).status is DueStatus.WAITING
    assert len(await desk.kept()) == 1


async def test_a_time_that_is_not_clear_is_asked_about_and_nothing_is_kept(desk: Desk) -> None:
    asked = await desk.team.perform("nexus", "schedule_goal", text="Look", when="now and then")
    assert asked.status is TaskStatus.FAILED
    assert "every weekday at 7" in asked.error_message or "Name one time" in asked.error_message
    assert await desk.kept() == []


async def test_a_message_puts_a_goal_on_a_schedule_and_says_how_to_stop_it(desk: Desk) -> None:
    answer = await desk.ask("every night at 2 run the tests of /srv/shop")
    (schedule,) = await desk.kept()
    assert schedule.text == "run the tests of /srv/shop"
    assert answer["text"].startswith(f"{schedule.due_id} runs every day at 02:00: run the tests of /srv/shop")
    assert f"mailroom schedule remove {schedule.due_id}" in answer["text"]
    asked = await desk.ask("/schedule run the tests of /srv/shop")
    assert asked["outcome"] == "failed"
    assert len(await desk.kept()) == 1
    assert "is removed" in (await desk.ask(f"/schedule remove {schedule.due_id}"))["text"]
