"""Reading streams: ranges, last messages, goals, tasks, presences; and waiting for a message."""

import asyncio
import difflib
import json
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import TypeVar

import msgspec

from shared import subjects
from shared.bus import Bus, Stored
from shared.bus.entry import is_withheld
from shared.bus.records import TaskState, task_state
from shared.contracts import Goal, GoalTask, Presence, StateChanged
from shared.errors import BusError, BusUnavailable, NotFound
from shared.text.times import format_utc, parse_time

T = TypeVar("T")
PAGE = 500  # Messages per request
PAGE_BYTES = 4 * 1024 * 1024
"""Bytes per request: the most that is buffered if whatever reads our output is slow."""
LAST_BATCH = 200  # Subjects per request for last messages; the server allows 1,024
STEPS_BATCH = LAST_BATCH // 8  # Tasks per request for their last steps; each has up to eight subjects
MAX_READS = 3  # How often a page is requested that was cut short, for instance by a lost connection
RESENT = "Mailroom-Resent"  # The header with the number of the dead letter whose message was sent again


async def call_server(bus: Bus, verb: str, body: object = None, *, subject: str = "") -> dict[str, object]:
    """Call the server's JetStream API, for instance ``STREAM.INFO.OFFICE``.

    An agent has to ask by another ``subject``. Raises BusError with the server's reason if it refuses.
    """
    payload = json.dumps(body).encode() if body is not None else b""
    answer = await bus.request(subject or f"$JS.API.{verb}", payload)
    result: dict[str, object] = json.loads(answer)
    if error := result.get("error"):
        assert isinstance(error, dict)
        raise BusError(f"The server refused {verb}: {error.get('description')}")
    return result


async def scan(
    bus: Bus, stream: str, subject: str = ">", *, seq: int = 1, since: datetime | None = None, until: int = 0
) -> AsyncGenerator[Stored, None]:
    """A stream's messages in order, from a sequence or a time on, up to sequence ``until`` (0: the end).

    Those that are withheld from who reads are left out.
    """
    begin = 0 if since else max(seq, 1)
    start: dict[str, object] = {"start_time": format_utc(since)} if since else {"seq": begin}
    failures = number = 0
    while not until or begin <= until:
        before = number
        try:
            async with aclosing(_read_on(bus, stream, subject, start, until, many=number >= PAGE)) as page:
                async for stored in page:
                    if until and stored.seq > until:
                        return
                    number, failures, begin = number + 1, 0, stored.seq + 1
                    start = {"seq": begin}
                    if not is_withheld(stored):
                        yield stored
        except BusUnavailable:
            failures += 1
            if failures >= MAX_READS:
                raise
            continue
        if number == before:
            return


async def _read_on(
    bus: Bus, stream: str, subject: str, start: dict[str, object], until: int, *, many: bool
) -> AsyncGenerator[Stored, None]:
    """The next page; of ``many`` messages all that follow, which is worth a connection of its own."""
    begin = int(str(start.get("seq", 0)))
    if not many:
        # The server sends the whole batch, though the reader stops early.
        batch = min(PAGE, until - begin + 1) if until and begin else PAGE
        request = {**start, "next_by_subj": subject, "batch": batch, "max_bytes": PAGE_BYTES}
        async with aclosing(bus.read(stream, request)) as page:
            async for stored in page:
                yield stored
    elif begin <= (end := until or await last_sequence(bus, stream)):
        async with aclosing(bus.read_all(stream, begin, end, subject=subject, headers=True)) as pages:
            async for found in pages:
                for stored in found:
                    yield stored


async def read_newest(
    bus: Bus, stream: str, pattern: str, limit: int, *, before: int = 0
) -> tuple[list[Stored], int]:
    """The last ``limit`` messages on the subjects of ``pattern``, in order, and how many there are in all.

    With ``before``, those before that sequence. It takes about as long however many there are.
    """
    end = before or await last_sequence(bus, stream) + 1
    later = await count_from(bus, stream, pattern, end)
    few, many, begin = end, 0, max(1, end - limit)
    while begin not in (few, many):
        number = await count_from(bus, stream, pattern, begin) - later
        if number < limit:
            few, begin = begin, (many + begin) // 2 if many else max(1, end - 4 * (end - begin))
        elif number > 2 * limit:
            many, begin = begin, (begin + few) // 2
        else:
            break
    found: deque[Stored] = deque(maxlen=limit)
    if end > 1:
        async for each in scan(bus, stream, pattern, seq=begin, until=end - 1):
            found.append(each)
    return list(found), await count_from(bus, stream, pattern, 1) - later


async def read_newest_of_each(
    bus: Bus, pattern: str, limit: int, *, agent: str = "*", before: int = 0
) -> tuple[list[Stored], dict[str, int]]:
    """The last ``limit`` messages of each agent on the subjects of ``pattern`` in OFFICE, in order.

    Of one ``agent`` or of all, with ``before`` those before that sequence; ``pattern`` has ``{agent}`` where
    its name is. Beside them, how many older ones there are of each agent that has such, so that no agent's
    many hide those of others.
    """
    place = pattern.split(".").index("{agent}")
    names = await count_subjects(bus, subjects.OFFICE, pattern.format(agent=agent))
    agents = sorted({name.split(".")[place] for name in names})
    read = [
        read_newest(bus, subjects.OFFICE, pattern.format(agent=each), limit, before=before) for each in agents
    ]
    pages = dict(zip(agents, await asyncio.gather(*read), strict=True))
    older = {each: number - len(page) for each, (page, number) in pages.items() if number > len(page)}
    found = [stored for page, _ in pages.values() for stored in page]
    return sorted(found, key=lambda stored: stored.seq), older


def select_fairly(found: Sequence[T], agent_of: Callable[[T], str], limit: int) -> list[T]:
    """At most ``limit`` of what was ``found``, in the same order: the latest of each agent in turn."""
    newer: Counter[str] = Counter()
    ranked = []
    for place in range(len(found) - 1, -1, -1):
        ranked.append((newer[agent_of(found[place])], -place))
        newer[agent_of(found[place])] += 1
    return [found[place] for place in sorted(-place for _, place in sorted(ranked)[:limit])]


async def count_from(bus: Bus, stream: str, pattern: str, seq: int) -> int:
    """How many messages on the subjects of ``pattern`` there are from a sequence on."""
    async with aclosing(bus.read(stream, {"seq": seq, "next_by_subj": pattern, "batch": 1})) as found:
        async for each in found:
            return 1 + int(each.headers["Nats-Num-Pending"])
    return 0


async def read_last(bus: Bus, stream: str, names: Iterable[str]) -> dict[str, Stored]:
    """The last message of each of these subjects that has one."""
    wanted = list(names)
    found: dict[str, Stored] = {}
    for begin in range(0, len(wanted), LAST_BATCH):
        asked = wanted[begin : begin + LAST_BATCH]
        while asked:
            page = [stored async for stored in bus.read(stream, {"multi_last": asked, "batch": len(asked)})]
            found |= {stored.subject: stored for stored in page}
            # A large answer may be cut short: ask for the rest until an answer is empty.
            asked = [name for name in asked if name not in found] if page else []
    return {subject: stored for subject, stored in found.items() if not is_withheld(stored)}


async def count_subjects(bus: Bus, stream: str, pattern: str) -> dict[str, int]:
    """The number of messages of each subject that matches ``pattern``."""
    found: dict[str, int] = {}
    while True:
        request = {"subjects_filter": pattern, "offset": len(found)}
        # only people ask by the server's own subject
        subject = (
            ""
            if bus.name in (*subjects.PEOPLE, subjects.ADMIN, subjects.ERASER)
            else subjects.listing(stream)
        )
        info = await call_server(bus, f"STREAM.INFO.{stream}", request, subject=subject)
        state = info["state"]
        assert isinstance(state, dict)
        page = state.get("subjects") or {}
        found |= page
        if not page or len(found) >= int(str(info.get("total") or 0)):
            return found


async def end_of_search(bus: Bus, end: int) -> int:
    """Up to which sequence of OFFICE to look for messages of before ``end`` (0: now).

    What was stored in the place of erased ones comes after the record of these.
    """
    if not end:
        return await last_sequence(bus, subjects.OFFICE)
    erased = await bus.last(subjects.OFFICE, subjects.ERASED)
    return max(end, erased.seq if erased else 0) + subjects.MAX_BATCH


async def last_sequence(bus: Bus, stream: str) -> int:
    """The sequence of a stream's last message."""
    state = (await call_server(bus, f"STREAM.INFO.{stream}"))["state"]
    assert isinstance(state, dict)
    return int(state["last_seq"])


async def read_goal(bus: Bus, goal_id: str) -> tuple[Goal, int] | None:
    """A goal, and the sequence of its record."""
    stored = await bus.last(subjects.OFFICE, subjects.goal(goal_id))
    goal = _decode_goal(stored) if stored else None
    return (goal, stored.seq) if goal and stored else None


async def read_goals(bus: Bus, ids: Iterable[str] | None = None) -> list[Goal]:
    """The goals of ``ids``, or every goal; the one that was submitted last at the end."""
    names: Iterable[str] = (
        await count_subjects(bus, subjects.OFFICE, subjects.goal("*"))
        if ids is None
        else map(subjects.goal, ids)
    )
    return _goals_in(await read_last(bus, subjects.OFFICE, names))


async def read_latest_goals(bus: Bus, limit: int) -> tuple[list[Goal], int]:
    """The ``limit`` goals that changed last, the one that was submitted last at the end, and how many others.

    Goals that are open go before those that ended, however long ago they changed.
    """
    names = await count_subjects(bus, subjects.OFFICE, subjects.goal("*"))
    board = await bus.last(subjects.OFFICE, subjects.OFFICE_STATE)
    active = StateChanged.from_json(board.data).active if board else {}
    records = await read_last(bus, subjects.OFFICE, [subjects.goal(each) for each in list(active)[-limit:]])
    before, wanted = 0, min(limit, len(names))
    while len(records) < wanted:
        page, left = await read_newest(bus, subjects.OFFICE, subjects.goal("*"), 2 * limit, before=before)
        for stored in reversed(page):
            if len(records) < wanted:
                records.setdefault(stored.subject, stored)
        if left <= len(page):
            break
        before = page[0].seq
    return _goals_in(records), len(names) - len(records)


def _goals_in(records: Mapping[str, Stored]) -> list[Goal]:
    goals = [goal for goal in map(_decode_goal, records.values()) if goal and not goal.part_of]
    return sorted(goals, key=lambda goal: parse_time(goal.submitted_at))


def _decode_goal(stored: Stored) -> Goal | None:
    try:
        return StateChanged.from_json(stored.data).goal
    except (ValueError, msgspec.MsgspecError):
        return None


async def read_tasks(bus: Bus, tasks: Iterable[GoalTask]) -> dict[str, TaskState]:
    """The states of tasks that the conductor assigned, by their ids."""
    steps: list[Stored] = []
    patterns = [subjects.task(task.assignee, subjects.CONDUCTOR, task.task_id, "*") for task in tasks]
    for begin in range(0, len(patterns), STEPS_BATCH):
        request = {"multi_last": patterns[begin : begin + STEPS_BATCH], "batch": LAST_BATCH}
        steps += [each async for each in bus.read(subjects.OFFICE, request) if not is_withheld(each)]
    found: dict[str, TaskState] = {}
    submitted: dict[str, str] = {}
    for stored in sorted(steps, key=lambda stored: stored.seq):
        task_id, state = stored.subject.split(".")[3], task_state(stored)
        if state.task is not None:
            submitted[task_id] = stored.time
        found[task_id] = msgspec.structs.replace(state, submitted_at=submitted.get(task_id, ""))
    return found


def unknown_agent_error(name: str, presences: Iterable[Presence]) -> NotFound:
    """The error for an agent that is not running, with a similar name or those that run."""
    names = sorted({presence.agent for presence in presences})
    near = difflib.get_close_matches(name, names, n=1)
    cure = f"Did you mean {near[0]!r}?" if near else f"Running: {', '.join(names) or 'none'}"
    return NotFound(f"No agent named {name[:64]!r} is running", cure)


class Listener:
    """Waits for messages on the audit subjects; a message only triggers a read of the stream.

    Live messages may be lost with a connection, so a read follows every ``interval`` seconds as well.
    """

    def __init__(self, bus: Bus, interval: float) -> None:
        self._bus = bus
        self._interval = interval
        self._received = asyncio.Event()
        self._ends: list[Callable[[], Awaitable[None]]] = []

    async def subscribe(self, *names: str, containing: str = "") -> None:
        """Listen on these subjects, to messages that contain a text."""

        async def receive(_: str, payload: bytes, __: dict[str, str]) -> None:
            if containing.encode() in payload:
                self._received.set()

        for name in names:
            self._ends.append(await self._bus.subscribe(subjects.AUDIT_PREFIX + name, receive))

    async def close(self) -> None:
        """Listen no more."""
        while self._ends:
            await self._ends.pop()()

    def clear(self) -> None:
        """Forget the messages received until now: to be called before a read."""
        self._received.clear()

    async def wait(self) -> bool:
        """Wait for a message since ``clear``; False if none came within the interval."""
        try:
            # wait_for of Python 3.11 forgets a Ctrl-C that comes together with a message.
            async with asyncio.timeout(self._interval):
                return await self._received.wait()
        except TimeoutError:
            return False

    async def wait_for(self, read: Callable[[], Awaitable[T | None]], timeout: float) -> T:
        """The first result of ``read`` that is not None; raises TimeoutError after ``timeout`` seconds.

        Afterwards it listens no more.
        """
        try:
            async with asyncio.timeout(timeout):
                while True:
                    self.clear()
                    if (found := await read()) is not None:
                        return found
                    await self.wait()
        finally:
            await self.close()
