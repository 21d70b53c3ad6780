"""Takes the pictures of README.md and docs/gateway.md, if MAILROOM_SCREENSHOTS names a folder for them."""

import base64
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, Route

from services.gateway.assets import is_complete, read_manifest
from tests.browser.pages import LOOKS, SCREENSHOTS, Desk, overflow, sign_in
from tests.browser.planted import HOME, PERSON, open_planted
from tests.support.gateway import RunningGateway

pytestmark = [
    pytest.mark.skipif(not SCREENSHOTS, reason="MAILROOM_SCREENSHOTS names no folder: make screenshots does"),
    pytest.mark.timeout(600),
]
SIZE = {"width": 1280, "height": 800}
QUALITY = 72
"""Of WebP, in percent: what still shows letters sharply."""
VIEWS = {
    "inbox": "/",
    "goals": "/goals",
    "goal": "/goals/check-up-parser",
    "diff": "/goals/fix-parser?tab=diff",
    "traffic": "/traffic?agent=conductor",
    "agents": "/agents/engineer",
    "memory": "/memory",
    "chat": "/chat/morning",
    "timetable": "/timetable",
    "figures": "/figures",
}
NARROW = ("inbox", "goal", "chat")
"""Views that are also shown as a phone has them."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def planted(chromium: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningGateway]:
    folder = tmp_path_factory.mktemp("planted")
    running = RunningGateway(folder)
    if not is_complete(running.config.assets, read_manifest()):
        pytest.skip("the dashboard's libraries are not installed: python -m services.gateway.assets")
    try:
        await open_planted(running, folder)
        yield running
    finally:
        await running.close()


async def test_pictures_of_each_view(planted: RunningGateway, browser: Browser) -> None:
    session = await sign_in(browser, planted.config, planted.url, PERSON)
    desk = Desk(browser, planted.url, session)
    for look in ("light", "dark", "narrow"):
        context = await desk.context()
        await show_as_at_home(context, planted.config.state_dir.parent)
        page = await context.new_page()
        shown = LOOKS[look]
        await page.set_viewport_size(shown["viewport"] if look == "narrow" else SIZE)
        await page.emulate_media(color_scheme=shown["color_scheme"])
        for name in NARROW if look == "narrow" else VIEWS:
            await desk.go(page, VIEWS[name])
            await page.mouse.move(0, 0)
            await page.wait_for_timeout(300)
            assert await overflow(page) <= 0, f"{name} in {look} is too wide"
            text = await page.locator("body").inner_text()
            for path in ("/tmp/", str(Path.home())):
                assert path not in text, f"{name} shows a path of this machine"
            await take(page, Path(SCREENSHOTS) / f"{name}-{look}.webp")
    await desk.close()


async def show_as_at_home(context: BrowserContext, folder: Path) -> None:
    """Show paths of the test's folder as those of a home; events, which do not end, are left alone."""
    shown = {str(folder): HOME, sys.base_prefix: "/usr", str(Path.home()): HOME}

    async def replace(route: Route) -> None:
        answer = await route.fetch()
        text = await answer.text()
        for path, instead in shown.items():
            text = text.replace(path, instead)
        await route.fulfill(response=answer, body=text)

    await context.route(lambda url: "/api/v1/" in url and "/events" not in url, replace)


async def take(page: Page, path: Path) -> None:
    """Store a picture as WebP, which has a quarter of a PNG's size."""
    path.parent.mkdir(parents=True, exist_ok=True)
    devtools = await page.context.new_cdp_session(page)
    taken = await devtools.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
    path.write_bytes(base64.b64decode(taken["data"]))
    await devtools.detach()
