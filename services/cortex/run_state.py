"""The state of a run: its workspace with all findings, recorded on the bus as it grows."""

from typing import Any

import msgspec

from services.cortex.findings import CONFIDENT, EvaluationResult, Finding
from shared import subjects
from shared.agent.context import AgentContext
from shared.bus.entry import Entry, seal
from shared.contracts import CognitiveContext, CognitiveMessage, MessageType

STAGE_CHANGED = "stage_changed"
"""The ``what`` of the event that a run enters another stage."""
KIND = "cognition"
"""The kind of the record that holds the workspace of a run."""
RECIPIENTS = {
    "perception": "perception",
    "memory_retrieval": "memory",
    "planning": "executive",
    "execution": "motor",
    "evaluation": "executive",
    "synthesis": "executive",
    "memory_storage": "memory",
}
"""The recipient of the events of each stage; those of other stages have the FALLBACK."""
FALLBACK = "cortex"


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked: its ``text``, the ``whole`` with its context, and the conversation before."""

    text: str
    whole: str
    history: tuple[dict[str, Any], ...] = ()


class RunRecord:
    """Records one task's run on the bus, each time in one commit with a progress note.

    The commit is fenced by the task's claim: a process that lost the task cannot record anything here.
    """

    def __init__(self, context: AgentContext) -> None:
        self._context = context
        self._task = context.task

    async def read(self) -> CognitiveContext | None:
        """The workspace as the last attempt left it; None if there was none."""
        stored = await self._context.bus.last(subjects.OFFICE, self._record_subject)
        if stored is None:
            return None
        return CognitiveContext.from_dict(CognitiveMessage.from_json(stored.data).payload["context"])

    async def enter(self, workspace: CognitiveContext, stage: str, note: str) -> CognitiveContext:
        """``workspace`` at ``stage``: recorded, and published as ``event.<agent>.stage_changed``."""
        moved = workspace.update_stage(stage)
        event = self._message(
            RECIPIENTS.get(stage, FALLBACK),
            {
                "stage": stage,
                "before": workspace.processing_stage,
                "note": note[:500],
                "mode": workspace.mode,
                "task_id": self._task.task_id,
                "iteration": workspace.iteration_count,
                "confidence": workspace.confidence,
            },
        )
        published = seal(subjects.event(self._context.profile.name, STAGE_CHANGED), event)
        await self._context.current_task.progress(f"{stage}: {note}", [published, self._record(moved)])
        return moved

    async def save(self, workspace: CognitiveContext, note: str) -> None:
        """Record ``workspace`` in the middle of a stage."""
        await self._context.current_task.progress(note, [self._record(workspace)])

    @property
    def _record_subject(self) -> str:
        return subjects.record(self._context.profile.name, KIND, self._task.task_id)

    def _record(self, workspace: CognitiveContext) -> Entry:
        stage = f"{workspace.processing_stage} (kept)"
        payload = {"stage": stage, "context": workspace.to_dict()}
        return seal(self._record_subject, self._message(FALLBACK, payload))

    def _message(self, recipient: str, payload: dict[str, Any]) -> CognitiveMessage:
        return CognitiveMessage(
            sender=self._context.profile.name,
            recipient=recipient,
            message_type=MessageType.NOTIFICATION,
            payload=payload,
            correlation_id=self._task.task_id,
            cause=self._task.id,
            goal_id=self._task.goal_id,
        )


class RunState:
    """The workspace (CognitiveContext) of one run; every change of stage is recorded and published."""

    def __init__(self, record: RunRecord, workspace: CognitiveContext) -> None:
        self.workspace = workspace
        self.enough = CONFIDENT
        self._record = record

    @classmethod
    async def open(cls, record: RunRecord, query: Query, mode: str) -> "RunState":
        """The state that an earlier attempt left, or that of a new run."""
        workspace = await record.read() or CognitiveContext(
            user_query=query.whole,
            original_query=query.text,
            conversation_history=query.history,
            mode=mode,
        )
        return cls(record, workspace)

    @property
    def level(self) -> str:
        """The level of reasoning; "" in a mode without levels."""
        return self.workspace.mode.partition("/")[2]

    @property
    def missed(self) -> tuple[str, ...]:
        """What the level before was missing."""
        return tuple(self.workspace.percept.get("missed", ()))

    @property
    def all_findings(self) -> list[Finding]:
        """The findings of every level."""
        return [msgspec.convert(entry, Finding) for entry in self.workspace.accumulated_results]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The last finding of each call at this level, without failures of actions that succeeded later."""
        found = [finding for finding in self.all_findings if finding.level == self.level]
        done = {finding.action for finding in found if finding.done}
        last = {(f.digest or f.action): f for f in found if f.done or f.action not in done}
        return tuple(last.values())

    @property
    def evaluation(self) -> EvaluationResult:
        """The last evaluation."""
        none = {"is_complete": False, "confidence": 0.0}
        return msgspec.convert(self.workspace.evaluation or none, EvaluationResult)

    @property
    def is_complete(self) -> bool:
        """Whether the last evaluation says that it is complete."""
        return self.evaluation.holds(self.enough)

    async def enter(self, stage: str, note: str) -> None:
        """Enter ``stage``, record the workspace, and publish the change."""
        self.workspace = await self._record.enter(self.workspace, stage, note)

    async def save(self, note: str, **changes: Any) -> None:
        """Change the workspace and record it in the middle of a stage."""
        self.change(**changes)
        await self._record.save(self.workspace, note)

    async def save_finding(self, finding: Finding) -> None:
        """Add a finding and record it."""
        self.add(finding)
        await self._record.save(self.workspace, f"done: {finding.action}")

    async def apply_evaluation(self, evaluation: EvaluationResult, iteration: int) -> None:
        """Set the evaluation of ``iteration`` and publish it."""
        self.change(
            iteration_count=iteration,
            evaluation=msgspec.to_builtins(evaluation),
            confidence=evaluation.confidence,
        )
        words = "complete" if self.is_complete else "not complete"
        await self.enter("evaluation", f"{words}, confidence {evaluation.confidence:.2f}")

    def begin_level(self, level: str, enough: float) -> None:
        """Continue at ``level`` with a new plan, unless an earlier attempt did so already."""
        self.enough = enough
        if self.level == level:
            return
        missed = list(self.evaluation.missing_aspects) if self.level else []
        self.change(
            mode=f"{self.workspace.mode.partition('/')[0]}/{level}",
            percept={**self.workspace.percept, "missed": missed},
            current_plan=None,
            iteration_count=0,
            evaluation={},
            confidence=0.0,
        )

    def add(self, finding: Finding) -> None:
        """Add a finding, which is recorded with the next stage."""
        self.change(accumulated_results=(*self.workspace.accumulated_results, msgspec.to_builtins(finding)))

    def change(self, **changes: Any) -> None:
        """Change the workspace, which is recorded with the next stage."""
        self.workspace = msgspec.structs.replace(self.workspace, **changes)
