"""Letters of people and agents: reading them, their threads, writing to an agent."""

from shared import subjects
from shared.bus import Bus, Stored
from shared.bus.records import read_presences
from shared.contracts import AgentReport, Email, Question, Response, decode, generate_id
from shared.errors import ConfigError, NotFound
from shared.queries.records import read_newest, unknown_agent_error
from shared.trail.archives import read_message, scan_log
from shared.views.listed import Mail

SEARCHED, AT_ONCE = 10_000, 1_000  # The most messages that one search reads, and how many it reads at once


async def search_mail(
    bus: Bus,
    sender: str,
    recipient: str,
    limit: int,
    *,
    containing: str = "",
    thread: str = "",
    before: int = 0,
) -> tuple[list[Mail], int]:
    """The last ``limit`` from ``sender`` to ``recipient`` (a name, or * for any) that a search finds.

    Those with a text, whatever its case, or of the thread of a message (number or id). It reads back from the
    latest, or from ``before``, up to SEARCHED messages; returned beside them is before which message a
    further search begins, 0 if all were read.
    """
    pattern, wanted = subjects.mail(recipient, sender), containing.casefold()
    found: list[Mail] = []
    for _ in range(SEARCHED // AT_ONCE):
        page, number = await read_newest(bus, subjects.OFFICE, pattern, AT_ONCE, before=before)
        items = [item for stored in page if (item := parse_mail(stored)) is not None]
        found[:0] = items if thread else _select_containing(items, wanted)
        before = page[0].seq if number > len(page) else 0
        if not before or (len(found) > limit and not thread):
            break
    if thread:
        found = _select_containing(select_thread(found, thread), wanted)
    return found[-limit:], found[-limit].number if len(found) > limit else before


def _select_containing(items: list[Mail], wanted: str) -> list[Mail]:
    return [item for item in items if wanted in f"{item.subject} {item.body}".casefold()]


async def find_mail(bus: Bus, name: str) -> Mail:
    """The message with this number, or whose id begins so; raises NotFound if there is none."""
    if name.isdecimal():
        return await read_mail_item(bus, int(name[:20]))
    async for stored in scan_log(bus, subjects.OFFICE, subjects.mail("*", "*")):
        if name.encode() in stored.data and (item := parse_mail(stored)) and item.id.startswith(name):
            return item
    raise NotFound(f"There is no message {name[:64]!r}", "'mailroom mail list' shows their numbers")


async def read_mail_item(bus: Bus, number: int) -> Mail:
    """The message with this number; raises NotFound if there is none."""
    stored = await read_message(bus, subjects.OFFICE, number)
    item = parse_mail(stored) if stored and stored.subject.startswith("mail.") else None
    if item is None:
        raise NotFound(f"There is no message {number}", "'mailroom mail list' shows their numbers")
    return item


def parse_mail(stored: Stored) -> Mail | None:
    """A message of a mailbox; None for envelopes that are not mail, such as the result of a task."""
    try:
        envelope = decode(stored.data)
    except ValueError:
        return None
    match envelope:
        case Email():
            kind, subject, body, session = "letter", envelope.subject, envelope.body, envelope.in_reply_to
        case Response():
            kind, subject, body, session = "answer", "", envelope.text, envelope.cause
        case AgentReport():
            kind, subject, body, session = "report", "", envelope.summary, envelope.cause
        case Question():
            kind, subject, body, session = "question", "", envelope.text, ""
        case _:
            return None
    # The broker enforces the sender in the subject, not the one in the envelope.
    address = subjects.Address.of(stored.subject)
    return Mail(
        number=stored.seq,
        id=envelope.id,
        sender=address.sender,
        recipient=address.recipient,
        created_at=envelope.created_at,
        kind=kind,
        subject=subject,
        body=body,
        session=session,
        person=envelope.person if address.sender == subjects.USER else "",
        audience=envelope.audience,
    )


def select_thread(items: list[Mail], start: str) -> list[Mail]:
    """The messages that answer one another, found from the number or id of one of them."""
    known = {item.id for item in items if start in (str(item.number), item.id)}
    size = -1
    while size != len(known):
        size = len(known)
        for item in items:
            if item.id in known or (item.session and item.session in known):
                known |= {item.id, item.session} - {""}
    return [item for item in items if item.id in known]


def compose(
    recipient: str,
    subject: str,
    body: str,
    in_reply_to: str = "",
    *,
    person: str = "",
    email_id: str = "",
    audience: str = "",
) -> Email:
    """A letter of ``person``, for the ``audience``; raises ConfigError if it cannot be sent."""
    try:
        return Email(
            id=email_id or generate_id(),
            sender=subjects.USER,
            recipient=recipient,
            subject=subject,
            body=body,
            in_reply_to=in_reply_to,
            person=person,
            audience=audience,
        )
    except ValueError as error:
        raise ConfigError(f"The message cannot be sent: {error}") from None


def compose_reply(original: Mail, body: str, *, person: str = "", email_id: str = "") -> Email:
    """The answer to a message, in its thread, to the other one."""
    other = original.recipient if original.sender == subjects.USER else original.sender
    subject = original.subject
    if subject.strip() and not subject.lower().startswith("re:"):
        subject = f"Re: {subject}"
    audience = original.audience
    return compose(other, subject, body, original.id, person=person, email_id=email_id, audience=audience)


async def send(bus: Bus, email: Email) -> int:
    """Send a letter; returns its number. Raises NotFound if no such agent is running."""
    presences = await read_presences(bus)
    if email.recipient not in {presence.agent for presence in presences}:
        raise unknown_agent_error(email.recipient, presences)
    subject = subjects.mail(email.recipient, subjects.USER)
    return int((await bus.store(subject, email.to_json(), headers={"Nats-Msg-Id": email.id}))["seq"])
