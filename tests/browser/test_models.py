"""The models: which kinds of text may leave for each, what left today, and what was sent for a goal."""

import asyncio

from playwright.async_api import expect

from shared.llm.leaving import Masks, Rule, prepare
from shared.llm.protocol import Message, Usage
from shared.llm.sent import AgentModels, ModelUse, SentLog, sent_for, tell_models
from shared.text.display import quote
from tests.browser.pages import Desk, require_good_looks
from tests.support.gateway import RunningGateway

PLACE = "api.example.com"


def plant(office: RunningGateway) -> None:
    """An agent with a model elsewhere that may have the web alone, and one request to it."""
    rule = Rule(place=PLACE, kinds=("web",), is_local=False)
    use = ModelUse(role="reasons", name="openai:big", place=PLACE, is_local=False, kinds=rule.kinds)
    tell_models(office.config.sent, AgentModels(agent="scout", models=[use]))
    text = f"Tidy up.\n{quote('Note', 'the lighthouse', 'private')}\n<img src=x onerror=alert(1)>"
    prepared = prepare([Message(role="user", text=text)], rule, Masks(b"k" * 32))
    log = SentLog(office.config.sent / "scout", "scout")
    sent_for.set(("tidy", "tidy-1"))
    facts = {"model": "openai:big", "place": PLACE, "kinds": prepared.kinds, "withheld": prepared.withheld}
    with log.request(messages=prepared.messages, **facts) as request:
        request.usage = Usage(input_tokens=120, output_tokens=8, calls=1)


async def test_it_says_what_may_leave_and_what_left(desk: Desk, office: RunningGateway) -> None:
    await asyncio.to_thread(plant, office)
    page = await desk.open("/models")
    row = page.get_by_role("row").filter(has_text="openai:big")
    await expect(row).to_contain_text(PLACE)
    await expect(row.get_by_text("may go")).to_have_count(1)
    await expect(row.get_by_text("stays")).to_have_count(5)
    await expect(row).to_contain_text("120 tokens in, 8 out")
    await expect(row).to_contain_text("characters of private notes withheld")
    page = await desk.open("/models/tidy")
    await page.get_by_role("button", name="Show 1 new message").first.click()
    await expect(page.locator("pre").first).to_contain_text(
        f"(withheld: private notes may not go to {PLACE})"
    )
    await expect(page.locator("pre").first).not_to_contain_text("lighthouse")


async def test_it_looks_good(desk: Desk, axe: None, office: RunningGateway) -> None:
    await asyncio.to_thread(plant, office)
    page = await desk.open("/models")
    await expect(page.get_by_role("row").filter(has_text="openai:big")).to_be_visible()
    await require_good_looks(page, "models")
