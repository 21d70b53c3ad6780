"""Reminders of a real nexus process: killed again and again, stopped, asked through the command."""

import asyncio
import json
import random
import signal
import subprocess
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from services.cli import api
from shared import subjects
from shared.access.credentials import find_address, read_command_token
from shared.bus.pulls import PULL_EXPIRES
from shared.bus.records import submission_entry
from shared.contracts import DueKind, DueStatus, Task
from shared.timetable import read_timetable
from tests.support.office import Office
from tests.support.server import run_mailroom
from tests.support.waiting import eventually


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Office]:
    """An office of nexus alone."""
    running = Office(tmp_path, MAILROOM_TIME_ZONE="Europe/Zurich")
    try:
        await running.open(["nexus"])
        yield running
    finally:
        await running.close()


async def statuses(office: Office) -> dict[str, DueStatus]:
    return {each.text: each.status for each in (await read_timetable(office.user)).of(DueKind.MAIL)}


async def letters(office: Office) -> Counter[str]:
    found = [json.loads(data) for _, _, data in await office.stored(subjects.mail("user", "nexus"))]
    return Counter(each["subject"] for each in found if each["type"] == "email.v1")


def wish(number: int, when: str) -> Task:
    params = {"text": f"thing {number}", "when": when}
    return Task(
        task_id=f"wish{number}",
        text="remind me",
        assignee="nexus",
        requester="user",
        context={"action": "set_reminder", "params": params},
    )


async def test_killed_at_any_point_each_reminder_goes_off_once(desk: Office) -> None:
    begun, count = datetime.now(UTC), 30
    chance = random.Random(7)
    for number in range(count):
        due = begun + timedelta(seconds=1 + 5 * number / count)
        await desk.user.commit([submission_entry(wish(number, due.isoformat()))])
    for _ in range(4):
        await asyncio.sleep(chance.uniform(0.1, 0.7))
        desk.kill("nexus")
        desk.start("nexus")
        await desk.ready("nexus")

    async def all_went_off() -> bool:
        found = await statuses(desk)
        return len(found) == count and set(found.values()) == {DueStatus.FIRED}

    await eventually(all_went_off, 30)
    await asyncio.sleep(1)
    told = await letters(desk)
    assert told == {f"Reminder: thing {number}": 1 for number in range(count)}


async def test_a_frozen_process_that_wakes_up_late_reminds_nobody_again(desk: Office) -> None:
    begun, count = datetime.now(UTC), 12
    for number in range(count):
        due = begun + timedelta(seconds=1 + number / 10)
        await desk.user.commit([submission_entry(wish(number, due.isoformat()))])
    desk.start("nexus", "-2")
    await desk.ready("nexus", "-2")
    desk.signal("nexus", signal.SIGSTOP)

    async def all_went_off() -> bool:
        found = await statuses(desk)
        return len(found) == count and set(found.values()) == {DueStatus.FIRED}

    # What is delivered to the frozen one comes back after ack_wait, and may go to it again until its standing
    # request expires.
    await eventually(all_went_off, PULL_EXPIRES + 15)
    desk.signal("nexus", signal.SIGCONT)
    await asyncio.sleep(1.5)
    assert set((await letters(desk)).values()) == {1}


def mailroom(office: Office, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_mailroom({**office.environment, "COLUMNS": "100"}, *arguments)


async def test_the_command_sets_lists_puts_off_and_ends(desk: Office) -> None:
    away = await asyncio.to_thread(mailroom, desk, "reminders", "list")
    assert away.returncode == 1
    assert "mailroom up" in away.stderr
    assert "Traceback" not in away.stderr
    desk.start("gateway")
    await desk.ready("gateway")

    async def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return await asyncio.to_thread(mailroom, desk, "reminders", *arguments)

    empty = await run("list")
    assert empty.stdout.startswith("There are no open reminders.")
    added = await run("add", "call Ana tomorrow at 9")
    assert added.returncode == 0, added.stderr
    assert "at 09:00 (Europe/Zurich, UTC+0" in added.stdout
    again = json.loads((await run("add", "water the plants", "--at", "in 3 hours", "--json")).stdout)
    assert again["text"] == "water the plants"
    listed = json.loads((await run("list", "--json")).stdout)
    assert [each["text"] for each in listed] == ["water the plants", "call Ana"] or len(listed) == 2
    unclear = await run("add", "call Ana on 3 May 2031")
    assert unclear.returncode == 1
    assert "At what time on Saturday 3 May?" in unclear.stderr
    assert "Traceback" not in unclear.stderr
    snooze_until = await run("snooze", "plants", "--for", "2h")
    assert "is put off until" in snooze_until.stdout
    assert (await run("snooze", "plants", "--for", "soon")).returncode == 2
    assert "is done" in (await run("done", again["due_id"])).stdout
    cancelled = json.loads((await run("cancel", "Ana", "--json")).stdout)
    assert cancelled["status"] == "cancelled"
    assert (await run("list")).stdout.startswith("There are no open reminders.")
    assert len(json.loads((await run("list", "--all", "--json")).stdout)) == 2
    missing = await run("done", "r00000")
    assert missing.returncode == 1
    assert missing.stderr.startswith("Error: There is no reminder 'r00000'.")


async def test_the_command_says_that_nexus_is_away_and_an_action_is_given_once(desk: Office) -> None:
    desk.start("gateway")
    await desk.ready("gateway")
    login = api.Login(url=find_address(desk.config), token=read_command_token(desk.config))
    headers = {"Authorization": f"Bearer {login.token}", "Idempotency-Key": "once"}
    body = {"text": "Remind me", "params": {"text": "call Ana", "when": "tomorrow at 9"}}
    async with httpx.AsyncClient(base_url=f"{login.url}/api/v1/actions", headers=headers) as client:
        for _ in range(2):
            done = await client.post("set_reminder", json=body, timeout=30)
            assert (done.status_code, done.json()["status"]) == (200, "completed"), done.text
        assert list(await statuses(desk)) == ["call Ana"]
        assert (await client.post("forget_everything", json=body)).status_code == 404
        refused = await client.post("set_reminder", json=body, headers={"Authorization": "Bearer mr_no"})
        assert refused.status_code == 401
    desk.kill("nexus")
    began = asyncio.get_running_loop().time()
    away = await asyncio.to_thread(mailroom, desk, "reminders", "done", "Ana")
    assert asyncio.get_running_loop().time() - began < 40
    assert away.returncode == 1
    assert "nexus has not answered within 20 s; the task stays in its mailbox" in " ".join(
        away.stderr.split()
    )
    assert "mailroom status" in away.stderr
