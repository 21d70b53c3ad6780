"""The board and the list of goals: live, by keyboard alone, and with texts that stay texts."""

import httpx2
from playwright.async_api import Page

from shared.contracts import generate_id
from tests.browser.goals import find, submit, waiting
from tests.browser.pages import Desk, press_until, require_good_looks, settle, until
from tests.flow.test_approvals import ask
from tests.support.gateway import RunningGateway

HOSTILE = '<img src=x onerror="window.hit=1"><script>window.hit=1</script> [x](javascript:alert(1)) **b**'


def unique(words: str) -> str:
    return f"{words} {generate_id()[-8:]}"


async def choose(page: Page, text: str) -> None:
    """Select the goal with ``text`` with j."""
    await press_until(page, "j", page.locator(".selected").filter(has_text=text))


async def test_the_board_is_good_to_look_at(
    desk: Desk, axe: None, ada: httpx2.AsyncClient, office: RunningGateway
) -> None:
    open_goals = await _fill_board(ada, office)
    page = await desk.open("/goals?view=board")
    await page.locator(".column.waiting .card").first.wait_for()
    await require_good_looks(page, "board-filled")
    await desk.go(page, "/goals?view=list")
    await require_good_looks(page, "board-list")
    await desk.go(page, "/goals?new=1")
    await require_good_looks(page, "board-new")
    for goal_id in open_goals:
        await ada.post(f"/goals/{goal_id}/cancel", json={})


async def _fill_board(ada: httpx2.AsyncClient, office: RunningGateway) -> list[str]:
    """Goals in each column; returns the open ones."""
    for text in (
        "Check up on the repository at ~/src/itsdangerous",
        "Which licences do our dependencies have?",
        "Read what came out on retrieval this week and say which two papers matter to us",
        "Find out why the nightly tests take 14 minutes",
    ):
        await submit(ada, waiting(text))
        await find(ada, text, "ended")
    failed = "Publish the release notes of 2.4"
    await submit(ada, {"text": failed, "context": {"assignee": "slow", "action": "publish"}})
    await find(ada, failed, "ended")
    open_goals = [
        await submit(ada, waiting(text, 600))
        for text in (
            "Port the parser to Python 3.13 and run its tests",
            "Summarise what customers wrote since Friday",
            "Bring the changelog up to date with what was merged",
        )
    ]
    for goal_id in open_goals:
        await find(ada, goal_id, "working")
    slow = await office.office.connect("slow")
    what = "run: uv pip install -e . -r requirements/tests.txt"
    await ask(slow, what=what, seconds=600, goal_id=open_goals[0], reach=("python",))
    return open_goals


async def test_a_goal_is_submitted_and_done_by_keyboard(desk: Desk, ada: httpx2.AsyncClient) -> None:
    text = unique("Wait for nothing, please")
    page = await desk.open("/goals?view=board")
    await page.keyboard.press("n")
    await page.get_by_role("dialog", name="New goal").wait_for()
    await page.keyboard.type(text)
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    for _ in range(2):
        await page.keyboard.press("Tab")
    await page.get_by_label("Context").focus()
    await page.keyboard.type('assignee=slow\naction=wait\nparams:={"seconds": 0}')
    await page.keyboard.press("Control+Enter")
    await page.get_by_role("dialog").wait_for(state="detached")
    goal = await find(ada, text, "ended")
    assert goal["outcome"] == "done"
    card = page.locator(".column.ended .card").filter(has_text=text)
    await card.wait_for()
    assert await card.get_by_text("Done", exact=True).count() == 1
    await choose(page, text)
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"{desk.url}/goals/{goal['goal_id']}")


async def test_an_empty_goal_is_not_sent_and_a_wrong_context_is_explained(desk: Desk) -> None:
    page = await desk.open("/goals?new=1")
    await page.keyboard.press("Control+Enter")
    assert await page.get_by_role("dialog").count() == 1
    await page.keyboard.type("Something")
    await page.get_by_text("Priority, deadline, context").click()
    await page.get_by_label("Context").fill("no equals sign")
    await page.keyboard.press("Control+Enter")
    assert "not of the form name=value" in await page.get_by_role("alert").inner_text()
    await page.get_by_label("Context").fill("limit:=three")
    await page.keyboard.press("Control+Enter")
    assert "“three” is not JSON" in await page.get_by_role("alert").inner_text()
    assert await page.get_by_label("What do you want done?").input_value() == "Something"


async def test_a_context_is_read_as_the_command_reads_it(desk: Desk) -> None:
    page = await desk.open("/goals")
    read = """text => import("/web/app/views/board_new.js").then(({ parseContext }) => parseContext(text))"""
    assert await page.evaluate(read, "year=2026\nlimit:=3\nat=a:=b") == [
        {"year": "2026", "limit": 3, "at": "a:=b"},
        "",
    ]
    assert (await page.evaluate(read, ":=3"))[1] == "“:=3” has no name."


async def test_a_goal_at_work_is_stopped_and_begun_again(desk: Desk, ada: httpx2.AsyncClient) -> None:
    text = unique("Wait for an hour")
    await submit(ada, waiting(text, 3600))
    await find(ada, text, "working")
    page = await desk.open("/goals?view=board")
    await page.locator(".column.working .card").filter(has_text=text).wait_for()
    await choose(page, text)
    await page.keyboard.press("x")
    await page.get_by_role("dialog").wait_for()
    await page.keyboard.type("Not needed any more")
    await page.keyboard.press("Control+Enter")
    await page.locator(".column.ended .card").filter(has_text=text).wait_for()
    assert (await find(ada, text, "ended"))["status"] == "cancelled"


async def test_new_goals_wait_above_what_one_reads(desk: Desk, ada: httpx2.AsyncClient) -> None:
    before = unique("A goal before")
    await submit(ada, waiting(before))
    await find(ada, before, "ended")
    page = await desk.open("/goals?view=list")
    first = page.locator(".rows .row").first
    await first.filter(has_text=before).wait_for()
    text = unique("A goal that comes later")
    await submit(ada, waiting(text))
    await page.locator(".fresh").filter(has_text="1 new goal").wait_for()
    assert before in await first.inner_text()
    await page.keyboard.press(".")
    await first.filter(has_text=text).wait_for()
    assert await page.locator(".fresh").count() == 0


async def test_pause_holds_the_page_still(desk: Desk, ada: httpx2.AsyncClient) -> None:
    page = await desk.open("/goals?view=list")
    await page.keyboard.press("p")
    await page.get_by_text("Paused").first.wait_for()
    await submit(ada, waiting(unique("A goal during a pause")))
    await until(page, "/[1-9]\\d* new messages/.test(document.querySelector('.notice').textContent)")
    assert await page.locator(".fresh").count() == 0
    await page.keyboard.press("p")
    await page.locator(".fresh").wait_for()


async def test_the_filter_of_goals_is_in_the_address(desk: Desk, ada: httpx2.AsyncClient) -> None:
    wanted, other = unique("Count the apples"), unique("Count the pears")
    for text in (wanted, other):
        await submit(ada, waiting(text))
        await find(ada, text, "ended")
    page = await desk.open("/goals?view=list")
    await page.keyboard.press("/")
    await page.keyboard.type(wanted)
    await page.wait_for_url("**text=Count**")
    await page.reload()
    await settle(page)
    await until(page, "document.querySelectorAll('.rows .row').length === 1")
    assert wanted in await page.locator(".rows").inner_text()
    await page.get_by_label("Outcome").select_option("failed")
    await page.get_by_text("No goal is like this").wait_for()


async def test_texts_of_others_stay_texts(desk: Desk, ada: httpx2.AsyncClient) -> None:
    text = unique(HOSTILE)
    goal_id = await submit(ada, waiting(text))
    await find(ada, text, "ended")
    failed = unique(HOSTILE)
    await submit(ada, {"text": failed, "context": {"assignee": "slow", "action": HOSTILE}})
    await find(ada, failed, "ended")
    page = await desk.open("/")
    shown = ("/", "/goals?view=board", "/goals?view=list", f"/goals/{goal_id}", f"/traffic?goal={goal_id}")
    for path in (*shown, "/agents", "/chat"):
        await desk.go(page, path)
        if path in shown:
            await page.locator("main").get_by_text("<img src=x").first.wait_for()
        assert await page.evaluate(
            "[window.hit, document.querySelectorAll('main img, main script').length]"
        ) == [
            None,
            0,
        ], path
        assert await page.locator("a[href^='javascript' i]").count() == 0, path
    await page.keyboard.press("Control+k")
    await page.keyboard.type(goal_id)
    await page.get_by_role("option").filter(has_text="<img src=x").first.wait_for()
    assert await page.evaluate("window.hit") is None


async def test_commands_and_goals_are_found_by_their_words(desk: Desk, ada: httpx2.AsyncClient) -> None:
    text = unique("Weigh the anchor")
    goal_id = await submit(ada, waiting(text))
    await find(ada, text, "ended")
    page = await desk.open("/")
    await page.keyboard.press("Control+k")
    await page.keyboard.type(text)
    await page.get_by_role("option").filter(has_text=text).first.wait_for()
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"{desk.url}/goals/{goal_id}")
    await page.keyboard.press("Control+k")
    await page.keyboard.type("engin")
    await page.get_by_role("option").filter(has_text="engineer").first.wait_for()
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"{desk.url}/agents/engineer")
    await page.keyboard.press("Control+k")
    await page.keyboard.type("theme dark")
    await page.keyboard.press("Enter")
    assert await page.evaluate("document.documentElement.dataset.theme") == "dark"
    await page.reload()
    assert await page.evaluate("document.documentElement.dataset.theme") == "dark"
