"""``mailroom ask``: ask nexus, the front desk, a question and print its answer."""

from contextlib import aclosing

import click

from services.cli.commands.options import TextType, json_option, print_resolved, resolve_text, timeout_option
from services.cli.connection import run_connected
from services.cli.output.console import open_console, print_block, print_json
from services.cli.output.outcomes import FAILED
from shared import subjects
from shared.bus import Bus
from shared.contracts import Question, Response, ResultOutcome
from shared.errors import BusUnavailable, Refused
from shared.queries.records import Listener, find_dead_letter, scan
from shared.text.printable import clean, clean_block

POLL_INTERVAL = 1.0
"""Seconds between reads if no message arrives."""


@click.command()
@click.argument("text", type=TextType())
@timeout_option(60.0)
@click.option("--why", is_flag=True, help="Show the ids of the memories that the answer is from.")
@json_option
def ask(text: str, timeout: float, why: bool, as_json: bool) -> None:
    """Ask the front desk a question.

    TEXT is the question in your own words; '-' reads it from standard input. Relative paths in it, such as
    './x' or '.', are made absolute. Exits with 1 if what you ask for was not done, such as a reminder that
    was not set.
    """
    text, resolved = resolve_text(text)
    print_resolved(resolved)
    question = Question(sender=subjects.USER, recipient=subjects.NEXUS, text=text)
    answer = run_connected(lambda bus: ask_nexus(bus, question, timeout))
    if as_json:
        print_json(answer)
    else:
        print_answer(answer, why=why)
    if answer.outcome is ResultOutcome.FAILED:
        raise SystemExit(FAILED)


def print_answer(answer: Response, *, why: bool = False) -> None:
    """Print an answer and those of its sources that the text does not name.

    Memories are named by their ids only to tell ``why``.
    """
    console = open_console()
    print_block(clean_block(answer.text).strip(), console)
    if why and answer.context_used:
        click.echo(f"\nConfidence {answer.confidence:.2f}.")
    known = {item.evidence_id for item in answer.context_used.bullets} if answer.context_used else set()
    unnamed = [each for each in answer.citations if each not in answer.text and (why or each not in known)]
    if unnamed:
        click.echo("\nSources:")
        for citation in unnamed:
            print_block(f"  {clean(citation)}", console, hang=2)


async def ask_nexus(bus: Bus, question: Question, timeout: float) -> Response:
    """The answer of nexus; raises BusUnavailable after ``timeout`` seconds, or Refused."""
    answers = subjects.mail(subjects.USER, subjects.NEXUS)
    listener = Listener(bus, POLL_INTERVAL)
    await listener.subscribe(answers, subjects.dead(subjects.NEXUS))
    subject = subjects.mail(subjects.NEXUS, subjects.USER)
    stored = await bus.store(subject, question.to_json(), headers={"Nats-Msg-Id": question.id})
    asked = int(stored["seq"])

    async def read_answer() -> Response | None:
        answer = await _find_answer(bus, question, answers, asked)
        refusal = await find_dead_letter(bus, subjects.NEXUS, asked) if answer is None else None
        if refusal is not None:
            raise Refused(f"The front desk could not handle the question: {refusal.reason}")
        return answer

    try:
        return await listener.wait_for(read_answer, timeout)
    except TimeoutError:
        raise no_answer_error("question", timeout) from None


def no_answer_error(thing: str, timeout: float) -> BusUnavailable:
    """The error for a question or task that nexus has not answered in time."""
    return BusUnavailable(
        f"The front desk did not answer within {timeout:g} s; the {thing} stays in its mailbox",
        f"'mailroom status' shows whether {subjects.NEXUS} runs",
    )


async def _find_answer(bus: Bus, question: Question, subject: str, asked: int) -> Response | None:
    async with aclosing(scan(bus, subjects.OFFICE, subject, seq=asked)) as found:
        async for stored in found:
            if question.id.encode() not in stored.data:
                continue
            try:
                answer = Response.from_json(stored.data)
            except ValueError:
                continue
            if answer.cause == question.id:
                return answer
    return None
