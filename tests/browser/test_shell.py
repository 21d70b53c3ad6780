"""The frame of the dashboard: routes, keys, themes, small screens, what a screen reader meets."""

import pytest

from tests.browser.pages import Desk, require_good_looks

VIEWS = {
    "inbox": "/",
    "board": "/goals",
    "traffic": "/traffic",
    "agents": "/agents",
    "memory": "/memory",
    "chat": "/chat",
    "schedule": "/schedule",
    "figures": "/figures",
}


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
