"""A storm: every process of an office is killed in turn, again and again, while goals are open."""

import statistics
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from shared import subjects
from shared.contracts import TaskChanged
from tests.support.office import Office

LOG_LINES = 40
"""How many last lines of an agent's log tell about a slow takeover."""


class Attempt(NamedTuple):
    """One claim on a task: by which agent, which attempt it is, and when it was made."""

    agent: str
    task_id: str
    number: int
    begun: datetime


class Takeovers(msgspec.Struct, frozen=True, kw_only=True):
    """How long interrupted tasks waited, in seconds from the kill of their process to the next claim.

    A kill of the server interrupts the tasks of all agents.
    """

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
        self._restarts: list[datetime] = []

    async def strike(self, name: str) -> None:
        """Kill the process of an agent; returns when the next one is ready."""
        self._office.kill(name)
        self._kills.setdefault(name, []).append(datetime.now(UTC))
        self._office.start(name)
        await self._office.ready(name)

    async def strike_server(self) -> None:
        """Kill the server, and start it again."""
        self._office.server.kill()
        self._restarts.append(datetime.now(UTC))
        await self._office.server.restart()

    async def takeovers(self) -> Takeovers:
        """How soon the tasks that it interrupted were claimed again."""
        waits = [wait for _, wait in await self._waits()]
        return Takeovers.of(waits, sum(map(len, self._kills.values())))

    async def explain(self, longer_than: float) -> str:
        """The history of the tasks that waited for more seconds, and the end of their agents' logs."""
        slow = [attempt for attempt, wait in await self._waits() if wait > longer_than]
        told = [f"killed: {self._kills}, server: {self._restarts}"]
        for agent, task_id in dict.fromkeys((attempt.agent, attempt.task_id) for attempt in slow):
            told.append(f"--- {task_id}")
            steps = await self._office.stored(subjects.task(agent, "*", task_id, "*"))
            told += [f"{seq} {subject} {data.decode()}" for seq, subject, data in steps]
        for agent in dict.fromkeys(attempt.agent for attempt in slow):
            told += [f"--- {agent}.log", *_last_lines(self._office.config.logs / f"{agent}.log")]
        return "\n".join(told)

    async def _waits(self) -> list[tuple[Attempt, float]]:
        """The claims after an interruption, and the seconds from the last one to each."""
        waits = []
        for attempt in await read_attempts(self._office):
            interruptions = (*self._kills.get(attempt.agent, ()), *self._restarts)
            earlier = [at for at in interruptions if at < attempt.begun]
            if attempt.number > 1 and earlier:
                waits.append((attempt, (attempt.begun - max(earlier)).total_seconds()))
        return waits


def _last_lines(log: Path) -> Sequence[str]:
    return log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:]


async def read_attempts(office: Office) -> list[Attempt]:
    """Every claim that was made on a task, in order."""
    attempts = []
    for _, subject, data in await office.stored(subjects.task("*", "*", "*", subjects.CLAIMED)):
        claim = TaskChanged.from_json(data)
        begun = datetime.fromisoformat(claim.created_at)
        attempts.append(Attempt(subject.split(".")[1], claim.task_id, claim.attempt, begun))
    return attempts
