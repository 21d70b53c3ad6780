"""Two people in a browser: whose a memory is, and who answers what."""

import httpx2
from playwright.async_api import Browser, expect

from shared.access.scopes import People, Scope, User
from shared.bus import Bus
from shared.contracts import generate_id
from tests.browser.pages import Desk, new_context, sign_in
from tests.browser.test_inbox import answer_to, gone, slow
from tests.flow.test_approvals import ask
from tests.support.access import Tokens
from tests.support.gateway import RunningGateway

__all__ = ["slow"]


async def test_a_member_shares_forgets_and_answers_what_is_a_members_to_answer(
    browser: Browser, office: RunningGateway, slow: Bus, desk: Desk
) -> None:
    people = People(office.config)
    people.add("ana", User(role="member"))
    try:
        secret = Tokens(office.config).add(f"anas-{generate_id()[-8:]}", Scope.ADMIN, person="ana")
        async with httpx2.AsyncClient(
            base_url=f"{office.url}/api/v1", headers={"Authorization": f"Bearer {secret}"}
        ) as ana:
            node = {"id": "anas-shelf", "title": "The heron sleeps on the upper shelf of the shed"}
            written = await ana.post("/memory/write", json={"nodes": [node]})
            assert not written.json()["error"], written.text
        session = await sign_in(browser, office.config, office.url, "ana")
        context = await new_context(browser, office.url, session)
        page = await context.new_page()
        await page.goto("/memory/anas-shelf")
        share = page.get_by_role("button", name="Share with the team")
        back = page.get_by_role("button", name="Keep to myself")
        await expect(page.get_by_role("button", name="Forget …")).to_be_visible()
        await share.click()
        await expect(back).to_be_visible()
        await expect(page.get_by_role("button", name="Forget …")).not_to_be_visible()  # the team's by now
        other = await desk.open("/memory/anas-shelf")
        await expect(other.get_by_role("heading", level=1)).to_contain_text("The heron sleeps")
        await expect(other.get_by_role("button", name="Keep to myself")).not_to_be_visible()
        await back.click()
        await expect(share).to_be_visible()

        mine, others = (f"run: curl heron-{generate_id()[-8:]}", f"run: make heron-{generate_id()[-8:]}")
        asked = await ask(slow, what=mine, rule="reach.host", seconds=600, goal_id="")
        await ask(slow, what=others, rule="write.outside", seconds=600, goal_id="")
        await page.goto("/")
        item = page.get_by_role("article").filter(has_text=others)
        await item.click()
        await expect(item.get_by_role("button", name="Yes, allow")).to_be_disabled()
        await expect(item).to_contain_text("Answering this needs the scope approve.")
        item = page.get_by_role("article").filter(has_text=mine)
        await item.click()
        await item.get_by_role("button", name="Yes, allow").click()
        await gone(page, mine)
        answer = await answer_to(slow, asked)
        assert (answer.granted, answer.person) == (True, "ana")
        await context.close()
    finally:
        people.path.unlink()
