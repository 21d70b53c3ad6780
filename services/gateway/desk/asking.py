"""Asking the front desk: the question is stored once, and what follows from it is told as it happens."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from services.gateway.context import Gateway
from services.gateway.desk.sessions import Turn, read_turn
from services.gateway.index.recent import Recent
from services.gateway.index.rows import MessageRow, Position
from services.gateway.index.store import Filter
from shared import subjects
from shared.contracts import AnswerWords, Question, StopAnswer, TaskStatus
from shared.errors import Conflict, NotFound, TooLate
from shared.operations.goals import cancel_goal
from shared.trail.archives import read_message

PATIENCE = 600.0
"""Seconds for which an answer is waited for; it is in the session whenever it comes."""
STOP_PATIENCE = 10.0
"""Seconds until an answer that was stopped should have ended."""

_ANSWERS = subjects.mail(subjects.USER, subjects.NEXUS)
_REFUSED = subjects.dead(subjects.NEXUS)


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent does for an answer: it was asked (``asked``), began (``begun``), says how far it is
    (``noted``) or has ended (``ended``).
    """

    agent: str
    step: str
    task_id: str
    text: str
    at: str


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A question that is stored: its id, its session, and the position of the log from which to follow."""

    id: str
    session_id: str
    position: str


async def ask(gateway: Gateway, question: Question) -> Asked:
    """Store a question, once for each id; raises Conflict if another one has that id."""
    position = str(gateway.index.position)
    known = await read_turn(gateway, question.id)
    if known is None:
        subject = subjects.mail(subjects.NEXUS, subjects.USER)
        await gateway.bus.store(subject, question.to_json(), headers={"Nats-Msg-Id": question.id})
    elif known.text != question.text:
        raise Conflict("Another question was asked with this key", "Send a new Idempotency-Key")
    session = question.user_session_id or question.id
    return Asked(id=question.id, session_id=session, position=position)


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
        if stored is None or question_id.encode() not in stored.data:
            return None
        tasks.add(task_id)
        return Note(agent=assignee, step="asked", task_id=task_id, text=row.text, at=row.time)
    if task_id not in tasks:
        return None
    word = {subjects.CLAIMED: "begun", subjects.NOTED: "noted"}.get(step, "ended")
    if step in subjects.AT_WORK and row.text == TaskStatus.IN_PROGRESS:  # it says no more than that
        return Note(agent=assignee, step=word, task_id=task_id, text="", at=row.time)
    return Note(agent=assignee, step=word, task_id=task_id, text=row.text, at=row.time)
