"""``mailroom dead``: dead letters, the messages that could not be handled: list, show, retry, drop."""

import json
from collections import Counter

import click
from rich.text import Text

from services.cli.commands.options import NumberType, agent_option, json_option, limit_option
from services.cli.connection import run_connected
from services.cli.output.console import (
    open_console,
    print_block,
    print_facts,
    print_json,
    print_line,
    print_rest,
    print_result,
)
from shared import subjects
from shared.bus import Bus
from shared.contracts import DeadLetter
from shared.errors import MailroomError
from shared.operations.dead_letters import (
    drop_dead_letters,
    read_dead_letter,
    read_dead_letters,
    read_latest_letters,
    resend,
)
from shared.queries.records import select_fairly
from shared.text.display import clean, clean_block
from shared.text.times import format_date, format_span, seconds_between

numbers_argument = click.argument("numbers", metavar="NUMBER...", nargs=-1, type=NumberType(1))
all_option = click.option("--all", "everything", is_flag=True, help="All of them.")


@click.group()
def dead() -> None:
    """List dead letters, send them again, or drop them.

    A dead letter is a message that an agent could not handle.
    """


@dead.command(name="list")
@agent_option
@limit_option
@json_option
def list_letters(agent: str, limit: int, as_json: bool) -> None:
    """List the latest dead letters of each agent, latest last."""
    read, older = run_connected(lambda bus: read_latest_letters(bus, limit, agent))
    found = select_fairly(read, _agent_of, limit)
    left = Counter(map(_agent_of, read)) - Counter(map(_agent_of, found)) + Counter(older)
    if as_json:
        print_json([_to_dict(seq, letter) for seq, letter in found])
        print_rest(left, as_json=True)
        return
    if not found:
        click.echo("There are no dead letters.")
        return
    console = open_console()
    for seq, letter in found:
        age = format_span(seconds_between(letter.created_at))
        head = Text.assemble((str(seq), "bold"), f"  {letter.sender}  {clean(letter.subject)}  {age} ago")
        print_line(head, console)
        print_block(f"{'':4}{clean(letter.reason)}", console, hang=4)
    print_rest(left, as_json=False)
    click.echo("\nmailroom dead show|retry|drop NUMBER")


def _agent_of(found: tuple[int, DeadLetter]) -> str:
    return found[1].sender


def _to_dict(seq: int, letter: DeadLetter) -> dict[str, object]:
    return {"number": seq, **letter.to_dict()}


@dead.command()
@click.argument("number", type=NumberType(1))
@json_option
def show(number: int, as_json: bool) -> None:
    """Show a dead letter and its message."""
    letter = run_connected(lambda bus: read_dead_letter(bus, number))
    if as_json:
        print_json(_to_dict(number, letter))
        return
    print_facts(
        {
            "reason": letter.reason,
            "agent": letter.sender,
            "since": format_date(letter.created_at),
            "message": f"{letter.subject}, number {letter.stream_seq} of {letter.stream}",
            "size": f"{letter.original_size:,} bytes",
            "deliveries": str(letter.deliveries),
            "goal": letter.goal_id,
            "task": letter.task_id,
            **letter.headers,
        }
    )
    click.echo(f"\n{clean_block(_format_original(letter))}")


def _format_original(letter: DeadLetter) -> str:
    try:
        return json.dumps(json.loads(letter.original), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        cut = len(letter.original.encode()) < letter.original_size
        return letter.original + (" ... (cut)" if cut else "")


@dead.command()
@numbers_argument
@all_option
@json_option
def retry(numbers: tuple[int, ...], everything: bool, as_json: bool) -> None:
    """Send the messages of dead letters again.

    The letters NUMBER leave the list. Needs the admin's key.
    """
    chosen = _select(numbers, everything)
    done = run_connected(lambda bus: _retry(bus, chosen), subjects.ADMIN)
    if as_json:
        print_json([{"number": number, "resent_as": seq} for number, seq in done])
    else:
        for number, seq in done:
            click.echo(f"{number}: sent again as message {seq}")


@dead.command()
@numbers_argument
@all_option
@json_option
def drop(numbers: tuple[int, ...], everything: bool, as_json: bool) -> None:
    """Remove dead letters from the list.

    The letters NUMBER stay in the log. Needs the admin's key.
    """
    chosen = _select(numbers, everything)
    run_connected(lambda bus: _drop(bus, chosen), subjects.ADMIN)
    print_result(chosen, f"Dropped: {', '.join(map(str, chosen)) or 'nothing'}", as_json)


def _select(numbers: tuple[int, ...], everything: bool) -> list[int]:
    if bool(numbers) == everything:
        raise click.UsageError("Name the dead letters by number, or all with --all")
    return list(numbers) if numbers else [seq for seq, _ in run_connected(read_dead_letters)]


async def _retry(bus: Bus, numbers: list[int]) -> list[tuple[int, int]]:
    done: list[tuple[int, int]] = []
    for number in numbers:
        try:
            done.append((number, await resend(bus, number)))
        except MailroomError as error:
            named = f"dead letter {number}" in error.cause
            cause = error.cause if named else f"Dead letter {number}: {error.cause}"
            before = f" (sent again before it: {', '.join(str(seq) for seq, _ in done)})" if done else ""
            raise MailroomError(f"{cause}{before}", error.cure) from None
    return done


async def _drop(bus: Bus, numbers: list[int]) -> None:
    await drop_dead_letters(bus, [(number, await read_dead_letter(bus, number)) for number in numbers])
