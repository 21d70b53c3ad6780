"""One answer of the front desk: the words of its model, what agents do for it, and at last the Response."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

import msgspec

from shared import subjects
from shared.bus import Bus
from shared.contracts import AnswerWords, Question, Response, StopAnswer, Task, TaskChanged
from shared.errors import BusUnavailable, Refused
from shared.queries.dead_letters import find_dead_letter
from shared.queries.records import scan
from shared.text.printable import clean

POLL_INTERVAL = 1.0
"""Seconds between reads if no message arrives."""
STOP_TIMEOUT = 10.0
"""Seconds until an answer that was stopped must have ended."""
_ANSWERS = subjects.mail(subjects.USER, subjects.NEXUS)


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent does for an answer: it ``begins`` a task, or says how far it is."""

    agent: str
    text: str


Step = AnswerWords | Note | Response


async def follow_answer(bus: Bus, question: Question) -> AsyncGenerator[Step, None]:
    """Ask ``question``, and yield what is done for it until its Response; raises Refused and BusError."""
    events: asyncio.Queue[Step | None] = asyncio.Queue()
    notes = _Notes(question.id)

    async def on_words(_: str, payload: bytes, __: dict[str, str]) -> None:
        with suppress(ValueError):
            events.put_nowait(AnswerWords.from_json(payload))

    async def on_step(subject: str, payload: bytes, _: dict[str, str]) -> None:
        if note := notes.read(subject.removeprefix(subjects.AUDIT_PREFIX), payload):
            events.put_nowait(note)

    async def on_letter(_: str, __: bytes, ___: dict[str, str]) -> None:
        events.put_nowait(None)

    steps = subjects.task("*", subjects.NEXUS, "*", "*")
    refusals = subjects.dead(subjects.NEXUS)
    ends = [
        await bus.subscribe(subjects.words(question.id), on_words),
        await bus.subscribe(subjects.AUDIT_PREFIX + steps, on_step),
        await bus.subscribe(subjects.AUDIT_PREFIX + _ANSWERS, on_letter),
        await bus.subscribe(subjects.AUDIT_PREFIX + refusals, on_letter),
    ]
    try:
        subject = subjects.mail(subjects.NEXUS, subjects.USER)
        stored = await bus.store(subject, question.to_json(), headers={"Nats-Msg-Id": question.id})
        while True:
            event = await _next(events)
            if event is None:
                event = await _read_answer(bus, question, int(stored["seq"]))
            if event is not None:
                yield event
            if isinstance(event, Response):
                return
    finally:
        for end in ends:
            await end()


async def _next(events: asyncio.Queue[Step | None]) -> Step | None:
    """The next event; None if the stream has to be read."""
    try:
        # wait_for of Python 3.11 forgets a Ctrl-C that comes together with a message.
        async with asyncio.timeout(POLL_INTERVAL):
            return await events.get()
    except TimeoutError:
        return None


async def _read_answer(bus: Bus, question: Question, asked: int) -> Response | None:
    async with aclosing(scan(bus, subjects.OFFICE, _ANSWERS, seq=asked)) as found:
        async for stored in found:
            if question.id.encode() not in stored.data:
                continue
            with suppress(ValueError):
                answer = Response.from_json(stored.data)
                if answer.cause == question.id:
                    return answer
    if (refusal := await find_dead_letter(bus, subjects.NEXUS, asked)) is not None:
        raise Refused(f"The front desk could not handle the question: {refusal.reason}")
    return None


class _Notes:
    """Reads the steps of the tasks that nexus gives out for one question."""

    def __init__(self, question_id: str) -> None:
        self._id = question_id
        self._tasks: set[str] = set()

    def read(self, subject: str, payload: bytes) -> Note | None:
        """What a step says; None if it says nothing, or is of another question."""
        _, agent, _, task_id, step = subject.split(".")
        with suppress(ValueError):
            if step in subjects.NEW.values() and self._id.encode() in payload:
                self._tasks.add(task_id)
                if agent != subjects.NEXUS:
                    return Note(agent=agent, text=f"is asked: {clean(Task.from_json(payload).text)}")
            if step in subjects.AT_WORK and task_id in self._tasks:
                note = TaskChanged.from_json(payload).note
                return Note(agent=agent, text=clean(note)) if note else None
        return None


async def ask_nexus(bus: Bus, question: Question, timeout: float) -> Response:
    """The answer of nexus; raises BusUnavailable after ``timeout`` seconds, or Refused."""
    try:
        async with asyncio.timeout(timeout), aclosing(follow_answer(bus, question)) as steps:
            async for step in steps:
                if isinstance(step, Response):
                    return step
    except TimeoutError:
        pass
    raise BusUnavailable(
        f"The front desk did not answer within {timeout:g} s; the question stays in its mailbox",
        f"'mailroom status' shows whether {subjects.NEXUS} runs",
    )


async def stop_answer(bus: Bus, question: Question) -> None:
    """Have nexus end what it does for a question; what comes of it is the answer."""
    request = StopAnswer(
        sender=subjects.USER,
        recipient=subjects.NEXUS,
        question_id=question.id,
        session_id=question.user_session_id or question.id,
    )
    subject = subjects.mail(subjects.NEXUS, subjects.USER)
    await bus.store(subject, request.to_json(), headers={"Nats-Msg-Id": request.id})
