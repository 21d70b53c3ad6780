"""Conversations with the front desk: a question stored once, what follows, sessions from the index."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from services.gateway.call import Gateway
from services.gateway.index.index import Recent
from services.gateway.index.rows import Position
from services.gateway.index.store import Filter
from services.gateway.problems import Failure, not_found
from shared import subjects
from shared.access.scopes import Person, Scope
from shared.bus.client import restored
from shared.contracts import AnswerWords, Question, Response, StopAnswer, TaskStatus
from shared.errors import Conflict, NotFound, TooLate
from shared.memory.ownership import audience_read_for
from shared.operations.goals import cancel_goal
from shared.queries.office import find_dead_letter
from shared.text.display import shorten
from shared.trail.archives import read_message
from shared.views.desk import Answer, Asked, Note, Session, SessionSummary, Turn
from shared.views.timeline import MessageRow

MAX_TURNS = 50  # The most turns of a session that are read at once
PAGE_SESSION = "reminders"
"""The session of what is ordered on the page of the timetable, which is no conversation."""
REMEMBERED = 5  # Turns of a conversation that go with its next question
MOST_REMEMBERED = 2_000  # The most characters of a message among them
PREVIEW = 200  # The most characters of a text in the list of sessions


def list_sessions(gateway: Gateway, person: Person, before: int, limit: int) -> list[SessionSummary]:
    """The conversations that ``person`` may read, those that went on last first; ``before`` is a cursor."""
    rows = gateway.index.store.query(
        "WITH found AS (SELECT session, min(number) AS first, max(number) AS last, count(*) AS questions "
        "FROM letters WHERE session NOT IN ('', ?) GROUP BY session) "
        "SELECT session, begun.text, begun.person, begun.time, coalesce(answer.time, asked.time), questions, "
        "coalesce(answer.text, ''), last FROM found JOIN messages AS begun ON begun.number = first "
        "JOIN messages AS asked ON asked.number = last LEFT JOIN messages AS answer ON answer.number = "
        "(SELECT reply.number FROM letters AS question JOIN letters AS reply ON reply.cause = question.id "
        "AND reply.cause != '' WHERE question.number = last LIMIT 1) "
        "WHERE (? = 0 OR last < ?) AND (? OR begun.person = ?) ORDER BY last DESC LIMIT ?",
        [PAGE_SESSION, before, before, person.scope is Scope.ADMIN, person.name, limit],
    )
    return [
        SessionSummary(
            session_id=session,
            title=title[:PREVIEW],
            person=asker,
            begun_at=begun,
            last_at=at,
            questions=questions,
            last_answer=answer[:PREVIEW],
            next=last,
        )
        for session, title, asker, begun, at, questions, answer, last in rows
    ]


def require_readable(gateway: Gateway, session_id: str, person: Person) -> None:
    """Raise Failure unless ``person`` may read a conversation: their own, and administrators any.

    To others it is as if there were none. One that nobody has begun may be read by all.
    """
    owner = find_owner(gateway, session_id)
    if owner not in (None, person.name) and person.scope is not Scope.ADMIN:
        raise not_found(f"session {session_id!r}", "Begin one by asking something")


def require_own(gateway: Gateway, session_id: str, person: Person) -> None:
    """Raise Failure unless ``person`` may go on with a conversation: their own, or one of the command line's.

    What was said at the machine itself, without the gateway, is for administrators to go on with.
    """
    require_readable(gateway, session_id, person)
    if find_owner(gateway, session_id) not in (None, "", person.name):
        raise Failure(403, "This conversation is another person's", "Begin one of your own")


def find_owner(gateway: Gateway, session_id: str) -> str | None:
    """Who began a conversation; empty for the one at the machine, None if nobody did."""
    rows = gateway.index.store.query(
        "SELECT person FROM letters JOIN messages USING (number) WHERE session = ? ORDER BY number LIMIT 1",
        [session_id],
    )
    return str(rows[0][0]) if rows else None


async def read_session(gateway: Gateway, session_id: str, before: int = 0) -> Session:
    """The last turns of a conversation, or those before a cursor; raises Failure if there is none."""
    rows = gateway.index.store.query(
        "SELECT number, id FROM letters WHERE session = ? AND (? = 0 OR number < ?) "
        "ORDER BY number DESC LIMIT ?",
        [session_id, before, before, MAX_TURNS + 1],
    )
    if not rows and not before:
        raise not_found(f"session {session_id!r}", "Begin one by asking something")
    turns = [await read_turn(gateway, question_id) for _, question_id in reversed(rows[:MAX_TURNS])]
    earlier = rows[MAX_TURNS - 1][0] if len(rows) > MAX_TURNS else 0
    return Session(session_id=session_id, turns=[turn for turn in turns if turn], earlier=earlier)


async def read_history(gateway: Gateway, session_id: str) -> tuple[dict[str, str], ...]:
    """The last turns of a conversation that were answered, as messages: for a model that answers the next."""
    rows = gateway.index.store.query(
        "SELECT id FROM letters WHERE session = ? ORDER BY number DESC LIMIT ?", [session_id, REMEMBERED]
    )
    messages: list[dict[str, str]] = []
    for (question_id,) in reversed(rows):
        turn = await read_turn(gateway, question_id)
        if turn is not None and turn.answer is not None:
            messages.append({"role": "user", "text": shorten(turn.text, MOST_REMEMBERED)})
            messages.append({"role": "assistant", "text": shorten(turn.answer.text, MOST_REMEMBERED)})
    return tuple(messages)


async def read_turn(gateway: Gateway, question_id: str) -> Turn | None:
    """A question with its answer, as far as both are indexed."""
    seq = _find(gateway, "letters.id = ? AND session != ''", question_id)
    stored = await read_message(gateway.bus, subjects.OFFICE, seq) if seq else None
    if stored is None:
        return None
    try:
        question = Question.from_json(stored.data)
    except ValueError:
        return None
    turn = Turn(
        id=question.id,
        session_id=question.user_session_id or question.id,
        at=restored(stored).time,
        person=question.person,
        text=question.text,
        seq=seq,
    )
    if found := await read_response(gateway, question_id):
        response, at = found
        packet = response.context_used
        answer = Answer(
            id=response.id,
            at=at,
            text=response.text,
            citations=response.citations,
            route=response.route_used,
            confidence=response.confidence,
            outcome=response.outcome.value,
            goal_id=response.goal_id,
            context=packet.bullets if packet else (),
            unknowns=packet.unknowns if packet else (),
            asks=response.asks,
            understood=response.understood,
        )
        return msgspec.structs.replace(turn, state="answered", answer=answer)
    if refused := await find_dead_letter(gateway.bus, subjects.NEXUS, seq):
        return msgspec.structs.replace(turn, state="refused", reason=refused.reason)
    return turn


async def read_response(gateway: Gateway, question_id: str) -> tuple[Response, str] | None:
    """The answer to a question, the last one, and when it was stored, once it is indexed."""
    seq = _find(gateway, "cause = ?", question_id, "ORDER BY number DESC")
    stored = await read_message(gateway.bus, subjects.OFFICE, seq) if seq else None
    try:
        return (Response.from_json(stored.data), restored(stored).time) if stored else None
    except ValueError:
        return None


def _find(gateway: Gateway, where: str, value: str, order: str = "ORDER BY number") -> int:
    """The place in the audit of the first letter that passes in this order; 0 if there is none."""
    rows = gateway.index.store.query(
        f"SELECT office FROM letters JOIN messages USING (number) WHERE {where} {order} LIMIT 1",  # noqa: S608
        [value],
    )
    return int(rows[0][0]) if rows else 0


PATIENCE = 600.0  # Seconds for which an answer is waited for; it is in the session whenever it comes
STOP_PATIENCE = 10.0  # Seconds until an answer that was stopped should have ended

_ANSWERS = subjects.mail(subjects.USER, subjects.NEXUS)
_REFUSED = subjects.dead(subjects.NEXUS)


async def ask(
    gateway: Gateway, question_id: str, text: str, person: str, session: str = "", *, remember: bool = False
) -> Asked:
    """Store a question, once for each id; raises Conflict if another one has that id.

    ``remember``: with the last turns of its session.
    """
    question = Question(
        id=question_id,
        sender=subjects.USER,
        recipient=subjects.NEXUS,
        text=text,
        user_session_id=session,
        history=await read_history(gateway, session) if remember else (),
        person=person,
        audience=audience_read_for(),
    )
    position = str(gateway.index.position)
    known = await read_turn(gateway, question_id)
    if known is None:
        subject = subjects.mail(subjects.NEXUS, subjects.USER)
        await gateway.bus.store(subject, question.to_json(), headers={"Nats-Msg-Id": question_id})
    elif known.text != text:
        raise Conflict("Another question was asked with this key", "Send a new Idempotency-Key")
    return Asked(id=question_id, session_id=session or question_id, position=position)


async def follow(gateway: Gateway, asked: Asked) -> AsyncGenerator[Note | AnswerWords | Turn, None]:
    """What is done for a question, and at last its turn, answered or refused; or as it is after PATIENCE.

    What a model wrote of it before comes first.
    """
    turn = await read_turn(gateway, asked.id)
    if turn is not None and turn.state != "waiting":
        for words in gateway.words.told(asked.id):
            yield words
        yield turn
        return
    tasks: set[str] = set()
    async with aclosing(_listen(gateway, asked)) as heard:
        async for each in heard:
            if isinstance(each, AnswerWords):
                yield each
                continue
            for event in each:
                if note := await _note(gateway, event.row, asked.id, tasks):
                    yield note
            if any(event.row.subject in (_ANSWERS, _REFUSED) for event in each):
                turn = await read_turn(gateway, asked.id)
                if turn is not None and turn.state != "waiting":
                    yield turn
                    return
    if turn := await read_turn(gateway, asked.id):
        yield turn


async def _listen(gateway: Gateway, asked: Asked) -> AsyncGenerator[AnswerWords | list[Recent], None]:
    """The words of an answer, and what is indexed meanwhile, as they come, for PATIENCE seconds."""
    heard: asyncio.Queue[AnswerWords | list[Recent]] = asyncio.Queue()

    async def pass_on() -> None:
        async with aclosing(gateway.index.events(Position.parse(asked.position), Filter())) as events:
            async for batch in events:
                heard.put_nowait(batch)

    end = gateway.words.follow(asked.id, heard.put_nowait)
    indexed = asyncio.create_task(pass_on())
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while not indexed.done() or not heard.empty():
                    yield await heard.get()
    finally:
        indexed.cancel()
        end()


async def stop(gateway: Gateway, session_id: str, question_id: str, person: str) -> Turn | None:
    """Have nexus end what it does for a question, and the conductor the goal that it started.

    Returns the turn as it is then.
    """
    turn = await read_turn(gateway, question_id)
    if turn is not None and turn.state == "waiting":
        order = StopAnswer(
            sender=subjects.USER,
            recipient=subjects.NEXUS,
            question_id=question_id,
            session_id=session_id,
            person=person,
            audience=audience_read_for(),
        )
        asked = Asked(id=question_id, session_id=session_id, position=str(gateway.index.position))
        subject = subjects.mail(subjects.NEXUS, subjects.USER)
        await gateway.bus.store(subject, order.to_json(), headers={"Nats-Msg-Id": order.id})
        turn = await wait_for_answer(gateway, asked, STOP_PATIENCE)
    if turn is not None and turn.answer is not None and turn.answer.goal_id:
        with contextlib.suppress(TooLate, NotFound):
            await cancel_goal(gateway.bus, turn.answer.goal_id, "its answer was stopped", person=person)
    return turn


async def wait_for_answer(gateway: Gateway, asked: Asked, seconds: float) -> Turn | None:
    """The turn once it is answered or refused; as it is after so many seconds, None if it is not indexed."""
    try:
        async with asyncio.timeout(seconds), aclosing(follow(gateway, asked)) as steps:
            async for step in steps:
                if isinstance(step, Turn):
                    return step
    except TimeoutError:
        pass
    return await read_turn(gateway, asked.id)


async def _note(gateway: Gateway, row: MessageRow, question_id: str, tasks: set[str]) -> Note | None:
    """What a message says about the tasks that nexus gave out for a question."""
    match row.subject.split("."):
        case ["task", assignee, subjects.NEXUS, task_id, step]:
            pass
        case _:
            return None
    if step in subjects.NEW.values() and task_id not in tasks:
        stored = await read_message(gateway.bus, row.stream, row.seq)
        known = (question_id, *tasks)  # a task that one of these gave out has its id within its own
        if stored is None or not any(each.encode() in stored.data for each in known):
            return None
        tasks.add(task_id)
        return Note(agent=assignee, step="asked", task_id=task_id, text=row.text, at=row.time)
    if task_id not in tasks:
        return None
    word = {subjects.CLAIMED: "begun", subjects.NOTED: "noted"}.get(step, "ended")
    says_more = step not in subjects.AT_WORK or row.text != TaskStatus.IN_PROGRESS
    return Note(agent=assignee, step=word, task_id=task_id, text=row.text if says_more else "", at=row.time)
