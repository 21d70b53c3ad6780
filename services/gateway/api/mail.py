"""Mail: the threads of people and agents, and writing to an agent."""

from typing import Annotated

import msgspec

from services.gateway.call import Call
from services.gateway.inbox import read_letters, wait_until_indexed
from services.gateway.problems import not_found
from services.gateway.routing import API, Endpoint
from shared.access.scopes import Scope
from shared.contracts.base import MAX_TEXT
from shared.operations.letters import compose, compose_reply, read_mail_item, select_thread, send
from shared.trail.archives import find_archived
from shared.views.listed import Mail
from shared.views.timeline import ArchivedPart

SEARCHED = 500  # Messages between two parties among which a thread is looked for: the last ones


class MailQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which mail: of people (else of all agents, with ``all``), with an agent, older than number ``before``.

    ``thread`` is the number of a message whose thread is wanted.
    """

    agent: str = ""
    all: bool = False
    thread: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0
    before: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 50


class MailList(msgspec.Struct, frozen=True, kw_only=True):
    """Messages, the latest last; ``next`` goes into ``before`` for earlier ones, 0 if there are none.

    ``away`` are bundles of the archive that are not here: mail of their time is not among these.
    """

    mail: list[Mail]
    next: int
    away: list[ArchivedPart] = []


class NewLetter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A letter to an agent, or with ``reply_to`` the answer to the message of that number."""

    to: str = ""
    subject: Annotated[str, msgspec.Meta(max_length=500)] = ""
    body: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_TEXT)]
    reply_to: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0


class SentLetter(msgspec.Struct, frozen=True, kw_only=True):
    """The id of a letter and its number."""

    id: str
    number: int


async def list_mail(call: Call, query: MailQuery) -> MailList:
    """Letters, questions, answers and reports: of people, of one agent, of one thread."""
    if query.thread:
        thread = await _read_thread(call, query.thread)
        return MailList(mail=thread, next=0, away=await _find_away(call))
    clauses, values = ["1"], []
    if not query.all:
        clauses.append("(sender = 'user' OR recipient = 'user')")
    if query.agent:
        clauses.append("(sender = ? OR recipient = ?)")
        values += [query.agent, query.agent]
    if query.before:
        clauses.append("office < ?")
        values.append(str(query.before))
    found = await read_letters(call.gateway, " AND ".join(clauses), values, query.limit)
    if len(found) == query.limit:
        return MailList(mail=found, next=found[0].number)
    return MailList(mail=found, next=0, away=await _find_away(call))


async def _find_away(call: Call) -> list[ArchivedPart]:
    return [part for part in await find_archived(call.gateway.bus) if not part.is_here]


async def _read_thread(call: Call, number: int) -> list[Mail]:
    item = await read_mail_item(call.gateway.bus, number)
    parties = [item.sender, item.recipient]
    where = "sender IN (?, ?) AND recipient IN (?, ?)"
    found = await read_letters(call.gateway, where, [*parties, *parties], SEARCHED)
    return select_thread(found, item.id) or [item]


async def write_letter(call: Call, body: NewLetter) -> SentLetter:
    """Write to an agent, or reply. The same Idempotency-Key sends one letter."""
    bus, person = call.gateway.bus, call.person.name
    email_id = bus.derive_id("letter", person, call.key) if call.key else ""
    if body.reply_to:
        original = await read_mail_item(bus, body.reply_to)
        email = compose_reply(original, body.body, person=person, email_id=email_id)
    elif body.to:
        email = compose(body.to, body.subject, body.body, person=person, email_id=email_id)
    else:
        raise not_found("recipient", "Name an agent in 'to', or a message in 'reply_to'")
    number = await send(bus, email)
    await wait_until_indexed(call.gateway, number)
    return SentLetter(id=email.id, number=number)


ENDPOINTS = (
    Endpoint("GET", f"{API}/mail", list_mail, scope=Scope.READ, tag="mail"),
    Endpoint("POST", f"{API}/mail", write_letter, scope=Scope.SUBMIT, tag="mail", status=201),
)
