"""Dead letters, the messages that could not be handled: read, send again, drop."""

from collections.abc import Iterable

from shared import subjects
from shared.bus import Bus, Entry, Stored
from shared.bus.entry import seal
from shared.bus.records import TaskState, read_record, read_task, submission_entry
from shared.contracts import DeadLetter, LettersDropped, Task, TaskStatus, decode, generate_id
from shared.contracts.base import amended
from shared.errors import Conflict, MailroomError, NotFound, TooLate
from shared.queries.office import read_dropped
from shared.queries.records import RESENT, read_newest_of_each, scan
from shared.trace import HEADER, join_trace, trace_headers
from shared.trail.archives import read_message

MOST_DROPPED = 5_000  # How many dropped letters are passed over at most to find the latest that are left


async def read_dead_letters(bus: Bus, agent: str = "*") -> list[tuple[int, DeadLetter]]:
    """The dead letters with their sequences, latest last; of one agent, or of all."""
    dropped = frozenset[int]().union(*(await read_dropped(bus)).values())
    letters = scan(bus, subjects.OFFICE, subjects.dead(agent))
    return [(stored.seq, _letter_in(stored)) async for stored in letters if stored.seq not in dropped]


async def read_latest_letters(
    bus: Bus, limit: int, agent: str = "*"
) -> tuple[list[tuple[int, DeadLetter]], dict[str, int]]:
    """The last ``limit`` dead letters of each agent, or of one, and how many older ones each has."""
    dropped = await read_dropped(bus)
    passed = min(max(map(len, dropped.values()), default=0), MOST_DROPPED)
    found, older = await read_newest_of_each(bus, subjects.dead("{agent}"), limit + passed, agent=agent)
    kept: dict[str, list[tuple[int, DeadLetter]]] = {}
    for stored in found:
        letter = _letter_in(stored)
        if stored.seq not in dropped.get(letter.sender, ()):
            kept.setdefault(letter.sender, []).append((stored.seq, letter))
    seen = {stored.seq for stored in found}
    older = {name: number - len(dropped.get(name, frozenset()) - seen) for name, number in older.items()}
    for name, letters in kept.items():
        older[name] = older.get(name, 0) + max(0, len(letters) - limit)
    shown = [each for letters in kept.values() for each in letters[-limit:]]
    return sorted(shown, key=lambda each: each[0]), {
        name: number for name, number in older.items() if number > 0
    }


async def read_dead_letter(bus: Bus, number: int) -> DeadLetter:
    """The dead letter with this sequence in OFFICE; raises NotFound if there is none."""
    stored = await read_message(bus, subjects.OFFICE, number)
    gone = stored is None or number in frozenset[int]().union(*(await read_dropped(bus)).values())
    if stored is None or gone or not stored.subject.startswith(subjects.dead("")):
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
    await drop_dead_letters(bus, [(number, letter)])
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


async def drop_dead_letters(bus: Bus, letters: Iterable[tuple[int, DeadLetter]]) -> None:
    """Record, as the admin, that these are dropped: they leave the list, and stay in the log."""
    numbers: dict[str, set[int]] = {}
    for number, letter in letters:
        numbers.setdefault(letter.sender, set()).add(number)
    for agent, dropped in numbers.items():
        while True:
            record = await read_record(bus, subjects.dropped(agent), LettersDropped)
            known = set(record.value.numbers) if record else set[int]()
            changed = LettersDropped(sender=bus.name, recipient=agent, numbers=tuple(sorted(known | dropped)))
            try:
                await bus.commit([seal(subjects.dropped(agent), changed, record.seq if record else 0)])
            except Conflict:
                continue  # another command dropped some in the same moment
            break
