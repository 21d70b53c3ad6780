"""The briefing of the day in a browser: its sources lead to what they name; it is made by a button."""

import re
from datetime import UTC, datetime, timedelta

from playwright.async_api import expect

from services.nexus.briefings.lines import Section, Source, line
from services.nexus.briefings.told import Told, ToldStore
from shared.clock import read_zone
from tests.browser.pages import Desk, require_good_looks, settle
from tests.support.gateway import RunningGateway
from tests.support.waiting import eventually

GOAL, NODE = Source(kind="goal", id="g-tests"), Source(kind="memory", id="m-tax")
PAPER = Source(kind="arxiv", id="2611.00001v1")
ITEM = Source(kind="news", id="3fa2b1c9de")
HOSTILE = "<img src=x onerror=alert(1)> [goal g9](javascript:alert(1))"


async def test_the_day_is_told_with_its_sources(desk: Desk, office: RunningGateway, axe: None) -> None:
    nexus, now = await office.office.connect("nexus"), datetime.now(UTC)
    store, day = ToldStore(nexus), now.astimezone(read_zone(office.config.time_zone)).date()
    hostile = line(HOSTILE, Source(kind="web", id="javascript:alert(1)"))
    sections = (
        Section(
            key="failed", title="Failed", lines=(line("Run the tests of ~/src/shop: 2 tests fail", GOAL),)
        ),
        Section(key="due", title="Due", lines=(line("Tomorrow: The tax return is due", NODE),)),
        Section(key="new", title="New", lines=(line("Attention for shops", PAPER, ITEM), hostile)),
        Section(key="contradictions", title="Unresolved contradictions", problem="Not read.", missed=True),
    )
    told = Told(kind="morning", day=day, made_at=now, since=now - timedelta(days=1), sections=sections)
    _, seq = await store.read("morning", day)
    later = (Section(key="failed", title="Failed", lines=(line("Scan ~/src/shop: no network", GOAL),)),)
    await nexus.commit([store.entry(told.add((*sections[1:], *later), now), seq)])
    page = await desk.open("/today")
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Morning briefing, ")
    head = page.get_by_label("In short")
    await expect(head.get_by_role("listitem").first).to_contain_text("Failed: Run the tests of ~/src/shop")
    await expect(head.get_by_role("link", name="[goal g-tests]")).to_have_count(0)
    await expect(head.get_by_role("link", name="goal g-tests").first).to_have_attribute(
        "href", "/goals/g-tests"
    )
    await expect(page.get_by_role("region", name="Due")).to_contain_text("The tax return is due")
    link = page.get_by_role("region", name="New").get_by_role("link", name="arXiv:2611.00001v1")
    await expect(link).to_have_attribute("href", "https://arxiv.org/abs/2611.00001v1")
    await expect(page.get_by_role("button", name=re.compile(r"^Keep\b.*Attention"))).to_be_visible()
    await expect(page.get_by_role("button", name="Not for me")).to_have_count(1)
    await expect(page.get_by_role("region", name="Added")).to_contain_text("no network")
    await expect(page.get_by_text("It is tried again.")).to_be_visible()
    assert await page.locator("#view img").count() == 0
    assert await page.locator('#view a[href^="javascript"]').count() == 0
    await require_good_looks(page, "today")
    desk.faults.tolerate("404")
    await page.get_by_role("region", name="Due").get_by_role("link", name="memory m-tax").click()
    await expect(page).to_have_url(re.compile(r"/memory/m-tax"))
    await settle(page)


async def test_it_is_made_by_a_button(desk: Desk, office: RunningGateway) -> None:
    desk.faults.tolerate("404.*m-tax")  # the page before may still have read it
    page = await desk.open("/today")
    await page.get_by_role("button", name=re.compile("Look again|Make the morning")).click()
    await expect(page.locator(".toast")).to_contain_text("It is looked at")
    async with office.client(name="ana") as client:
        answer = await client.post("/api/v1/briefings", json={"kind": "noon"})
        assert answer.status_code == 422

        async def made() -> bool:
            return bool((await client.get("/api/v1/briefings/today")).json()["briefings"])

        await eventually(made, 60)
        today = (await client.get("/api/v1/briefings/today")).json()
        assert today["briefings"][0]["head"]
        missing = await client.get("/api/v1/briefings/2020-01-01/morning")
        assert missing.status_code == 404
        listed = (await client.get("/api/v1/briefings")).json()["briefings"]
        assert listed[0]["kind"] == "morning"
