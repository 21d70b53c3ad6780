"""The traffic: proven whole, live, filtered, paused, opened down to the stored message, exported."""

import asyncio
import json
import re
from typing import Any

from playwright.async_api import Page, Route, expect

from shared import subjects
from shared.bus.entry import seal
from shared.contracts import Email
from tests.browser.pages import Desk, require_good_looks, until
from tests.support.gateway import RunningGateway

TALL = "document.querySelector('.rows').scrollHeight"
SCROLL = f"document.querySelector('.rows').scrollBy(0, 1e6); {TALL}"
NASTY = "<img src=x onerror=alert(1)>"


async def letter(office: RunningGateway, subject: str, number: int = 1, body: str = "Tea?") -> None:
    """Letters to a mailbox that nobody answers."""
    entries = [
        seal(
            subjects.mail("critic", subjects.USER),
            Email(sender=subjects.USER, recipient="critic", subject=f"{subject} {each}", body=body),
        )
        for each in range(number)
    ]
    for entry in entries:
        await office.office.user.store(entry.subject, entry.payload, headers={"Nats-Msg-Id": entry.id})


def rows(page: Page) -> Any:
    return page.locator(".rows .row")


async def test_names_are_whole_at_any_width(desk: Desk, office: RunningGateway) -> None:
    bus = await office.office.connect("engineer")
    said = Email(sender="engineer", recipient="conductor", subject="wide", body="Tea?")
    await bus.commit([seal(subjects.mail("conductor", "engineer"), said)])
    await bus.close()
    page = await desk.open("/traffic?agent=engineer")
    parties = rows(page).filter(has_text="wide").last.locator(".parties")
    for width in (1280, 1440, 2560, 3840):
        await page.set_viewport_size({"width": width, "height": 900})
        await expect(parties).to_have_text("engineer→conductor")
        wide, room = await parties.evaluate("each => [each.scrollWidth, each.clientWidth]")
        assert wide <= room, width
    await page.set_viewport_size({"width": 1280, "height": 900})


async def test_the_first_line_proves_that_it_is_whole(desk: Desk, office: RunningGateway) -> None:
    await letter(office, "first")
    page = await desk.open("/traffic")
    heading = page.get_by_role("heading", level=1)
    await expect(heading).to_have_text(re.compile(r"Whole: [\d,]+ messages, none missing"))
    await page.keyboard.press("v")
    await expect(heading).to_have_text(re.compile(r"Whole: [\d,]+ messages, none missing"))


async def test_a_row_opens_its_stored_message_by_keys_alone(desk: Desk, office: RunningGateway) -> None:
    await letter(office, "opened", body=NASTY)
    page = await desk.open("/traffic?subject=mail.critic.user")
    await expect(rows(page).first).to_contain_text("opened")
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    inspector = page.get_by_role("complementary", name="Message")
    await expect(inspector).to_contain_text("mail.critic.user")
    await expect(inspector.get_by_label("JSON")).to_contain_text(NASTY)
    assert re.search(r"message=OFFICE%3A\d+|message=OFFICE:\d+", page.url)
    assert await page.locator("img").count() == 0
    await page.reload()
    await expect(inspector).to_contain_text("mail.critic.user")
    await page.keyboard.press("Escape")
    await expect(inspector).to_have_count(0)


async def test_new_messages_come_in_and_pause_holds_them(desk: Desk, office: RunningGateway) -> None:
    page = await desk.open("/traffic?text=livetea&subject=mail.critic.user")
    await letter(office, "livetea one")
    await expect(rows(page)).to_have_count(1)
    await page.keyboard.press("p")
    await letter(office, "livetea two")
    await until(page, "document.querySelector('.notice.paused')?.textContent.includes('new message')")
    await expect(rows(page)).to_have_count(1)
    await page.keyboard.press("p")
    await expect(rows(page)).to_have_count(2)
    await page.keyboard.press("j")
    await letter(office, "livetea three")
    await expect(page.get_by_role("button", name=re.compile("1 new message"))).to_be_visible()
    await expect(rows(page)).to_have_count(2)
    await page.keyboard.press(".")
    await expect(rows(page)).to_have_count(3)


async def test_filters_are_in_the_address_and_typed_with_the_keyboard(
    desk: Desk, office: RunningGateway
) -> None:
    await letter(office, "findme")
    page = await desk.open("/traffic")
    await page.keyboard.press("/")
    await page.keyboard.type("findme")
    await page.wait_for_url("**text=findme**")
    await expect(rows(page).last).to_contain_text("findme")
    await page.keyboard.press("Tab")
    await page.keyboard.type("scout")
    await expect(page.get_by_role("heading", name="No message fits")).to_be_visible()
    await page.get_by_role("button", name="Clear").click()
    await expect(rows(page).first).to_be_visible()


async def test_thousands_of_messages_are_shown_a_window_at_a_time(desk: Desk, office: RunningGateway) -> None:
    await letter(office, "many", 700)
    page = await desk.open("/traffic?text=many&subject=mail.critic.user")
    await expect(rows(page).first).to_contain_text("many 699")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    oldest = rows(page).filter(has_text=re.compile(r"many 0\b"))
    for _ in range(12):
        if await oldest.count():
            break
        tall = await page.evaluate(SCROLL)
        await until(page, f"{TALL} > {tall} || document.querySelector('.rows').innerText.match(/many 0\\b/)")
    await expect(oldest).to_be_visible()
    assert await rows(page).count() < 80
    assert sum("/messages?" in url for url in asked) <= 5


async def test_what_comes_before_the_page_has_been_read_stays(desk: Desk, office: RunningGateway) -> None:
    await letter(office, "late before")
    page = await desk.open("/agents")
    answered = asyncio.Event()

    async def answer_late(route: Route) -> None:
        response = await route.fetch()
        await letter(office, "late after", 60)  # more than fit on the screen: nothing else is read meanwhile
        await expect(rows(page).first).to_contain_text("late after 59")
        await route.fulfill(response=response)
        answered.set()

    await page.route("**/api/v1/messages?*text=late*", answer_late, times=1)
    await page.goto("/traffic?text=late&subject=mail.critic.user")
    await asyncio.wait_for(answered.wait(), 20)
    await page.evaluate(SCROLL)
    await expect(rows(page).last).to_contain_text("late before")
    await page.evaluate("document.querySelector('.rows').scrollTo(0, 0)")
    await expect(rows(page).first).to_contain_text("late after 59")


async def test_what_is_shown_is_exported_as_json_lines(desk: Desk, office: RunningGateway) -> None:
    await letter(office, "exported", 3)
    page = await desk.open("/traffic?text=exported&subject=mail.critic.user")
    await expect(rows(page)).to_have_count(3)
    async with page.expect_download() as started:
        await page.get_by_role("link", name=re.compile("Export")).click()
    download = await started.value
    assert re.fullmatch(r"mailroom-\d+-\d+\.jsonl", download.suggested_filename)
    with open(await download.path(), encoding="utf-8") as file:  # noqa: ASYNC230, PTH123
        lines = [json.loads(line) for line in file]
    assert [line["body"]["subject"] for line in lines] == ["exported 0", "exported 1", "exported 2"]
    assert all(line["subject"] == "mail.critic.user" and line["seq"] for line in lines)


async def test_it_looks_good(desk: Desk, axe: None, office: RunningGateway) -> None:
    await letter(office, "shown")
    page = await desk.open("/traffic")
    await expect(rows(page).first).to_be_visible()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Whole")
    await require_good_looks(page, "traffic")
    await rows(page).first.click()
    await expect(page.get_by_label("JSON")).to_be_visible()
    await require_good_looks(page, "traffic-message")
