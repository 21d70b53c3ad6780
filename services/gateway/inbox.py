"""What waits for people: open requests, questions, letters, dead letters, and what was put aside."""

import asyncio
import contextlib
from collections import Counter, OrderedDict
from collections.abc import Sequence
from datetime import UTC, datetime
from weakref import WeakKeyDictionary

import msgspec

from services.gateway.call import Gateway, Kept
from services.gateway.index.index import LogIndex
from shared import subjects
from shared.bus.entry import seal
from shared.bus.records import Record, read_record, retry_on_conflict
from shared.contracts import DeadLetter, InboxChanged, PutAside, SentEmail
from shared.operations.approvals import ApprovalPage, read_approvals
from shared.operations.dead_letters import read_latest_letters
from shared.operations.letters import parse_mail
from shared.queries import office
from shared.queries.records import count_subjects, select_fairly
from shared.text.times import parse_time
from shared.trail.archives import read_messages
from shared.views.approval import Approval
from shared.views.listed import Mail

MOST = 500  # The most dead letters of one agent that are read


_dead = Kept("dead", lambda gateway: read_latest_letters(gateway.bus, MOST))


async def read_dead(
    gateway: Gateway, limit: int, agent: str = ""
) -> tuple[list[tuple[int, DeadLetter]], dict[str, int]]:
    """The latest dead letters with their numbers, of ``agent`` or those of each in turn, and how many more
    each has.

    As of what is indexed; more than MOST of an agent are read from the log.
    """
    if not gateway.index.store.last_of("dead"):
        return [], {}
    drops = sum((await count_subjects(gateway.bus, subjects.OFFICE, subjects.dropped("*"))).values())
    letters, older = await _dead.find(gateway, also=drops)
    if limit > MOST:
        letters, older = await read_latest_letters(gateway.bus, limit)
    letters = [found for found in letters if agent in ("", found[1].sender)]
    shown = select_fairly(letters, _agent_of, limit)
    left = Counter(map(_agent_of, letters)) - Counter(map(_agent_of, shown)) + Counter(older)
    return shown, {name: count for name, count in left.items() if agent in ("", name)}


def _agent_of(found: tuple[int, DeadLetter]) -> str:
    return found[1].sender


INDEX_WAIT = 0.5  # Seconds that a request waits at most until the index has what it sent
KEPT = 2_000  # Messages that are kept as they were read; they never change

_known_letters: WeakKeyDictionary[LogIndex, OrderedDict[int, Mail | None]] = WeakKeyDictionary()


async def read_letters(gateway: Gateway, where: str, values: Sequence[object], limit: int) -> list[Mail]:
    """The last mail that a condition on the index's messages admits, the latest last."""
    sql = (
        f"SELECT office FROM messages WHERE stream = 0 AND subject GLOB 'mail.*' AND ({where}) "  # noqa: S608 - constants
        "ORDER BY number DESC LIMIT ?"
    )
    numbers = [int(row[0]) for row in gateway.index.store.query(sql, [*values, limit])]
    known = _known_letters.setdefault(gateway.index, OrderedDict())
    missing = [number for number in numbers if number not in known]
    found = await read_messages(gateway.bus, subjects.OFFICE, missing)
    known |= {number: parse_mail(stored) for number, stored in found.items()}
    mails = [known.get(number) for number in reversed(numbers)]
    while len(known) > KEPT:
        known.popitem(last=False)
    return [mail for mail in mails if mail is not None]


def count_letters(gateway: Gateway, where: str, values: Sequence[object]) -> dict[str, int]:
    """How much mail of each sender a condition on the index's messages admits."""
    sql = (
        f"SELECT sender, count(*) FROM messages WHERE stream = 0 AND subject GLOB 'mail.*' AND ({where}) "  # noqa: S608 - constants
        "GROUP BY sender"
    )
    return dict(gateway.index.store.query(sql, values))


async def wait_until_indexed(gateway: Gateway, number: int) -> None:
    """Return once the index has a message of OFFICE, so that who sent it finds it; INDEX_WAIT at most."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(INDEX_WAIT):
            while gateway.index.position.office < number:
                await gateway.index.wait_for_change()


_requests = Kept("approval", lambda gateway: read_approvals(gateway.bus))


async def read_requests(gateway: Gateway) -> ApprovalPage:
    """The latest requests for approval of each agent with their states at this moment."""
    page = await _requests.find(gateway)
    found = []
    for each in page.approvals:
        goal = gateway.index.store.goal(each.goal_id) if each.goal_id and each.state == "waiting" else None
        found.append(as_of_now(each, goal is not None and goal.status.final))
    return page._replace(approvals=found)


def forget_requests(gateway: Gateway) -> None:
    """Have the requests read again, because one was just answered."""
    _requests.forget(gateway)


async def read_open_requests(gateway: Gateway) -> list[Approval]:
    """Those of them that wait for an answer."""
    return [each for each in (await read_requests(gateway)).approvals if each.state == "waiting"]


def as_of_now(approval: Approval, is_over: bool) -> Approval:
    """An approval whose time may have run out, or whose goal or task may have ended, since it was read."""
    if approval.state != "waiting":
        return approval
    if parse_time(approval.expires_at) <= datetime.now(UTC):
        return msgspec.structs.replace(approval, state="expired")
    return msgspec.structs.replace(approval, state="over") if is_over else approval


MAX_KEPT = 2_000  # Items that are kept: the latest


async def read_put_aside(gateway: Gateway) -> dict[str, PutAside]:
    """What was put aside, by the ids of the items."""
    record = await _read(gateway)
    return {each.id: each for each in record.value.put_aside} if record else {}


async def put_item_aside(gateway: Gateway, item: PutAside) -> None:
    """Put an item aside; the first who did stays on record."""

    async def attempt() -> None:
        record = await _read(gateway)
        known = record.value.put_aside if record else ()
        if any(each.id == item.id for each in known):
            return
        changed = InboxChanged(sender=subjects.GATEWAY, put_aside=(*known, item)[-MAX_KEPT:])
        await gateway.bus.commit([seal(subjects.PUT_ASIDE, changed, expect=record.seq if record else 0)])

    await retry_on_conflict(attempt)


async def _read(gateway: Gateway) -> Record[InboxChanged] | None:
    return await read_record(gateway.bus, subjects.PUT_ASIDE, InboxChanged)


SEARCHED = 200  # Letters in each direction among which questions and answers are looked for: the last ones


class Questions(msgspec.Struct, frozen=True, kw_only=True):
    """Letters that wait for a person's answer, and those answered, each with the reply."""

    open: list[Mail]
    answered: list[tuple[Mail, Mail]]


async def _note_nothing(_: Gateway) -> dict[str, SentEmail | None]:
    return {}


_sent = Kept("letter", _note_nothing)
"""What senders noted about letters, read again only when the log has another such note."""


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
    known = await _sent.find(gateway)
    if mail.id not in known:
        subject = subjects.record(mail.sender, "letter", mail.id)
        try:
            record = await read_record(gateway.bus, subject, SentEmail)
        except ValueError:
            record = None
        known[mail.id] = record.value if record else None
    sent = known[mail.id]
    if sent is None:
        return False
    goal = gateway.index.store.goal(sent.email.goal_id) if sent.email.goal_id else None
    ended = (goal.goal_id,) if goal is not None and goal.status.final else ()
    return office.is_question(sent, ended)
