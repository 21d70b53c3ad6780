"""A storm: every process of an office is killed in turn, again and again, while goals are open."""

import statistics
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from shared import subjects
from shared.contracts import TaskChanged
from tests.support.office import Office


class Attempt(NamedTuple):
    """One claim on a task: by which agent, which attempt it is, and when it was made."""

    agent: str
    task_id: str
    number: int
    begun: datetime


class Takeovers(msgspec.Struct, frozen=True, kw_only=True):
    """How long interrupted tasks waited, in seconds from the kill of their process to the next claim."""

    kills: int
    takeovers: int
    p50: float = 0.0
    longest: float = 0.0

    @classmethod
    def of(cls, waits: Sequence[float], kills: int) -> "Takeovers":
        if not waits:
            return cls(kills=kills, takeovers=0)
        p50, longest = round(statistics.median(waits), 2), round(max(waits), 2)
        return cls(kills=kills, takeovers=len(waits), p50=p50, longest=longest)


class Storm:
    """Kills processes of ``office`` and starts them again at once, and knows when it did."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._kills: dict[str, list[datetime]] = {}

    async def strike(self, name: str) -> None:
        """Kill the process of an agent; returns when the next one is ready."""
        self._office.kill(name)
        self._kills.setdefault(name, []).append(datetime.now(UTC))
        self._office.start(name)
        await self._office.ready(name)

    async def takeovers(self) -> Takeovers:
        """How soon the tasks that it interrupted were claimed again."""
        waits = []
        for attempt in await read_attempts(self._office):
            earlier = [at for at in self._kills.get(attempt.agent, ()) if at < attempt.begun]
            if attempt.number > 1 and earlier:
                waits.append((attempt.begun - earlier[-1]).total_seconds())
        return Takeovers.of(waits, sum(map(len, self._kills.values())))


async def read_attempts(office: Office) -> list[Attempt]:
    """Every claim that was made on a task, in order."""
    attempts = []
    for _, subject, data in await office.stored(subjects.task("*", "*", "*", subjects.CLAIMED)):
        claim = TaskChanged.from_json(data)
        begun = datetime.fromisoformat(claim.created_at)
        attempts.append(Attempt(subject.split(".")[1], claim.task_id, claim.attempt, begun))
    return attempts
