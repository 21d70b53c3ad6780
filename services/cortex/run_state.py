"""The state of a run: its workspace with all findings, recorded on the bus as it grows."""

from typing import Any

import msgspec

from services.cortex.findings import CONFIDENT, EvaluationResult, Finding, digest_of, is_changing
from services.cortex.plan_parser import Call
from shared import subjects
from shared.agent.context import AgentContext
from shared.bus.entry import Entry, seal
from shared.bus.records import read_record
from shared.contracts import CognitiveContext, CognitiveMessage, MessageType

STAGE_CHANGED = "stage_changed"  # The ``what`` of the event that a run enters another stage
KIND = "cognition"  # The kind of the record that holds the workspace of a run
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
FAILED = "error"  # The stage of a run that an error ended


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked: its ``text``, the ``whole`` with its context, and the conversation before."""

    text: str
    whole: str
    history: tuple[dict[str, Any], ...] = ()


class RunState:
    """The workspace (CognitiveContext) of the run of one task, recorded and published with each stage.

    Each commit has a progress note and is fenced by the task's claim: a process that lost the task cannot
    record anything here.
    """

    def __init__(self, context: AgentContext, workspace: CognitiveContext) -> None:
        self.workspace = workspace
        self.enough = CONFIDENT
        self._context = context

    @classmethod
    async def open(cls, context: AgentContext, query: Query, mode: str) -> "RunState":
        """The state that an earlier attempt left, or that of a new run."""
        record = await read_record(context.bus, _record_subject(context), CognitiveMessage)
        if record is not None:
            return cls(context, CognitiveContext.from_dict(record.value.payload["context"]))
        workspace = CognitiveContext(
            user_query=query.whole,
            original_query=query.text,
            conversation_history=query.history,
            mode=mode,
        )
        return cls(context, workspace)

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

    def find(self, digest: str, place: tuple[str, int, int]) -> Finding | None:
        """What a call brought at its ``place``: level, iteration and step; None if it was not done there."""
        found = (each for each in self.all_findings if each.done and each.digest == digest)
        return next((each for each in found if (each.level, each.iteration, each.step) == place), None)

    def find_earlier(self, call: Call) -> Finding | None:
        """What the same call brought last, anywhere in the run; None if that may have changed since."""
        if is_changing(call.action or call.text):
            return None
        done = [each for each in self.all_findings if each.done and each.digest == call_digest(call)]
        return done[-1] if done else None

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
        """Enter ``stage``: record the workspace, and publish ``event.<agent>.stage_changed``."""
        workspace, context = self.workspace, self._context
        self.workspace = workspace.update_stage(stage)
        event = self._message(
            RECIPIENTS.get(stage, FALLBACK),
            {
                "stage": stage,
                "before": workspace.processing_stage,
                "note": note[:500],
                "mode": workspace.mode,
                "task_id": context.task.task_id,
                "iteration": workspace.iteration_count,
                "confidence": workspace.confidence,
            },
        )
        published = seal(subjects.event(context.profile.name, STAGE_CHANGED), event)
        await context.current_task.progress(f"{stage}: {note}", [published, self._record()])

    async def save(self, note: str, **changes: Any) -> None:
        """Change the workspace and record it in the middle of a stage."""
        self.change(**changes)
        await self._context.current_task.progress(note, [self._record()])

    async def save_finding(self, finding: Finding) -> None:
        """Add a finding and record it."""
        self.add(finding)
        await self.save(f"done: {finding.action}")

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

    def _record(self) -> Entry:
        payload = {
            "stage": f"{self.workspace.processing_stage} (kept)",
            "context": self.workspace.to_dict(),
        }
        return seal(_record_subject(self._context), self._message(FALLBACK, payload))

    def _message(self, recipient: str, payload: dict[str, Any]) -> CognitiveMessage:
        task, failed = self._context.task, payload.get("stage") == FAILED
        return CognitiveMessage(
            sender=self._context.profile.name,
            recipient=recipient,
            message_type=MessageType.ERROR if failed else MessageType.NOTIFICATION,
            payload=payload,
            correlation_id=task.task_id,
            cause=task.id,
            goal_id=task.goal_id,
        )


def _record_subject(context: AgentContext) -> str:
    return subjects.record(context.profile.name, KIND, context.task.task_id)


def call_digest(call: Call) -> str:
    """The digest of a call, by which equal calls are found."""
    return digest_of(call.assignee, call.action or call.text, call.params)
