"""Goals that cortex submits, the plans of its tasks and jobs in words; the conductor carries them out."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from shared import subjects
from shared.agent.context import AgentContext
from shared.bus import Entry
from shared.bus.entry import seal
from shared.bus.records import read_record
from shared.contracts import AgentReport, CancelGoal, ResultOutcome, TaskStatus, TaskStep, generate_id
from shared.contracts.base import amended
from shared.errors import ActionError
from shared.messaging.correspondence import PendingReplies
from shared.plans import StepOutput, step_name
from shared.tasks.context import goal_of, workspace_name
from shared.tasks.said import pass_on
from shared.tasks.speaker import Speaker


class StepResult(StepOutput, frozen=True, kw_only=True):
    """What a task of a goal brought, as the report of the goal has it; ``reason`` is why it was not done."""

    name: str
    agent: str = ""
    status: TaskStatus
    outcome: ResultOutcome = ResultOutcome.NONE
    reason: str = ""
    data: dict[str, Any] = {}
    evidence_refs: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def done(self) -> bool:
        """Whether it completed, and its action did not fail."""
        return self.status is TaskStatus.COMPLETED and self.outcome is not ResultOutcome.FAILED


LIFTED = ("tests", "patches", "patch_targets", "commands")
"""What of a step's data is that of the whole work: the last run of tests, what was changed, what was run."""
MAX_COMMANDS = 200  # Commands of all steps that are kept: the last


def lift(data: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the data of several steps, in their order, say of the whole work.

    Of the patches for one folder the last counts, which has what those before it have: steps that build on
    each other begin with what was changed, and of others the conductor makes one.
    """
    found: dict[str, Any] = {}
    targets: dict[str, Any] = {}
    patches: list[Any] = []
    for each in data:
        if each.get("tests"):
            found["tests"] = each["tests"]
        targets |= {target.get("folder"): target for target in each.get("patch_targets") or ()}
        patches += each.get("patches") or ()
    latest = {target.get("path") for target in targets.values()}
    aimed = {target.get("path") for each in data for target in each.get("patch_targets") or ()}
    if patches:
        found["patches"] = list(
            dict.fromkeys(path for path in patches if path in latest or path not in aimed)
        )
    if commands := [run for each in data for run in each.get("commands") or ()]:
        found["commands"] = commands[-MAX_COMMANDS:]
    if targets:
        found["patch_targets"] = list(targets.values())
    return found


class GoalEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a goal ended: its report, and what each of its tasks brought, in the order of its plan."""

    report: AgentReport
    steps: tuple[StepResult, ...]

    @property
    def outcome(self) -> ResultOutcome:
        """What it came to, if it completed."""
        return ResultOutcome(self.report.metadata.get("outcome") or ResultOutcome.DONE)


class GoalClient:
    """Submits goals for the task at hand and waits for their reports, which are kept as records of the agent.

    A goal ends with its task: if that ends undone, the goal is cancelled. Another attempt at the task waits
    for the same goal.
    """

    def __init__(self, context: AgentContext) -> None:
        self._context = context
        self._bus = context.bus
        self._pending: PendingReplies[str, AgentReport] = PendingReplies()

    async def run_plan(self, steps: Sequence[TaskStep], text: str, key: str) -> tuple[StepResult, ...]:
        """Have ``steps``, each with its assignee, carried out as a part of the task; their results in order.

        ``key`` names the plan within the task, ``text`` says what it is for. Raises ActionError if it was not
        begun.
        """
        current = self._context.current_task
        task = current.task
        # Without what an envelope has: another attempt has to submit the very same.
        plan = {"steps": [msgspec.to_builtins(step) for step in steps]}
        own = workspace_name(task)
        done = [name for name in current.subtasks if name != own]
        part = {
            "part_of": goal_of(task),
            "cause": task.id,
            "starts_from": [*task.starts_from, own, *done],
            "depth": current.hops + 1,
            "asker": Speaker.of(task).name,
        }
        goal_id = f"goal_{self._bus.derive_id('plan', task.id, current.own_key(key))}"
        end = await self._run(goal_id, text, {"plan": plan}, part)
        if not end.steps:
            raise ActionError(end.report.summary)
        current.subtasks |= {f"{goal_id}-{step.step_number}-1": None for step in steps}
        results = {result.name: result for result in end.steps}
        found = [results.pop(step_name(step.step_number)) for step in steps]
        if results:  # merges of what several steps changed, which the conductor added
            merged = lift([found[-1].data, *(each.data for each in results.values())])
            found[-1] = msgspec.structs.replace(found[-1], data={**found[-1].data, **merged})
        return tuple(found)

    async def run_words(self, text: str, context: Mapping[str, Any]) -> GoalEnd:
        """Have the conductor plan ``text`` and carry it out; raises ActionError with why it failed."""
        goal_id = f"goal_{self._bus.derive_id('job', self._context.task.task_id)}"
        end = await self._run(goal_id, text, context, {})
        if end.report.metadata.get("status") != TaskStatus.COMPLETED:
            raise ActionError(end.report.summary)
        return end

    async def _run(
        self, goal_id: str, text: str, context: Mapping[str, Any], more: Mapping[str, Any]
    ) -> GoalEnd:
        task = self._context.task
        body = {
            "text": text,
            "goal_id": goal_id,
            "requester": self._bus.name,
            "context": context,
            "priority": task.priority.value,
            "deadline": task.deadline,
            "said": pass_on(self._bus, task),
            **({"budget": task.budget} if task.budget else {}),
            **more,
        }

        async def submit() -> bool:
            await self._bus.store(
                subjects.SUBMIT, msgspec.json.encode(body), headers={"Nats-Msg-Id": goal_id}
            )
            return True

        async def cancel(reason: str) -> None:
            request = CancelGoal(
                sender=self._bus.name, recipient=subjects.CONDUCTOR, goal_id=goal_id, reason=reason
            )
            await self._bus.commit([seal(subjects.mail(subjects.CONDUCTOR, self._bus.name), request)])

        report = await self._find(goal_id)  # that an earlier attempt waited for
        if report is None:
            delegation = self._context.delegation
            delegation.keep_open(task, goal_id, cancel)
            report = await self._pending.wait(goal_id, submit, lambda: self._find(goal_id))
            delegation.end(task, goal_id)
        assert report is not None  # it was submitted
        steps = msgspec.convert(report.metadata.get("steps") or (), tuple[StepResult, ...])
        return GoalEnd(report=report, steps=tuple(map(self._attribute, steps)))

    def _attribute(self, result: StepResult) -> StepResult:
        """``result``; why another agent failed begins with its name."""
        if result.agent == self._bus.name or not result.reason or result.status is TaskStatus.CANCELLED:
            return result
        return msgspec.structs.replace(result, reason=f"{result.agent}: {result.reason}")

    def accept(self, report: AgentReport) -> Sequence[Entry]:
        """Pass the report of a goal on to the task that waits for it; returns the entry that records it."""
        if report.sender != subjects.CONDUCTOR or not report.goal_id:
            return ()
        self._pending.resolve(report.goal_id, report)
        return [seal(self._subject(report.goal_id), amended(report, id=generate_id()))]

    async def _find(self, goal_id: str) -> AgentReport | None:
        record = await read_record(self._bus, self._subject(goal_id), AgentReport)
        return record.value if record else None

    def _subject(self, goal_id: str) -> str:
        return subjects.record(self._bus.name, "goals", goal_id)
