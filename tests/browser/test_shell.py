"""The frame of the dashboard: routes, keys, themes, small screens, what a screen reader meets."""

import pytest

from tests.browser.pages import Desk, require_good_looks, settle

KEY_GOES_TO = """async () => {
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "k", ctrlKey: true, bubbles: true }));
  await null; // as between two keys: what is due at once is done, no frame is painted
  await null;
  return document.activeElement.getAttribute("aria-label");
}"""

SHEETS = """[...document.querySelectorAll("head link[href^='/web/styles/']")]
  .filter((link) => link.media === "all").map((link) => link.href.replace(/.*\\/|\\.css$/g, ""))"""
"""The style sheets of views that count now."""
PATHS = {"morning": "/today", "board": "/goals", "memory": "/memory"}

VIEWS = {"inbox": "/", "board": "/goals", "memory": "/memory", "chat": "/chat", "timetable": "/timetable"}
"""Those whose own tests look at them only when they are filled; they look at the other views as they are."""


@pytest.mark.parametrize("view", VIEWS)
async def test_each_view_is_accessible_and_fits(desk: Desk, axe: None, view: str) -> None:
    page = await desk.open(VIEWS[view])
    await require_good_looks(page, view)


async def test_places_are_reached_by_two_keys(desk: Desk) -> None:
    page = await desk.open("/")
    for key, path in {"g": "/goals", "t": "/traffic", "a": "/agents", "m": "/memory", "i": "/"}.items():
        await page.keyboard.press("g")
        await page.keyboard.press(key)
        await page.wait_for_url(desk.url + path)
    await page.go_back()
    await page.wait_for_url(desk.url + "/memory")
    await page.reload()
    assert await page.get_by_role("link", name="Memory").get_attribute("aria-current") == "page"


async def test_a_view_looks_the_same_whatever_was_shown_before(desk: Desk) -> None:
    page = await desk.open("/memory")
    for view in ("morning", "board", "memory"):
        await page.locator(f"nav.places a[href='{PATHS[view]}']").click()
        await page.wait_for_url(desk.url + PATHS[view])
        await settle(page)
        assert await page.evaluate(SHEETS) == [view]


async def test_an_address_that_leads_nowhere_says_so(desk: Desk) -> None:
    desk.faults.tolerate("404")
    page = await desk.open("/no/such/page")
    assert await page.get_by_role("heading", level=1).inner_text() == "There is no such page"
    await page.get_by_role("link", name="To the inbox").click()
    await page.wait_for_url(f"{desk.url}/")


async def test_the_keys_of_a_page_are_listed(desk: Desk, axe: None) -> None:
    page = await desk.open("/goals")
    await page.keyboard.press("?")
    keys = await page.get_by_role("dialog", name="Keys").inner_text()
    for words in ("Submit a goal", "Go to Traffic", "board or list", "Search or run a command"):
        assert words.lower() in keys.lower(), words
    await require_good_looks(page, "keys")
    await page.keyboard.press("Escape")
    await page.get_by_role("dialog").wait_for(state="detached")
    await page.keyboard.press("Control+k")
    await page.locator(".palette [role=option]").first.wait_for()
    await require_good_looks(page, "palette")


async def test_what_is_typed_right_after_the_key_is_searched(desk: Desk) -> None:
    page = await desk.open("/agents")
    assert await page.evaluate(KEY_GOES_TO) == "Search or run a command"


async def test_tab_reaches_everything_and_begins_with_the_content(desk: Desk) -> None:
    page = await desk.open("/goals")
    await page.keyboard.press("Tab")
    assert await page.evaluate("document.activeElement.textContent") == "To the content"
    await page.keyboard.press("Enter")
    assert await page.evaluate("document.activeElement.id") == "view"
    await page.keyboard.press("Tab")
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert await page.evaluate(f"[document.activeElement.tagName, {outline}]") == ["BUTTON", "solid"]


async def test_without_its_libraries_the_page_says_what_to_run(desk: Desk) -> None:
    desk.faults.tolerate("404|Failed to fetch|ERR_FAILED")
    context = await desk.context()
    await context.route("**/web/vendor/**", lambda route: route.fulfill(status=404))
    page = await context.new_page()
    await page.goto("/")
    await page.get_by_text("make setup").wait_for()
    assert (await page.request.get("/api/v1/goals")).ok
