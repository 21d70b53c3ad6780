"""Pages of a real browser that is signed in at a real gateway, and what they did wrong."""

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Playwright,
    Request,
    WebError,
    expect,
)

from shared.access.links import create_link
from shared.settings import Settings
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
SCREENSHOTS = os.environ.get("MAILROOM_SCREENSHOTS", "")
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


async def sign_in(browser: Browser, config: Settings, url: str) -> Session:
    """Sign a browser in by a link, once; what it keeps of that."""
    context = await browser.new_context(base_url=url)
    headers = {"Origin": url, "Sec-Fetch-Site": "same-origin"}
    code = create_link(config).partition("#")[2]
    answer = await context.request.post("/api/v1/session", data={"link": code}, headers=headers)
    assert answer.ok, await answer.text()
    session = await context.storage_state()
    await context.close()
    return session


class Desk:
    """A person's browser at the office: contexts that are signed in, and the faults of their pages."""

    def __init__(self, browser: Browser, url: str, session: Session) -> None:
        self.browser, self.url = browser, url
        self.faults = Faults(url)
        self._session = session
        self._contexts: list[BrowserContext] = []

    async def context(self, look: str = "light", **options: object) -> BrowserContext:
        """A browser context that is signed in; ``look`` is one of LOOKS."""
        chosen = {**LOOKS[look], "reduced_motion": "reduce", "storage_state": self._session, **options}
        context = await self.browser.new_context(base_url=self.url, **chosen)
        context.set_default_timeout(30_000)
        self._contexts.append(context)
        self.faults.watch(context)
        return context

    async def open(self, path: str, look: str = "light", **options: object) -> Page:
        """A new page in a context of its own, shown and live."""
        page = await (await self.context(look, **options)).new_page()
        return await self.go(page, path)

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
        self.faults.require_none()


async def settle(page: Page) -> None:
    """Wait until a view is shown, has read what it shows, and is live."""
    await page.wait_for_selector("main#view:not([aria-busy])")
    await until(
        page, "!document.querySelector('.loading') && document.querySelector('.dot.live, .dot.paused')"
    )


async def look_at(page: Page, look: str) -> None:
    """Give a page that is open another one of LOOKS."""
    await page.set_viewport_size(LOOKS[look]["viewport"])
    await page.emulate_media(color_scheme=LOOKS[look]["color_scheme"])


async def require_good_looks(page: Page, name: str) -> None:
    """No serious fault of axe in light and dark, no scrolling sideways at 360 px; takes screenshots."""
    for look in LOOKS:
        await look_at(page, look)
        if look != "narrow":
            assert await run_axe(page) == [], f"{name} in {look}"
        assert await overflow(page) <= 0, f"{name} in {look} is too wide"
        await shoot(page, f"{name}-{look}")
    await look_at(page, "light")


async def run_axe(page: Page) -> list[str]:
    """The serious and critical faults that axe-core finds on a page."""
    await page.evaluate(AXE.read_text())  # a script tag would be against the page's own policy
    found = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
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
