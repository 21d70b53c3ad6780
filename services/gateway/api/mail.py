"""Mail: the threads of people and agents, and writing to an agent."""

import asyncio
import contextlib
from typing import Annotated

import msgspec

from services.gateway.call import Call
from services.gateway.inbox import count_letters, read_letters, wait_until_indexed
from services.gateway.problems import not_found
from services.gateway.routing import API, Endpoint
from shared.access.scopes import Scope
from shared.memory import Memory
from shared.memory.nearest import find_about
from shared.memory.ownership import audience_read_for
from shared.operations.letters import (
    compose,
    compose_reply,
    find_mail,
    read_mail_item,
    search_mail,
    send,
)
from shared.trail.archives import find_archived
from shared.views.listed import Mail, MailList, NewLetter, SentLetter

SEARCHED = 500  # Messages among which a reply, or what is asked for, is looked for: the last ones


class MailQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which mail: from ``sender`` to ``recipient``, or with an ``agent``; else of people, or with ``all`` of
    all agents; older than number ``before``.

    With ``contains`` (whatever its case) and ``thread`` (the number or id of a message of it) the log is
    searched, 10,000 messages at a time. ``about`` are those of the last 500 that it is about, by their words
    or in meaning, the best first.
    """

    sender: str = ""
    recipient: str = ""
    agent: str = ""
    all: bool = False
    thread: str = ""
    about: Annotated[str, msgspec.Meta(max_length=1_000)] = ""
    contains: Annotated[str, msgspec.Meta(max_length=1_000)] = ""
    before: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 50


class RepliesQuery(msgspec.Struct, frozen=True, kw_only=True):
    """For how many seconds a reply is waited for, if there is none yet."""

    wait: Annotated[float, msgspec.Meta(ge=0, le=60)] = 0.0


async def list_mail(call: Call, query: MailQuery) -> MailList:
    """Letters, questions, answers and reports: of people, of one agent, of one thread."""
    bus = call.gateway.bus
    if query.thread or query.contains:
        parties = query.sender or "*", query.recipient or "*"
        found, left = await search_mail(
            bus, *parties, query.limit, containing=query.contains, thread=query.thread, before=query.before
        )
        if query.thread and not found:
            await find_mail(bus, query.thread)
        return MailList(mail=found, next=left, away=[] if left else await find_archived(bus))
    wanted = {"sender = ?": query.sender, "recipient = ?": query.recipient, "office < ?": query.before}
    clauses = [clause for clause, value in wanted.items() if value]
    values = [value for value in wanted.values() if value]
    if not (query.sender or query.recipient or query.all):
        clauses.append("(sender = 'user' OR recipient = 'user')")
    if query.agent:
        clauses.append("(sender = ? OR recipient = ?)")
        values += [query.agent, query.agent]
    where = " AND ".join(clauses) or "1"
    if query.about.strip():
        mails = (await read_letters(call.gateway, where, values, SEARCHED))[::-1]
        texts = [f"{each.subject} {each.body}" for each in mails]
        places = await find_about(Memory(bus), query.about, texts)
        return MailList(mail=[mails[place] for place in places[: query.limit]])
    found = await read_letters(call.gateway, where, values, query.limit)
    if len(found) == query.limit:
        older = count_letters(call.gateway, f"{where} AND office < ?", [*values, found[0].number])
        return MailList(mail=found, next=found[0].number if older else 0, older=older)
    return MailList(mail=found, away=[part for part in await find_archived(bus) if not part.is_here])


async def read_mail(call: Call) -> Mail:
    """A message by its number or id."""
    return await find_mail(call.gateway.bus, call.path["message"])


async def read_replies(call: Call, query: RepliesQuery) -> MailList:
    """The replies to a message; if there is none yet, the first is waited for."""
    index, until = call.gateway.index, asyncio.get_running_loop().time() + query.wait
    item = await find_mail(call.gateway.bus, call.path["message"])
    where, values = "sender = ? AND recipient = ? AND office > ?", (item.recipient, item.sender, item.number)
    while True:
        position = index.position
        found = await read_letters(call.gateway, where, values, SEARCHED)
        replies = [mail for mail in found if mail.session == item.id]
        if replies or asyncio.get_running_loop().time() >= until:
            return MailList(mail=replies)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                while index.position == position:
                    await index.wait_for_change()


async def write_letter(call: Call, body: NewLetter) -> SentLetter:
    """Write to an agent, or reply. The same Idempotency-Key sends one letter."""
    bus, person = call.gateway.bus, call.person.name
    email_id = bus.derive_id("letter", person, call.key) if call.key else ""
    if body.reply_to:
        original = await read_mail_item(bus, body.reply_to)
        email = compose_reply(original, body.body, person=person, email_id=email_id)
    elif body.to:
        email = compose(
            body.to, body.subject, body.body, person=person, email_id=email_id, audience=audience_read_for()
        )
    else:
        raise not_found("recipient", "Name an agent in 'to', or a message in 'reply_to'")
    number = await send(bus, email)
    await wait_until_indexed(call.gateway, number)
    return SentLetter(id=email.id, number=number)


ENDPOINTS = (
    Endpoint("GET", f"{API}/mail", list_mail, scope=Scope.READ, tag="mail"),
    Endpoint("GET", f"{API}/mail/{{message}}", read_mail, scope=Scope.READ, tag="mail"),
    Endpoint("GET", f"{API}/mail/{{message}}/replies", read_replies, scope=Scope.READ, tag="mail"),
    Endpoint("POST", f"{API}/mail", write_letter, scope=Scope.SUBMIT, tag="mail", status=201),
)
