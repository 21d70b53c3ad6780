"""Works on the overnight queue: claims jobs, submits them as tasks, archives and reports their results.

A claimed job is a task of cortex for itself, with an id that follows from its file. A process that finds the
claim after a crash submits the same task again, which the bus refuses if it exists: no job is lost, and none
is done twice. Nexus gets one report of each job that ended, for the morning.
"""

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from services.cortex.job_queue import JobQueue, QueuedJob
from services.cortex.jobs import Job, job_of, schedule_retry
from services.cortex.night import Night
from services.cortex.queue_status import MAX_SHOWN, describe_queue
from shared import subjects
from shared.agent.context import AgentContext
from shared.bus.entry import seal
from shared.bus.records import cancel_task, read_task, submission_entry
from shared.clock import format_moment
from shared.contracts import AgentReport, ResultOutcome, Task, TaskResult, TaskStatus, generate_id
from shared.contracts.base import amended
from shared.errors import ActionError, BusError, Conflict
from shared.tasks.actions import Outcome
from shared.tasks.said import sign_said, strings_in
from shared.text.display import flatten
from shared.text.prose import find_stems

PRUNE_EVERY = 86_400.0  # Seconds between two deletions of old results
RETRIED = frozenset({TaskStatus.FAILED, TaskStatus.TIMEOUT})
"""How a task must have ended to be tried again; a cancelled one is not."""
EXCERPT = 2_000  # The most characters of a job's task and of its output in its report
MAX_REFERENCES = 50  # The most sources and files in the report of a job; its result has all of them


class OvernightWorker:
    """Works on the queue in ``<state_dir>/job_queue``, on up to ``max_jobs`` at once.

    It scans the queue every ``poll`` seconds; a job may take ``job_timeout`` seconds.
    """

    def __init__(
        self, context: AgentContext, *, max_jobs: int = 10, poll: float = 5.0, job_timeout: float = 28_800.0
    ) -> None:
        settings = context.settings
        self.night = Night(settings, context.bus, context.directory.read)
        self.queue = JobQueue(settings.state_dir / "job_queue", self.night.zone)
        self._context = context
        self._max_jobs = max_jobs
        self._poll = poll
        self._job_timeout = job_timeout
        self._submitted: set[str] = set()
        self._ended = asyncio.Event()
        self._scanning = asyncio.Lock()
        self._pruned_at = 0.0

    async def run(self) -> None:
        """Scan the queue every ``poll`` seconds and whenever a job ended, until cancelled."""
        while True:
            self._ended.clear()
            try:
                async with self._scanning:
                    claimed = await asyncio.to_thread(self.queue.find_claimed)
                    jobs = [job for job in claimed if job.task_id not in self._submitted]
                    jobs += await asyncio.to_thread(self._take, len(claimed), await self.night.look())
                    for job in jobs:
                        await self._submit(job)
                    if time.monotonic() - self._pruned_at > PRUNE_EVERY or not self._pruned_at:
                        await asyncio.to_thread(self.queue.prune)
                        self._pruned_at = time.monotonic()
            except (BusError, OSError) as error:
                self._context.log.warning("queue_scan_failed", error=str(error))
            try:
                async with asyncio.timeout(self._poll):
                    await self._ended.wait()
            except TimeoutError:
                continue

    async def end(self, result: TaskResult) -> None:
        """If ``result`` is a job's, archive it and report it to nexus, or have a failed job tried again.

        If the disk refuses it, the next scan of the queue tries again.
        """
        self._submitted.discard(result.task_id)
        try:
            job = await asyncio.to_thread(self.queue.find_job, result.task_id)
            if job is None:
                return
            if result.status in RETRIED and (
                retry := schedule_retry(job, result.task_id, self.night.clock())
            ):
                await asyncio.to_thread(self.queue.put_back, retry, result.task_id)
                self._context.log.info("job_retried_later", task_id=result.task_id, until=retry.run_at)
            else:
                await self._archive(job, result)
        except OSError as error:
            self._context.log.warning("job_not_archived", task_id=result.task_id, error=str(error))
            return
        self._ended.set()

    async def cancel(self, job_id: str, reason: str) -> Outcome:
        """Cancel a job that waits or runs; raises ActionError if there is none with that id."""
        async with self._scanning:
            claimed = await asyncio.to_thread(self.queue.find, job_id)
            if claimed is None:
                raise _no_such_job(job_id)
            task = self._task(claimed)
            result = await cancel_task(self._context.bus, task, reason, unsubmitted=True)
            if result is not None:
                await self.end(result)
        end = "is cancelled" if result is not None else "has just ended"
        return Outcome(output=f"Job {job_id} {end}.", data={"id": job_id, "task_id": claimed.task_id})

    async def _archive(self, job: Job, result: TaskResult) -> None:
        path = await asyncio.to_thread(self.queue.store_result, result)
        await self._report(job, result, str(path))
        # Report before ending the claim: a process that finds the claim after a crash reports it then.
        await asyncio.to_thread(self.queue.end_claim, result.task_id)
        self._context.log.info(
            "job_ended", task_id=result.task_id, status=result.status.value, result=str(path)
        )

    async def _report(self, job: Job, result: TaskResult, path: str) -> None:
        """Report to nexus, once: a record in the same commit says that it was done."""
        name, bus = self._context.profile.name, self._context.bus
        report = job_report(job, result, path, sender=name, report_id=bus.derive_id("report", result.task_id))
        try:
            await bus.commit(
                [
                    seal(subjects.record(name, "overnight", report.report_id), report, expect=0),
                    seal(subjects.mail(subjects.NEXUS, name), amended(report, id=generate_id())),
                ]
            )
        except Conflict:
            self._context.log.info("reported_before", task_id=result.task_id)

    async def begin(self, job_id: str) -> Outcome:
        """Begin a job that waits, whatever it waits for; raises ActionError if there is none with that id."""
        async with self._scanning:
            claimed = await asyncio.to_thread(self.queue.find, job_id)
            if claimed is None:
                raise _no_such_job(job_id)
            await self._submit(claimed)
        data = {"id": job_id, "task_id": claimed.task_id}
        return Outcome(output=f"Job {job_id} has begun.", data=data)

    async def move(self, job_id: str, about: str, run_at: str) -> Outcome:
        """Have a job that waits begin at ``run_at``, or at night; raises ActionError if that is unclear.

        It is the one with that id, or the only one with all words of ``about``, of which it may have none.
        """
        async with self._scanning:
            waiting = (await asyncio.to_thread(self.queue.scan))[0]
            entry = _find_waiting(waiting, job_id, about)
            job = msgspec.structs.replace(entry.job, run_at=run_at, when="" if run_at else "night")
            job_of(msgspec.to_builtins(job))
            await asyncio.to_thread(self.queue.change, entry, job)
        now = self.night.clock()
        begins = job.begins_at(self.night.zone) or self.night.window.find(now)[0]
        when = f"on {format_moment(begins, self.night.zone)}" if begins > now else "as soon as it may"
        data = {"id": job.id, "reason": self.night.hold_reason(job, now)}
        return Outcome(output=f"{job.id} now begins {when}: {flatten(job.task, MAX_SHOWN)}", data=data)

    async def describe(self) -> Outcome:
        """The state of the queue, as text and as data."""
        now = await self.night.look()
        return await asyncio.to_thread(describe_queue, self.queue, self.night, now)

    def _take(self, claimed: int, now: datetime) -> list[QueuedJob]:
        """Claim what may begin: first what a person wants now, then as much as there is room for.

        With a budget of the night that is one at a time, so that what a job uses counts before the next.
        """
        taken = self.queue.take(self._max_jobs - claimed, now, lambda job: job.when != "now")
        busy = claimed + len(taken)
        free = 1 - busy if self.night.has_budget else self._max_jobs - busy
        return [*taken, *self.queue.take(free, now, lambda job: self.night.hold_reason(job, now))]

    async def _submit(self, claimed: QueuedJob) -> None:
        task = self._task(claimed)
        try:
            await self._context.bus.commit([submission_entry(task)])
            self._context.log.info("job_submitted", job=claimed.job.id, task_id=task.task_id)
        except Conflict:  # it was submitted before, and may have ended
            state = await read_task(self._context.bus, task)
            if state and state.result:
                await self.end(state.result)
                return
        self._submitted.add(task.task_id)

    def _task(self, claimed: QueuedJob) -> Task:
        job, name = claimed.job, self._context.profile.name
        fields = {field: getattr(job, field) for field in ("id", "task", "priority", "context", "by_agent")}
        deadline = (datetime.now(UTC) + timedelta(seconds=self._job_timeout)).isoformat()
        words = "\n".join([job.task, *strings_in(job.context)])
        return Task(
            task_id=claimed.task_id,
            text=job.task,
            assignee=name,
            requester=name,
            priority=job.task_priority,
            context={"action": "process_overnight_job", "params": {"job": fields}},
            deadline=deadline,
            said=None if job.by_agent else sign_said(self._context.bus, words, deadline),
            asker=job.asker,
        )


def _find_waiting(waiting: Sequence[QueuedJob], job_id: str, about: str) -> QueuedJob:
    """The job that is meant; raises ActionError with those there are if it is none of them, or several."""
    if job_id:
        found = [each for each in waiting if each.job.id == job_id]
        if not found:
            cure = "What has begun or ended stays as it is. See the queue: mailroom queue list"
            raise ActionError(f"No job {job_id[:80]!r} waits", cure)
        return found[0]
    wanted = find_stems(about)
    found = [each for each in waiting if wanted <= find_stems(each.job.task)]
    if len(found) == 1:
        return found[0]
    if not waiting:
        raise ActionError("No job waits in the overnight queue", "To add one, say what is to be done tonight")
    listed = "; ".join(f"{each.job.id} ({flatten(each.job.task, MAX_SHOWN)})" for each in found or waiting)
    why = "Several jobs wait" if found else "No job that waits has these words"
    raise ActionError(f"{why}: {listed[:2_000]}", "Name one by its id, as in 'move job-20260102-001 to 2 am'")


def _no_such_job(job_id: str) -> ActionError:
    return ActionError(f"No job {job_id[:80]!r} waits or runs", "See the queue: mailroom queue list")


def job_report(job: Job, result: TaskResult, path: str, *, sender: str, report_id: str) -> AgentReport:
    """The report of a job that ended; ``path`` is the archived result."""
    done = result.status is TaskStatus.COMPLETED
    unclean = done and result.outcome not in (ResultOutcome.NONE, ResultOutcome.DONE)
    came_to = (result.outcome if unclean else result.status).replace("_", " ")
    text = result.output if done else result.error_message or result.output
    excerpt = " ".join(text.split())[:EXCERPT] or "it gave no output"
    times = f" after {len(job.tried) + 1} attempts" if job.tried else ""
    return AgentReport(
        sender=sender,
        recipient=subjects.NEXUS,
        cause=result.id,
        goal_id=result.goal_id,
        report_id=report_id,
        agent=sender,
        report_type="overnight_job",
        summary=f"Overnight job {job.id} {came_to}{times}: {excerpt}",
        evidence_refs=result.evidence_refs[:MAX_REFERENCES],
        output_paths=(*result.output_paths[:MAX_REFERENCES], path),
        metadata={
            "job_id": job.id,
            "task": job.task[:EXCERPT],
            "task_id": result.task_id,
            "status": result.status.value,
            "outcome": result.outcome.value,
            "priority": job.priority,
            "completed_at": result.completed_at,
        },
    )
