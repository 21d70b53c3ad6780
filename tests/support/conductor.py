"""A conductor for tests of the command: it writes the records a real one writes, when the test says so."""

import asyncio
from pathlib import Path

import msgspec

from shared import subjects
from shared.bus import Bus, Delivery, Entry
from shared.bus.claim import Claim, claim, dead_letter_for
from shared.bus.entry import seal
from shared.bus.records import submission_entry
from shared.contracts import (
    AgentReport,
    Goal,
    GoalTask,
    OfficeState,
    ResultOutcome,
    StateChanged,
    Task,
    TaskResult,
    TaskStatus,
    generate_iso_timestamp,
)
from shared.tasks.said import sign_said, words_in

HERE = {"folder": str(Path.cwd())} if Path(".git").exists() else {}
"""What the command adds to a goal that names no folder: the tests run in the project's repository."""


class StandIn:
    """Plays one goal with one task, which is the scout's."""

    def __init__(self, conductor: Bus, scout: Bus, goal_id: str, text: str = "Look around") -> None:
        self._conductor, self.scout = conductor, scout
        self.goal = Goal(
            goal_id=goal_id,
            text=text,
            requester="user",
            submitted_at=generate_iso_timestamp(),
            playbook="look",
            context=HERE,
            said=sign_said(conductor, words_in(text, HERE)),
        )
        self._seq = 0
        self.task = Task(
            task_id=f"{goal_id}-look-1",
            goal_id=goal_id,
            text="Look at the documents",
            assignee="scout",
            requester="conductor",
            context={"action": "look"},
        )

    async def take_up(self) -> None:
        await self._record(OfficeState.PLANNING, OfficeState.IDLE)

    async def hand_out(self) -> None:
        task = GoalTask(
            name="look",
            task_id=self.task.task_id,
            text=self.task.text,
            assignee="scout",
            issued=True,
            status=TaskStatus.IN_PROGRESS,
            started_at=generate_iso_timestamp(),
        )
        self._change(tasks=(task,), status=TaskStatus.IN_PROGRESS)
        await self._record(OfficeState.EXECUTING, OfficeState.PLANNING, submission_entry(self.task))

    async def claim(self, note: str) -> Claim:
        claim = await claim_task(self.scout, self.task)
        await claim.note(note)
        return claim

    async def finish_task(self, claim: Claim, output: str = "12 documents read") -> None:
        await claim.finish(result_of(self.task, "scout", output))
        (task,) = self.goal.tasks
        ended = msgspec.structs.replace(
            task, status=TaskStatus.COMPLETED, ended_at=generate_iso_timestamp(), summary=output
        )
        self._change(tasks=(ended,))

    async def finish(
        self,
        status: TaskStatus,
        reason: str = "",
        report: Path | None = None,
        outcome: ResultOutcome = ResultOutcome.NONE,
    ) -> None:
        self._change(
            status=status,
            outcome=outcome,
            reason=reason,
            answer="All is well." if status is TaskStatus.COMPLETED else "",
            report_path=str(report or ""),
            ended_at=generate_iso_timestamp(),
        )
        letter = AgentReport(
            sender="conductor",
            recipient="user",
            goal_id=self.goal.goal_id,
            report_id=self.goal.goal_id,
            agent="conductor",
            report_type="look",
            summary=self.goal.answer or reason,
        )
        mail = seal(subjects.mail("user", "conductor"), letter)
        await self._record(OfficeState.IDLE, OfficeState.EXECUTING, mail)

    async def play(self, status: TaskStatus = TaskStatus.COMPLETED, report: Path | None = None) -> None:
        """The whole goal, with time to see each step."""
        await self.take_up()
        await self.hand_out()
        claim = await self.claim("opens README.md")
        await asyncio.sleep(1.0)  # a follower on a busy machine reads the note within it
        await self.finish_task(claim)
        await self.finish(status, "" if status is TaskStatus.COMPLETED else "it rained", report)

    def _change(self, **changes: object) -> None:
        self.goal = msgspec.structs.replace(self.goal, **changes)

    async def _record(self, state: OfficeState, previous: OfficeState, *more: Entry) -> None:
        change = StateChanged(
            sender="conductor", goal_id=self.goal.goal_id, state=state, previous=previous, goal=self.goal
        )
        record = seal(subjects.goal(self.goal.goal_id), change, expect=self._seq)
        self._seq = (await self._conductor.commit([record, *more]))[0]


async def claim_task(bus: Bus, task: Task) -> Claim:
    """Claim a task that was submitted, as a process does to which it is delivered again."""
    held = await take_task(bus, task)
    await held.begin()
    return held


async def take_task(bus: Bus, task: Task) -> Claim:
    """The claim on a task, with nothing written."""
    entry = submission_entry(task)
    stored = await bus.last(subjects.OFFICE, entry.subject)
    assert stored is not None
    held = await claim(bus, _deliver(entry.subject, stored.seq, entry.payload, deliveries=2), task)
    assert held is not None
    return held


def result_of(task: Task, agent: str, output: str) -> TaskResult:
    return TaskResult(
        sender=agent,
        recipient=task.requester,
        task_id=task.task_id,
        goal_id=task.goal_id,
        cause=task.id,
        agent=agent,
        status=TaskStatus.COMPLETED,
        output=output,
    )


async def write_dead_letter(
    bus: Bus, subject: str, seq: int, data: bytes, reason: str, task: Task | None = None
) -> None:
    """Write the dead letter about message ``seq`` of OFFICE, as the bus of its recipient does."""
    letter = dead_letter_for(bus, _deliver(subject, seq, data), reason, task)
    entry = seal(subjects.dead(bus.name), letter)
    if task is None:
        await bus.commit([entry])
    else:
        held = await take_task(bus, task)
        await held.finish(held.failure(reason), [entry])


def _deliver(subject: str, seq: int, data: bytes, deliveries: int = 1) -> Delivery:
    """Message ``seq`` of OFFICE as its recipient gets it."""

    async def ignore(delivery: Delivery, verdict: bytes) -> None:
        pass

    reply = f"$JS.ACK.{subjects.OFFICE}.durable.{deliveries}.{seq}.1.0.0"
    return Delivery(subject, reply, {}, data, ignore)
