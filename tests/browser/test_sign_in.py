"""Signing in with a real browser, and what the policy of the pages forbids there."""

from tests.browser.pages import Desk, settle
from tests.support.access import create_link
from tests.support.gateway import RunningGateway


async def test_a_link_signs_in_once_and_leaves_no_trace(desk: Desk, office: RunningGateway) -> None:
    link = create_link(office.config)
    page = await (await desk.context(signed_in=False)).new_page()
    await page.goto(link)
    await page.wait_for_url(desk.url + "/")
    await settle(page)
    assert await page.evaluate("document.cookie") == ""
    cookies = await page.context.cookies()
    assert [(each["httpOnly"], each["sameSite"], each["path"]) for each in cookies] == [(True, "Strict", "/")]
    desk.faults.tolerate("401")
    again = await (await desk.context(signed_in=False)).new_page()
    await again.goto(link)
    await again.get_by_text("The link is not valid").wait_for()
    assert "#" not in again.url
    code = link.partition("#")[2]
    await again.get_by_label("A link from").fill("mr_wrong")
    await again.get_by_role("button", name="Sign in").click()
    await again.get_by_text("The token is not valid").wait_for()
    assert code not in await again.content()


async def test_who_is_not_signed_in_is_led_to_the_page_for_it(desk: Desk) -> None:
    desk.faults.tolerate("401")
    page = await (await desk.context(signed_in=False)).new_page()
    await page.goto("/goals")
    await page.get_by_role("link", name="sign in").click()
    await page.wait_for_url(desk.url + "/login?next=*")
    assert await page.get_by_label("A link from").is_visible()


async def test_text_cannot_become_script_or_markup(desk: Desk) -> None:
    desk.faults.tolerate("Content Security Policy|TrustedHTML|Trusted")
    page = await desk.open("/")
    inline = """() => { const script = document.createElement('script');
        try { script.textContent = 'window.hacked = 1'; } catch { /* refused */ }
        document.body.append(script); return window.hacked; }"""
    assert await page.evaluate(inline) is None
    markup = """() => { try { document.createElement('div').innerHTML = '<b>x</b>'; return 'done'; }
        catch { return 'refused'; } }"""
    assert await page.evaluate(markup) == "refused"
    assert (
        await page.evaluate("fetch('https://example.org/').then(() => 'done', () => 'refused')") == "refused"
    )
