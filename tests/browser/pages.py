"""Pages of a real browser that is signed in at a real gateway, and what they did wrong."""

import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Locator,
    Page,
    Playwright,
    Request,
    WebError,
    expect,
)

from shared.settings import Settings
from tests.support.access import create_link
from tests.support.waiting import eventually

Session = Any
"""What a browser keeps of a sign-in."""
expect.set_options(timeout=20_000)
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "chrome")
ARGUMENTS = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-sandbox",  # as root, Chromium starts with nothing else; what it opens here is our own
]
AXE = Path(sys.prefix) / "browser" / "axe.min.js"
SETTLED = "body:has(main#view:not([aria-busy])):not(:has(.loading)):has(.dot.live, .dot.paused)"
SCREENSHOTS = os.environ.get("MAILROOM_SCREENSHOTS", "")
COLOURS = ("color-contrast", "link-in-text-block")
"""The rules of axe that another colour scheme can break: everything else on the page is the same."""
RUN_AXE = """(rules) => axe.run(document,
  { resultTypes: ["violations"], ...(rules.length && { runOnly: { type: "rule", values: rules } }) })"""
LOOKS = {
    "light": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
    "narrow": {"viewport": {"width": 360, "height": 740}, "color_scheme": "light"},
}
"""How pages are looked at: the options of their browser contexts."""


def find_chromium() -> str:
    """The path of the machine's Chromium; empty if there is none."""
    return next((path for name in CHROMIUM if (path := shutil.which(name))), "")


async def launch(playwright: Playwright) -> Browser:
    return await playwright.chromium.launch(executable_path=find_chromium(), args=ARGUMENTS)


class Faults:
    """What pages must not do: ask other hosts, fail to load something, write errors to the console."""

    def __init__(self, url: str) -> None:
        self._host = urlsplit(url).netloc
        self.foreign: list[str] = []
        self.errors: list[str] = []
        self.tolerated: list[str] = []

    def watch(self, context: BrowserContext) -> None:
        context.on("request", self._on_request)
        context.on("console", self._on_message)
        context.on("weberror", self._on_error)

    def watch_no_longer(self, context: BrowserContext) -> None:
        """For a test that has pages of others do what is wrong."""
        context.remove_listener("request", self._on_request)
        context.remove_listener("console", self._on_message)
        context.remove_listener("weberror", self._on_error)

    def _on_error(self, error: WebError) -> None:
        self.errors.append(str(error.error))

    def _on_message(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(f"{message.text} ({message.location.get('url', '')})")

    def _on_request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob", "about") and parts.netloc != self._host:
            self.foreign.append(request.url)

    def tolerate(self, pattern: str) -> None:
        """Errors in which ``pattern`` is found are what a test wants."""
        self.tolerated.append(pattern)

    def require_none(self) -> None:
        unexpected = [
            error for error in self.errors if not any(re.search(each, error) for each in self.tolerated)
        ]
        assert not self.foreign, f"requests to other hosts: {self.foreign}"
        assert not unexpected, f"errors in the browser: {unexpected}"


async def sign_in(browser: Browser, config: Settings, url: str, person: str = "") -> Session:
    """Sign a browser in by a link, once; what it keeps of that. ``person``: by default the only one."""
    context = await browser.new_context(base_url=url)
    headers = {"Origin": url, "Sec-Fetch-Site": "same-origin"}
    code = create_link(config, person).partition("#")[2]
    answer = await context.request.post("/api/v1/session", data={"link": code}, headers=headers)
    assert answer.ok, await answer.text()
    session = await context.storage_state()
    await context.close()
    return session


async def new_context(browser: Browser, url: str, session: Session | None) -> BrowserContext:
    context = await browser.new_context(
        base_url=url, storage_state=session, reduced_motion="reduce", **LOOKS["light"]
    )
    context.set_default_timeout(30_000)
    return context


class Desk:
    """A person's browser at the office: pages that are signed in, and their faults.

    ``page`` is one that others used before: a new browser takes four times as long to load it.
    """

    def __init__(self, browser: Browser, url: str, session: Session, page: Page | None = None) -> None:
        self.browser, self.url = browser, url
        self.faults = Faults(url)
        self._session, self._page = session, page
        self._contexts: list[BrowserContext] = []
        if page:
            self.faults.watch(page.context)

    async def context(self, signed_in: bool = True) -> BrowserContext:
        """A browser of its own."""
        context = await new_context(self.browser, self.url, self._session if signed_in else None)
        self._contexts.append(context)
        self.faults.watch(context)
        return context

    async def open(self, path: str) -> Page:
        """The desk's page, shown and live, in a browser that has kept nothing but the session."""
        if self._page is None:
            return await self.open_other(path)
        await self._page.evaluate("location.origin === 'null' || localStorage.clear()")
        return await self.go(self._page, path)

    async def open_other(self, path: str) -> Page:
        """A page of another browser."""
        return await self.go(await (await self.context()).new_page(), path)

    async def go(self, page: Page, path: str) -> Page:
        """Go to a path as somebody who types its address."""
        await page.goto(path, wait_until="load")
        await settle(page)
        return page

    async def close(self) -> None:
        """Close the pages, and see that none did what it must not."""
        for context in self._contexts:
            await context.close()
        self._contexts.clear()
        if self._page:
            self.faults.watch_no_longer(self._page.context)
        self.faults.require_none()


async def settle(page: Page) -> None:
    """Wait until a view is shown, has read what it shows, and is live."""
    await page.wait_for_selector(SETTLED, state="attached")


async def look_at(page: Page, look: str) -> None:
    """Give a page that is open another one of LOOKS."""
    await page.set_viewport_size(LOOKS[look]["viewport"])
    await page.emulate_media(color_scheme=LOOKS[look]["color_scheme"])


async def require_good_looks(page: Page, name: str) -> None:
    """No serious fault of axe in light and dark, no scrolling sideways at 360 px; takes screenshots."""
    try:
        for look in LOOKS:
            await look_at(page, look)
            if look != "narrow":
                faults = await run_axe(page, [] if look == "light" else COLOURS)
                assert not faults, f"{name} in {look}: {faults}"
            assert await overflow(page) <= 0, f"{name} in {look} is too wide"
            await shoot(page, f"{name}-{look}")
    finally:
        await look_at(page, "light")


async def run_axe(page: Page, rules: Sequence[str] = ()) -> list[str]:
    """The serious and critical faults that axe-core finds on a page by ``rules`` (default: all)."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(AXE.read_text())  # a script tag would be against the page's own policy
    found = await page.evaluate(RUN_AXE, list(rules))
    return [
        f"{violation['id']}: {node['html'][:160]} {node['failureSummary'][:200]}"
        for violation in found["violations"]
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"][:3]
    ]


async def overflow(page: Page) -> int:
    """By how many px a page is wider than its window."""
    return int(
        await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    )


async def shoot(page: Page, name: str) -> None:
    """Store a screenshot if MAILROOM_SCREENSHOTS names a folder."""
    if SCREENSHOTS:
        Path(SCREENSHOTS).mkdir(parents=True, exist_ok=True)
        await page.screenshot(path=Path(SCREENSHOTS) / f"{name}.png", animations="disabled")


async def until(page: Page, condition: str, timeout: float = 30.0) -> None:
    """Wait until an expression holds; page.wait_for_function is against the policy of our pages."""

    async def holds() -> bool:
        return bool(await page.evaluate(condition))

    await eventually(holds, timeout)


async def paint(page: Page) -> None:
    """Wait until a page has painted what is due."""
    await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


async def press_until(page: Page, key: str, wanted: Locator) -> None:
    """Press a key until ``wanted`` is there, as somebody does who reads what each press selects."""
    for _ in range(120):
        if await wanted.count():
            return
        await page.keyboard.press(key)
    raise AssertionError(f"{key} does not reach {wanted}")
