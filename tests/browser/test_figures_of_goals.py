"""From figures to goals: periods, drilling down, kept filters, goals side by side, budgets, links."""

import re

import httpx2
from playwright.async_api import expect

from shared.contracts import generate_id
from tests.browser.goals import find, submit, waiting
from tests.browser.pages import Desk, require_good_looks
from tests.support.gateway import RunningGateway
from tests.support.waiting import eventually


def unique(words: str) -> str:
    return f"{words} {generate_id()[-8:]}"


async def test_a_period_is_chosen_and_a_figure_leads_to_its_goals(
    desk: Desk, axe: None, ada: httpx2.AsyncClient
) -> None:
    text = unique("Wait a little")
    await submit(ada, waiting(text))
    await find(ada, text, "ended")
    page = await desk.open("/figures")
    await page.get_by_role("button", name="24 h", exact=True).click()
    await expect(page).to_have_url(re.compile("period=24h"))
    await desk.go(page, page.url)  # a shared link shows the same
    chosen = page.get_by_role("button", name="24 h", exact=True)
    await expect(chosen).to_have_attribute("aria-pressed", "true")
    await page.get_by_role("button", name="Own range").click()
    await page.get_by_label("from").fill("2020-01-01")
    await page.get_by_label("to", exact=True).fill("2020-01-02")
    tasks = page.get_by_role("article", name="Tasks ended")
    await expect(tasks).to_contain_text("No task has ended")
    await expect(tasks.get_by_role("link")).to_have_count(0)
    await page.get_by_role("button", name="Today", exact=True).click()
    await tasks.get_by_role("link", name="Tasks ended").click()
    await expect(page.get_by_text("counted in")).to_contain_text("Tasks ended")
    await expect(page.get_by_role("link", name=text)).to_be_visible()
    await require_good_looks(page, "goals-of-figure")
    await page.get_by_role("button", name="All goals, of any time").click()
    await expect(page.get_by_text("counted in")).to_have_count(0)
    await desk.go(page, "/goals?figure=nothing")
    desk.faults.tolerate("422")
    await expect(page.get_by_role("alert")).to_contain_text("no goals of a figure")


async def test_filters_are_kept_under_names(desk: Desk, ada: httpx2.AsyncClient) -> None:
    page = await desk.open("/goals?outcome=failed&agent=scout")
    await page.get_by_role("button", name="Save filter").click()
    await page.keyboard.type("<b>Mine</b>")
    await page.keyboard.press("Control+Enter")
    saved = page.get_by_role("group", name="Saved filters")
    await expect(saved.get_by_role("button", name="<b>Mine</b>", exact=True)).to_be_visible()
    await saved.get_by_role("button", name="Clear").click()
    await expect(page).not_to_have_url(re.compile("outcome"))
    await desk.go(page, "/goals")
    await saved.get_by_role("button", name="<b>Mine</b>", exact=True).click()
    await expect(page).to_have_url(re.compile("outcome=failed.*agent=scout|agent=scout.*outcome=failed"))
    await saved.get_by_role("button", name="Forget the filter").click()
    await page.evaluate("localStorage.setItem('mailroom.filters.goals', '[{\"name\": 5}, \"x\"')")
    await desk.go(page, "/goals")
    await expect(page.get_by_role("heading", level=1)).to_be_visible()


async def test_two_goals_stand_side_by_side(desk: Desk, axe: None, ada: httpx2.AsyncClient) -> None:
    one, other = unique("Wait once"), unique("Wait twice")
    first, second = await submit(ada, waiting(one)), await submit(ada, waiting(other))
    await find(ada, one, "ended")
    await find(ada, other, "ended")
    page = await desk.open(f"/goals/{first}")
    await page.keyboard.press("c")
    await page.get_by_role("searchbox", name="Words in a goal").fill(other)
    await page.get_by_role("link", name=other).click()
    await expect(page).to_have_url(re.compile(f"/compare/{first}/{second}"))
    answer = await page.goto(page.url)  # a shared link shows the same
    assert answer is not None
    assert answer.status == 200
    for name in ("Plan", "Agents", "Time", "Tokens"):
        await expect(page.get_by_role("rowheader", name=name)).to_be_visible()
    await expect(page.get_by_role("row").filter(has_text="Goal")).to_contain_text("differs")
    await require_good_looks(page, "compare")


async def test_the_budget_of_a_goal_at_work_is_set_on_its_page(desk: Desk, ada: httpx2.AsyncClient) -> None:
    text = unique("Wait for an hour")
    goal_id = await submit(ada, waiting(text, 3600))
    await find(ada, text, "working")
    page = await desk.open(f"/goals/{goal_id}")
    for said, answer in (("much", "is no budget"), ("300k,$2", "Set")):
        await page.get_by_role("button", name="Budget").click()
        await page.get_by_role("dialog").get_by_label("Budget").fill(said)
        await page.keyboard.press("Control+Enter")
        await expect(page.locator(".toasts")).to_contain_text(answer)
    desk.faults.tolerate("422")

    async def is_set() -> bool:
        budget = (await ada.get(f"/goals/{goal_id}")).json()["budget"]
        return (budget["goal_tokens"], budget["goal_cost"]) == (300_000, 2.0)

    await eventually(is_set, 20)
    await ada.post(f"/goals/{goal_id}/cancel", json={})


async def test_links_are_told_by_type_with_what_the_linker_did(
    desk: Desk, axe: None, office: RunningGateway
) -> None:
    page = await desk.open("/memory?tab=links")
    await expect(page.get_by_role("heading", name="The linker")).to_be_visible()
    await expect(page.get_by_role("heading", name="By type")).to_be_visible()
    await require_good_looks(page, "memory-links")
