"""The agents: who is at work, what waits, what each may do; paused, resumed, restarted, written to."""

import re

from playwright.async_api import expect

from shared import subjects
from tests.browser.pages import Desk, require_good_looks
from tests.support.gateway import RunningGateway
from tests.support.waiting import eventually

NEXT_KEY_GOES_TO = """async () => {
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "z", bubbles: true }));
  await null; // as between two keys: what is due at once is done, no frame is painted
  await null;
  return document.activeElement.closest("dialog[open]") && document.activeElement.textContent;
}"""


async def test_the_first_line_says_who_is_at_work(desk: Desk) -> None:
    page = await desk.open("/agents")
    first = re.compile(r"\d+ agents? and the gateway running, ")
    await expect(page.get_by_role("heading", level=1)).to_have_text(first)
    row = page.get_by_role("link", name=re.compile("^engineer"))
    await expect(row).to_contain_text(re.compile(r"idle|busy"))
    await expect(row).to_contain_text("mailbox empty")
    await expect(page.get_by_role("link", name=re.compile("^cortex"))).to_contain_text("not running")


async def test_an_agent_is_opened_by_keys_and_shows_its_rights(desk: Desk) -> None:
    page = await desk.open("/agents/critic")
    detail = page.get_by_role("complementary", name="Agent")
    await detail.get_by_text("May publish").click()
    await expect(detail).to_contain_text("mail.*.critic")
    await detail.get_by_text("May read").click()
    await expect(detail).to_contain_text("record.critic.*.*")
    await page.keyboard.press("k")
    await page.wait_for_url(re.compile(r"/agents/(?!critic)"))
    await page.keyboard.press("Escape")
    await page.wait_for_url(re.compile(r"/agents$"))


async def test_pausing_and_resuming_by_keys(desk: Desk) -> None:
    page = await desk.open("/agents/scout")
    detail = page.get_by_role("complementary", name="Agent")
    await page.keyboard.press("z")
    await expect(page.get_by_role("dialog")).to_contain_text("Pause scout?")
    await page.keyboard.press("Enter")
    await expect(detail).to_contain_text("paused", timeout=15_000)
    await expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("running"))
    await expect(page.locator(".meta")).to_contain_text("paused: scout")
    await page.keyboard.press("z")
    await page.keyboard.press("Enter")
    await expect(detail).to_contain_text("idle", timeout=15_000)


async def test_a_question_is_open_before_the_next_key(desk: Desk) -> None:
    page = await desk.open("/agents/scout")
    assert await page.evaluate(NEXT_KEY_GOES_TO) == "Pause"


async def test_a_letter_is_written_by_keys(desk: Desk, office: RunningGateway) -> None:
    page = await desk.open("/agents/nexus")
    await page.keyboard.press("w")
    await page.keyboard.type("Is there tea for the browser?")
    await page.keyboard.press("Control+Enter")
    await expect(page.get_by_role("status").filter(has_text="Sent")).to_be_visible()

    async def arrived() -> bool:
        letters = await office.office.stored(subjects.mail("nexus", subjects.USER))
        return any(b"tea for the browser" in data for _, _, data in letters)

    await eventually(arrived)


async def test_an_agent_that_does_not_exist(desk: Desk) -> None:
    page = await desk.open("/agents/nobody")
    await expect(page.get_by_role("heading", name="There is no such agent")).to_be_visible()


async def test_it_looks_good(desk: Desk, axe: None) -> None:
    page = await desk.open("/agents")
    await require_good_looks(page, "agents")
    await desk.go(page, "/agents/engineer")
    await expect(page.get_by_role("complementary", name="Agent")).to_contain_text("Load")
    await require_good_looks(page, "agents-detail")


async def test_people_with_limits_are_shown_with_what_they_used(desk: Desk, office: RunningGateway) -> None:
    async with office.client(name="limited") as admin:
        limits = {"open_goals": 3, "day_tokens": 200_000}
        (await admin.post("/api/v1/limits/limited", json=limits)).raise_for_status()
        page = await desk.open("/agents")
        await page.get_by_text("0 of 3 goals open, 0 of 200,000 tokens today").wait_for()
        await admin.post("/api/v1/limits/limited", json={})
