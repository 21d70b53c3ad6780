"""Cortex: carries out work of several steps, writes and runs scripts, works on the overnight queue."""

from typing import Annotated, Any, Literal

import msgspec

from services.cortex.goals import GoalClient
from services.cortex.job_actions import JobActions
from services.cortex.job_worker import JobWorker
from services.cortex.plan_actions import PlanActions
from services.cortex.scripts import CodeWriter, ScriptRunner
from shared.agent.base import Agent, Outbox
from shared.agent.process import run
from shared.bus import Bus
from shared.contracts import AgentReport, Task, TaskResult
from shared.errors import ConfigError, StartError
from shared.settings import Settings
from shared.tasks.actions import Outcome
from shared.tasks.profiles import Profile


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``queue_workers`` overnight jobs (1 to 10) run at the same time.

    In seconds: ``queue_poll`` between scans of the queue, ``job_timeout`` for a job, ``work_timeout`` for
    working a task out. ``mode`` is for tasks that name none: simple, reasoning, cognitive, or auto, which
    goes by their complexity.
    """

    queue_workers: Annotated[int, msgspec.Meta(ge=1, le=10)] = 10
    queue_poll: float = 5.0
    job_timeout: float = 28_800.0
    work_timeout: float = 7_200.0
    mode: Literal["auto", "simple", "reasoning", "cognitive"] = "auto"


def read_options(values: dict[str, Any]) -> Options:
    """The options in ``values``; raises ConfigError naming the one that is wrong."""
    try:
        return msgspec.convert(values, Options)
    except msgspec.ValidationError as error:
        raise ConfigError(f"The options of the cortex profile are wrong: {error}") from None


class Cortex(Agent):
    """Carries out work of several steps, writes and runs scripts, and works on the overnight queue."""

    def __init__(self, profile: Profile, settings: Settings, bus: Bus) -> None:
        super().__init__(profile, settings, bus)
        options = read_options(profile.options)
        self._goals = GoalClient(self.context)
        self._plans = PlanActions(
            self.context, self._goals, default_mode=options.mode, work_timeout=options.work_timeout
        )
        self._worker = JobWorker(
            self.context,
            max_jobs=options.queue_workers,
            poll=options.queue_poll,
            job_timeout=options.job_timeout,
        )
        jobs = JobActions(self.context, self._worker, self._goals, self._plans)
        for part in (self._plans, CodeWriter(self.context), ScriptRunner(self.context), jobs):
            self.context.actions.register(part)

    async def on_start(self) -> None:
        """Make the queue's folders and start to work on it."""
        try:
            self._worker.folder.make()
        except OSError as error:
            raise StartError(
                f"The job queue {self._worker.folder.tonight} cannot be made: {error.strerror}",
                "Make the state directory writable, or set MAILROOM_STATE_DIR to another folder",
            ) from None
        self.context.spawn(self._worker.run())

    async def on_task(self, task: Task) -> Outcome:
        """As any agent; a task that names no action is worked out in the mode it names, or that fits it."""
        if task.context.get("action"):
            return await super().on_task(task)
        return await self._plans.work_out_task(task)

    async def on_result(self, result: TaskResult) -> Outbox:
        """Archive the result of an overnight job, a task that cortex submitted to itself."""
        if result.sender == self.context.profile.name:
            await self._worker.end(result)
        return ()

    async def on_report(self, report: AgentReport) -> Outbox:
        """Accept the report of a goal that a task or a job became."""
        return self._goals.accept(report)


if __name__ == "__main__":
    run(Cortex, __file__)
