"""Memory in a browser: search with why, the graph and its table, history, versions, briefings."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from shared import subjects
from shared.contracts import Edge, Node, Relation
from shared.memory import Memory
from shared.operations.erasure.orders import carry_out_orders
from tests.browser.goals import cancel_all
from tests.browser.pages import Desk, paint, require_good_looks, sign_in, until
from tests.support.gateway import RunningGateway
from tests.support.waiting import eventually

HOSTILE = "<img src=x onerror='document.title=\"hacked\"'> walrus"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def memory(office: RunningGateway) -> AsyncIterator[Memory]:
    """The office's memory with what these tests look for: all of it is about walruses."""
    memory = Memory(office.office.user)
    await memory.add(
        Node(id="walrus-old", kind="decision", title="The walrus is fed on Tuesdays at noon"),
        Node(id="walrus-evil", title=HOSTILE, body="<script>document.title='hacked'</script> **fat**"),
        insist=True,
    )
    await memory.add(
        Node(id="walrus-new", kind="decision", title="The walrus is fed on Thursdays at ten"),
        edges=[Edge(from_id="walrus-new", to_id="walrus-old", relation=Relation.SUPERSEDES)],
        insist=True,
    )
    await memory.add(
        Node(id="walrus-new", kind="decision", title="The walrus is fed on Thursdays at eleven"), insist=True
    )
    yield memory


async def is_unharmed(page: Page) -> bool:
    return bool(await page.evaluate("document.title !== 'hacked' && !document.querySelector('#view img')"))


async def test_what_is_found_says_why_and_opens_with_its_history(desk: Desk, memory: Memory) -> None:
    page = await desk.open("/memory")
    await expect(page.get_by_role("heading", level=1)).to_have_text(
        re.compile(r"^[\d,]+ memories, [\d,]+ links?, version [\d,]+$")
    )
    await page.keyboard.press("/")
    await page.keyboard.type("when was the walrus fed before")
    found = page.get_by_role("region", name="Found in memory")
    await expect(found.get_by_role("button").first).to_contain_text("The walrus is fed")
    await expect(found.get_by_role("button").first).to_contain_text("meaning")
    await page.keyboard.press("Escape")
    await found.get_by_text("The walrus is fed on Tuesdays at noon").click()
    panel = page.get_by_role("complementary", name="Node")
    await expect(panel.get_by_text("Superseded")).to_be_visible()
    await panel.get_by_role("link", name="The walrus is fed on Thursdays at eleven").click()
    await page.wait_for_url("**/memory/walrus-new")
    await expect(page.get_by_text("Holds now")).to_be_visible()
    states = page.locator(".history li")
    await expect(states).to_have_count(2)
    await expect(states.first).to_contain_text("Changed")
    await expect(states.first.locator("del")).to_have_text("The walrus is fed on Thursdays at ten")
    await expect(page.locator(".links li")).to_contain_text(["The walrus is fed on Tuesdays at noon"])


async def test_the_keyboard_is_enough(desk: Desk, memory: Memory) -> None:
    page = await desk.open("/memory?q=walrus")
    rows = page.get_by_role("region", name="Found in memory").get_by_role("button")
    await expect(rows.first).to_be_visible()
    canvas = page.get_by_role("img", name=re.compile("Graph of memory"))
    panel = page.get_by_role("complementary", name="Node")
    for number in range(3):  # each moves the picture, and an arrow key finds a node in any part of it
        for _ in range(number + 1):
            await page.keyboard.press("j")
        await expect(rows.nth(number)).to_have_attribute("aria-pressed", "true")
        await expect(rows.nth(number)).to_be_focused()
        await page.keyboard.press("Escape")
        await expect(panel).to_have_count(0)
        await canvas.focus()
        await page.keyboard.press("ArrowRight")
        await expect(panel).to_be_visible()
        if number < 2:
            await page.keyboard.press("Escape")
            await expect(panel).to_have_count(0)
    await page.keyboard.press("+")
    await page.keyboard.press("0")
    node = await page.evaluate("new URLSearchParams(location.search).get('node')")
    await page.get_by_role("link", name="Open with its history").press("Enter")
    await page.wait_for_url(f"**/memory/{node}*")


async def test_hostile_text_stays_text(desk: Desk, memory: Memory) -> None:
    page = await desk.open("/memory?q=walrus&node=walrus-evil")
    await expect(page.get_by_role("complementary", name="Node")).to_contain_text("<img src=x onerror")
    assert await is_unharmed(page)
    await desk.go(page, "/memory/walrus-evil")
    await expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    await expect(page.locator(".prose b")).to_have_text("fat")
    await expect(page.locator(".prose")).to_contain_text("<script>")
    assert await is_unharmed(page)
    await desk.go(page, "/memory?tab=versions")
    await expect(page.locator(".versions")).to_contain_text("walrus")
    assert await is_unharmed(page)


async def test_memory_as_it_was(desk: Desk, memory: Memory) -> None:
    page = await desk.open("/memory")
    (state,) = (await memory.get("walrus-old"),)
    before = state[0].created_version
    await desk.go(page, f"/memory?at={before}&q=walrus")
    await expect(page.get_by_text("as it was")).to_be_visible()
    rows = page.get_by_role("region", name="Found in memory")
    await expect(rows).to_contain_text("Tuesdays")
    await expect(rows).not_to_contain_text("Thursdays")
    await page.get_by_role("button", name="Now").click()
    await expect(rows).to_contain_text("Thursdays")
    slider = page.get_by_role("slider", name="Graph version")
    await slider.focus()
    await page.keyboard.press("ArrowLeft")
    await until(page, "new URLSearchParams(location.search).get('at')")


async def test_a_briefing_and_its_difference(desk: Desk, memory: Memory) -> None:
    page = await desk.open("/memory?tab=briefing&agent=engineer")
    await expect(page.get_by_label("Briefing of engineer", exact=True)).to_contain_text("Graph version")
    before = (await memory.get("walrus-old"))[0].created_version
    await page.get_by_label("Compared with version").fill(str(before))
    await page.keyboard.press("Enter")
    table = page.get_by_role("table", name="What changed in the briefing")
    await expect(table).to_contain_text("Graph version")
    await expect(table.locator("tr.plus").first).to_be_visible()


async def test_a_write_is_seen_without_loading_again(desk: Desk, memory: Memory) -> None:
    page = await desk.open("/memory?tab=versions")
    await expect(page.locator(".versions li").first).to_be_visible()
    await memory.add(Node(id="walrus-live", title="The walrus has learnt to whistle"), insist=True)
    # Not the first: the linker's own writes may come after it.
    await expect(page.locator(".versions li").filter(has_text="learnt to whistle")).to_be_visible()


async def test_a_node_is_forgotten_after_it_was_said_what_goes(
    desk: Desk, memory: Memory, office: RunningGateway, ada: httpx2.AsyncClient
) -> None:
    await cancel_all(ada)  # nothing is erased while an agent may quote it
    secret = Node(id="walrus-secret", title="The walrus keeps its savings under the third stone")
    quoting = Node(id="walrus-gossip", title="Heard at the pool", body=f"They say: {secret.title}")
    await memory.add(secret, quoting, insist=True)
    page = await desk.open("/memory?node=walrus-secret")
    panel = page.get_by_role("complementary", name="Node")
    await panel.get_by_role("button", name="Forget").click()
    dialog = page.get_by_role("dialog", name="Forget this for good?")
    await expect(dialog).to_contain_text(f"“{secret.title}” is erased from memory and from its log")
    await expect(dialog).to_contain_text("1 other node with the same text loses it too")
    await expect(dialog).to_contain_text("backups and what models were sent keep it")
    await require_good_looks(page, "memory-forget")
    await page.keyboard.type("yes")
    await page.keyboard.press("Enter")
    await expect(dialog).to_be_visible()
    assert not (await memory.get("walrus-secret"))[0].retired_version
    await dialog.get_by_label("Type forget to confirm").fill("forget")
    await page.keyboard.press("Enter")
    await expect(dialog).to_have_count(0)
    admin = await office.office.connect(subjects.ADMIN)

    async def is_erased() -> bool:
        """As 'mailroom up' does it, once memory has done its part and nobody has a message in hand."""
        done = await carry_out_orders(admin, office.config)
        return bool(done) and not any(each.busy for each in done.values())

    await eventually(is_erased, 90)
    await expect(page.get_by_text("Forgotten: its text is erased")).to_be_visible(timeout=20_000)
    await expect(panel).to_contain_text("[forgotten]")
    await expect(panel.get_by_role("button", name="Forget")).to_have_count(0)
    assert (await memory.get("walrus-gossip"))[0].body == "They say: [forgotten]"


async def test_good_looks(desk: Desk, memory: Memory, axe: None) -> None:
    for path, name in {
        "/memory?q=walrus": "memory-search",
        "/memory/walrus-new": "memory-node",
        "/memory?tab=versions": "memory-versions",
        "/memory?tab=briefing&agent=engineer&since=1": "memory-briefing",
    }.items():
        page = await desk.open(path)
        await expect(page.locator(".rows .row, .history li, .versions li, .diff td").first).to_be_visible()
        await require_good_looks(page, name)


async def test_two_thousand_nodes_are_drawn_quickly(browser: Browser, tmp_path: Path) -> None:
    """In less than 50 ms a frame, although software draws them here."""
    office = RunningGateway(tmp_path, MAILROOM_LINKER_INTERVAL="3600")
    try:
        await office.open("memory")
        memory = Memory(office.office.user)
        vector = (1.0, *[0.0] * 383)
        nodes = [Node(id=f"n{n:04}", title=f"Fact {n} of many", embedding=vector) for n in range(2_000)]
        edges = [
            Edge(from_id=f"n{n:04}", to_id=f"n{(n * step + step) % 2_000:04}")
            for n in range(2_000)
            for step in (3, 7)
            if (n * step + step) % 2_000 != n
        ]
        for first in range(0, 2_000, 500):
            await memory.add(*nodes[first : first + 500], insist=True)
        for first in range(0, len(edges), 1_000):
            await memory.link(*edges[first : first + 1_000])
        desk = Desk(browser, office.url, await sign_in(browser, office.config, office.url))
        page = await desk.open("/memory?most=2000")
        canvas = page.get_by_role("img", name=re.compile(r"2000 nodes|2,000 nodes"))
        box = await canvas.bounding_box()
        assert box is not None
        await page.mouse.move(box["x"] + 200, box["y"] + 200)
        await page.mouse.down()
        frames = []
        for step in range(10):
            await page.mouse.move(box["x"] + 200 + 5 * step, box["y"] + 200)
            await paint(page)
            frames.append(float(await canvas.get_attribute("data-ms") or "1e9"))
        await page.mouse.up()
        assert min(frames) < 50, frames  # the others tell how busy the machine is
        await desk.close()
    finally:
        await office.close()


async def test_the_panel_of_a_node_covers_nothing_of_the_graph(desk: Desk, memory: Memory) -> None:
    page = await desk.open("/memory?node=walrus-new")
    panel = await page.get_by_role("complementary", name="Node").bounding_box()
    graph = await page.get_by_role("img", name=re.compile("Graph of memory")).bounding_box()
    assert panel
    assert graph
    assert graph["x"] + graph["width"] <= panel["x"]
    assert graph["width"] > 300
