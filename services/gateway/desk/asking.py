"""Asking the front desk: the question is stored once, and what follows from it is told as it happens."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from services.gateway.context import Gateway
from services.gateway.desk.sessions import Turn, read_turn
from services.gateway.index.recent import Recent
from services.gateway.index.rows import MessageRow, Position
from services.gateway.index.store import Filter
from shared import subjects
from shared.contracts import Question
from shared.errors import Conflict
from shared.queries.records import read_message

PATIENCE = 600.0
"""Seconds for which an answer is waited for; it is in the session whenever it comes."""

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


async def follow(gateway: Gateway, asked: Asked) -> AsyncGenerator[Note | Turn, None]:
    """What is done for a question, and at last its turn, answered or refused; or as it is after PATIENCE."""
    turn = await read_turn(gateway, asked.id)
    if turn is not None and turn.state != "waiting":
        yield turn
        return
    tasks: set[str] = set()
    events = gateway.index.events(Position.parse(asked.position), Filter())
    end = asyncio.get_running_loop().time() + PATIENCE
    async with aclosing(events):
        while batch := await _next(events, end):
            for each in batch:
                if note := await _note(gateway, each.row, asked.id, tasks):
                    yield note
            if any(each.row.subject in (_ANSWERS, _REFUSED) for each in batch):
                turn = await read_turn(gateway, asked.id)
                if turn is not None and turn.state != "waiting":
                    yield turn
                    return
    if turn := await read_turn(gateway, asked.id):
        yield turn


async def _next(events: AsyncGenerator[list[Recent], None], end: float) -> list[Recent]:
    """The next events; none once it is ``end``, in seconds of the loop."""
    try:
        async with asyncio.timeout_at(end):
            return await anext(events)
    except TimeoutError:
        return []


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
    return Note(agent=assignee, step=word, task_id=task_id, text=row.text, at=row.time)
