"""Dead letters, the messages that could not be handled: read, send again, drop."""

from shared import subjects
from shared.bus import Bus, Entry, Stored
from shared.bus.records import TaskState, read_task, submission_entry
from shared.contracts import DeadLetter, Task, TaskStatus, decode, generate_id
from shared.contracts.base import amended
from shared.errors import Conflict, MailroomError, NotFound, TooLate
from shared.queries.records import RESENT, call_server, read_message, read_newest_of_each, scan
from shared.trace import HEADER, join_trace, trace_headers


async def read_dead_letters(bus: Bus, agent: str = "*") -> list[tuple[int, DeadLetter]]:
    """The dead letters with their sequences, latest last; of one agent, or of all."""
    letters = scan(bus, subjects.OFFICE, subjects.dead(agent))
    return [(stored.seq, _letter_in(stored)) async for stored in letters]


async def read_latest_letters(
    bus: Bus, limit: int, agent: str = "*"
) -> tuple[list[tuple[int, DeadLetter]], dict[str, int]]:
    """The last ``limit`` dead letters of each agent, or of one, and how many older ones each has."""
    found, older = await read_newest_of_each(bus, subjects.dead("{agent}"), limit, agent=agent)
    return [(stored.seq, _letter_in(stored)) for stored in found], older


async def read_dead_letter(bus: Bus, number: int) -> DeadLetter:
    """The dead letter with this sequence in OFFICE; raises NotFound if there is none."""
    stored = await read_message(bus, subjects.OFFICE, number)
    if stored is None or not stored.subject.startswith(subjects.dead("")):
        raise NotFound(f"There is no dead letter {number}", "'mailroom dead list' shows their numbers")
    return _letter_in(stored)


def _letter_in(stored: Stored) -> DeadLetter:
    """The dead letter, whose sender is who stored it; if it is garbage, one that says so."""
    sender = subjects.Address.of(stored.subject).sender
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

    Raises NotFound if there is none or its message is not stored any more, MailroomError if that was not for
    the agent that wrote the letter, TooLate if its task is running or completed.
    """
    letter = await read_dead_letter(bus, number)
    original = await read_message(bus, letter.stream, letter.stream_seq)
    if original is None:
        raise NotFound(
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
    join_trace(original.headers.get(HEADER, ""))
    entry = entry._replace(id=generate_id(), headers={**(trace_headers() or {}), RESENT: str(number)})
    seq = await _store(bus, letter.stream, entry)
    await delete_dead_letter(bus, number)
    return seq


async def _store(bus: Bus, stream: str, entry: Entry) -> int:
    if stream == subjects.OFFICE:
        try:
            return (await bus.commit([entry]))[-1]
        except Conflict:
            raise TooLate("its task has just changed", "Look at it again") from None
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
        raise TooLate(
            f"the task {task.task_id} is completed, and would be done twice", "Drop the dead letter"
        )
    if not state.status.final:
        raise TooLate(f"the task {task.task_id} goes on: it is {state.status}", "Wait for its end")


async def delete_dead_letter(bus: Bus, number: int) -> None:
    """Delete a dead letter from OFFICE, as the admin; the audit log keeps its copy."""
    await call_server(bus, f"STREAM.MSG.DELETE.{subjects.OFFICE}", {"seq": number, "no_erase": True})
