"""The conductor: goals in, tasks out, reviews, reports.

It keeps nothing in its head: every step reads the goal's record, works out the next one, and commits
it together with the tasks it hands out. Killed at any point, it goes on from the last commit.
"""

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from services.conductor.course import (
    advance,
    all_ended,
    end,
    outcome_of,
    record_result,
    review_for,
    state_of,
    take_verdict,
    task_for,
)
from services.conductor.office_state import OfficeBoard
from services.conductor.planning import Planner
from services.conductor.playbook import load_playbooks
from services.conductor.reporting import Reporter
from services.conductor.roster import Roster
from services.conductor.submission import open_goal, read_submission
from shared import subjects
from shared.agent import BaseAgent, Replies
from shared.bus import Entry
from shared.bus.entry import seal
from shared.contracts import (
    AgentReport,
    CancelGoal,
    Goal,
    GoalDue,
    GoalTask,
    OfficeState,
    StateChanged,
    TaskChanged,
    TaskResult,
    TaskStatus,
    Verdict,
)
from shared.errors import ActionError, Reject
from shared.process import run


class Conductor(BaseAgent):
    """Turns goals into tasks, hands them out, has the results reviewed, and reports."""

    async def on_start(self) -> None:
        """Load the playbooks and put up the board."""
        self._playbooks = load_playbooks()
        self._planner = Planner(self._playbooks, self.memory)
        self._roster = Roster(self.bus, self.settings)
        self._reporter = Reporter(self.settings.outputs, self.memory, self.bus.derive_id)
        self._board = OfficeBoard(self.bus)
        await self._board.restore()
        self.spawn(self._board.keep_posted())

    # --- what happens to goals -------------------------------------------------------------------

    async def on_submission(self, data: bytes, seq: int, stored_at: int) -> Replies:
        """Open a goal, plan it, and hand out what can be done at once."""
        submission = read_submission(data)
        goal = open_goal(submission, seq, stored_at, self.settings.goal_timeout)
        found = await self._find(goal.goal_id)
        if found is None:
            await self._set_timer(goal)
            (expect,) = await self.bus.commit([self._record(goal, OfficeState.IDLE, 0)])
        elif state_of(found[0]) is OfficeState.PLANNING:
            goal, expect = found
        else:
            return ()
        try:
            planned = await self._planner.plan(goal)
            await self._roster.require(task.assignee for task in planned.tasks)
        except ActionError as error:
            failed = end(goal, TaskStatus.FAILED, str(error), answer=str(error))
            return await self._finish(failed, OfficeState.PLANNING, expect)
        return await self._go_on(planned, OfficeState.PLANNING, expect)

    async def on_result(self, result: TaskResult) -> Replies:
        """Take a task's result or the critic's verdict, and go on from there."""
        found = await self._find(result.goal_id)
        if found is None or found[0].status.final:
            return ()
        goal, expect = found
        if (result.task_id, result.sender) == (goal.review_task_id, subjects.CRITIC):
            return await self._take_verdict(goal, result, expect)
        advanced = record_result(goal, result)
        if advanced is goal:
            return ()
        return await self._go_on(advanced, state_of(goal), expect)

    async def on_cancel(self, request: CancelGoal) -> Replies:
        """End a goal because somebody asks for it."""
        found = await self._find(request.goal_id)
        if found is None:
            raise Reject(f"there is no goal {request.goal_id!r} to cancel")
        reason = f"cancelled by {request.sender}" + (f": {request.reason}" if request.reason else "")
        return await self._call_off(*found, TaskStatus.CANCELLED, reason)

    async def on_due(self, due: GoalDue) -> Replies:
        """End a goal whose deadline has come."""
        found = await self._find(due.goal_id)
        if found is None:
            return ()
        return await self._call_off(*found, TaskStatus.TIMEOUT, "its deadline passed before it was done")

    # --- steps -----------------------------------------------------------------------------------

    async def _go_on(self, goal: Goal, before: OfficeState, expect: int) -> Replies:
        """Hand out what can be done now; when nothing is left to do, have it reviewed."""
        step = advance(goal)
        if step.over:
            return await self._finish(goal, before, expect)
        handed = [await self._task(step.goal, task) for task in step.issued]
        if step.review:
            handed.append(review_for(step.goal, await self._results(goal)))
        return [self._record(step.goal, before, expect), *handed]

    async def _task(self, goal: Goal, task: GoalTask) -> Any:
        needed = [other for other in goal.tasks if other.name in task.depends_on]
        return task_for(goal, task, {other.name: await self._result(other) for other in needed})

    async def _take_verdict(self, goal: Goal, result: TaskResult, expect: int) -> Replies:
        verdict = _read_verdict(result)
        if isinstance(verdict, str):
            unreviewed = msgspec.structs.replace(goal, reason=f"not reviewed: {verdict}")
            return await self._finish(unreviewed, OfficeState.REVIEW, expect)
        judged = take_verdict(goal, verdict)
        if all_ended(judged):
            return await self._finish(judged, OfficeState.REVIEW, expect)
        return await self._go_on(judged, OfficeState.REVIEW, expect)

    async def _finish(self, goal: Goal, before: OfficeState, expect: int) -> Replies:
        if not goal.status.final:
            status, reason = outcome_of(goal)
            goal = end(goal, status, reason or goal.reason)
        playbook = self._playbooks.get(goal.playbook)
        goal = await self._reporter.report(goal, playbook, await self._results(goal))
        return [self._record(goal, before, expect), self._letter(goal)]

    async def _call_off(self, goal: Goal, expect: int, status: TaskStatus, reason: str) -> Replies:
        if goal.status.final:
            return ()
        before = state_of(goal)
        ended = end(goal, status, reason, answer=f"The goal ended: {reason}")
        recalled = [await self._recall(goal, task, status, reason) for task in goal.tasks if _is_out(task)]
        if goal.status is TaskStatus.REVIEW:
            review = GoalTask(
                name="review", task_id=goal.review_task_id, text="review", assignee=subjects.CRITIC
            )
            recalled.append(await self._recall(goal, review, status, reason))
        return [self._record(ended, before, expect), *filter(None, recalled), self._letter(ended)]

    async def _recall(self, goal: Goal, task: GoalTask, status: TaskStatus, reason: str) -> Entry | None:
        """The entry that takes a task back from whoever works on it."""
        subject = subjects.state(task.assignee, subjects.CONDUCTOR, task.task_id)
        stored = await self.bus.last(subjects.OFFICE, subject)
        record = TaskChanged.from_json(stored.data) if stored else None
        if stored is None or record is None or record.task.status.final:
            return None
        recalled = TaskChanged(
            sender=subjects.CONDUCTOR,
            recipient=task.assignee,
            goal_id=goal.goal_id,
            task=msgspec.structs.replace(record.task, status=status),
            attempt=record.attempt,
            worker=record.worker,
            note=reason[:500],
            journal=record.journal,
        )
        return seal(subject, recalled, expect=stored.seq)

    # --- records ---------------------------------------------------------------------------------

    def _record(self, goal: Goal, before: OfficeState, expect: int) -> Entry:
        state = state_of(goal)
        self._board.post(goal.goal_id, state)
        change = StateChanged(
            sender=subjects.CONDUCTOR, goal_id=goal.goal_id, state=state, previous=before, goal=goal
        )
        return seal(subjects.goal(goal.goal_id), change, expect=expect)

    async def _find(self, goal_id: str) -> tuple[Goal, int] | None:
        if not goal_id:
            return None
        stored = await self.bus.last(subjects.OFFICE, subjects.goal(goal_id))
        change = StateChanged.from_json(stored.data) if stored else None
        if stored is None or change is None or change.goal is None:
            return None
        return change.goal, stored.seq

    async def _results(self, goal: Goal) -> dict[str, Any]:
        results = await asyncio.gather(*(self._result(task) for task in goal.tasks))
        return {task.name: result for task, result in zip(goal.tasks, results, strict=True)}

    async def _result(self, task: GoalTask) -> Mapping[str, Any]:
        """What came of a task, as the critic, the report and later tasks read it."""
        subject = subjects.state(task.assignee, subjects.CONDUCTOR, task.task_id)
        stored = await self.bus.last(subjects.OFFICE, subject) if task.issued else None
        record = TaskChanged.from_json(stored.data) if stored else None
        if record is None or record.result is None:
            return {"status": str(task.status), "output": "", "error_message": task.summary}
        fields = ("status", "output", "error_message", "metadata", "evidence_refs", "output_paths")
        values = record.result.to_dict()
        return {"agent": task.assignee, **{name: values[name] for name in fields}}

    async def _set_timer(self, goal: Goal) -> None:
        due = GoalDue(sender=subjects.CONDUCTOR, recipient=subjects.CONDUCTOR, goal_id=goal.goal_id)
        headers = {
            "Nats-Schedule": f"@at {datetime.fromisoformat(goal.deadline):%Y-%m-%dT%H:%M:%S.%fZ}",
            "Nats-Schedule-Target": subjects.timer_due(subjects.CONDUCTOR),
        }
        await self.bus.store(subjects.timer(subjects.CONDUCTOR, goal.goal_id), due.to_json(), headers=headers)

    def _letter(self, goal: Goal) -> AgentReport:
        return AgentReport(
            sender=subjects.CONDUCTOR,
            recipient=goal.requester,
            cause="",
            goal_id=goal.goal_id,
            report_id=goal.goal_id,
            agent=subjects.CONDUCTOR,
            report_type=goal.playbook or "goal",
            summary=goal.answer or goal.reason or f"The goal ended: {goal.status}",
            output_paths=(goal.report_path,) if goal.report_path else (),
            metadata={"status": str(goal.status), "text": goal.text[:500]},
        )


def _is_out(task: GoalTask) -> bool:
    return task.issued and not task.status.final


def _read_verdict(result: TaskResult) -> Verdict | str:
    """The critic's verdict, or why there is none."""
    verdict = result.metadata.get("verdict")
    if result.status is not TaskStatus.COMPLETED or not verdict:
        return result.error_message or "the critic gave no verdict"
    try:
        return Verdict.from_dict(verdict)
    except ValueError as error:
        return f"the critic's verdict cannot be read: {error}"


if __name__ == "__main__":
    run(Conductor, __file__)
