"""``mailroom dead``: dead letters, the messages that could not be handled: list, show, retry, drop."""

import json

import click
from rich.text import Text

from services.cli.commands.options import NumberType, json_option
from services.cli.connection import run_connected
from services.cli.output.console import (
    open_console,
    print_block,
    print_facts,
    print_json,
    print_line,
    print_result,
)
from shared import subjects
from shared.bus import Bus, Entry, Stored
from shared.bus.records import TaskState, read_task, submission_entry
from shared.contracts import DeadLetter, Task, TaskStatus, decode, generate_id
from shared.contracts.base import amended
from shared.errors import Conflict, MailroomError
from shared.queries.records import RESENT, call_server, read_message, scan
from shared.text.printable import clean, clean_block
from shared.text.times import format_date, format_span, seconds_between

numbers_argument = click.argument("numbers", metavar="NUMBER...", nargs=-1, type=NumberType(1))
all_option = click.option("--all", "everything", is_flag=True, help="All of them.")


async def read_dead_letter(bus: Bus, number: int) -> DeadLetter:
    """The dead letter with this sequence in OFFICE; raises MailroomError if there is none."""
    stored = await read_message(bus, subjects.OFFICE, number)
    if stored is None or not stored.subject.startswith(subjects.dead("")):
        raise MailroomError(f"There is no dead letter {number}", "'mailroom dead list' shows their numbers")
    return _letter_in(stored)


def _letter_in(stored: Stored) -> DeadLetter:
    """The dead letter, whose sender is who stored it; if it is garbage, one that says so."""
    sender = subjects.sender_of(stored.subject)
    try:
        return amended(DeadLetter.from_json(stored.data), sender=sender)
    except ValueError as error:
        return DeadLetter(
            sender=sender,
            reason=f"This is no dead letter: {str(error)[:500]}",
            subject=stored.subject,
            stream=stored.stream,
            stream_seq=stored.seq,
            deliveries=0,
            original="",
            original_size=len(stored.data),
        )


async def resend(bus: Bus, number: int) -> int:
    """Send the message of a dead letter again, as the admin; returns its new sequence.

    Raises MailroomError if the message is not stored any more, was not for the agent that wrote the letter,
    or if its task is running or completed.
    """
    letter = await read_dead_letter(bus, number)
    original = await read_message(bus, letter.stream, letter.stream_seq)
    if original is None:
        raise MailroomError(
            f"message {letter.stream_seq} of {letter.stream} is not stored any more",
            f"'mailroom dead show {number}' shows what is left of it; then drop it",
        )
    if not subjects.is_for(letter.sender, original.subject):
        place = f"message {letter.stream_seq} of {letter.stream}"
        raise MailroomError(
            f"{place} was not for {letter.sender}, who wrote the letter",
            f"Ask what {letter.sender} is at, and drop it: 'mailroom dead drop {number}'",
        )
    entry = await _entry(bus, original)
    entry = entry._replace(id=generate_id(), headers={RESENT: str(number)})
    seq = await _store(bus, letter.stream, entry)
    await delete_dead_letter(bus, number)
    return seq


async def _store(bus: Bus, stream: str, entry: Entry) -> int:
    if stream == subjects.OFFICE:
        try:
            return (await bus.commit([entry]))[-1]
        except Conflict:
            raise MailroomError("its task has just changed", "Look at it again") from None
    headers = {**(entry.headers or {}), "Nats-Msg-Id": entry.id}
    return int((await bus.store(entry.subject, entry.payload, headers=headers))["seq"])


async def _entry(bus: Bus, original: Stored) -> Entry:
    """The message to be stored again: a task follows its last step, unless it is a forged one."""
    again = Entry(original.subject, original.data, "")
    try:
        task = decode(original.data)
    except ValueError:
        return again
    if not isinstance(task, Task) or original.subject != submission_entry(task).subject:
        return again
    state = await read_task(bus, task)
    if state is not None:
        _require_failed(task, state)
    return submission_entry(task, after=state.seq if state else 0)._replace(payload=original.data)


def _require_failed(task: Task, state: TaskState) -> None:
    if state.status is TaskStatus.COMPLETED:
        raise MailroomError(
            f"the task {task.task_id} is completed, and would be done twice", "Drop the dead letter"
        )
    if not state.status.final:
        raise MailroomError(f"the task {task.task_id} goes on: it is {state.status}", "Wait for its end")


async def delete_dead_letter(bus: Bus, number: int) -> None:
    """Delete a dead letter from OFFICE, as the admin; the audit log keeps its copy."""
    await call_server(bus, f"STREAM.MSG.DELETE.{subjects.OFFICE}", {"seq": number, "no_erase": True})


@click.group()
def dead() -> None:
    """List dead letters, send them again, or drop them.

    A dead letter is a message that an agent could not handle.
    """


@dead.command(name="list")
@click.option("--agent", default="*", metavar="NAME", help="Only those of this agent's mailbox.")
@json_option
def list_letters(agent: str, as_json: bool) -> None:
    """List the dead letters, latest last."""
    found = run_connected(lambda bus: _read_all(bus, agent))
    if as_json:
        print_json([_to_dict(seq, letter) for seq, letter in found])
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
    click.echo("\nmailroom dead show|retry|drop NUMBER")


async def _read_all(bus: Bus, agent: str = "*") -> list[tuple[int, DeadLetter]]:
    letters = scan(bus, subjects.OFFICE, subjects.dead(agent))
    return [(stored.seq, _letter_in(stored)) async for stored in letters]


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

    The letters NUMBER stay in the audit log. Needs the admin's key.
    """
    chosen = _select(numbers, everything)
    run_connected(lambda bus: _drop(bus, chosen), subjects.ADMIN)
    print_result(chosen, f"Dropped: {', '.join(map(str, chosen)) or 'nothing'}", as_json)


def _select(numbers: tuple[int, ...], everything: bool) -> list[int]:
    if bool(numbers) == everything:
        raise click.UsageError("Name the dead letters by number, or all with --all")
    return list(numbers) if numbers else [seq for seq, _ in run_connected(_read_all)]


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
    for number in numbers:
        await read_dead_letter(bus, number)
    for number in numbers:
        await delete_dead_letter(bus, number)
