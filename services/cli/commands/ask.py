"""``mailroom ask``: put a question to the front desk and print its answer."""

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

import click

from services.cli.commands.options import NumberType, TextType, json_option
from services.cli.connection import connect
from services.cli.output.console import clean, clean_block, open_console, print_block, print_json
from shared import subjects
from shared.contracts import Question, Response
from shared.errors import BusUnavailable, Refused

if TYPE_CHECKING:
    from shared.bus import Bus


LOOK_EVERY = 1.0
"""Seconds between looks into the mail even when nothing is heard."""


@click.command()
@click.argument("text", type=TextType())
@click.option(
    "--timeout",
    type=NumberType(0.1, whole=False),
    default=60.0,
    show_default=True,
    help="Seconds to wait for the answer.",
)
@json_option
def ask(text: str, timeout: float, as_json: bool) -> None:
    """Ask the front desk a question.

    TEXT is the question in your own words; '-' reads it from standard input.
    """
    answer = asyncio.run(_ask(Question(sender=subjects.USER, recipient=subjects.NEXUS, text=text), timeout))
    if as_json:
        print_json(answer)
        return
    print_answer(answer)


def print_answer(answer: Response) -> None:
    """Print an answer and the sources that it does not name itself."""
    console = open_console()
    print_block(clean_block(answer.text).strip(), console)
    unnamed = [citation for citation in answer.citations if citation not in answer.text]
    if unnamed:
        click.echo("\nSources:")
        for citation in unnamed:
            print_block(f"  {clean(citation)}", console, hang=2)


async def _ask(question: Question, timeout: float) -> Response:
    async with connect() as bus:
        return await ask_desk(bus, question, timeout)


async def ask_desk(bus: "Bus", question: Question, timeout: float) -> Response:
    """The front desk's answer; raises BusUnavailable without one in ``timeout`` seconds, or Refused."""
    heard = asyncio.Event()

    async def hear(*_: object) -> None:
        heard.set()

    for subject in (subjects.mail(subjects.USER, subjects.NEXUS), subjects.dead(subjects.NEXUS)):
        await bus.subscribe(subjects.AUDIT_PREFIX + subject, hear)
    letter = subjects.mail(subjects.NEXUS, subjects.USER)
    stored = await bus.store(letter, question.to_json(), headers={"Nats-Msg-Id": question.id})
    try:
        return await asyncio.wait_for(_await_answer(bus, question, int(stored["seq"]), heard), timeout)
    except TimeoutError:
        raise BusUnavailable(
            f"The front desk did not answer within {timeout:g} s; the question stays in its mailbox",
            f"See with 'mailroom status' whether {subjects.NEXUS} runs",
        ) from None


async def _await_answer(bus: "Bus", question: Question, asked: int, heard: asyncio.Event) -> Response:
    """What is heard only wakes: the mail itself is read from the stream, so that none is missed."""
    from services.cli.queries.progress import find_refusal

    while True:
        heard.clear()
        answer = await _find_answer(bus, question, asked)
        if answer is not None:
            return answer
        refusal = await find_refusal(bus, subjects.NEXUS, asked)
        if refusal is not None:
            raise Refused(f"The front desk could not take the question: {refusal.reason}")
        try:
            await asyncio.wait_for(heard.wait(), LOOK_EVERY)
        except TimeoutError:
            continue


async def _find_answer(bus: "Bus", question: Question, asked: int) -> Response | None:
    from services.cli.queries.records import scan

    letters = scan(bus, subjects.OFFICE, subjects.mail(subjects.USER, subjects.NEXUS), seq=asked)
    async with aclosing(letters) as mail:
        async for stored in mail:
            if question.id.encode() not in stored.data:
                continue
            try:
                answer = Response.from_json(stored.data)
            except ValueError:
                continue
            if answer.cause == question.id:
                return answer
    return None
