"""``mailroom dead``: what could not be handled: look at it, send it again, or drop it."""

import asyncio
import json

import click
from rich.text import Text

from services.cli.commands.options import NumberType, json_option
from services.cli.connection import connect
from services.cli.output.console import clean, clean_block, open_console, print_block, print_json, print_line
from services.cli.output.times import format_date, format_span, seconds_between
from services.cli.queries.records import call_server, read_one
from shared import subjects
from shared.bus import Bus, Entry, Stored
from shared.bus.entry import seal
from shared.contracts import DeadLetter, Task, TaskChanged, TaskStatus, decode, generate_id
from shared.errors import Conflict, MailroomError

RESENT = "Mailroom-Resent"
"""The header that says which dead letter a message was sent again for."""


async def read_letter(bus: Bus, number: int) -> DeadLetter:
    """The dead letter stored as message ``number`` of OFFICE; raises MailroomError where there is none."""
    stored = await read_one(bus, subjects.OFFICE, number)
    if stored is None or not stored.subject.startswith(subjects.dead("")):
        raise MailroomError(f"There is no dead letter {number}", "'mailroom dead list' shows their numbers")
    return DeadLetter.from_json(stored.data)


async def resend(bus: Bus, number: int) -> int:
    """Send the message of a dead letter again, as the admin; returns its new sequence.

    A task's record is set back to pending in the same commit. Raises MailroomError where the message is
    not stored any more, or its task goes on or is done by now.
    """
    letter = await read_letter(bus, number)
    original = await read_one(bus, letter.stream, letter.stream_seq)
    if original is None:
        raise MailroomError(
            f"message {letter.stream_seq} of {letter.stream} is not stored any more",
            f"See what is left of it with 'mailroom dead show {number}', then drop it",
        )
    entry = Entry(original.subject, original.data, generate_id(), headers={RESENT: str(number)})
    seq = await _store(bus, letter.stream, [*await _reset(bus, original), entry])
    await delete_letter(bus, number)
    return seq


async def _store(bus: Bus, stream: str, entries: list[Entry]) -> int:
    if stream == subjects.OFFICE:
        try:
            return (await bus.commit(entries))[-1]
        except Conflict:
            raise MailroomError("its task changed in this moment", "Look at it again") from None
    (entry,) = entries
    answer = await bus.store(
        entry.subject, entry.payload, headers={**(entry.headers or {}), "Nats-Msg-Id": entry.id}
    )
    return int(answer["seq"])


async def _reset(bus: Bus, original: Stored) -> list[Entry]:
    """The entry that sets a task's record back to pending; none for other messages, and for forged tasks."""
    task = _task_in(original)
    if task is None or original.subject != subjects.task(task.assignee, task.requester):
        return []
    subject = subjects.state(task.assignee, task.requester, task.task_id)
    stored = await bus.last(subjects.OFFICE, subject)
    if stored is not None:
        _require_failed(TaskChanged.from_json(stored.data).task)
    record = TaskChanged(
        sender=subjects.ADMIN,
        recipient=task.assignee,
        cause=task.id,
        goal_id=task.goal_id,
        task=task,
        note="sent again by a person",
    )
    return [seal(subject, record, expect=stored.seq if stored else 0)]


def _task_in(original: Stored) -> Task | None:
    try:
        envelope = decode(original.data)
    except ValueError:
        return None
    return envelope if isinstance(envelope, Task) else None


def _require_failed(task: Task) -> None:
    if task.status is TaskStatus.COMPLETED:
        raise MailroomError(
            f"the task {task.task_id} is completed, and would be done twice", "Drop the letter"
        )
    if not task.status.final:
        raise MailroomError(f"the task {task.task_id} goes on: it is {task.status}", "Wait for its end")


async def delete_letter(bus: Bus, number: int) -> None:
    """Delete a dead letter from OFFICE, as the admin; its copy on the audit trail stays."""
    await call_server(bus, f"STREAM.MSG.DELETE.{subjects.OFFICE}", {"seq": number, "no_erase": True})


@click.group()
def dead() -> None:
    """Look at what could not be handled, send it again, or drop it."""


@dead.command(name="list")
@click.option("--agent", default="*", metavar="NAME", help="Only what lay in this agent's mailbox.")
@json_option
def list_letters(agent: str, as_json: bool) -> None:
    """List the dead letters, the latest last."""
    found = asyncio.run(_read(agent))
    if as_json:
        print_json([_as_data(seq, letter) for seq, letter in found])
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


async def _read(agent: str) -> list[tuple[int, DeadLetter]]:
    from services.cli.queries.records import scan

    async with connect() as bus:
        letters = scan(bus, subjects.OFFICE, subjects.dead(agent))
        return [(stored.seq, DeadLetter.from_json(stored.data)) async for stored in letters]


def _as_data(seq: int, letter: DeadLetter) -> dict[str, object]:
    return {"number": seq, **letter.to_dict()}


@dead.command()
@click.argument("number", type=NumberType(1))
@json_option
def show(number: int, as_json: bool) -> None:
    """Show a dead letter and its message."""
    letter = asyncio.run(_find(number))
    if as_json:
        print_json(_as_data(number, letter))
        return
    facts = {
        "reason": letter.reason,
        "agent": letter.sender,
        "buried": format_date(letter.created_at),
        "message": f"{letter.subject}, number {letter.stream_seq} of {letter.stream}",
        "size": f"{letter.original_size:,} bytes",
        "deliveries": str(letter.deliveries),
        "goal": letter.goal_id,
        "task": letter.task_id,
        **letter.headers,
    }
    for name, fact in facts.items():
        if fact:
            click.echo(f"{click.style(clean(name), bold=True)}: {clean(fact)}")
    click.echo(f"\n{clean_block(_pretty(letter))}")


async def _find(number: int) -> DeadLetter:

    async with connect() as bus:
        return await read_letter(bus, number)


def _pretty(letter: DeadLetter) -> str:
    try:
        return json.dumps(json.loads(letter.original), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        cut = len(letter.original.encode()) < letter.original_size
        return letter.original + (" ... (cut)" if cut else "")


@dead.command()
@click.argument("numbers", metavar="NUMBER...", nargs=-1, type=NumberType(1))
@click.option("--all", "everything", is_flag=True, help="All of them.")
@json_option
def retry(numbers: tuple[int, ...], everything: bool, as_json: bool) -> None:
    """Send the messages of dead letters again.

    The letters NUMBER leave the list. A task is set back to pending together with its message. Needs the
    admin's key.
    """
    done = asyncio.run(_retry(_chosen(numbers, everything)))
    if as_json:
        print_json([{"number": number, "resent_as": seq} for number, seq in done])
    else:
        for number, seq in done:
            click.echo(f"{number}: sent again as message {seq}")


@dead.command()
@click.argument("numbers", metavar="NUMBER...", nargs=-1, type=NumberType(1))
@click.option("--all", "everything", is_flag=True, help="All of them.")
@json_option
def drop(numbers: tuple[int, ...], everything: bool, as_json: bool) -> None:
    """Take dead letters off the list.

    The audit trail keeps the letters NUMBER. Needs the admin's key.
    """
    done = asyncio.run(_drop(_chosen(numbers, everything)))
    if as_json:
        print_json(done)
    else:
        click.echo(f"Dropped: {', '.join(map(str, done)) or 'nothing'}")


def _chosen(numbers: tuple[int, ...], everything: bool) -> list[int]:
    if bool(numbers) == everything:
        raise click.UsageError("Name the dead letters by number, or all with --all")
    return list(numbers) if numbers else [seq for seq, _ in asyncio.run(_read("*"))]


async def _retry(numbers: list[int]) -> list[tuple[int, int]]:

    done: list[tuple[int, int]] = []
    async with connect(subjects.ADMIN) as bus:
        for number in numbers:
            try:
                done.append((number, await resend(bus, number)))
            except MailroomError as error:
                named = f"dead letter {number}" in error.cause
                cause = error.cause if named else f"Dead letter {number}: {error.cause}"
                before = f" (sent again before it: {', '.join(str(seq) for seq, _ in done)})" if done else ""
                raise MailroomError(f"{cause}{before}", error.cure) from None
    return done


async def _drop(numbers: list[int]) -> list[int]:

    async with connect(subjects.ADMIN) as bus:
        for number in numbers:
            await read_letter(bus, number)
        for number in numbers:
            await delete_letter(bus, number)
    return numbers
