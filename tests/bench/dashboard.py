"""The dashboard in a browser: first paint, processor time and memory among 100,000 messages."""

import asyncio
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
from playwright.async_api import Page, async_playwright

from tests.bench.gateway import indexed, run_goal, write_letters
from tests.bench.plan import Plan
from tests.bench.rows import NO_TARGET, Row, at_most, compare
from tests.browser.pages import find_chromium, launch, sign_in
from tests.support.gateway import RunningGateway

NAME = "dashboard"
BLANK = "an empty page of the gateway"
"""The bound of the first paint: ``/healthz``, a page of three letters."""
MESSAGES, RATE = 100_000, 200
LIVE, LONG = 30.0, 600.0
"""Seconds for which messages come while the page is open; the second with ``--big``."""
SHOWN = "main#view:not([aria-busy]):not(:has(.loading))"
"""The page is there with what it read, and not only with its frame."""
PAGES = {"the inbox": "/", "the board": "/goals", "a goal": "/goals/{}", "traffic": "/traffic"}
FIRST_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
OPENED = 5
"""How often each page is opened."""


async def measure(plan: Plan) -> list[Row]:
    """Pages among many messages, then one that stays open while more come."""
    if not find_chromium():
        raise SystemExit("There is no Chromium: on Debian, apt-get install chromium")
    messages, seconds = (2_000, 5.0) if plan.quick else (MESSAGES, LONG if plan.big else LIVE)
    with TemporaryDirectory(prefix="mailroom-bench-") as folder:
        gateway = RunningGateway(Path(folder), MAILROOM_NATS_SYNC="2m")
        try:
            await gateway.open("conductor", "scout", "critic")
            goal_id = await run_goal(gateway, Path(folder))
            await write_letters(gateway, messages)
            await indexed(gateway)
            async with async_playwright() as playwright:
                browser = await launch(playwright)
                session = await sign_in(browser, gateway.config, gateway.url)
                context = await browser.new_context(storage_state=session)
                page = await context.new_page()
                rows = await _paints(page, gateway.url, goal_id)
                rows += await _stay_open(page, gateway, seconds)
                await browser.close()
        finally:
            await gateway.close()
    return rows


async def _paints(page: Page, url: str, goal_id: str) -> list[Row]:
    bare = min([await _paint(page, f"{url}/healthz") for _ in range(OPENED)])
    rows = []
    for name, path in PAGES.items():
        times = sorted([await _paint(page, url + path.format(goal_id), SHOWN) for _ in range(OPENED)])
        seen = await page.evaluate(FIRST_PAINT)
        note = f"the browser's own first paint of the last: {seen:.0f} ms; the slowest: {times[-1]:.0f} ms"
        shown = times[OPENED // 2]
        rows.append(compare(NAME, f"{name}, with content", shown, "ms", BLANK, bare, at_most(1_000), note))
    return rows


async def _paint(page: Page, address: str, shown: str = "") -> float:
    """Milliseconds from the request to the first paint, and until ``shown`` is there."""
    begun = time.perf_counter()
    await page.goto(address, wait_until="commit")
    if shown:
        await page.wait_for_selector(shown)
        return (time.perf_counter() - begun) * 1_000
    await page.wait_for_load_state("load")
    return (time.perf_counter() - begun) * 1_000


async def _stay_open(page: Page, gateway: RunningGateway, seconds: float) -> list[Row]:
    """Traffic while messages come: processor time of the page's process, and its heap at the end."""
    await page.goto(f"{gateway.url}/traffic")
    await page.wait_for_selector(SHOWN)
    await asyncio.sleep(1)
    cdp = await page.context.new_cdp_session(page)
    await cdp.send("Performance.enable")
    before, begun = await _metrics(cdp), time.perf_counter()
    browser_before = _renderers()
    sent = 0
    while (passed := time.perf_counter() - begun) < seconds:
        due = int(passed * RATE) - sent
        if due > 0:
            await write_letters(gateway, due)
            sent += due
        await asyncio.sleep(0.1)
    after, passed = await _metrics(cdp), time.perf_counter() - begun
    spent = (_renderers() - browser_before) / passed * 100
    await cdp.send("HeapProfiler.collectGarbage")
    heap = (await _metrics(cdp))["JSHeapUsedSize"] / 1e6
    busy = (after["TaskDuration"] - before["TaskDuration"]) / passed * 100
    note = f"{sent / passed:.0f} messages a second for {passed:.0f} s"
    return [
        compare(NAME, "traffic, the page's work", busy, "% of a core", target=at_most(15), note=note),
        compare(NAME, "traffic, renderers of the browser", spent, "% of a core", target=NO_TARGET),
        compare(NAME, "traffic, heap at the end", heap, "MB", target=at_most(150)),
    ]


async def _metrics(cdp: Any) -> dict[str, float]:
    answer = await cdp.send("Performance.getMetrics")
    return {each["name"]: each["value"] for each in answer["metrics"]}


def _renderers() -> float:
    """Processor seconds of all pages' processes of this bench's browser."""
    total = 0.0
    for process in psutil.Process().children(recursive=True):
        try:
            if "--type=renderer" in process.cmdline():
                times = process.cpu_times()
                total += times.user + times.system
        except psutil.Error:
            continue
    return total
