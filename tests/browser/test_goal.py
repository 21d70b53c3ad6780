"""The page of one goal: read by keyboard, opened to the message, applied, steered, stopped, live."""

import asyncio
import json
import time
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from shared.contracts import generate_id
from shared.subjects import Address
from tests.browser.goals import find, submit, waiting
from tests.browser.pages import Desk, press_until, require_good_looks, settle, shoot, until
from tests.flow.test_cli_patches import LINES, git, make_repository
from tests.support.course import Course, goal_of, span
from tests.support.gateway import RunningGateway

LOOKS_AS_TEXT = "(part) => getComputedStyle(part).font === getComputedStyle(document.body).font"
HOSTILE = '<img src=x onerror="window.hit=1">'


def unique(words: str) -> str:
    return f"{words} {generate_id()[-8:]}"


def make_shop(folder: Path) -> Path:
    """A project of which one test of two fails."""
    shop = folder / f"shop-{generate_id()[-8:]}"
    shop.mkdir()
    (shop / "README.md").write_text(f"# Shop\n\n{HOSTILE}\n")
    (shop / "test_shop.py").write_text("def test_ok():\n    pass\n\n\ndef test_wrong():\n    assert 3 == 4\n")
    return shop


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def checked(office: RunningGateway, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The id of a check-up of a small project that has ended."""
    shop = make_shop(tmp_path_factory.mktemp("checked"))
    async with office.client(name="checker") as client:
        client.base_url = f"{office.url}/api/v1"
        goal_id = await submit(client, {"text": f"Check up on the repository at {shop}"})
        await find(client, shop.name, "ended", 90)
    return goal_id


async def move_to(page: Page, text: str) -> None:
    """Select the row of the timeline with ``text`` with j."""
    await press_until(page, "j", page.locator(".waterfall .row.selected").filter(has_text=text))


async def test_a_goal_is_read_by_keyboard_down_to_the_message(desk: Desk, axe: None, checked: str) -> None:
    goal_id = checked
    page = await desk.open(f"/goals/{goal_id}")
    answer = page.get_by_role("region", name="Answer")
    assert "1 of 2 tests fails" in await answer.inner_text()
    assert "1 passed, 1 failed" in await answer.inner_text()
    await require_good_looks(page, "goal")

    await move_to(page, "tests")
    side = page.get_by_role("complementary", name="Selected")
    await side.get_by_text("Action run_tests").wait_for()
    assert "test_wrong" in await side.inner_text()
    await move_to(page, "$ python -m pytest")
    await side.get_by_text("command in the jail").wait_for()
    await side.get_by_text("test session starts").wait_for()
    await shoot(page, "goal-command")
    await side.get_by_role("button", name="#").click()
    message = page.get_by_role("complementary", name="Message")
    await message.get_by_text(f"{goal_id}-tests-1").first.wait_for()
    await page.keyboard.press("Escape")
    await until(page, "!document.querySelector('.inspector')")
    await page.keyboard.press("f")
    await until(page, "document.querySelectorAll('.waterfall .row').length < 6")
    assert "✕" in await page.locator(".waterfall").inner_text()


async def test_a_message_and_a_piece_of_evidence_open(desk: Desk, axe: None, checked: str) -> None:
    goal_id = checked
    page = await desk.open(f"/goals/{goal_id}")
    arrow = page.get_by_role("button", name="you to conductor: submission")
    await arrow.focus()
    await page.keyboard.press("Enter")
    message = page.get_by_role("complementary", name="Message")
    await message.get_by_text("tasks.submit").wait_for()
    await page.get_by_role("button", name="test_shop.py:6").first.click()
    evidence = page.get_by_role("complementary", name="Evidence")
    await evidence.get_by_text("assert 3 == 4").wait_for()
    await page.get_by_role("tab", name="Report").click()
    await page.get_by_role("heading", name="Check-up of shop").wait_for()
    assert await page.evaluate("window.hit") is None
    for tab in ("Messages", "Evidence", "Timeline"):
        await page.get_by_role("tab", name=tab).click()
        await settle(page)
        assert await page.get_by_role("tabpanel").evaluate(LOOKS_AS_TEXT), tab
        await require_good_looks(page, f"goal-{tab.lower()}")
    for table in await page.get_by_role("button", name="Table").all():
        await table.click()
    assert await page.get_by_role("table").count() == 2
    async with page.expect_download() as started:
        await page.get_by_role("link", name="Export as JSON").click()
    exported = json.loads(Path(await (await started.value).path()).read_text())
    assert exported["goal_id"] == goal_id


async def test_a_link_leads_to_a_row_and_back(desk: Desk, checked: str) -> None:
    goal_id = checked
    page = await desk.open(f"/goals/{goal_id}#task={goal_id}-tests-1")
    await page.locator(".waterfall .row.selected").filter(has_text="tests").wait_for()
    address = page.url
    assert f"row={goal_id}-tests-1" in address
    await desk.go(page, address)
    await page.get_by_role("complementary", name="Selected").wait_for()
    await desk.go(page, f"/goals/{goal_id}?row=nothing&tab=nonsense&message=x")
    await page.get_by_role("complementary").get_by_role("alert").wait_for()
    desk.faults.tolerate("404|422")


async def test_a_patch_is_applied_by_key(desk: Desk, ada: httpx2.AsyncClient, tmp_path: Path) -> None:
    project = make_repository(tmp_path / "project")
    (project / "a.txt").write_text(LINES.replace("line 20\n", "changed\n"))
    patch = tmp_path / "project.patch"
    patch.write_text(git(project, "diff"))
    git(project, "reset", "-q", "--hard")
    text = unique("Change a line")
    params = {"path": str(patch), "folder": str(project)}
    context = {"assignee": "slow", "action": "deliver", "params": params}
    goal_id = await submit(ada, {"text": text, "context": context})
    await find(ada, text, "ended")
    page = await desk.open(f"/goals/{goal_id}")
    await page.keyboard.press("a")
    await page.get_by_role("dialog", name="Apply the diff?").wait_for()
    await page.get_by_text("It fits the folder as it is now").wait_for()
    await page.keyboard.press("Escape")
    assert "changed" not in (project / "a.txt").read_text()
    await require_good_looks(page, "goal-diff")
    await page.keyboard.press("a")
    await page.get_by_role("dialog").get_by_role("button", name="Apply").click()
    await page.get_by_text("The folder has it already").wait_for()
    await page.get_by_text("diff applied").wait_for()
    await expect(page.get_by_role("button", name="Apply diff")).to_have_count(0)
    assert "changed" in (project / "a.txt").read_text()


async def test_a_goal_at_work_is_live_steered_stopped_and_begun_again(
    desk: Desk, ada: httpx2.AsyncClient
) -> None:
    text = unique(f"Wait for an hour {HOSTILE}")
    goal_id = await submit(ada, waiting(text, 3600))
    await find(ada, text, "working")
    page = await desk.open(f"/goals/{goal_id}")
    await page.get_by_text("At work: slow").wait_for()
    assert await page.evaluate("window.hit") is None
    await page.locator(".waterfall .row").filter(has_text="slow").first.click()
    await page.keyboard.press("s")
    await page.get_by_role("dialog").wait_for()
    await page.keyboard.type("Leave the tests alone")
    await page.keyboard.press("Control+Enter")
    await page.get_by_role("region", name="Answer").get_by_text("Leave the tests alone").wait_for()
    assert await page.locator(".waterfall .row.selected").count() == 1
    await page.keyboard.press("Escape")
    await page.keyboard.press("x")
    await page.get_by_role("dialog", name="Stop this goal?").wait_for()
    began = asyncio.get_running_loop().time()
    await page.keyboard.press("Enter")
    await page.locator(".head .outcome").filter(has_text="Stopped").wait_for()
    assert asyncio.get_running_loop().time() - began < 10
    await page.keyboard.press("r")
    await page.get_by_role("dialog", name="Do it again?").wait_for()
    await page.keyboard.press("Enter")
    await until(page, f"!location.pathname.includes('{goal_id}')")
    again = page.url.rpartition("/")[2]
    await ada.post(f"/goals/{again}/cancel", json={})


async def test_what_waits_for_a_person_is_answered_on_the_goals_page(
    desk: Desk, axe: None, ada: httpx2.AsyncClient
) -> None:
    text = unique("Ask somebody")
    params = {"command": "curl -sS https://example.org/"}
    context = {"assignee": "engineer", "action": "run_shell", "params": params}
    goal_id = await submit(ada, {"text": text, "context": context})
    await find(ada, text, "waiting")
    page = await desk.open(f"/goals/{goal_id}")
    await page.get_by_text("waits for you").first.wait_for()
    await require_good_looks(page, "goal-waits")
    await page.get_by_role("button", name="Refuse").click()
    await find(ada, text, "ended")
    await page.get_by_text("A person refused it").first.wait_for()


async def test_an_unknown_goal_says_so(desk: Desk) -> None:
    page = await desk.open("/goals/goal_nothing")
    desk.faults.tolerate("404")
    await page.get_by_role("alert").get_by_text("There is no goal").wait_for()


async def tell(office: RunningGateway, course: Course) -> None:
    """Store the messages of a course, each in the name of who sends it."""
    buses = {name: await office.office.connect(name) for name in ("conductor", "cortex")}
    for stored in course.messages:
        name = Address.of(stored.subject).sender
        await buses[name].store(stored.subject, stored.data)


async def test_thousands_of_steps_and_a_killed_attempt_stay_fluent(
    desk: Desk, office: RunningGateway, ada: httpx2.AsyncClient
) -> None:
    goal_id, text = f"goal_{generate_id()[-12:]}", unique("Many steps")
    course = Course(goal_id=goal_id)
    task_id, began = f"{goal_id}-long-1", time.time() - course.begin.timestamp() - 100
    course.submit(task_id, began, assignee="cortex")
    for attempt in (1, 2):
        course.step(task_id, "claimed", began, attempt)
        for page in range(40):
            spans = tuple(span(page * 40 + n + 1, began + page, 0.01 * n) for n in range(40))
            course.step(task_id, "noted", began + page, attempt, spans=spans)
    course.end(task_id, began + 90, 2)
    goal = goal_of(task_id, ended=began + 91, goal_id=goal_id, text=text, begun=began)
    course.record(goal, began + 91)
    await tell(office, course)
    await find(ada, text, "ended")
    page = await desk.open(f"/goals/{goal_id}")
    await page.get_by_role("button", name="Unfold all").click()
    await page.locator(".waterfall .row").filter(has_text="attempt 1").wait_for()
    assert "its process was killed" in await page.locator(".waterfall").inner_text()
    for _ in range(60):
        await page.keyboard.press("j")
    await page.locator(".waterfall .row.selected").filter(has_text="span 5").wait_for()
    assert await page.locator(".waterfall .row").count() < 120
