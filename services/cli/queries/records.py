"""Reading what the office's streams hold: ranges, last messages, goals, processes."""

import difflib
import json
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from services.cli.output.times import to_wire
from shared import subjects
from shared.bus import Bus, Stored
from shared.contracts import Goal, Presence, StateChanged, TaskChanged
from shared.errors import BusUnavailable, MailroomError

if TYPE_CHECKING:
    from shared.bus import Bus


async def call_server(bus: "Bus", verb: str, body: object = None) -> dict[str, object]:
    """Ask the server's JetStream interface, for instance ``STREAM.INFO.OFFICE``.

    Raises BusError with the server's reason where it refuses.
    """
    from shared.errors import BusError

    answer = await bus.request(f"$JS.API.{verb}", json.dumps(body).encode() if body is not None else b"")
    result: dict[str, object] = json.loads(answer)
    if error := result.get("error"):
        assert isinstance(error, dict)
        raise BusError(f"The server refused {verb}: {error.get('description')}")
    return result


PAGE = 500
"""Messages asked for at once."""
PAGE_BYTES = 4 * 1024 * 1024
"""Bytes asked for at once: no more than waits in buffers when whoever reads our output is slow."""
LAST_AT_ONCE = 200
"""Subjects whose last message is asked for at once; the server refuses more than 1,024."""
READ_TRIES = 3
"""How often a page that was cut short, as by a lost connection, is asked for."""


async def scan(
    bus: Bus, stream: str, subject: str = ">", *, seq: int = 1, since: datetime | None = None, until: int = 0
) -> AsyncGenerator[Stored, None]:
    """A stream's messages in order, from a sequence or a moment on, up to sequence ``until`` (0: the end)."""
    start: dict[str, object] = {"start_time": to_wire(since)} if since else {"seq": max(seq, 1)}
    failures = 0
    while True:
        found = False
        request = {**start, "next_by_subj": subject, "batch": PAGE, "max_bytes": PAGE_BYTES}
        try:
            async with aclosing(bus.read(stream, request)) as page:
                async for stored in page:
                    if until and stored.seq > until:
                        return
                    found, failures = True, 0
                    start = {"seq": stored.seq + 1}
                    yield stored
        except BusUnavailable:
            failures += 1
            if failures >= READ_TRIES:
                raise
            continue
        if not found:
            return


async def read_one(bus: Bus, stream: str, seq: int) -> Stored | None:
    """The message of this very sequence; None where it was deleted or is not there yet."""
    if seq >= 2**63:  # the server does not even read such a number
        return None
    async with aclosing(scan(bus, stream, seq=seq, until=seq)) as found:
        async for stored in found:
            return stored
    return None


async def read_last(bus: Bus, stream: str, names: Iterable[str]) -> dict[str, Stored]:
    """The last message on each of these subjects that has one."""
    wanted = list(names)
    found: dict[str, Stored] = {}
    for begin in range(0, len(wanted), LAST_AT_ONCE):
        asked = wanted[begin : begin + LAST_AT_ONCE]
        while asked:
            page = [stored async for stored in bus.read(stream, {"multi_last": asked, "batch": len(asked)})]
            found |= {stored.subject: stored for stored in page}
            # An answer may be cut short by its size; what is asked for again in vain does not exist.
            asked = [name for name in asked if name not in found] if page else []
    return found


async def count_subjects(bus: Bus, stream: str, pattern: str) -> dict[str, int]:
    """How many messages each subject that fits ``pattern`` holds."""
    found: dict[str, int] = {}
    while True:
        info = await call_server(
            bus, f"STREAM.INFO.{stream}", {"subjects_filter": pattern, "offset": len(found)}
        )
        state = info["state"]
        assert isinstance(state, dict)
        page = state.get("subjects") or {}
        found |= page
        if not page or len(found) >= int(str(info.get("total") or 0)):
            return found


async def last_sequence(bus: Bus, stream: str) -> int:
    """The sequence of the last message a stream took."""
    info = await call_server(bus, f"STREAM.INFO.{stream}")
    state = info["state"]
    assert isinstance(state, dict)
    return int(state["last_seq"])


async def read_goal(bus: Bus, goal_id: str) -> tuple[Goal, Stored] | None:
    """A goal as it stands, and the record that says so."""
    stored = await bus.last(subjects.OFFICE, subjects.goal(goal_id))
    goal = _goal_in(stored) if stored else None
    return (goal, stored) if goal and stored else None


async def read_goals(bus: Bus) -> list[Goal]:
    """Every goal as it stands, the one that changed last at the end."""
    names = await count_subjects(bus, subjects.OFFICE, subjects.goal("*"))
    records = sorted((await read_last(bus, subjects.OFFICE, names)).values(), key=lambda stored: stored.seq)
    return [goal for goal in map(_goal_in, records) if goal]


def _goal_in(stored: Stored) -> Goal | None:
    try:
        return StateChanged.from_json(stored.data).goal
    except (ValueError, msgspec.MsgspecError):
        return None


async def read_tasks(bus: Bus, names: Sequence[str]) -> dict[str, TaskChanged]:
    """The records of tasks, by the state subjects ``names``, as they stand."""
    found = await read_last(bus, subjects.OFFICE, names)
    return {name: TaskChanged.from_json(stored.data) for name, stored in found.items()}


def absent(name: str, present: Iterable[Presence]) -> MailroomError:
    """The error that says that ``name`` is not at work, and who is, or who was probably meant."""
    names = sorted({presence.agent for presence in present})
    near = difflib.get_close_matches(name, names, n=1)
    cure = f"Did you mean {near[0]!r}?" if near else f"At work: {', '.join(names) or 'nobody'}"
    return MailroomError(f"Nobody named {name[:64]!r} is at work", cure)


async def read_presences(bus: Bus) -> list[Presence]:
    """The yellow pages: every process that shows signs of life, by agent."""
    stream = subjects.bucket_stream(subjects.AGENTS_BUCKET)
    entries = [
        stored
        async for stored in bus.read(stream, {"multi_last": [subjects.presence("*", "*")], "batch": 1_000})
    ]
    alive = [Presence.from_json(stored.data) for stored in entries if stored.data]
    return sorted(alive, key=lambda presence: (presence.agent, presence.started_at))
