"""A person's approval: asked for on the bus, remembered for one goal, and no without an answer."""

import asyncio
from datetime import UTC, datetime, timedelta

from shared import subjects
from shared.bus import Bus
from shared.bus.consumer import yield_slot
from shared.bus.entry import seal
from shared.contracts import ApprovalAnswer, ApprovalRequest, Task
from shared.errors import BusUnavailable, Conflict, NotApproved
from shared.log import logger
from shared.tasks.context import TaskContext

POLL = 0.5
"""Seconds between looks at whether somebody answered."""

log = logger(__name__)


class Approvals:
    """What one agent asks people, and what they said."""

    def __init__(self, bus: Bus, patience: float) -> None:
        self._bus = bus
        self._patience = patience

    async def ask(self, job: TaskContext, what: str, rule: str, why: str) -> None:
        """Wait until a person grants ``what`` for the goal of ``job``; raises NotApproved.

        The same is asked once for a goal, and what was said holds for the rest of it: for this agent, and
        where the conductor or a person handed the task out. What another agent hands out may name any goal,
        so there it holds for the one task. An answer that was stored after the request expired is none. It
        survives a restart: whoever does the task next finds the request, and the answer.
        """
        approval_id = self._bus.derive_id("approval", *_scope(job.task), what)
        request = await self._place(approval_id, job, what, rule, why)
        expires = datetime.fromisoformat(request.expires_at)
        answer = await self._answer(approval_id, expires)
        if answer is None and datetime.now(UTC) < expires:
            await job.progress(f"waits for approval {approval_id[:8]}: {_short(what)}")
            async with yield_slot():
                answer = await self._await(approval_id, expires)
        if answer is None:
            raise NotApproved(
                f"Nobody approved it in time: {_short(what)}",
                "Submit the goal again, and answer with 'mailroom approvals grant'",
            )
        if not answer.granted:
            note = f" ({answer.note[:200]})" if answer.note else ""
            raise NotApproved(f"A person refused it{note}: {_short(what)}")

    async def _await(self, approval_id: str, expires: datetime) -> ApprovalAnswer | None:
        """The answer, or None once it is too late. A server that is away is waited for: it may hold one."""
        while True:
            over = datetime.now(UTC) >= expires
            try:
                if (answer := await self._answer(approval_id, expires)) is not None or over:
                    return answer
            except BusUnavailable as error:
                log.info("waits_without_server", reason=str(error))
            await asyncio.sleep(POLL)

    async def _place(
        self, approval_id: str, job: TaskContext, what: str, rule: str, why: str
    ) -> ApprovalRequest:
        """The request as it stands on the bus, after storing it where this is the first time."""
        subject = subjects.approval_asked(self._bus.name, approval_id)
        request = ApprovalRequest(
            sender=self._bus.name,
            recipient=subjects.USER,
            cause=job.task.id,
            goal_id=job.task.goal_id,
            approval_id=approval_id,
            task_id=job.task.task_id,
            what=what,
            rule=rule,
            why=why,
            expires_at=(datetime.now(UTC) + timedelta(seconds=self._patience)).isoformat(),
        )
        try:
            await self._bus.commit([seal(subject, request, expect=0)])
        except Conflict:
            stored = await self._bus.last(subjects.OFFICE, subject)
            if stored is None:
                raise
            return ApprovalRequest.from_json(stored.data)
        return request

    async def _answer(self, approval_id: str, expires: datetime) -> ApprovalAnswer | None:
        subject = subjects.approval_answered(self._bus.name, approval_id)
        stored = await self._bus.last(subjects.OFFICE, subject)
        if stored is None or datetime.fromisoformat(stored.time) > expires:
            return None
        try:
            return ApprovalAnswer.from_json(stored.data)
        except ValueError:
            return None


def _scope(task: Task) -> tuple[str, ...]:
    if task.goal_id and task.requester in (subjects.CONDUCTOR, subjects.USER):
        return ("goal", task.goal_id)
    return ("task", task.requester, task.task_id)


def _short(what: str) -> str:
    line = " ".join(what.split())
    return line if len(line) <= 200 else f"{line[:199]}…"
