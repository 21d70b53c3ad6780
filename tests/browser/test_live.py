"""Live pages: seven at once on one stream, and none missing anything after a lost connection."""

import httpx2
from playwright.async_api import BrowserContext, Page

from shared import subjects
from shared.contracts import generate_id
from tests.browser.goals import find, submit, waiting
from tests.browser.pages import Desk, settle, until
from tests.support.gateway import RunningGateway

RECORD = """
window.heard = [];
const hear = (events) => window.heard.push(...events.map(({ at }) => at));
import("/web/app/live.js").then(({ onEvents }) => onEvents(hear));
"""
WHOLE = "window.heard.every((at, index) => index === 0 || at === window.heard[index - 1] + 1)"


async def open_recording(context: BrowserContext, path: str) -> Page:
    """A page that keeps the positions of all events that reach its views."""
    page = await context.new_page()
    await page.goto(path)
    await settle(page)
    await page.evaluate(RECORD)
    await until(page, "window.heard !== undefined")
    return page


async def submit_first(ada: httpx2.AsyncClient) -> None:
    """Have one goal be known: a list without goals shows the first ones at once, others wait to be shown."""
    text = f"Be first {generate_id()[-8:]}"
    await submit(ada, waiting(text))
    await find(ada, text)


async def test_seven_tabs_are_live_on_one_stream(desk: Desk, ada: httpx2.AsyncClient) -> None:
    await submit_first(ada)
    context = await desk.context()
    streams: list[str] = []
    context.on("request", lambda request: "/api/v1/events" in request.url and streams.append(request.url))
    pages = [await open_recording(context, "/goals?view=list") for _ in range(7)]
    assert len(streams) == 1
    await submit(ada, waiting(f"Tell seven {generate_id()[-8:]}"))
    for page in pages:
        await page.locator(".fresh").wait_for()
    await pages[0].close()
    await until(pages[1], "document.querySelector('.dot.live') !== null")
    for _ in range(5):
        await submit(ada, waiting(f"Tell six {generate_id()[-8:]}"))
    last = (await ada.get("/messages", params={"limit": 1})).json()["position"]
    at = sum(map(int, last.split("-")))
    for page in pages[1:]:
        await until(page, f"window.heard.at(-1) >= {at}")
        assert await page.evaluate(WHOLE)


async def test_a_page_catches_up_after_the_gateway_was_killed(
    desk: Desk, office: RunningGateway, ada: httpx2.AsyncClient
) -> None:
    await submit_first(ada)
    desk.faults.tolerate(
        "ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET"
    )
    page = await open_recording(await desk.context(), "/goals?view=list")
    office.office.kill(subjects.GATEWAY)
    await page.get_by_text("Connection lost since").wait_for()
    for number in range(20):
        await office.office.submit(
            {**waiting(f"Meanwhile {number}"), "goal_id": f"meanwhile-{generate_id()}"}
        )
    office.office.start(subjects.GATEWAY)
    await office.office.ready(subjects.GATEWAY)
    await page.locator(".fresh").filter(has_text="20 new goals").wait_for()
    await until(page, "document.querySelector('.dot.live') !== null")
    assert await page.evaluate(WHOLE)
    assert await page.get_by_text("Connection lost").count() == 0
