"""Replies to what was told: who may, with which code, once; and what programs and strangers send."""

from collections.abc import AsyncIterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from shared import subjects
from shared.contracts import AccessChanged, ApprovalAnswer, DeliveryReply, DueKind, ReplyOutcome
from shared.timetable import read_timetable
from tests.flow.test_delivery import Channels, ask_permission, open_gateway
from tests.support.replying import code_in, pressed, put, reply_to, wrote
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
async def channels(tmp_path: Path) -> AsyncIterator[Channels]:
    made = Channels(tmp_path)
    try:
        yield made
    finally:
        await made.close()


async def outcomes(channels: Channels) -> list[ReplyOutcome]:
    return [each.outcome for each in await replies(channels)]


async def replies(channels: Channels) -> list[DeliveryReply]:
    rows = await channels.gateway.office.stored(subjects.record(subjects.GATEWAY, subjects.REPLY, "*"))
    return [DeliveryReply.from_json(data) for _, _, data in rows]


async def answers(channels: Channels) -> list[ApprovalAnswer]:
    rows = await channels.gateway.office.stored(subjects.approval_answered("*", "*"))
    return [ApprovalAnswer.from_json(data) for _, _, data in rows]


async def refusals(channels: Channels) -> list[str]:
    rows = await channels.gateway.office.stored(subjects.event(subjects.GATEWAY, "reply_refused"))
    return [AccessChanged.from_json(data).reason for _, _, data in rows]


async def wait_until(read: Any, channels: Channels, count: int) -> list[Any]:
    async def enough() -> list[Any]:
        found = await read(channels)
        return found if len(found) >= count else []

    found: list[Any] = await eventually(enough, 60)
    return found


def request_mails(channels: Channels) -> list[EmailMessage]:
    return [
        mail for mail in channels.mail.mails if "asks" in str(mail["Subject"]) and not mail["In-Reply-To"]
    ]


async def test_a_request_is_approved_by_mail_with_its_code_alone(channels: Channels) -> None:
    channels.write("mail")
    await open_gateway(channels)
    await ask_permission(channels)
    await eventually(lambda: request_mails(channels), 60)
    (mail,) = request_mails(channels)
    code = code_in(mail)
    yes = f"approve {code}"
    forged = str(mail["Message-ID"])
    token = forged.split(".")[2].partition("@")[0]
    put(
        channels.imap,
        reply_to(mail, yes, From="mallory@example.org"),
        reply_to(mail, yes, In_Reply_To=forged.replace(token, "0" * 16)),
        reply_to(mail, yes, Auto_Submitted="auto-replied"),
        reply_to(mail, yes, Precedence="list"),
        reply_to(mail, yes, From="ada@example.org, mallory@example.org"),
        reply_to(mail, yes, Subject="Automatic reply: a request"),
    )
    assert len(await wait_until(refusals, channels, 6)) == 6
    put(channels.imap, reply_to(mail, "approve"), reply_to(mail, "approve ZZZZZZ"))
    assert await wait_until(outcomes, channels, 2) == [ReplyOutcome.WRONG_CODE] * 2
    assert not await answers(channels)
    html = reply_to(mail, "")
    html.set_content(
        f"<div>Approve&nbsp; <b>{code.lower()}</b></div><blockquote>approve</blockquote>", "html"
    )
    html.add_attachment(3_000_000 * b"x", maintype="image", subtype="png", filename="logo.png")
    put(channels.imap, html)
    assert [each.granted for each in await wait_until(answers, channels, 1)] == [True]
    put(channels.imap, html)
    put(channels.imap, reply_to(mail, f"refuse {code} too late"))
    found = await wait_until(replies, channels, 4)
    assert [each.outcome for each in found[2:]] == [ReplyOutcome.APPROVED, ReplyOutcome.IGNORED]
    assert "granted already by mail:ada@example.org" in found[3].reason
    assert code not in "".join(each.text for each in found)
    assert (await answers(channels))[0].person == "mail:ada@example.org"
    assert len(await answers(channels)) == 1
    await eventually(lambda: any("Approved:" in each.get_content() for each in channels.mail.mails), 60)
    answer = next(each for each in channels.mail.mails if "Approved:" in each.get_content())
    assert answer["In-Reply-To"] == html["Message-ID"]


async def test_five_wrong_codes_lock_a_request(channels: Channels) -> None:
    channels.write("mail")
    await open_gateway(channels)
    await ask_permission(channels)
    await eventually(lambda: request_mails(channels), 60)
    (mail,) = request_mails(channels)
    put(channels.imap, *(reply_to(mail, f"approve AAAAA{number}") for number in range(2, 6)))
    await wait_until(outcomes, channels, 4)
    await channels.restart()
    put(channels.imap, reply_to(mail, "approve AAAAA7"), reply_to(mail, f"approve {code_in(mail)}"))
    found = await wait_until(replies, channels, 6)
    assert {each.outcome for each in found} == {ReplyOutcome.WRONG_CODE}
    assert "5 wrong codes" in found[5].reason
    assert not await answers(channels)


async def test_buttons_of_telegram_count_for_those_who_are_allowed(channels: Channels) -> None:
    channels.write("telegram")
    await open_gateway(channels)
    await ask_permission(channels)
    web = channels.web
    await eventually(lambda: web.sent, 60)
    refuse = web.sent[0]["reply_markup"]["inline_keyboard"][0][1]["callback_data"]
    web.updates += [pressed(1, 8, refuse.replace("refuse", "approve")), pressed(2, 7, refuse)]
    (answer,) = await wait_until(answers, channels, 1)
    assert (answer.granted, answer.person) == (False, "telegram:7")
    await eventually(lambda: len(web.sent) == 2, 60)
    assert web.sent[1]["text"].startswith("Refused: engineer asks")
    web.updates += [pressed(3, 7, refuse), wrote(4, 7, "approve")]
    await eventually(lambda: len(web.sent) == 4, 60)
    assert "already by telegram:7" in web.sent[2]["text"]
    assert "Reply to the message" in web.sent[3]["text"]
    assert len(await answers(channels)) == 1


async def test_the_desk_answers_in_the_thread(channels: Channels) -> None:
    channels.write("mail", "telegram")
    await open_gateway(channels, "nexus", "memory")
    async with channels.gateway.client() as client:
        reminder = {"text": "Remind me in 1 second to call the bank"}
        made = (await client.post("/api/v1/timetable", json=reminder)).json()["item"]
    await eventually(lambda: channels.mail.mails and channels.web.sent, 60)
    put(channels.imap, reply_to(channels.mail.mails[0], "snooze 2 hours"))
    await eventually(lambda: len(channels.mail.mails) == 2, 60)
    answer = channels.mail.mails[1]
    assert "put off until" in answer.get_content()
    assert str(answer["Subject"]) == "Re: Reminder: call the bank"
    put(channels.imap, reply_to(answer, "which reminders do I have?"))
    await eventually(lambda: len(channels.mail.mails) == 3, 60)
    assert "call the bank" in channels.mail.mails[2].get_content()
    data = channels.web.sent[0]["reply_markup"]["inline_keyboard"][0][0]["callback_data"]
    channels.web.updates.append(pressed(1, 7, data))
    await eventually(lambda: len(channels.web.sent) == 2, 60)
    assert "is done" in channels.web.sent[1]["text"]
    known = await read_timetable(channels.gateway.office.user)
    assert [(each.due_id, each.status) for each in known.of(DueKind.MAIL)] == [(made["id"], "done")]
    assert [each.outcome for each in await replies(channels)] == ["snoozed", "asked", "done"]
