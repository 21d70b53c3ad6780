"""Letters to people that expect an answer, and those that got one."""

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec

from services.gateway.context import Gateway
from services.gateway.inbox.letters import read_letters
from shared import subjects
from shared.bus.records import read_record
from shared.contracts import SentEmail
from shared.operations.letters import Mail
from shared.text.times import parse_time

ASKED_WITHIN = timedelta(days=14)
"""Questions that are older are left out."""
SEARCHED = 200
"""Letters in each direction among which questions and answers are looked for: the last ones."""


class Questions(msgspec.Struct, frozen=True, kw_only=True):
    """Letters that wait for a person's answer, and those answered, each with the reply."""

    open: list[Mail]
    answered: list[tuple[Mail, Mail]]


async def read_questions(gateway: Gateway) -> Questions:
    """The questions of the last days.

    A letter is one if a task waits for the answer, or if it ends with a question mark; an answered one
    if a person replied to it.
    """
    asked = await read_letters(gateway, "recipient = 'user' AND type = 'email'", (), SEARCHED)
    written = await read_letters(gateway, "sender = 'user' AND type = 'email'", (), SEARCHED)
    replies = {mail.session: mail for mail in reversed(written) if mail.session}
    since = datetime.now(UTC) - ASKED_WITHIN
    recent = [mail for mail in asked if parse_time(mail.created_at) > since]
    waited = await asyncio.gather(*(_is_awaited(gateway, mail) for mail in recent if mail.id not in replies))
    unanswered = [mail for mail in recent if mail.id not in replies]
    return Questions(
        open=[
            mail
            for mail, awaited in zip(unanswered, waited, strict=True)
            if awaited or (awaited is None and mail.body.rstrip().endswith("?"))
        ],
        answered=[(mail, replies[mail.id]) for mail in recent if mail.id in replies],
    )


async def _is_awaited(gateway: Gateway, mail: Mail) -> bool | None:
    """Whether a task of the sender waits for the answer; None if none ever did."""
    subject = subjects.record(mail.sender, "letter", mail.id)
    try:
        record = await read_record(gateway.bus, subject, SentEmail)
    except ValueError:
        return None
    if record is None or not record.value.awaited:
        return None
    goal = gateway.index.store.goal(record.value.goal_id) if record.value.goal_id else None
    return record.value.answer is None and not (goal is not None and goal.status.final)
