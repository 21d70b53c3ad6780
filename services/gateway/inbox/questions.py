"""Letters to people that expect an answer, and those that got one."""

import asyncio
from weakref import WeakKeyDictionary

import msgspec

from services.gateway.context import Gateway
from services.gateway.inbox.letters import read_letters
from services.gateway.index.index import LogIndex
from shared import subjects
from shared.bus.records import read_record
from shared.contracts import SentEmail
from shared.operations.letters import Mail
from shared.queries import office

SEARCHED = 200
"""Letters in each direction among which questions and answers are looked for: the last ones."""


class Questions(msgspec.Struct, frozen=True, kw_only=True):
    """Letters that wait for a person's answer, and those answered, each with the reply."""

    open: list[Mail]
    answered: list[tuple[Mail, Mail]]


class _Known(msgspec.Struct, frozen=True):
    """What senders noted about letters, and the last such note of the index by then."""

    sent: dict[str, SentEmail | None]
    number: int


_known: WeakKeyDictionary[LogIndex, _Known] = WeakKeyDictionary()
_LAST = "SELECT coalesce(max(number), 0) FROM messages WHERE type = 'letter'"


async def read_questions(gateway: Gateway) -> Questions:
    """The questions that wait (shared.queries.office), and the letters that a person replied to."""
    asked, written = await asyncio.gather(
        read_letters(gateway, "recipient = 'user' AND type = 'email'", (), SEARCHED),
        read_letters(gateway, "sender = 'user' AND type = 'email'", (), SEARCHED),
    )
    replies = {mail.session: mail for mail in reversed(written) if mail.session}
    unanswered = [mail for mail in asked if mail.id not in replies]
    asking = await asyncio.gather(*(is_question(gateway, mail) for mail in unanswered))
    return Questions(
        open=[mail for mail, is_one in zip(unanswered, asking, strict=True) if is_one],
        answered=[(mail, replies[mail.id]) for mail in asked if mail.id in replies],
    )


async def is_question(gateway: Gateway, mail: Mail) -> bool:
    """Whether a letter that nobody answered expects an answer."""
    sent = await _read_sent(gateway, mail)
    if sent is None:
        return False
    goal = gateway.index.store.goal(sent.email.goal_id) if sent.email.goal_id else None
    ended = (goal.goal_id,) if goal is not None and goal.status.final else ()
    return office.is_question(sent, ended)


async def _read_sent(gateway: Gateway, mail: Mail) -> SentEmail | None:
    """What the sender noted about a letter; read again only when the log has such a note."""
    ((number,),) = gateway.index.store.query(_LAST)
    known = _known.get(gateway.index)
    if known is None or known.number != number:
        known = _known[gateway.index] = _Known({}, number)
    if mail.id not in known.sent:
        subject = subjects.record(mail.sender, "letter", mail.id)
        try:
            record = await read_record(gateway.bus, subject, SentEmail)
        except ValueError:
            record = None
        known.sent[mail.id] = record.value if record else None
    return known.sent[mail.id]
