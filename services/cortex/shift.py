"""The night shift: claims jobs of the overnight queue, has them done as tasks, archives their results.

A claimed job is a task of cortex for itself, under an id that follows from its file. Whoever finds the claim
after a crash hands out the same task again, which the bus refuses where it is there already: no job is lost,
and none is done twice. Of each job that ended nexus gets one report, for the morning.
"""

import asyncio
import time
from datetime import UTC, datetime, timedelta

from services.cortex.night import Job, put_off
from services.cortex.options import Options
from services.cortex.queue import ClaimedJob, JobQueue
from services.cortex.report import report_job
from shared import subjects
from shared.agent.context import AgentContext
from shared.bus.entry import seal
from shared.bus.records import cancelled_record, submission_entries
from shared.clock import read_zone
from shared.contracts import Task, TaskChanged, TaskResult, TaskStatus, generate_id
from shared.contracts.base import amended
from shared.errors import ActionError, BusError, Conflict
from shared.tasks.actions import Outcome

PRUNE_EVERY = 86_400.0
RETRIED = frozenset({TaskStatus.FAILED, TaskStatus.TIMEOUT})
"""How a job's task ended that may be tried again: what somebody cancelled stays so."""
LISTED = 50
"""The most jobs of a kind that the status lists."""


class NightShift:
    """The work on the queue in ``<state_dir>/job_queue`` for one process: ``queue_workers`` jobs at once."""

    def __init__(self, agent: AgentContext, options: Options) -> None:
        self.queue = JobQueue(agent.settings.state_dir / "job_queue", read_zone(agent.settings.time_zone))
        self._agent = agent
        self._options = options
        self._handed_out: set[str] = set()
        self._ended = asyncio.Event()
        self._looking = asyncio.Lock()
        self._pruned_at = 0.0

    async def work(self) -> None:
        """Look into the queue every ``queue_poll`` seconds and whenever a job ended, for ever."""
        while True:
            self._ended.clear()
            try:
                await self._round()
            except (BusError, OSError) as error:
                self._agent.log.warning("queue_unworked", error=str(error))
            try:
                async with asyncio.timeout(self._options.queue_poll):
                    await self._ended.wait()
            except TimeoutError:
                continue

    async def end(self, result: TaskResult) -> None:
        """Archive ``result`` where it is a job's, and report it to nexus; a failed job may be tried again.

        Where the disk does not let it, the next look at the queue tries again.
        """
        self._handed_out.discard(result.task_id)
        try:
            job = await asyncio.to_thread(self.queue.find_job, result.task_id)
            if job is None:
                return
            if result.status in RETRIED and (waiting := put_off(job, result.task_id, datetime.now(UTC))):
                await asyncio.to_thread(self.queue.put_back, waiting, result.task_id)
                self._agent.log.info("job_put_off", task_id=result.task_id, until=waiting.run_at)
            else:
                await self._archive(job, result)
        except OSError as error:
            self._agent.log.warning("job_not_archived", task_id=result.task_id, error=str(error))
            return
        self._ended.set()

    async def cancel(self, job_id: str, reason: str) -> Outcome:
        """End a job that waits or runs; raises ActionError where there is none of that id."""
        async with self._looking:
            claimed = await asyncio.to_thread(self.queue.find, job_id)
            if claimed is None:
                raise ActionError(
                    f"No job {job_id[:80]!r} waits or runs",
                    "Have the queue told: action queue_status of cortex",
                )
            result = await self._call_off(self._task(claimed), reason)
            if result is not None:
                await self.end(result)
        told = f"Job {job_id} is cancelled." if result is not None else f"Job {job_id} has just ended."
        return Outcome(output=told, data={"id": job_id, "task_id": claimed.task_id})

    async def _call_off(self, task: Task, reason: str) -> TaskResult | None:
        """Take a task back, whether it was begun or not; None where it ended before."""
        subject = subjects.state(task.assignee, task.requester, task.task_id)
        while True:
            stored = await self._agent.bus.last(subjects.OFFICE, subject)
            record = TaskChanged.from_json(stored.data) if stored else TaskChanged(task=task)
            if record.task.status.final:
                return None
            ended = cancelled_record(record, reason)
            try:
                await self._agent.bus.commit([seal(subject, ended, expect=stored.seq if stored else 0)])
            except Conflict:  # its worker just wrote something
                continue
            return ended.result

    async def _archive(self, job: Job, result: TaskResult) -> None:
        path = await asyncio.to_thread(self.queue.store_result, result)
        await self._report(job, result, str(path))
        # The report before the claim's end: whoever finds the claim after a crash reports what was not.
        await asyncio.to_thread(self.queue.end_claim, result.task_id)
        self._agent.log.info(
            "job_ended", task_id=result.task_id, status=result.status.value, result=str(path)
        )

    async def _report(self, job: Job, result: TaskResult, path: str) -> None:
        """Tell nexus, once: a record of one's own, written with the letter, says that it was."""
        name, bus = self._agent.profile.name, self._agent.bus
        report = report_job(job, result, path, sender=name, report_id=bus.derive_id("report", result.task_id))
        try:
            await bus.commit(
                [
                    seal(subjects.record(name, "overnight", report.report_id), report, expect=0),
                    seal(subjects.mail(subjects.NEXUS, name), amended(report, id=generate_id())),
                ]
            )
        except Conflict:
            self._agent.log.info("reported_before", task_id=result.task_id)

    def describe(self) -> Outcome:
        """The state of the queue for people and programs."""
        self.queue.make_folders()
        # Looking puts aside what is no job, so it comes before counting.
        waiting, unsettled = self.queue.scan()
        running = self.queue.find_claimed()
        counts = self.queue.count()
        reasons = self.queue.refused.reasons()
        names = {"tonight": "waiting", "claimed": "running", "archive": "done", "failed": "refused"}
        told = ", ".join(f"{counts[folder]} {name}" for folder, name in names.items())
        lines = [f"Overnight queue: {told}."]
        lines += [f"- running: {claimed.job.id}: {_flat(claimed.job.task)}" for claimed in running[:LISTED]]
        lines += [
            f"- waiting: {entry.job.id} ({_terms(entry.job.priority, entry.job.run_at)})"
            for entry in waiting[:LISTED]
        ]
        if unsettled:
            lines.append(f"- waiting: {unsettled} that cannot be read yet, perhaps half-written")
        lines += [f"- refused: {reason}" for reason in reasons[:LISTED]]
        return Outcome(
            output="\n".join(lines),
            data={
                "counts": counts,
                "waiting": [entry.job.id for entry in waiting],
                "running": [claimed.job.id for claimed in running],
                "failed": reasons[:LISTED],
            },
        )

    async def _round(self) -> None:
        async with self._looking:
            await self._look()

    async def _look(self) -> None:
        claimed = await asyncio.to_thread(self.queue.find_claimed)
        for job in claimed:
            if job.task_id not in self._handed_out:
                await self._hand_out(job)
        if room := max(0, self._options.queue_workers - len(claimed)):
            for job in await asyncio.to_thread(self.queue.take, room):
                await self._hand_out(job)
        if time.monotonic() - self._pruned_at > PRUNE_EVERY or not self._pruned_at:
            await asyncio.to_thread(self.queue.prune)
            self._pruned_at = time.monotonic()

    async def _hand_out(self, claimed: ClaimedJob) -> None:
        task = self._task(claimed)
        try:
            await self._agent.bus.commit(submission_entries(task, self._agent.profile.name))
            self._agent.log.info("job_handed_out", job=claimed.job.id, task_id=task.task_id)
        except Conflict:
            if result := await self._find_result(task):
                await self.end(result)
                return
        self._handed_out.add(task.task_id)

    async def _find_result(self, task: Task) -> TaskResult | None:
        """The result of a task that was handed out before and has ended."""
        subject = subjects.state(task.assignee, task.requester, task.task_id)
        stored = await self._agent.bus.last(subjects.OFFICE, subject)
        return TaskChanged.from_json(stored.data).result if stored else None

    def _task(self, claimed: ClaimedJob) -> Task:
        job, name = claimed.job, self._agent.profile.name
        return Task(
            task_id=claimed.task_id,
            text=job.task,
            assignee=name,
            requester=name,
            priority=job.task_priority,
            context={
                "action": "process_overnight_job",
                "params": {
                    "job": {
                        "id": job.id,
                        "task": job.task,
                        "priority": job.priority,
                        "context": job.context,
                        "by_agent": job.by_agent,
                    }
                },
            },
            deadline=(datetime.now(UTC) + timedelta(seconds=self._options.job_timeout)).isoformat(),
        )


def _flat(task: str) -> str:
    return " ".join(task.split())[:100]


def _terms(priority: str, run_at: str) -> str:
    return f"{priority}, from {run_at}" if run_at else priority
