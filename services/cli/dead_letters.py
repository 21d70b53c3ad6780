"""What an operator can do with a dead letter: read it, send its message again, delete it."""

from services.cli.connection import call_server
from services.cli.records import read_one
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
