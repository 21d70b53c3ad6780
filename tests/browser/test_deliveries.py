"""What was told elsewhere, in a browser: what arrived, what failed and why, what waits, what was replied."""

from playwright.async_api import expect

from shared import subjects
from shared.bus.entry import seal
from shared.contracts import Delivery, DeliveryKind, DeliveryReply, DeliveryStatus, ReplyOutcome, Urgency
from tests.browser.pages import Desk, require_good_looks
from tests.support.gateway import RunningGateway

AT = "2026-11-23T08:00:00+00:00"


def told(number: int, title: str, status: DeliveryStatus, **fields: object) -> Delivery:
    return Delivery(
        sender="gateway",
        recipient="user",
        delivery_id=f"delivery{number}",
        channel="phone",
        kind=DeliveryKind.REMINDER,
        title=title,
        status=status,
        first_at=AT.replace("08:00", f"08:{number:02d}"),
        **fields,  # type: ignore[arg-type]
    )


async def test_what_was_told(desk: Desk, office: RunningGateway, axe: None) -> None:
    records: list[Delivery] = [
        told(1, "Reminder: <img src=x> feed the gulls", DeliveryStatus.DELIVERED, ended_at=AT, attempts=1),
        told(2, "Failed: tests", DeliveryStatus.FAILED, attempts=9, reason="ntfy.sh answered 503"),
        told(
            3, "Done: tests", DeliveryStatus.WAITING, due_at="2099-01-01T07:00:00+00:00", urgency=Urgency.LOW
        ),
    ]
    reply = DeliveryReply(
        sender="gateway",
        recipient="user",
        reply_id="told1",
        channel="phone",
        address="ada@example.org",
        delivery_id="delivery1",
        text="snooze 2 hours",
        outcome=ReplyOutcome.SNOOZED,
    )
    bus = await office.office.connect("gateway")
    try:
        for each in records:
            subject = subjects.record(subjects.GATEWAY, subjects.DELIVERY, each.delivery_id)
            await bus.commit([seal(subject, each)])
        await bus.commit([seal(subjects.record(subjects.GATEWAY, subjects.REPLY, "told1"), reply)])
    finally:
        await bus.close()
    page = await desk.open("/deliveries")
    await expect(page.get_by_role("heading", level=1)).to_have_text("1 thing waits to be told")
    rows = page.get_by_role("list", name="Deliveries").get_by_role("listitem")
    await expect(rows).to_have_count(3)
    await expect(rows.nth(0)).to_contain_text("waits")
    await expect(rows.nth(0)).to_contain_text("not before")
    await expect(rows.nth(1)).to_contain_text("ntfy.sh answered 503")
    await expect(rows.nth(2)).to_contain_text("<img src=x> feed the gulls")
    await expect(page.get_by_role("region", name="Replies")).to_contain_text("put off")
    assert await page.locator("#view img").count() == 0
    await require_good_looks(page, "deliveries")
