"""``mailroom dead``: dead letters, the messages that could not be handled: list, show, retry, drop."""

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click
from rich.text import Text

from services.cli import api
from services.cli.commands.options import NumberType, agent_option, json_option, limit_option
from services.cli.output.console import (
    open_console,
    print_block,
    print_facts,
    print_json,
    print_line,
    print_rest,
    print_result,
)
from shared import settings, subjects
from shared.errors import MailroomError
from shared.text.display import clean, clean_block
from shared.text.times import format_date, format_span, seconds_between
from shared.views.listed import DeadLetterList, DeadLetterView

if TYPE_CHECKING:
    from shared.bus import Bus

T = TypeVar("T")
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
    page = api.get("/dead-letters", DeadLetterList, {"agent": agent.removeprefix("*"), "limit": limit})
    if as_json:
        print_json(page.dead_letters)
        print_rest(page.more, as_json=True)
        return
    if not page.dead_letters:
        click.echo("There are no dead letters.")
        return
    console = open_console()
    for each in page.dead_letters:
        age = format_span(seconds_between(each.since))
        head = Text.assemble((str(each.number), "bold"), f"  {each.agent}  {clean(each.subject)}  {age} ago")
        print_line(head, console)
        print_block(f"{'':4}{clean(each.reason)}", console, hang=4)
    print_rest(page.more, as_json=False)
    click.echo("\nmailroom dead show|retry|drop NUMBER")


@dead.command()
@click.argument("number", type=NumberType(1))
@json_option
def show(number: int, as_json: bool) -> None:
    """Show a dead letter and its message."""
    letter = api.get(f"/dead-letters/{number}", DeadLetterView)
    if as_json:
        print_json(letter)
        return
    print_facts(
        {
            "reason": letter.reason,
            "agent": letter.agent,
            "since": format_date(letter.since),
            "message": f"{letter.subject}, number {letter.stream_seq} of {letter.stream}",
            "size": f"{letter.original_size:,} bytes",
            "deliveries": str(letter.deliveries),
            "goal": letter.goal_id,
            "task": letter.task_id,
            **letter.headers,
        }
    )
    try:
        original = json.dumps(json.loads(letter.original), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        cut = len(letter.original.encode()) < letter.original_size
        original = letter.original + (" ... (cut)" if cut else "")
    click.echo(f"\n{clean_block(original)}")


@dead.command()
@numbers_argument
@all_option
@json_option
def retry(numbers: tuple[int, ...], everything: bool, as_json: bool) -> None:
    """Send the messages of dead letters again.

    The letters NUMBER leave the list. Needs the admin's key, so it works on the office's machine alone.
    """
    _require_choice(numbers, everything)
    done = _run_as_admin(lambda bus: _retry(bus, numbers))
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

    The letters NUMBER stay in the log. Needs the admin's key, so it works on the office's machine alone.
    """
    _require_choice(numbers, everything)
    chosen = _run_as_admin(lambda bus: _drop(bus, numbers))
    print_result(chosen, f"Dropped: {', '.join(map(str, chosen)) or 'nothing'}", as_json)


def _require_choice(numbers: tuple[int, ...], everything: bool) -> None:
    if bool(numbers) == everything:
        raise click.UsageError("Name the dead letters by number, or all with --all")


def _run_as_admin(work: "Callable[[Bus], Awaitable[T]]") -> T:
    # What needs the bus imports as much as all the rest of a command.
    from services.cli.connection import run_connected

    config = settings.load()
    if config.url or api.read_login(config):
        raise MailroomError(
            "This needs the admin's key, which the office's machine has",
            "Run it there; if that is here, sign out with 'mailroom logout' and unset MAILROOM_URL",
        )
    return run_connected(work, subjects.ADMIN)


async def _retry(bus: "Bus", numbers: tuple[int, ...]) -> list[tuple[int, int]]:
    """Send these again, or all; returns their numbers and those of the messages."""
    from shared.operations.dead_letters import read_dead_letters, resend

    done: list[tuple[int, int]] = []
    for number in numbers or [number for number, _ in await read_dead_letters(bus)]:
        try:
            done.append((number, await resend(bus, number)))
        except MailroomError as error:
            named = f"dead letter {number}" in error.cause
            cause = error.cause if named else f"Dead letter {number}: {error.cause}"
            before = f" (sent again before it: {', '.join(str(seq) for seq, _ in done)})" if done else ""
            raise MailroomError(f"{cause}{before}", error.cure) from None
    return done


async def _drop(bus: "Bus", numbers: tuple[int, ...]) -> list[int]:
    """Drop these, or all; returns their numbers."""
    from shared.operations.dead_letters import drop_dead_letters, read_dead_letter, read_dead_letters

    letters = [(number, await read_dead_letter(bus, number)) for number in numbers]
    letters = letters or await read_dead_letters(bus)
    await drop_dead_letters(bus, letters)
    return [number for number, _ in letters]
