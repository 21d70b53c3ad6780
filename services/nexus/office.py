"""What the front desk reads of the office: what waits for people, goals, dead letters, spending."""

import asyncio
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from shared import subjects
from shared.bus import Bus, Stored
from shared.contracts import (
    ApprovalAnswer,
    ApprovalRequest,
    Contract,
    DailySpending,
    DeadLetter,
    Email,
    Goal,
    SentEmail,
    StateChanged,
)
from shared.contracts.base import amended
from shared.queries.records import count_subjects
from shared.text.times import parse_time

MAX_CONCURRENT = 32
"""Records that are read side by side."""
MAX_RECORDS = 20_000
"""The most records of a kind that are read."""

C = TypeVar("C", bound=Contract)


class DeadLetters(msgspec.Struct, frozen=True, kw_only=True):
    """How many dead letters an agent has, and the last of them; ``number`` is that one's."""

    agent: str
    count: int
    number: int
    last: DeadLetter


class OfficeReader:
    """Reads records of the office under the rights of nexus; a record that did not change is read once."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._known: dict[str, tuple[int, Any]] = {}
        self._gate = asyncio.Semaphore(MAX_CONCURRENT)

    async def goals(self) -> list[Goal]:
        """Every goal, the one that changed last at the end."""
        records = await self._read(subjects.goal("*"), StateChanged)
        return [record.goal for record, _ in records if record.goal is not None]

    async def approvals(self, goals: Collection[Goal]) -> list[ApprovalRequest]:
        """The requests that wait for an answer, the latest last; ``goals`` are those known."""
        asked, answered = await asyncio.gather(
            self._read(subjects.approval_asked("*", "*"), ApprovalRequest),
            self._read(subjects.approval_answered("*", "*"), ApprovalAnswer),
        )
        settled = {answer.approval_id for answer, _ in answered}
        settled_goals = {goal.goal_id for goal in goals if goal.status.final}
        now = datetime.now(UTC)
        return [
            request
            for request, _ in asked
            if request.approval_id not in settled
            and request.goal_id not in settled_goals
            and parse_time(request.expires_at) > now
        ]

    async def questions(self, goals: Collection[Goal]) -> list[Email]:
        """Agents' letters to people whose answer a task waits for, the latest last."""
        ended = {goal.goal_id for goal in goals if goal.status.final}
        return [
            sent.email
            for sent, _ in await self._read(subjects.record("*", "letter", "*"), SentEmail)
            if sent.awaited
            and sent.answer is None
            and sent.email.recipient == subjects.USER
            and not (sent.email.goal_id and sent.email.goal_id in ended)
        ]

    async def letters(self) -> list[Email]:
        """Agents' letters to people of which the sender keeps a record, the latest last."""
        sent = await self._read(subjects.record("*", "letter", "*"), SentEmail)
        return [each.email for each, _ in sent if each.email.recipient == subjects.USER]

    async def dead_letters(self) -> list[DeadLetters]:
        """The dead letters of each agent that has some."""
        counts = await count_subjects(self._bus, subjects.OFFICE, subjects.dead("*"))
        return [
            DeadLetters(agent=letter.sender, count=number, number=seq, last=letter)
            for letter, seq in await self._read(subjects.dead("*"), DeadLetter)
            if (number := counts.get(subjects.dead(letter.sender)))
        ]

    async def spending(self, day: str) -> list[DailySpending]:
        """What each agent used of its model on ``day`` (UTC, as 2026-01-02), the most tokens first."""
        found = [each for each, _ in await self._read(subjects.record("*", "spending", day), DailySpending)]
        return sorted(found, key=lambda each: -(each.input_tokens + each.output_tokens))

    async def _read(self, pattern: str, kind: type[C]) -> list[tuple[C, int]]:
        """The last message of each subject that matches, and its sequence, in the order of storage.

        What is no ``kind`` is left out.
        """
        counts = await count_subjects(self._bus, subjects.OFFICE, pattern)
        if len(self._known) > MAX_RECORDS:
            self._known.clear()
        names = list(counts)[:MAX_RECORDS]
        found = await asyncio.gather(*(self._last(name, counts[name], kind) for name in names))
        return sorted((each for each in found if each is not None), key=lambda each: each[1])

    async def _last(self, name: str, count: int, kind: type[C]) -> tuple[C, int] | None:
        known = self._known.get(name)
        if known is None or known[0] != count:
            async with self._gate:
                stored = await self._bus.last(subjects.OFFICE, name)
            value = _decode(stored, kind) if stored is not None else None
            known = self._known[name] = (count, (value, stored.seq) if stored and value else None)
        found: tuple[C, int] | None = known[1]
        return found


def _decode(stored: Stored, kind: type[C]) -> C | None:
    try:
        value = kind.from_json(stored.data)
    except ValueError:
        return None
    if isinstance(value, StateChanged) and value.goal is not None:
        # thousands of goals are kept: without what fills most of their records
        goal = amended(
            value.goal, tasks=(), earlier=(), instructions=(), said=None, parameters={}, verdict={}
        )
        return amended(value, goal=goal, spans=())
    return value
