"""Works on jobs of the night: takes files that are dropped, begins jobs, archives and reports their results.

A job is an item of cortex' timetable. It begins by one commit: its record, which says that it is at work,
and its task, whose id follows from the job. It ends by one commit too: its record after that, and the report
that nexus gets of it for the morning. A process that dies before, after or between leaves a record of how
things are, and another process goes on from there: no job is lost, and none is done twice.
"""

import asyncio
import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from services.cortex.job_files import DroppedJob, Job, JobFolder, job_of, schedule_retry
from services.cortex.job_reports import MAX_SHOWN, describe_queue, job_in, job_report
from services.cortex.night_window import Night
from shared import subjects
from shared.agent.context import AgentContext
from shared.bus import Entry
from shared.bus.entry import seal
from shared.bus.records import cancel_task, read_task, submission_entry
from shared.clock import format_moment
from shared.contracts import Due, DueKind, DueStatus, Task, TaskResult, TaskStatus
from shared.errors import ActionError, BusError
from shared.tasks.actions import Outcome
from shared.tasks.said import sign_said, strings_in
from shared.text.display import flatten
from shared.text.prose import find_stems
from shared.timetable import (
    KEPT,
    LIMITS,
    MAX_CHANGED,
    WAITING,
    Change,
    Known,
    Step,
    TimetableKeeper,
    to_timestamp,
)

MAX_ACTIVE = LIMITS[DueKind.JOB].kept
"""The most jobs that wait or are at work; later files are left until there are fewer."""
READ_EVERY = 60.0  # Seconds after which jobs are read again that another process may have begun or ended
PRUNE_EVERY = 86_400.0  # Seconds between two deletions of old results
RETRIED = frozenset({TaskStatus.FAILED, TaskStatus.TIMEOUT})
"""How a task must have ended to be tried again; a cancelled one is not."""
_TASK_ID = re.compile(r"(?P<job>.+)-[0-9a-f]{12}(-\d+)?")


class JobWorker:
    """Works on jobs, on up to ``max_jobs`` at once, and takes files from ``<state_dir>/job_queue``.

    It looks every ``poll`` seconds; a job may take ``job_timeout`` seconds.
    """

    def __init__(
        self, context: AgentContext, *, max_jobs: int = 10, poll: float = 5.0, job_timeout: float = 28_800.0
    ) -> None:
        settings = context.settings
        self.night = Night(settings, context.bus, context.directory.read)
        self.folder = JobFolder(settings.state_dir / "job_queue")
        self.keeper = TimetableKeeper(context.bus, settings, self.night.clock)
        self.keeper.kinds[DueKind.JOB] = self._begun
        self._context = context
        self._max_jobs = max_jobs
        self._poll = poll
        self._job_timeout = job_timeout
        self._looking = asyncio.Lock()
        self._woken = asyncio.Event()
        self._jobs: list[Due] = []
        self._changes = 0
        self._known = (-1, 0)
        self._read_at = 0.0
        self._followed: set[str] = set()
        self._pruned_at = 0.0

    async def run(self) -> None:
        """Look every ``poll`` seconds and whenever a job ended, until cancelled."""
        while True:
            self._woken.clear()
            try:
                async with self._looking:
                    await self._take_files()
                    await self._begin(await self.night.look())
                    if time.monotonic() - self._pruned_at > PRUNE_EVERY or not self._pruned_at:
                        await asyncio.to_thread(self.folder.prune)
                        self._pruned_at = time.monotonic()
            except (BusError, OSError) as error:
                self._context.log.warning("queue_scan_failed", error=str(error))
            try:
                async with asyncio.timeout(self._poll):
                    await self._woken.wait()
            except TimeoutError:
                continue

    # --- what waits ------------------------------------------------------------------------------

    async def _read(self) -> list[Due]:
        """The jobs at hand: read again if one was added or this process changed one, else once a minute."""
        # What is changed while they are read makes them be read again.
        current = (await self.keeper.position(), self._changes)
        if current != self._known or time.monotonic() - self._read_at > READ_EVERY:
            known = await self.keeper.read()
            self._jobs = [each for each in known.of(DueKind.JOB) if each.status in KEPT]
            self._known, self._read_at = current, time.monotonic()
        return self._jobs

    async def _change(self, step: Step) -> list[Due]:
        try:
            return await self.keeper.change(step)
        finally:
            self._changes += 1

    async def _take_files(self) -> int:
        """Take the files that were dropped into the timetable; returns how many cannot be read yet."""
        free = MAX_ACTIVE - len(await self._read())
        dropped, unsettled = await asyncio.to_thread(self.folder.scan, min(free, MAX_CHANGED))
        taken: dict[str, DroppedJob] = {}
        for each in dropped:
            archived = await asyncio.to_thread(self.folder.is_archived, each.job.id)
            if each.job.id in taken or (archived and await self.keeper.find(each.job.id) is None):
                await self._refuse(each)
            else:
                taken[each.job.id] = each
        if not taken:
            return unsettled

        async def add(known: Known) -> Change:
            new = [each for name, each in taken.items() if name not in known.records]
            return Change(items=[_item(each.job, each.digest, self.keeper) for each in new])

        await self._change(add)
        for name, each in taken.items():
            record = await self.keeper.find(name)
            # One that a process took and died before it deleted the file has the same digest.
            if record is None or record.value.cause != each.digest:
                await self._refuse(each)
            else:
                await asyncio.to_thread(self.folder.remove, each)
        return unsettled

    async def _refuse(self, dropped: DroppedJob) -> None:
        reason = f"a job with the id {dropped.job.id!r} is running or in the archive already"
        await asyncio.to_thread(self.folder.refuse, dropped.path, reason)

    async def add(self, job: Job, day: str) -> Job:
        """Put ``job`` into the timetable under the next free id of ``day`` (YYYYMMDD): job-YYYYMMDD-NNN.

        Raises ActionError if MAX_ACTIVE jobs are at hand, or the day's 999 ids are used.
        """

        async def step(known: Known) -> Change:
            for number in range(1, 1_000):
                named = msgspec.structs.replace(job, id=f"job-{day}-{number:03}")
                if named.id in known.records or await self.keeper.find(named.id) is not None:
                    continue
                if not await asyncio.to_thread(self.folder.is_archived, named.id):
                    digest = self._context.bus.derive_id("job", named.id)[:12]
                    return Change(items=[_item(named, digest, self.keeper)])
            raise ActionError(f"There are 999 jobs of {day} already", "Drop a file with an id of your own")

        async with self._looking:
            await self._take_files()  # whose ids are used then
            (item,) = await self._change(step)
        self._woken.set()
        return job_in(item)

    # --- beginning and ending ------------------------------------------------------------------------

    async def _begin(self, now: datetime) -> None:
        """Begin what may begin: first what a person wants now, then as much as there is room for.

        With a budget of the night that is one at a time, so that what a job uses counts before the next.
        """
        working = [each for each in await self._read() if each.status is DueStatus.WORKING]
        for each in working:
            if each.last not in self._followed:  # another process began it, and may have died
                self._followed.add(each.last)
                state = await read_task(self._context.bus, self._task(each))
                if state and state.result:
                    await self.end(state.result)
        waiting = sorted(
            ((job_in(each), each) for each in self._jobs if each.status in WAITING),
            key=lambda each: each[0].rank(self.night.zone),
        )
        busy = len(working)
        for urgent in (True, False):
            room = 1 if self.night.has_budget and not urgent else self._max_jobs
            for job, item in waiting:
                if busy < room and urgent is (job.when == "now") and not self.night.hold_reason(job, now):
                    begun = await self.keeper.fire(item.due_id, now)
                    self._changes += 1
                    busy += begun is not None and begun.status is DueStatus.WORKING

    async def _begun(self, item: Due, now: datetime) -> tuple[Due, Sequence[Entry]]:
        """The job at work, and the submission of its task."""
        task = self._task(item)
        self._followed.add(task.task_id)
        self._context.log.info("job_submitted", job=item.due_id, task_id=task.task_id)
        begun = msgspec.structs.replace(
            item,
            status=DueStatus.WORKING,
            runs=item.runs + 1,
            last=task.task_id,
            last_at=to_timestamp(now),
        )
        return begun, [submission_entry(task)]

    async def end(self, result: TaskResult) -> None:
        """If ``result`` is a job's, archive it and report it to nexus, once, or try a failed job again later.

        If the disk refuses it, the next look tries again.
        """
        named = _TASK_ID.fullmatch(result.task_id)
        record = await self.keeper.find(named["job"]) if named else None
        if record is None or not self._is_open(record.value, result.task_id):
            return
        self._followed.discard(result.task_id)
        item, job, retry = record.value, job_in(record.value), None
        if result.status in RETRIED:
            retry = schedule_retry(job, result.task_id, self.night.clock())
        try:
            path = "" if retry else str(await asyncio.to_thread(self.folder.store_result, job, result))
        except OSError as error:
            self._context.log.warning("job_not_archived", task_id=result.task_id, error=str(error))
            return
        name, bus = self._context.profile.name, self._context.bus
        report = job_report(job, result, path, sender=name, report_id=bus.derive_id("report", result.task_id))

        async def step(known: Known) -> Change:
            now = known.records.get(item.due_id)
            if now is None or not self._is_open(now.value, result.task_id):
                return Change()  # another process was quicker
            if retry:
                return Change(items=[_item(retry, now.value.cause, self.keeper, now.value)])
            cancelled = result.status is TaskStatus.CANCELLED
            status = DueStatus.CANCELLED if cancelled else DueStatus.DONE
            ended = msgspec.structs.replace(now.value, status=status, last=result.task_id)
            return Change(items=[ended], entries=[seal(subjects.mail(subjects.NEXUS, name), report)])

        await self._change(step)
        until = {"until": retry.run_at} if retry else {"status": result.status.value, "result": path}
        self._context.log.info("job_retried_later" if retry else "job_ended", task_id=result.task_id, **until)
        self._woken.set()

    def _is_open(self, item: Due, task_id: str) -> bool:
        """Whether the job waits for, or is at, the task with that id."""
        return item.status in KEPT and self._task_id(item) == task_id

    # --- what people do to one -----------------------------------------------------------------------

    async def cancel(self, job_id: str, reason: str) -> Outcome:
        """Cancel a job that waits or runs; raises ActionError if there is none with that id."""
        async with self._looking:
            task = self._task(await self._find(job_id))
            result = await cancel_task(self._context.bus, task, reason, unsubmitted=True)
            if result is not None:
                await self.end(result)
        end = "is cancelled" if result is not None else "has just ended"
        return Outcome(
            output=f"Job {job_id} {end}: {flatten(task.text, 200)}",
            data={"id": job_id, "task_id": task.task_id},
        )

    async def begin(self, job_id: str) -> Outcome:
        """Begin a job that waits, whatever it waits for; raises ActionError if there is none with that id."""

        async def step(known: Known) -> Change:
            item = known.records[job_id].value
            if item.status not in WAITING:
                return Change(items=[item])
            begun, entries = await self._begun(item, self.night.clock())
            return Change(items=[begun], entries=entries)

        async with self._looking:
            await self._find(job_id)
            (begun,) = await self._change(step)
        data = {"id": job_id, "task_id": begun.last}
        return Outcome(output=f"Job {job_id} has begun.", data=data)

    async def move(self, job_id: str, about: str, run_at: str) -> Outcome:
        """Have a job that waits begin at ``run_at``, or at night; raises ActionError if that is unclear.

        It is the one with that id, or the only one with all words of ``about``, of which it may have none.
        """

        async def step(known: Known) -> Change:
            waiting = [each for each in known.of(DueKind.JOB) if each.status in WAITING]
            item = _find_waiting(waiting, job_id, about)
            moved = msgspec.structs.replace(job_in(item), run_at=run_at, when="" if run_at else "night")
            moved = job_of(msgspec.to_builtins(moved))
            return Change(items=[_item(moved, item.cause, self.keeper, item)])

        async with self._looking:
            await self._take_files()
            (item,) = await self._change(step)
        job, now = job_in(item), self.night.clock()
        begins = job.begins_at(self.night.zone) or self.night.window.find(now)[0]
        when = f"on {format_moment(begins, self.night.zone)}" if begins > now else "as soon as it may"
        data = {"id": job.id, "reason": self.night.hold_reason(job, now)}
        return Outcome(output=f"{job.id} now begins {when}: {flatten(job.task, MAX_SHOWN)}", data=data)

    async def _find(self, job_id: str) -> Due:
        """The job at hand with that id; raises ActionError if there is none."""
        await self._take_files()
        for each in await self._read():
            if each.due_id == job_id:
                return each
        raise ActionError(f"No job {job_id[:80]!r} waits or runs", "See the queue: mailroom queue list")

    def _task_id(self, item: Due) -> str:
        tried = len(job_in(item).tried)
        return f"{item.due_id}-{item.cause}{f'-{tried + 1}' if tried else ''}"

    def _task(self, item: Due) -> Task:
        job, name = job_in(item), self._context.profile.name
        fields = {field: getattr(job, field) for field in ("id", "task", "priority", "context", "by_agent")}
        deadline = (datetime.now(UTC) + timedelta(seconds=self._job_timeout)).isoformat()
        words = "\n".join([job.task, *strings_in(job.context)])
        return Task(
            task_id=self._task_id(item),
            text=job.task,
            assignee=name,
            requester=name,
            priority=job.task_priority,
            context={"action": "process_overnight_job", "params": {"job": fields}},
            deadline=deadline,
            said=None if job.by_agent else sign_said(self._context.bus, words, deadline),
            asker=job.asker,
        )

    # --- what is said of it --------------------------------------------------------------------------

    async def describe(self) -> Outcome:
        """What runs, what waits and why, what was refused and is not done, and how the night stands."""
        async with self._looking:
            now = await self.night.look()
            unsettled = await self._take_files()
            items = await self._read()
        return await asyncio.to_thread(describe_queue, items, self.folder, self.night, now, unsettled)


def _item(job: Job, digest: str, keeper: TimetableKeeper, before: Due | None = None) -> Due:
    """The item of a job that waits; ``digest``, its cause, names the task that does it."""
    moment = job.begins_at(keeper.zone) or keeper.clock()
    item = before or Due(
        due_id=job.id,
        cause=digest,
        what=DueKind.JOB,
        text=flatten(job.task, MAX_SHOWN),
        requester=job.asker,
        at=to_timestamp(moment),
    )
    return msgspec.structs.replace(
        item, status=DueStatus.WAITING, at=to_timestamp(moment), job=msgspec.to_builtins(job)
    )


def _find_waiting(waiting: Sequence[Due], job_id: str, about: str) -> Due:
    """The job that is meant; raises ActionError with those there are if it is none of them, or several."""
    if job_id:
        found = [each for each in waiting if each.due_id == job_id]
        if not found:
            cure = "What has begun or ended stays as it is. See the queue: mailroom queue list"
            raise ActionError(f"No job {job_id[:80]!r} waits", cure)
        return found[0]
    wanted = find_stems(about)
    found = [each for each in waiting if wanted <= find_stems(job_in(each).task)]
    if len(found) == 1:
        return found[0]
    if not waiting:
        raise ActionError("No job waits in the overnight queue", "To add one, say what is to be done tonight")
    listed = "; ".join(f"{each.due_id} ({each.text})" for each in found or waiting)
    why = "Several jobs wait" if found else "No job that waits has these words"
    raise ActionError(f"{why}: {listed[:2_000]}", "Name one by its id, as in 'move job-20260102-001 to 2 am'")
