"""Conversations with the front desk in a browser: answers as they are made, citations, goals that go on."""

import re
from pathlib import Path

import httpx2
from playwright.async_api import expect

from shared import subjects
from shared.bus.entry import seal
from shared.contracts import Node, Question
from shared.memory import Memory
from tests.browser.pages import Desk, require_good_looks
from tests.support.gateway import RunningGateway
from tests.support.waiting import eventually


async def remember(office: RunningGateway) -> None:
    memory = Memory(office.office.user)
    await memory.add(
        Node(id="lighthouse", kind="fact", title="The lighthouse keeper is called Oda Brandt"), insist=True
    )


async def test_an_answer_with_citations_and_a_follow_up(desk: Desk, office: RunningGateway) -> None:
    await remember(office)
    page = await desk.open("/chat")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Ask the front desk")
    examples = page.locator(".examples button")
    await expect(examples).to_have_count(3)
    await examples.nth(1).click()
    field = page.get_by_label("Message to the front desk")
    await expect(field).to_have_value(re.compile("Remind me"))
    await field.fill("Who is the lighthouse keeper?")
    await page.keyboard.press("Enter")
    answer = page.locator(".reply").first
    await expect(answer).to_contain_text("Oda Brandt")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Who is the lighthouse keeper?")
    await answer.get_by_role("list", name="Sources").get_by_role("button").first.click()
    panel = page.get_by_role("complementary", name="Node")
    await expect(panel).to_contain_text("lighthouse")
    await page.keyboard.press("Escape")
    await expect(panel).to_have_count(0)

    await field.fill("what are my reminders?")
    await page.keyboard.press("Enter")
    second = page.locator(".turn").nth(1)
    await expect(second.locator(".reply")).to_contain_text("reminder")
    await expect(second.locator(".steps")).to_contain_text("nexus")
    await page.reload()
    await expect(page.locator(".turn")).to_have_count(2)
    await expect(page.locator(".reply").first).to_contain_text("Oda Brandt")
    current = page.get_by_role("navigation", name="Conversations").locator("[aria-current]")
    await expect(current).to_contain_text("Who is the lighthouse keeper?")
    await expect(current).to_contain_text("2 questions")


async def test_a_goal_that_was_started_goes_on_as_a_card(desk: Desk, tmp_path: Path) -> None:
    page = await desk.open("/chat")
    await page.get_by_label("Message to the front desk").fill(f"Run the tests of {tmp_path}")
    await page.keyboard.press("Enter")
    card = page.locator(".goal-card")
    await expect(card).to_contain_text("Run the tests of")
    await expect(card.locator(".outcome")).to_contain_text(
        re.compile("Done|Failed|Not checked"), timeout=60_000
    )
    await card.click()
    await page.wait_for_url("**/goals/goal_*")


async def test_hostile_text_stays_text(desk: Desk, office: RunningGateway) -> None:
    memory = Memory(office.office.user)
    title = "<img src=x onerror=\"document.title='hacked'\"> pelican **harbour**"
    await memory.add(
        Node(id="pelican", title=title, body="<script>document.title='hacked'</script>"), insist=True
    )
    page = await desk.open("/chat")
    field = page.get_by_label("Message to the front desk")
    image = "<img src=x onerror=\"document.title='hacked'\">"
    await field.fill(f"What do we know about the pelican harbour? {image}")
    await page.keyboard.press("Enter")
    await expect(page.locator(".reply")).to_contain_text("<img src=x")
    await expect(page.locator(".question")).to_contain_text("<img src=x")
    assert await page.evaluate("document.title !== 'hacked' && !document.querySelector('#view img')")


async def test_what_was_asked_elsewhere_is_a_conversation_too(desk: Desk, office: RunningGateway) -> None:
    async with office.client(name="script") as client:
        await client.post("/api/nexus", json={"task": "Who painted the albatross?", "task_id": "albatross-1"})
    page = await desk.open("/chat")
    await page.get_by_role("link", name=re.compile("albatross")).click()
    await page.wait_for_url("**/chat/albatross-1")
    await expect(page.locator(".reply")).to_be_visible()


async def test_a_front_desk_that_is_down_keeps_the_question(desk: Desk, office: RunningGateway) -> None:
    office.office.kill("nexus")
    page = await desk.open("/chat")
    await page.get_by_label("Message to the front desk").fill("Who is the lighthouse keeper?")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("The front desk is answering")).to_be_visible()
    office.office.start("nexus")
    await expect(page.locator(".reply")).to_be_visible(timeout=40_000)


async def test_good_looks(desk: Desk, office: RunningGateway, axe: None) -> None:
    await remember(office)
    page = await desk.open("/chat")
    await page.get_by_label("Message to the front desk").fill("Who is the lighthouse keeper?")
    await page.keyboard.press("Enter")
    await page.get_by_role("list", name="Sources").get_by_role("button").first.click()
    await expect(page.get_by_role("complementary", name="Node")).to_contain_text("Kind")
    await require_good_looks(page, "chat-answer")


async def test_what_is_asked_back_is_chosen_with_a_button(desk: Desk) -> None:
    page = await desk.open("/chat")
    field = page.get_by_label("Message to the front desk")
    await field.fill("Remind me tomorrow at 9:00 to water the palms")
    await page.keyboard.press("Enter")
    await expect(page.locator(".reply")).to_contain_text("water the palms")
    await field.fill("what about the figs?")
    await page.keyboard.press("Enter")
    choices = page.get_by_role("group", name="Answers").get_by_role("button")
    await expect(choices).to_have_text(["Yes", "No"])
    await expect(page.locator(".reply").nth(1)).to_contain_text("Shall I do this")
    await choices.first.click()
    last = page.locator(".turn").nth(2)
    await expect(last.locator(".reply")).to_contain_text("water the figs")
    await expect(last.locator(".taken")).to_contain_text("Remind me tomorrow at 9:00 to water the figs")
    await expect(choices).to_have_count(0)
    await field.fill("cancel that")
    await page.keyboard.press("Enter")
    await expect(page.locator(".turn").nth(3).locator(".reply")).to_contain_text("cancelled")
    await require_good_looks(page, "chat-follow-up")


async def test_a_conversation_of_the_command_line_goes_on(
    desk: Desk, office: RunningGateway, ada: httpx2.AsyncClient
) -> None:
    await remember(office)
    question = Question(
        sender="user",
        recipient="nexus",
        text="Who is the lighthouse keeper?",
        user_session_id="chat-terminal",
    )
    await office.office.user.commit([seal(subjects.mail("nexus", "user"), question)])

    async def is_known() -> bool:
        return (await ada.get("/desk/sessions/chat-terminal")).status_code == 200

    await eventually(is_known)
    page = await desk.open("/chat/chat-terminal")
    await expect(page.locator(".reply")).to_contain_text("Oda Brandt")
    await page.get_by_label("Message to the front desk").fill("say that again")
    await page.keyboard.press("Enter")
    await expect(page.locator(".turn").nth(1).locator(".reply")).to_contain_text("Oda Brandt")


async def test_an_answer_that_is_made_can_be_stopped(desk: Desk, office: RunningGateway) -> None:
    desk.faults.tolerate("404.*/stop")  # pressed before the question is indexed
    office.office.kill("nexus")
    try:
        page = await desk.open("/chat")
        await page.get_by_label("Message to the front desk").fill("Remind me tomorrow at 9:00 to fly to Mars")
        await page.keyboard.press("Enter")
        await page.get_by_role("button", name="Stop").click()
        await expect(page.get_by_role("button", name="Stop")).to_be_disabled()
    finally:
        office.office.start("nexus")
    reply = page.locator(".reply")
    await expect(reply).to_be_visible(timeout=40_000)
