"""The inbox by keyboard alone: each kind of thing that waits is answered, and people are told who did."""

import asyncio
from typing import Any

import httpx2
import pytest_asyncio
from playwright.async_api import Page, Route

from shared import subjects
from shared.bus import Bus
from shared.bus.entry import seal
from shared.contracts import ApprovalAnswer, ApprovalRequest, DeadLetter, Email, SentEmail, generate_id
from tests.browser.goals import find, submit
from tests.browser.pages import Desk, press_until, require_good_looks, settle, until
from tests.flow.test_approvals import answered, ask
from tests.flow.test_yes_to_the_text import LONG, WORDS, change, read_shown
from tests.support.gateway import RunningGateway
from tests.support.waiting import eventually

CALM = 700
"""Milliseconds after an answer until a key answers again: the inbox ignores keys for 600."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def slow(office: RunningGateway) -> Bus:
    """A connection with the key of the agent ``slow``."""
    return await office.office.connect("slow")


async def choose(page: Page, text: str) -> None:
    """Move to the item with ``text`` with j, as one would without a mouse."""
    await page.get_by_role("article").filter(has_text=text).first.wait_for()
    await press_until(page, "j", page.locator("article[aria-current=true]").filter(has_text=text))


async def gone(page: Page, text: str) -> None:
    await page.locator(".inbox article").filter(has_text=text).first.wait_for(state="detached")


async def answer_to(bus: Bus, request: ApprovalRequest) -> ApprovalAnswer:
    answer: ApprovalAnswer = await eventually(lambda: answered(bus, request))
    return answer


async def test_one_key_allows_and_the_answer_has_the_person(desk: Desk, slow: Bus) -> None:
    what = f"run: make deploy-{generate_id()[-8:]}"
    page = await desk.open("/")
    request = await ask(slow, what=what, seconds=600, goal_id="")
    await choose(page, what)
    current = page.locator("article[aria-current=true]")
    for words in ("It sends data out.", "If yes", "If no", "network"):
        assert words in await current.inner_text()
    await page.keyboard.press("y")
    await gone(page, what)
    answer = await answer_to(slow, request)
    session = await (await page.request.get("/api/v1/session")).json()
    assert answer.granted
    assert answer.person == session["person"]
    await page.locator(".fold summary").last.click()
    assert "allowed" in await page.locator(".fold").last.inner_text()


async def test_what_begins_to_wait_while_the_page_opens_is_shown(desk: Desk, slow: Bus) -> None:
    page = await (await desk.context()).new_page()
    inbox_read = asyncio.Event()

    async def open_late(route: Route) -> None:
        await inbox_read.wait()
        await ask(slow, what=what, seconds=600, goal_id="")
        await route.continue_()

    what = f"run: make late-{generate_id()[-8:]}"
    page.on("response", lambda answer: inbox_read.set() if "/api/v1/inbox" in answer.url else None)
    await page.route("**/api/v1/events?*", open_late)
    await page.goto("/")
    await page.get_by_role("article").filter(has_text=what).first.wait_for()


async def test_a_key_that_is_held_answers_one_thing(desk: Desk, slow: Bus) -> None:
    first, second = (f"run: rm {name}-{generate_id()[-8:]}" for name in ("one", "two"))
    page = await desk.open("/")
    requests = [await ask(slow, what=what, seconds=600, goal_id="") for what in (first, second)]
    await page.get_by_role("article").filter(has_text=second).wait_for()
    await choose(page, first)
    for _ in range(5):
        await page.keyboard.down("y")  # without an up between, the browser says that it repeats
    await gone(page, first)
    await page.keyboard.down("y")
    await page.keyboard.up("y")
    assert (await answer_to(slow, requests[0])).granted
    assert await answered(slow, requests[1]) is None


async def test_a_refusal_carries_a_note(desk: Desk, slow: Bus) -> None:
    what = f"run: rm -rf dist-{generate_id()[-8:]}"
    page = await desk.open("/")
    request = await ask(slow, what=what, seconds=600, goal_id="")
    await choose(page, what)
    await page.keyboard.press("n")
    await page.get_by_role("dialog").wait_for()
    await page.keyboard.type("Leave dist alone.")
    await page.keyboard.press("Control+Enter")
    await gone(page, what)
    answer = await answer_to(slow, request)
    assert (answer.granted, answer.note) == (False, "Leave dist alone.")


async def test_escape_refuses_nothing(desk: Desk, slow: Bus) -> None:
    what = f"run: rm -rf src-{generate_id()[-8:]}"
    page = await desk.open("/")
    request = await ask(slow, what=what, seconds=600, goal_id="")
    await choose(page, what)
    await page.keyboard.press("n")
    await page.get_by_role("dialog").wait_for()
    await page.keyboard.press("Escape")
    await page.get_by_role("dialog").wait_for(state="detached")
    assert await page.get_by_role("article").filter(has_text=what).count() == 1
    assert await answered(slow, request) is None


async def test_reach_is_granted_as_far_as_one_says(desk: Desk, slow: Bus) -> None:
    what = f"run: uv sync --project {generate_id()[-8:]}"
    page = await desk.open("/")
    request = await ask(slow, what=what, seconds=600, goal_id="", reach=("python",))
    await choose(page, what)
    await page.get_by_label("A yes is for").select_option("goal")
    await page.locator("article[aria-current=true]").focus()
    await page.keyboard.press("y")
    await gone(page, what)
    assert (await answer_to(slow, request)).scope == "goal"


async def test_a_question_is_answered_in_words(desk: Desk, slow: Bus, ada: httpx2.AsyncClient) -> None:
    body = f"MIT or Apache for {generate_id()[-8:]}?"
    page = await desk.open("/")
    question = Email(sender="slow", recipient="user", subject="Which licence", body=body)
    record = seal(subjects.record("slow", "letter", question.id), SentEmail(sender="slow", email=question))
    await slow.commit([record, seal(subjects.mail("user", "slow"), question)])
    await choose(page, body)
    await page.keyboard.press("a")
    await page.keyboard.type("Report **both**, and say j and y.")
    await page.keyboard.press("Control+Enter")
    await gone(page, body)

    async def reply() -> dict[str, Any] | None:
        mail = (await ada.get("/mail", params={"agent": "slow"})).json()["mail"]
        return next((each for each in mail if each["session"] == question.id), None)

    assert (await eventually(reply))["body"] == "Report **both**, and say j and y."


async def test_a_dead_letter_names_the_command_that_sends_it_again_and_is_put_away(
    desk: Desk, slow: Bus, ada: httpx2.AsyncClient
) -> None:
    reason = f"It cannot be read: {generate_id()[-8:]}"
    page = await desk.open("/")
    letter = DeadLetter(sender="slow", reason=reason, subject="mail.slow.user", stream="OFFICE", stream_seq=1)
    await slow.commit([seal(subjects.dead("slow"), letter)])
    await choose(page, reason)
    found = (await ada.get("/dead-letters")).json()["dead_letters"]
    (number,) = [each["number"] for each in found if each["reason"] == reason]
    await page.get_by_text(f"mailroom dead retry {number}").wait_for()
    await page.keyboard.press("n")
    await gone(page, reason)
    assert reason in (await ada.get("/dead-letters")).text


async def test_a_failed_goal_is_begun_again_or_put_away(desk: Desk, ada: httpx2.AsyncClient) -> None:
    text = f"Do what nobody can {generate_id()[-8:]}"
    goal_id = await submit(ada, {"text": text, "context": {"assignee": "slow", "action": "unknown"}})
    page = await desk.open("/")
    await choose(page, text)
    await page.keyboard.press("r")
    await page.locator(f"[data-item='failed_goal:{goal_id}']").wait_for(state="detached")

    async def twice() -> bool:
        goals = (await ada.get("/goals", params={"text": text})).json()["goals"]
        return len(goals) == 2 and all(goal["state"] == "ended" for goal in goals)

    await eventually(twice)
    await page.wait_for_timeout(CALM)
    await choose(page, text)
    await page.keyboard.press("n")
    await gone(page, text)


async def test_later_puts_aside_for_this_browser_alone(desk: Desk, slow: Bus) -> None:
    what = f"run: sleep {generate_id()[-8:]}"
    page = await desk.open("/")
    request = await ask(slow, what=what, seconds=600, goal_id="")
    await choose(page, what)
    await page.keyboard.press("l")
    await gone(page, what)
    await page.reload()
    await settle(page)
    assert await page.locator(".inbox article").filter(has_text=what).count() == 0
    other = await desk.open_other("/")
    await other.get_by_role("article").filter(has_text=what).wait_for()
    assert await answered(slow, request) is None


async def test_the_title_counts_what_waits_on_every_page(desk: Desk, slow: Bus) -> None:
    page = await desk.open("/figures")
    await ask(slow, what=f"run: true {generate_id()}", seconds=600, goal_id="")
    await until(page, "/^\\(\\d+\\) Figures/.test(document.title)")


async def test_the_inbox_is_good_to_look_at(
    desk: Desk, axe: None, slow: Bus, ada: httpx2.AsyncClient
) -> None:
    text = "Port the parser to Python 3.13 and run its tests"
    context = {"assignee": "slow", "action": "wait", "params": {"seconds": 100}}
    goal_id = await submit(ada, {"text": text, "context": context})
    await find(ada, text, "working")
    what = "run: uv pip install -e . -r requirements/tests.txt\nin ~/src/parser"
    await ask(slow, what=what, seconds=600, goal_id=goal_id, reach=("python",))
    page = await desk.open("/")
    await choose(page, "uv pip install")
    await require_good_looks(page, "inbox-waiting")


async def test_the_browser_tells_of_each_thing_once_if_one_wants(desk: Desk, slow: Bus) -> None:
    context = await desk.context()
    await context.add_init_script(
        """window.told = [];
        window.Notification = class {
          static permission = "granted";
          static requestPermission = async () => "granted";
          constructor(title, { body, tag }) { told.push([title, body, tag]); }
        };"""
    )
    page = await context.new_page()
    await desk.go(page, "/")
    await ask(slow, what=f"run: before {generate_id()}", seconds=600, goal_id="")
    await page.get_by_role("button", name="Tell me in this browser").click()
    await page.evaluate("Object.defineProperty(document, 'visibilityState', { get: () => 'hidden' })")
    what = f"run: wanted {generate_id()}"
    request = await ask(slow, what=what, seconds=600, goal_id="")
    later = f"run: later {generate_id()}"
    await until(page, f"window.told.some(([, body]) => body === '{what}')")
    await ask(slow, what=later, seconds=600, goal_id="")
    await until(page, f"window.told.some(([, body]) => body === '{later}')")
    told = await page.evaluate("window.told")
    assert [each for each in told if each[1] == what] == [
        ["slow asks: may I?", what, f"approval:{request.approval_id}"]
    ]


async def test_a_yes_is_to_the_whole_text_that_the_page_shows(desk: Desk, slow: Bus) -> None:
    mark = generate_id()[-8:]
    for number, word in enumerate((*WORDS.values(), LONG)):
        what = f"run {mark}-{number}: {word}"
        page = await desk.open("/")
        request = await ask(slow, what=what, seconds=600, goal_id="")
        await choose(page, f"run {mark}-{number}:")
        box = page.locator("article[aria-current=true] pre.what")
        assert read_shown("| " + (await box.text_content() or "").replace("\n", "\n| ")) == what
        hidden = await box.evaluate("box => getComputedStyle(box).overflowY === 'hidden'")
        assert not hidden, "what does not fit can be scrolled to"
        await page.keyboard.press("y")
        await gone(page, f"run {mark}-{number}:")
        answer = await answer_to(slow, request)
        assert answer.allows(request)
        await page.wait_for_timeout(CALM)


async def test_a_yes_on_a_page_that_shows_an_older_text_grants_nothing(desk: Desk, slow: Bus) -> None:
    what = f"run: ls-{generate_id()[-8:]}"
    page = await desk.open("/")
    request = await ask(slow, what=what, seconds=600, goal_id="")
    await choose(page, what)
    desk.faults.tolerate(r"409|net::ERR_FAILED")
    await page.route("**/api/v1/inbox*", lambda route: route.abort())  # the page learns nothing new
    await change(slow, request)
    async with page.expect_response("**/api/v1/approvals/*") as answered_by:
        await page.keyboard.press("y")
    refused = await answered_by.value
    assert refused.status == 409
    assert "so it is void" in await refused.text()
    assert await answered(slow, request) is None
    await page.unroute("**/api/v1/inbox*")
