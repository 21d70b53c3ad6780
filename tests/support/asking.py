"""Asking the front desk on the bus, where no gateway runs."""

import asyncio
from contextlib import suppress

from shared import subjects
from shared.bus import Bus
from shared.contracts import AnswerWords, Question, Response
from shared.errors import BusUnavailable, Refused
from shared.queries.office import find_dead_letter
from shared.queries.records import scan

POLL_INTERVAL = 0.25
_ANSWERS = subjects.mail(subjects.USER, subjects.NEXUS)


async def ask_nexus(
    bus: Bus, question: Question, timeout: float, words: list[AnswerWords] | None = None
) -> Response:
    """The answer of nexus, and its ``words`` as they come; raises BusUnavailable, or Refused."""
    came = asyncio.Event()

    async def on_words(_: str, payload: bytes, __: dict[str, str]) -> None:
        if words is not None:
            words.append(AnswerWords.from_json(payload))

    async def on_letter(_: str, __: bytes, ___: dict[str, str]) -> None:
        came.set()

    ends = [
        await bus.subscribe(subjects.words(question.id), on_words),
        await bus.subscribe(subjects.AUDIT_PREFIX + _ANSWERS, on_letter),
        await bus.subscribe(subjects.AUDIT_PREFIX + subjects.dead(subjects.NEXUS), on_letter),
    ]
    try:
        subject = subjects.mail(subjects.NEXUS, subjects.USER)
        stored = await bus.store(subject, question.to_json(), headers={"Nats-Msg-Id": question.id})
        async with asyncio.timeout(timeout):
            while True:
                came.clear()
                if answer := await _read_answer(bus, question, int(stored["seq"])):
                    return answer
                with suppress(TimeoutError):
                    await asyncio.wait_for(came.wait(), POLL_INTERVAL)
    except TimeoutError:
        raise BusUnavailable(f"The front desk did not answer within {timeout:g} s") from None
    finally:
        for end in ends:
            await end()


async def _read_answer(bus: Bus, question: Question, asked: int) -> Response | None:
    async for stored in scan(bus, subjects.OFFICE, _ANSWERS, seq=asked):
        with suppress(ValueError):
            answer = Response.from_json(stored.data)
            if answer.cause == question.id:
                return answer
    if (refusal := await find_dead_letter(bus, subjects.NEXUS, asked)) is not None:
        raise Refused(f"The front desk could not handle the question: {refusal.reason}")
    return None
