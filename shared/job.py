"""The task an agent is working on, as its actions see it."""

from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar

from shared.actions import Outcome
from shared.bus import Claim
from shared.contracts import Task, TaskResult, TaskStatus


class Job:
    """One attempt at one task."""

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self.delegations = 0

    @property
    def task(self) -> Task:
        """The task."""
        return self._claim.task

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self._claim.attempt

    async def progress(self, text: str) -> None:
        """A note for whoever watches, stored in the task's record."""
        await self._claim.note(text)

    def effect(self, what: str, *, repeatable: bool = False) -> AbstractAsyncContextManager[None]:
        """Journal an effect outside the office around doing it; see Claim.effect."""
        return self._claim.effect(what, repeatable=repeatable)

    def result(self, agent: str, outcome: Outcome) -> TaskResult:
        """The result of a task that was done."""
        return TaskResult(
            sender=agent,
            recipient=self.task.requester,
            cause=self.task.id,
            goal_id=self.task.goal_id,
            task_id=self.task.task_id,
            agent=agent,
            status=TaskStatus.COMPLETED,
            output=outcome.output,
            output_paths=outcome.output_paths,
            evidence_refs=outcome.evidence_refs,
            metadata=outcome.data,
        )


current_job: ContextVar[Job | None] = ContextVar("current_job", default=None)
"""The job of the handler that is running."""
