"""What happens by itself, in a browser: reminders set, put off and cancelled; the queue of the night."""

import asyncio
import json
import re

from playwright.async_api import expect

from tests.browser.pages import Desk, require_good_looks
from tests.support.gateway import RunningGateway


async def test_a_reminder_by_the_keyboard(desk: Desk) -> None:
    page = await desk.open("/timetable")
    await expect(page.get_by_role("heading", level=1)).to_have_text(re.compile(r"^Next: "))
    await expect(page.get_by_text("The morning briefing").first).to_be_visible()
    await page.keyboard.press("n")
    await page.keyboard.type("to feed the gulls tomorrow at 9:00")
    await page.keyboard.press("Enter")
    row = page.locator(".upcoming", has_text="feed the gulls")
    await expect(row).to_contain_text("09:00")
    await row.get_by_role("button", name="1 h later").click()
    await expect(row).to_contain_text("10:00")
    await row.get_by_role("button", name="Cancel").click()
    await expect(row).to_have_count(0)


async def test_a_time_that_is_not_clear_is_asked_back(desk: Desk) -> None:
    page = await desk.open("/timetable")
    desk.faults.tolerate("422")
    field = page.get_by_label("Remind me")
    await field.fill("to feed the gulls")
    await field.press("Enter")
    await expect(page.locator(".toast.failed")).to_contain_text("time")
    await expect(field).to_have_value("to feed the gulls")


async def test_what_the_night_will_do(desk: Desk, office: RunningGateway, axe: None) -> None:
    night = office.config.state_dir / "job_queue" / "tonight"
    await asyncio.to_thread(night.mkdir, parents=True, exist_ok=True)
    job = {"id": "job-gulls", "task": "<img src=x> Count the gulls", "run_at": "2099-01-01T02:00:00+00:00"}
    (night / "job-gulls.json").write_text(json.dumps(job))
    page = await desk.open("/timetable")
    queue = page.get_by_role("region", name="The night's queue")
    await expect(queue).to_contain_text("<img src=x> Count the gulls")
    await expect(page.locator(".day", has_text="January")).to_contain_text("Count the gulls")
    assert await page.locator("#view img").count() == 0
    await require_good_looks(page, "schedule-night")


async def test_a_goal_is_put_on_a_schedule_paused_begun_and_removed(desk: Desk, axe: None) -> None:
    page = await desk.open("/timetable")
    panel = page.get_by_role("region", name="Goals on a schedule")
    await panel.get_by_label("Goal").fill("<img src=x> Count the gulls of /srv/shore")
    await panel.get_by_label("When").fill("every weekday at 7")
    await panel.get_by_role("button", name="Put on the schedule").click()
    row = panel.locator("li", has_text="Count the gulls")
    await expect(row).to_contain_text("every weekday at 07:00")
    await expect(page.locator(".day", has_text="goal on a schedule").first).to_be_visible()
    await row.get_by_role("button", name="Pause").click()
    await expect(row).to_contain_text("paused")
    await row.get_by_role("button", name="Resume").click()
    await expect(row).to_contain_text("next ")
    await row.get_by_role("button", name="Run now").click()
    await expect(row).to_contain_text("1 run")
    assert await page.locator("#view img").count() == 0
    await require_good_looks(page, "schedule-goals")
    await row.get_by_role("button", name="Remove").click()
    await page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    await expect(row).to_have_count(0)


async def test_a_time_of_a_schedule_that_is_not_clear_is_asked_back(desk: Desk) -> None:
    page = await desk.open("/timetable")
    desk.faults.tolerate("422")
    panel = page.get_by_role("region", name="Goals on a schedule")
    await panel.get_by_label("Goal").fill("Count the gulls")
    await panel.get_by_label("When").fill("now and then")
    await panel.get_by_role("button", name="Put on the schedule").click()
    await expect(page.locator(".toast.failed")).to_contain_text("every night at 2")
    await expect(panel.get_by_label("Goal")).to_have_value("Count the gulls")
