"""``mailroom ask``: ask nexus, the front desk, a question and print its answer."""

import asyncio

import click

from services.cli.commands.chat.answering import Question, ask_nexus, choose_session
from services.cli.commands.chat.sessions import session_options
from services.cli.commands.options import (
    TextType,
    format_examples,
    json_option,
    print_resolved,
    resolve_text,
    timeout_option,
)
from services.cli.output.answers import print_answer
from services.cli.output.console import print_json
from services.cli.output.outcomes import FAILED
from shared.contracts import ResultOutcome


@click.command(
    epilog=format_examples(
        'mailroom ask "what did the check-up find?"',
        'mailroom ask "remind me tomorrow at 9 to call the bank"',
        'mailroom ask --continue "at 10 instead"',
    )
)
@click.argument("text", type=TextType())
@session_options
@timeout_option(60.0)
@click.option("--why", is_flag=True, help="Show the ids of the memories that the answer is from.")
@json_option
def ask(text: str, session: str, latest: bool, timeout: float, why: bool, as_json: bool) -> None:
    """Ask the front desk a question.

    TEXT is the question in your own words; '-' reads it from standard input. Relative paths in it, such as
    './x' or '.', are made absolute. With --session or --continue it can be a follow-up, such as "at 9" or
    "and who decided that?". Exits with 1 if what you ask for was not done, such as a reminder that was not
    set.
    """
    text, resolved = resolve_text(text)
    print_resolved(resolved)

    question = Question(session=choose_session(session, latest=latest), text=text)
    answer = asyncio.run(ask_nexus(question, timeout))
    if as_json:
        print_json(answer)
    else:
        print_answer(answer, why=why)
    if answer.outcome is ResultOutcome.FAILED:
        raise SystemExit(FAILED)
