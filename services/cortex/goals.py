"""Goals: what a job in words becomes where cortex has no model; the conductor knows playbooks."""

from collections.abc import Sequence

import msgspec

from services.cortex.night import Job
from shared import subjects
from shared.bus import Bus, Entry
from shared.bus.entry import seal
from shared.contracts import AgentReport, CancelGoal, Task, TaskStatus, generate_id
from shared.contracts.base import amended
from shared.errors import ActionError
from shared.messaging.pending import PendingReplies
from shared.tasks.actions import Outcome


class Goals:
    """The goals that one agent submitted for jobs and waits for; their reports are kept as its records."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._waiting: PendingReplies[str, AgentReport] = PendingReplies()
        self._open: set[str] = set()

    async def reach(self, task: Task, job: Job) -> Outcome:
        """What the goal that ``job`` becomes came to; raises ActionError with its reason where it failed.

        Its id follows from ``task``, so that a second attempt waits for the same goal.
        """
        goal_id = self._name(task.task_id)
        body = {
            "text": job.task,
            "goal_id": goal_id,
            "requester": self._bus.name,
            "context": job.context,
            "priority": task.priority.value,
            "deadline": task.deadline,
        }

        async def submit() -> bool:
            await self._bus.store(
                subjects.SUBMIT, msgspec.json.encode(body), headers={"Nats-Msg-Id": goal_id}
            )
            return True

        self._open.add(goal_id)
        report = await self._waiting.wait(goal_id, submit, lambda: self._find(goal_id))
        self._open.discard(goal_id)
        if report is None or report.metadata.get("status") != TaskStatus.COMPLETED:
            raise ActionError(report.summary if report else f"Goal {goal_id} was not begun")
        return Outcome(
            output=report.summary,
            data={"goal_id": goal_id},
            evidence_refs=report.evidence_refs,
            output_paths=report.output_paths,
        )

    async def call_off(self, task_id: str, reason: str) -> None:
        """Have the goal of a job's task ended, where this process waits for one."""
        goal_id = self._name(task_id)
        if goal_id in self._open:
            self._open.discard(goal_id)
            wish = CancelGoal(
                sender=self._bus.name, recipient=subjects.CONDUCTOR, goal_id=goal_id, reason=reason
            )
            await self._bus.commit([seal(subjects.mail(subjects.CONDUCTOR, self._bus.name), wish)])

    def take(self, report: AgentReport) -> Sequence[Entry]:
        """Give the report of a goal to whoever waits for it; what is to be stored for those who will."""
        if report.sender != subjects.CONDUCTOR or not report.goal_id:
            return ()
        self._waiting.resolve(report.goal_id, report)
        return [seal(self._subject(report.goal_id), amended(report, id=generate_id()))]

    async def _find(self, goal_id: str) -> AgentReport | None:
        stored = await self._bus.last(subjects.OFFICE, self._subject(goal_id))
        return AgentReport.from_json(stored.data) if stored else None

    def _name(self, task_id: str) -> str:
        return f"goal_{self._bus.derive_id('job', task_id)}"

    def _subject(self, goal_id: str) -> str:
        return subjects.record(self._bus.name, "goals", goal_id)
